"""What further steps of an audit found, on the terminal and as JSON: identifiers, kinds, answer options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.cli.common import UNSCORED, print_line, print_table, with_interval

if TYPE_CHECKING:
    from medunlearn.audit.audit import Audit
    from medunlearn.audit.identifiers.search import IdentifierSearch
    from medunlearn.audit.identifiers.sensitive_judge import JudgedContent
    from medunlearn.audit.options.audit import OptionsAudit


def print_stages(audit: Audit) -> None:
    """A table for each step that was asked for; no text of records."""
    found = audit.stages
    if found is None:
        return
    if found.identifiers is not None:
        print_found(found.identifiers)
    if found.kinds is not None:
        _kinds(found.kinds)
    if found.options is not None:
        _options(found.options)


def stages_json(audit: Audit) -> dict[str, Any]:
    """The same for machines."""
    found = audit.stages
    if found is None:
        return {}
    told: dict[str, Any] = {}
    if found.identifiers is not None:
        told["identifiers"] = found.identifiers.summary()
    if found.kinds is not None:
        told["kinds"] = _rows(_kind_counts(found.kinds))
    if found.options is not None:
        told["options"] = _rows(found.options.table())
    return told


def print_found(found: IdentifierSearch) -> None:
    """Identifiers by group and kind, sensitive content, and what the detector is worth."""
    _counts("identifiers that leaked (Table 9)", found.table9, "title")
    _counts("by kind", found.kinds, "kind")
    if found.table10 is not None:
        _counts("further sensitive content, by term lists (Table 10)", found.table10, "title")
    if found.judged is not None and found.judged_table10 is not None:
        _judged(found.judged, found.judged_table10)
    for line in found.notes():
        print_line(line)


def _judged(judged: JudgedContent, table: pd.DataFrame) -> None:
    of = f"{len(judged.outputs)} responses"
    _counts(f"further sensitive content, by the judge {judged.model}, in {of} (Table 10)", table, "title")
    for why, count in judged.unanswered.items():
        print_line(f"Not judged, {count}: {why}.")


def absent(value: Any) -> bool:
    return value is None or bool(pd.isna(value))


def share(row: Any, name: str = "per_response", low: str = "low", high: str = "high") -> str:
    """A number with its interval, where there are any."""
    if absent(row[name]):
        return UNSCORED
    interval = "" if absent(row[low]) else f" [{row[low]:.3f}, {row[high]:.3f}]"
    return f"{row[name]:.3f}{interval}"


def _counts(title: str, table: pd.DataFrame, name: str) -> None:
    columns = ("variant", name, "frequency", "responses", "subjects", "per response", "examples")
    plain = ("variant", name, "frequency", "responses", "subjects")
    there = table[table["frequency"] > 0]
    rows = [(*(row[one] for one in plain), share(row), row["examples"]) for row in there.to_dict("records")]
    print_table(title, columns, rows)
    if nothing := [str(one) for one in dict.fromkeys(table[name]) if one not in set(there[name])]:
        print_line(f"Nothing found: {', '.join(nothing)}.")


def _kind_counts(kinds: pd.DataFrame) -> pd.DataFrame:
    """Shared runs by how they were sorted; what no rule takes is a row of its own."""
    counted = kinds.fillna({"group": "not sorted", "kind": ""}).groupby(["by", "group", "kind"], sort=True)
    return counted.size().rename("runs").reset_index()


def _kinds(kinds: pd.DataFrame) -> None:
    rows = [tuple(row.values()) for row in _kind_counts(kinds).to_dict("records")]
    print_table("shared runs by kind", ("sorted by", "group", "kind", "runs"), rows)


def _options(options: OptionsAudit) -> None:
    table = options.table()
    # What gold and wrong options give apart is in the JSON.
    table = table[~table["measure"].str.endswith(("_gold", "_wrong"))]
    own = [name for name in ("prompt", "group", "measure") if name in table.columns]
    rows = [
        (
            *(row[name] for name in own),
            UNSCORED if absent(row["value"]) else with_interval(row),
            "" if absent(row.get("difference")) else share(row, "difference", "difference_low", "difference_high"),
            f"{row['n']}/{row['n'] + row['n_unscored']}",
        )
        for row in table.to_dict("records")
    ]
    print_table("answer options", (*own, options.label, "minus baseline", "scored"), rows)


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.astype(object)
    return [
        {str(key): value for key, value in row.items()}
        for row in plain.where(plain.notna(), None).to_dict("records")
    ]
