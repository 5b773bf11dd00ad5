"""The tables of an audit report as plain cells, for HTML and Markdown alike: Tables 2, 3, 5, 7, 8, 9 and 10."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.reports.audit.cases import Finding
from medunlearn.reports.audit.content import EXACT, GREEDY, AuditContent, Audited, contrast_of
from medunlearn.reports.readings import Reading, number, rows_of
from medunlearn.reports.sweep.content import Contrast
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval, signed

TABLE_2_MEASURES = ("run_30", "run_50", "rouge_l", "bleu", "bert_score", "bart_score")
SHARES = {
    "only_before": "before only",
    "common": "common",
    "only_after": "after only",
    "retained": "retained",
}


def is_share(measure: str) -> bool:
    """Whether a measure is a share of probes, written in percent."""
    return measure.startswith("run_")


def percent(value: float) -> str:
    """``10.48%``: the precision that the paper prints."""
    return f"{100 * value:.2f}%".replace("-", "−")


def points(found: Contrast | None) -> str:
    """A difference of shares in points with its interval."""
    if found is None or found.value is None:
        return ABSENT
    shown = f"{100 * found.value:+.2f}".replace("-", "−")
    if found.low is None or found.high is None:
        return f"{shown} (no interval)"
    return f"{shown} [{100 * found.low:.2f}, {100 * found.high:.2f}]".replace("-", "−")


def table_2(content: AuditContent, prefix: int) -> Table | None:
    """One row a corpus and model, one column a measure, at one prefix length; greedy."""
    measures = [name for name in TABLE_2_MEASURES if _has(content, name)]
    rows = []
    for corpus in content.corpora:
        for model in content.models_of(corpus):
            cells = [_value(content, model, corpus, prefix, measure) for measure in measures]
            if any(cell.text != ABSENT for cell in cells):
                rows.append((Cell(corpus), Cell(model.label, _role(model)), *cells))
    columns = (Cell("Corpus"), Cell("Model"), *(Cell(*_title(content, name)) for name in measures))
    return Table(columns, tuple(rows)) if rows else None


def table_8(content: AuditContent, corpus: str) -> Table | None:
    """One row a model and length of run, one column a prefix length; greedy. The numbers of Figure 1 as well."""
    rows = []
    for model in content.models_of(corpus):
        for measure in EXACT:
            cells = [_value(content, model, corpus, prefix, measure) for prefix in content.prefixes]
            if any(cell.text != ABSENT for cell in cells):
                rows.append((Cell(model.label, _role(model)), Cell(measure.replace("_", " of ")), *cells))
    columns = (Cell("Model"), Cell("Measure"), *(Cell(str(prefix), "prefix") for prefix in content.prefixes))
    return Table(columns, tuple(rows)) if rows else None


def _value(content: AuditContent, model: Audited, corpus: str, prefix: int, measure: str) -> Cell:
    reading = content.reading(model.label, corpus, prefix, measure)
    gaps = [content.gap("baseline", model.label, other, corpus, prefix, measure) for other in model.baselines]
    notes = [_interval(reading, measure)]
    notes += [
        f"− {other}: {points(gap) if is_share(measure) else _signed(gap)}"
        for other, gap in zip(model.baselines, gaps, strict=True)
        if gap is not None
    ]
    return Cell(_text(reading, measure), "; ".join(note for note in notes if note))


def _text(reading: Reading | None, measure: str) -> str:
    if reading is None:
        return ABSENT
    if reading.value is None:
        return UNSCORED
    return percent(reading.value) if is_share(measure) else decimal(reading.value)


def _interval(reading: Reading | None, measure: str) -> str:
    if reading is None:
        return ""
    unscored = f"{reading.n_unscored:,} unscored" if reading.n_unscored else ""
    edges = interval(reading.low, reading.high)
    if is_share(measure) and reading.low is not None and reading.high is not None:
        edges = f"[{100 * reading.low:.2f}, {100 * reading.high:.2f}]"
    return ", ".join(part for part in (edges, f"{reading.n_subjects:,} subjects", unscored) if part)


def _signed(gap: Contrast | None) -> str:
    return (
        ABSENT if gap is None or gap.value is None else f"{signed(gap.value)} {interval(gap.low, gap.high)}".strip()
    )


def table_5(content: AuditContent) -> Table | None:
    """One row a model, prompt and match: share of removed options given back, and the difference from baselines."""
    gaps = {
        (row["model"], row["prompt"], row["match"], row["against"]): contrast_of(row, "difference")
        for row in rows_of(content.option_differences)
    }
    rows = []
    for row in rows_of(content.options):
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
    for row in rows_of(content.persistence):
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
    for row in rows_of(content.positions):
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
    rows = rows_of(content.kinds)
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
        for row in rows_of(content.agreement)
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
        for row in rows_of(content.identifiers)
        if row["table"] == table
    )
    columns = ("Kind", "Model", "Frequency", "Records", "Per audited record", "Shape of an example")
    return Table(tuple(map(Cell, columns)), rows) if rows else None


def decoding_table(content: AuditContent) -> Table | None:
    """One row a model, corpus, prefix length and decoding: the ratios and their difference from greedy."""
    rows = []
    for row in rows_of(content.ratios):
        if row["measure"] not in EXACT or _only_greedy(content, row):
            continue
        place = (str(row["model"]), str(row["corpus"]), int(row["prefix_tokens"]))
        gap = content.gap("decoding", place[0], GREEDY, place[1], place[2], row["measure"], row["decoding"])
        found = content.reading(*place, row["measure"], row["decoding"])
        names = (
            Cell(place[0]),
            Cell(place[1]),
            Cell(str(place[2])),
            Cell(str(row["measure"]).replace("_", " of ")),
        )
        shown = Cell(_text(found, row["measure"]), _interval(found, row["measure"]))
        rows.append((*names, Cell(str(row["decoding"])), shown, Cell("" if gap is None else points(gap))))
    columns = ("Model", "Corpus", "Prefix", "Measure", "Decoding", "Ratio", "− greedy, points")
    return Table(tuple(map(Cell, columns)), tuple(rows)) if rows else None


def _only_greedy(content: AuditContent, row: Mapping[str, Any]) -> bool:
    table = content.ratios
    same = (table["model"] == row["model"]) & (table["corpus"] == row["corpus"])
    return set(table[same]["decoding"]) <= {GREEDY}


def trend_table(content: AuditContent) -> Table | None:
    """Every trend: slope a step with its interval."""
    rows = tuple(
        (
            Cell(str(row["factor"])),
            Cell(str(row["model"])),
            Cell(str(row["corpus"]), _prefix(row)),
            Cell(str(row["measure"])),
            Cell(str(row["levels"]), str(row["step"])),
            _trend(row),
            Cell(f"{int(row['n']):,}", f"{int(row['n_left_out']):,} left out"),
        )
        for row in rows_of(content.trends)
    )
    columns = ("Factor", "Model", "Corpus", "Measure", "Levels", "Change a step", "Records")
    return Table(tuple(map(Cell, columns)), rows) if rows else None


def _trend(row: Mapping[str, Any]) -> Cell:
    found = contrast_of(row, "slope")
    if found.value is None:
        return Cell(UNSCORED, found.reason)
    return Cell(signed(found.value), interval(found.low, found.high) or "no interval")


def _prefix(row: Mapping[str, Any]) -> str:
    length = number(row["prefix_tokens"])
    return "all prefixes" if length is None else f"prefix {length:.0f}"


def difference_table(content: AuditContent) -> Table | None:
    """Every paired difference between two models, of every measure."""
    rows = tuple(
        (
            Cell(f"{row['model']} − {row['against']}", str(row["relation"])),
            Cell(str(row["corpus"]), f"prefix {int(row['prefix_tokens'])}, {row['decoding']}"),
            Cell(str(row["measure"])),
            Cell(_signed(contrast_of(row, "difference"))),
            Cell(_p(row)),
            Cell(f"{int(row['n_pairs']):,}"),
            Cell(f"{int(row['n_subjects']):,}"),
        )
        for row in rows_of(content.differences)
        if row["relation"] != "decoding"
    )
    columns = ("Models", "Corpus", "Measure", "Difference", "p", "Pairs", "Subjects")
    return Table(tuple(map(Cell, columns)), rows) if rows else None


def epoch_table(content: AuditContent) -> Table | None:
    """The numbers of Figure 7: one row a measure, one column an epoch."""
    rows: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows_of(content.epochs):
        rows.setdefault(str(row["measure"]), {})[int(row["epoch"])] = row
    epochs = sorted({epoch for line in rows.values() for epoch in line})
    lines = tuple(
        (Cell(measure.replace("_", " ")), *(_plain(line.get(epoch)) for epoch in epochs))
        for measure, line in rows.items()
    )
    return Table((Cell("Epoch"), *(Cell(str(epoch)) for epoch in epochs)), lines) if lines else None


def cases_table(found: Finding) -> Table:
    """One row a case of a finding."""
    columns = tuple(map(Cell, ("Model", "Where", "Case", "What the numbers show", "Numbers")))
    rows = tuple(
        (
            Cell(case.model),
            Cell(case.where),
            Cell(case.verdict),
            Cell(case.says),
            Cell("; ".join(map(str, case.evidence))),
        )
        for case in found.cases
    )
    return Table(columns, rows)


def meanings(content: AuditContent) -> Iterator[str]:
    """What each measure in the tables means."""
    for name in dict.fromkeys(str(row["measure"]) for row in rows_of(content.ratios)):
        title, meaning = content.measures.get(name, (name, "range and direction not given"))
        yield f"{name}: {title}. {meaning}."


def _title(content: AuditContent, measure: str) -> tuple[str, str]:
    return content.measures.get(measure, (measure, ""))[0], measure


def _role(model: Audited) -> str:
    unit = "" if model.unit == "tokens" else f"counted in {model.unit}"
    against = f"against {', '.join(model.baselines)}" if model.baselines else ""
    return "; ".join(part for part in (against, unit) if part)


def _has(content: AuditContent, measure: str) -> bool:
    return bool((content.ratios["measure"] == measure).any()) if len(content.ratios) else False


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


def _p(row: Mapping[str, Any]) -> str:
    found = number(row["p"])
    return ABSENT if found is None else decimal(found)


def empty(columns: Sequence[str]) -> pd.DataFrame:
    """A table without rows."""
    return pd.DataFrame(columns=list(columns))
