"""Results of attacks on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output, Row, difference
from medunlearn.cli.result_tables import by_model, paper_view, warn_of_broken
from medunlearn.errors import MedunlearnError
from medunlearn.terminal import absent, with_interval

if TYPE_CHECKING:
    from medunlearn.attacks.terminal_tables import TerminalTables


def attack(result: Any, output: Output, *, benchmark: str) -> None:
    """Print the results of each family of attacks, and attacks without results.

    Raises:
        MedunlearnError: some attacks have no results.
    """
    from medunlearn.attacks.brought_back import BroughtBack

    if not output.data(lambda: _payload(result)):
        warn_of_broken(output, result.problems)
        for attacks in result.by_family.values():
            _print_family(attacks.family.terminal_tables(attacks), attacks.models, output)
        output.view(BroughtBack.of(result).view())
        output.view(paper_view("attack", result, benchmark))
        output.line(*result.caveats)
    if result.failed:
        reasons = "".join(f"\n  - {model}, {name}: {reason}" for model, name, reason in result.failed)
        number = "1 attack has" if len(result.failed) == 1 else f"{len(result.failed)} attacks have"
        raise MedunlearnError(f"{number} no result; the others are kept.{reasons}")


def _payload(result: Any) -> dict[str, Any]:
    """Numbers of every family; empty tables of families without attacks."""
    from medunlearn.attacks.attacked import all_families
    from medunlearn.attacks.brought_back import BroughtBack
    from medunlearn.attacks.terminal_tables import rows_of_json

    data: dict[str, Any] = {}
    for family in all_families(model.record for model in result.models):
        for key, value in family.payload(result.of(family)).items():
            data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    failed = [{"model": model, "attack": name, "reason": reason} for model, name, reason in result.failed]
    data["brings_back"] = rows_of_json(BroughtBack.of(result).table)
    return {**data, "failed": failed, "caveats": list(result.caveats), "health": result.problems}


def _print_family(shown: TerminalTables, models: Any, output: Output) -> None:
    def cell(row: Row) -> str:
        return " ".join(filter(None, (with_interval(row), shown.words(row))))

    how: dict[str, Any] = {"cell": cell, "empty_rows": shown.empty_lines}
    by_model(output, shown.table, shown.title, list(shown.groups), list(shown.lines), models, **how)
    rows = [row for row in shown.differences.to_dict("records") if not absent(row["difference"])]
    if rows:
        pair = {"models": lambda row: f"{row['model']} - {row['against']}", "difference": difference}
        columns = {**shown.difference_columns, **pair}
        if shown.reading_heading:
            columns[shown.reading_heading] = lambda row: row["reading"] or ""
        output.frame(shown.difference_title, rows, columns)
    output.line(*shown.notes)
