"""Two unlearned runs of one report: the second minus the first, paired on common questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from medunlearn.reports.blocks import Cell, Prose, Section, section
from medunlearn.reports.content import ReportContent
from medunlearn.reports.formatting import ABSENT, p_text
from medunlearn.reports.provenance import undecided
from medunlearn.reports.rank_tables import MEASURE
from medunlearn.reports.readings import Plane, number, rows_of
from medunlearn.reports.table_blocks import gap_cell, records
from medunlearn.statistics.intervals import holm

ALPHA = 0.05
HOW = (
    "Each difference is paired on the questions that both models were asked; intervals are 95%, over subjects. "
    "p is Holm's over the numbers of this table. A difference not told from 0 is no proof that the two are alike."
)


@dataclass(frozen=True)
class PairedNumber:
    """One number of the first screen: the second run minus the first.

    Attributes:
        row: the comparison's row (:attr:`medunlearn.reports.content.ReportContent.comparisons`).
        p: corrected by Holm over the numbers of the pair; None without a p-value.
    """

    title: str
    row: Mapping[str, Any]
    p: float | None


def pair_of(content: ReportContent) -> tuple[str, str] | None:
    """Labels of the two unlearned runs of a report; None for another number of them, or if one is broken."""
    labels = [(model.label, model.problems) for model in content.models if model.role == "unlearned"]
    if len(labels) != 2 or any(problems for _, problems in labels):
        return None
    return labels[0][0], labels[1][0]


def paired_numbers(content: ReportContent, where: Plane) -> list[PairedNumber]:
    """Utility, forgetting and facts ranked first: the second run's minus the first's, where both have one."""
    pair = pair_of(content)
    if pair is None:
        return []
    wanted = (
        ("Utility", "retain", where.utility),
        ("Forgetting", "forget", where.forgetting),
        ("Facts ranked first", "forget", MEASURE),
    )
    rows = [
        row
        for row in rows_of(content.comparisons)
        if (row["against"], row["model"]) == pair
        and (row["fold"], row["kind"]) == (where.fold, where.kind)
        and number(row["difference"]) is not None
    ]
    found = [
        (title, row)
        for title, side, measure in wanted
        for row in rows
        if (row["side"], row["measure"]) == (side, measure)
    ]
    tested = [p for _, row in found if (p := number(row["p"])) is not None]
    corrected = iter(holm(tested))
    return [PairedNumber(title, row, None if number(row["p"]) is None else next(corrected)) for title, row in found]


def pair_section(content: ReportContent, where: Plane) -> Section | None:
    """The two runs beside each other; None unless a report has exactly two unlearned runs with common questions."""
    pair, numbers = pair_of(content), paired_numbers(content, where)
    if pair is None or not numbers:
        return None
    first, second = pair
    columns = map(Cell, ("Number", f"{second} minus {first}", "p", "Subjects"))
    table = records(columns, map(_cells, numbers))
    told = () if undecided(content.benchmark) else (_answer(numbers),)
    return section(f"{second} beside {first}", Prose((*told, HOW)), table, name="pair")


def _cells(paired: PairedNumber) -> tuple[Cell, ...]:
    subjects = number(paired.row["n_subjects"])
    return (
        Cell(paired.title),
        gap_cell(paired.row),
        Cell(p_text(paired.p)),
        Cell(ABSENT if subjects is None else f"{int(subjects):,}"),
    )


def _answer(numbers: list[PairedNumber]) -> str:
    tested = [paired for paired in numbers if paired.p is not None]
    apart = [paired.title.lower() for paired in tested if paired.p is not None and paired.p < ALPHA]
    if not tested:
        return "No number of the two has a p-value."
    if not apart:
        return f"None of {len(tested)} numbers differs at {ALPHA:g}."
    return f"{len(apart)} of {len(tested)} numbers differ at {ALPHA:g}: {', '.join(apart)}."


def pair_data(content: ReportContent, where: Plane) -> Iterator[dict[str, Any]]:
    """The numbers of the pair, for JSON."""
    for paired in paired_numbers(content, where):
        names = ("model", "against", "side", "fold", "kind", "measure", "difference", "low", "high", "n_subjects")
        yield {"number": paired.title, **{name: paired.row[name] for name in names}, "p_holm": paired.p}
