"""The tables of what is memorized, where, and through training: Tables 3, 5, 7, 9 and 10, and Figures 3 and 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medunlearn.papers.memorization.report.content import AuditContent, contrast_of
from medunlearn.papers.memorization.report.tables import percent, points
from medunlearn.reports.readings import number
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval

SHARES = {
    "only_before": "before only",
    "common": "common",
    "only_after": "after only",
    "retained": "retained",
}


def table_5(content: AuditContent) -> Table | None:
    """One row a model, prompt and match: share of removed options given back, and the difference from baselines."""
    gaps = {
        (row["model"], row["prompt"], row["match"], row["against"]): contrast_of(row, "difference")
        for row in content.rows("option_differences")
    }
    rows = []
    for row in content.rows("options"):
        value = number(row["value"])
        shown = Cell(f"{UNSCORED}: {row['reason']}") if value is None else Cell(percent(value), _edges(row))
        against = [
            f"{other}: {points(gap)}"
            for (model, prompt, match, other), gap in gaps.items()
            if (model, prompt, match) == (row["model"], row["prompt"], row["match"])
        ]
        counts = (Cell(f"{int(row['n_scored']):,}"), Cell(f"{int(row['n_unscored']):,}"))
        names = (Cell(str(row["model"])), Cell(str(row["prompt"])), Cell(str(row["match"])))
        rows.append((*names, shown, Cell("; ".join(against) or ABSENT), *counts))
    columns = ("Model", "Prompt", "Match", "Given back", "− baseline, points", "Scored", "Unscored")
    return Table(tuple(map(Cell, columns)), tuple(rows)) if rows else None


def table_7(content: AuditContent) -> list[tuple[str, Table]]:
    """A table a pair and way of counting: one row a corpus and share, one column a prefix length."""
    found: dict[tuple[str, str, str, int], dict[tuple[str, str], dict[int, Mapping[str, Any]]]] = {}
    for row in content.rows("persistence"):
        pair = (str(row["before"]), str(row["after"]), str(row["by"]), int(row["at_least"]))
        line = found.setdefault(pair, {}).setdefault((str(row["corpus"]), str(row["measure"])), {})
        line[int(row["prefix_tokens"])] = row
    return [
        (f"{before} → {after}, by {by}, runs of {length}", _shares(lines, content.prefixes))
        for (before, after, by, length), lines in found.items()
    ]


def _shares(lines: Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]], prefixes: Sequence[int]) -> Table:
    rows = []
    for (corpus, measure), line in lines.items():
        cells = [_share(line.get(prefix)) for prefix in prefixes]
        rows.append((Cell(corpus), Cell(SHARES[measure]), *cells))
    columns = (Cell("Corpus"), Cell("Share"), *(Cell(str(prefix), "prefix") for prefix in prefixes))
    return Table(columns, tuple(rows))


def _share(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return Cell(ABSENT)
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED, str(row["reason"]))
    return Cell(percent(value), f"{_edges(row)} of {int(row['n']):,}".strip())


def position_tables(content: AuditContent) -> list[tuple[str, Table]]:
    """A table a model, corpus and length of run: one row a segment and prefix length, one column a way to count."""
    found: dict[tuple[str, str, int], dict[tuple[int, str], dict[str, Mapping[str, Any]]]] = {}
    for row in content.rows("positions"):
        place = (str(row["model"]), str(row["corpus"]), int(row["at_least"]))
        segment = (int(row["prefix_tokens"]), f"{int(row['first'])}-{int(row['last'])}")
        found.setdefault(place, {}).setdefault(segment, {})[str(row["measure"])] = row
    names = {
        "starts": "Of all runs",
        "tokens": "Of all matched tokens",
        "memorized": "Of memorized responses",
        "ratio": "Of all responses",
        "ratio_reached": "Of responses so long",
    }
    columns = (Cell("Prefix"), Cell("Tokens"), *(Cell(title) for title in names.values()))
    return [
        (
            f"{model} on {corpus}, runs of {length}",
            Table(
                columns,
                tuple(
                    (Cell(str(prefix)), Cell(segment), *(_share(cells.get(name)) for name in names))
                    for (prefix, segment), cells in lines.items()
                ),
            ),
        )
        for (model, corpus, length), lines in found.items()
    ]


def kinds_table(content: AuditContent) -> Table | None:
    """Table 3: one row a kind, one column a model and way of sorting; spans without a kind at the end."""
    rows = content.rows("kinds")
    counts: dict[tuple[str, str, str], dict[tuple[str, str], int]] = {}
    for row in rows:
        key = (str(row["group"] or ""), str(row["title"]), str(row["kind"] or ""))
        cell = counts.setdefault(key, {})
        who = (str(row["model"]), str(row["by"]))
        cell[who] = cell.get(who, 0) + int(row["n"])
    whose = list(dict.fromkeys(who for cell in counts.values() for who in cell))
    totals = {who: sum(cell.get(who, 0) for cell in counts.values()) for who in whose}
    lines = tuple(
        (Cell(title), Cell(group or "none"), *(_counted(cell.get(who, 0), totals[who]) for who in whose))
        for (group, title, _), cell in sorted(counts.items(), key=lambda one: _group_order(one[0][0]))
    )
    columns = (Cell("Kind"), Cell("Group"), *(Cell(model, f"by {way}") for model, way in whose))
    return Table(columns, lines) if lines else None


def _group_order(group: str) -> int:
    groups = ("harmful", "uninformative", "beneficial")
    return groups.index(group) if group in groups else len(groups)


def _counted(n: int, total: int) -> Cell:
    return Cell(f"{n:,}", f"{100 * n / total:.1f}% of {total:,}" if total else "")


def agreement_table(content: AuditContent) -> Table | None:
    """How far rules, judge and person agree."""
    rows = tuple(
        (
            Cell(f"{row['first']} and {row['second']}", str(row["model"])),
            Cell(str(row["of"])),
            Cell(str(row["measure"]).replace("_", " ")),
            _plain(row, str(row["words"])),
            Cell(f"{int(row['n']):,}"),
        )
        for row in content.rows("agreement")
    )
    columns = ("Ways", "Of", "Measure", "Value", "Spans")
    return Table(tuple(map(Cell, columns)), rows) if rows else None


def identifier_table(content: AuditContent, table: str) -> Table | None:
    """Table 9 or 10: one row a kind, with masked examples."""
    rows = tuple(
        (
            Cell(str(row["group"]), str(row["kind"]).replace("_", " ")),
            Cell(str(row["model"])),
            Cell(f"{int(row['n']):,}"),
            Cell(f"{int(row['n_records']):,}"),
            Cell(decimal(float(row["per_record"])), _decimals(row)),
            Cell(str(row["example"])),
        )
        for row in content.rows("identifiers")
        if row["table"] == table
    )
    columns = ("Kind", "Model", "Frequency", "Records", "Per audited record", "Shape of an example")
    return Table(tuple(map(Cell, columns)), rows) if rows else None


def _edges(row: Mapping[str, Any]) -> str:
    low, high = number(row["low"]), number(row["high"])
    return "" if low is None or high is None else f"[{100 * low:.2f}, {100 * high:.2f}]"


def _decimals(row: Mapping[str, Any]) -> str:
    return interval(number(row["low"]), number(row["high"]))


def _plain(row: Mapping[str, Any] | None, more: str = "") -> Cell:
    if row is None:
        return Cell(ABSENT)
    value = number(row["value"])
    if value is None:
        reason = row.get("reason")
        return Cell(UNSCORED, reason if isinstance(reason, str) else "")
    return Cell(decimal(value), ", ".join(part for part in (_decimals(row), more) if part))


def epoch_table(content: AuditContent) -> Table | None:
    """The numbers of Figure 7: one row a measure, one column an epoch."""
    rows: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in content.rows("epochs"):
        rows.setdefault(str(row["measure"]), {})[int(row["epoch"])] = row
    epochs = sorted({epoch for line in rows.values() for epoch in line})
    lines = tuple(
        (Cell(measure.replace("_", " ")), *(_plain(line.get(epoch)) for epoch in epochs))
        for measure, line in rows.items()
    )
    return Table((Cell("Epoch"), *(Cell(str(epoch)) for epoch in epochs)), lines) if lines else None
