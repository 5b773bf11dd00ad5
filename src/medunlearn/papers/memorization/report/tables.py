"""Tables 2, 3, 5, 7, 8, 9 and 10 of the paper, and the numbers behind its figures, from one's own audits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medunlearn.audit.measures import get_measure
from medunlearn.errors import MedunlearnError
from medunlearn.papers.memorization.report.content import EXACT, GREEDY, AuditContent, AuditedModel, evidence_of
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.claims import Evidence
from medunlearn.reports.readings import Reading, number, reading_of
from medunlearn.reports.tables import grid, records
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval, signed

Row = Mapping[str, Any]

TABLE_2_MEASURES = ("run_30", "run_50", "rouge_l", "bleu", "bert_score", "bart_score")
SHARES = {
    "only_before": "before only",
    "common": "common",
    "only_after": "after only",
    "retained": "retained",
}
_POSITION_SHARES = {
    "starts": "Of all runs",
    "tokens": "Of all matched tokens",
    "memorized": "Of memorized responses",
    "ratio": "Of all responses",
    "ratio_reached": "Of responses so long",
}
_GROUPS = ("harmful", "uninformative", "beneficial")


def percent(value: float) -> str:
    """``10.48%``: the precision that the paper prints."""
    return f"{100 * value:.2f}%".replace("-", "−")


def points(gap: Evidence | None) -> str:
    """A difference of shares in points with its interval."""
    if gap is None or gap.value is None:
        return ABSENT
    shown = f"{100 * gap.value:+.2f}"
    return f"{shown} {_edges(gap) if gap.measured else '(no interval)'}".replace("-", "−")


def measure_words(name: str) -> tuple[str, str]:
    """Title and meaning of a measure of the audit; an unknown one goes by its name."""
    try:
        measure = get_measure(name)
    except MedunlearnError:
        return name, "range and direction not given"
    return measure.title, measure.meaning


def table_2(content: AuditContent, prefix: int) -> Table | None:
    """One row a corpus and model, one column a measure, at one prefix length; greedy."""
    present = {row["measure"] for row in content.rows("ratios")}
    measures = [name for name in TABLE_2_MEASURES if name in present]
    rows = []
    for corpus in content.corpora:
        for model in content.models_of(corpus):
            cells = [_ratio(content, model, corpus, prefix, measure) for measure in measures]
            if any(cell.text != ABSENT for cell in cells):
                subjects = _subjects(content, model, corpus, prefix)
                rows.append((Cell(corpus), Cell(model.label, _role(model)), Cell(f"{subjects:,}"), *cells))
    titles = (Cell(measure_words(name)[0], name) for name in measures)
    return records((Cell("Corpus"), Cell("Model"), Cell("Subjects"), *titles), rows)


def table_8(content: AuditContent, corpus: str) -> Table | None:
    """One row a model and length of run, one column a prefix length; greedy. The numbers of Figure 1 as well."""
    rows = []
    for model in content.models_of(corpus):
        for measure in EXACT:
            cells = [_ratio(content, model, corpus, prefix, measure) for prefix in content.prefixes]
            if any(cell.text != ABSENT for cell in cells):
                rows.append((Cell(model.label, _role(model)), Cell(_run(measure)), *cells))
    return records((Cell("Model"), Cell("Measure"), *_prefix_columns(content)), rows)


def decoding_table(content: AuditContent) -> Table | None:
    """One row a model, corpus, prefix length and decoding: the ratios and their difference from greedy."""
    rows = content.rows("ratios")
    sampled = {(row["model"], row["corpus"]) for row in rows if row["decoding"] != GREEDY}
    lines = []
    for row in rows:
        if row["measure"] in EXACT and (row["model"], row["corpus"]) in sampled:
            place = (str(row["corpus"]), int(row["prefix_tokens"]), str(row["measure"]), str(row["decoding"]))
            gap = content.gap("decoding", row["model"], GREEDY, *place)
            names = (row["model"], place[0], place[1], _run(place[2]), place[3])
            cells = (_reading_cell(reading_of(row), place[2]), Cell("" if gap is None else points(gap)))
            lines.append((*_texts(*names), *cells))
    return records(_texts("Model", "Corpus", "Prefix", "Measure", "Decoding", "Ratio", "− greedy, points"), lines)


def copies_table(content: AuditContent) -> Table | None:
    """One row a model, corpus, prefix length and measure; one column a number of copies in the training text."""
    lines: dict[tuple[Any, ...], dict[int, Row]] = {}
    for row in content.rows("duplication"):
        place = (row["model"], row["corpus"], int(row["prefix_tokens"]), str(row["measure"]))
        lines.setdefault(place, {})[int(row["copies"])] = row
    copies = sorted({int(row["copies"]) for row in content.rows("duplication")})
    rows = (
        (*_texts(*place[:3], _run(place[3])), *(_of_copies(cells.get(n), place[3]) for n in copies))
        for place, cells in lines.items()
    )
    head = (f"{n:,} {'copy' if n == 1 else 'copies'}" for n in copies)
    return records(_texts("Model", "Corpus", "Prefix", "Measure", *head), rows)


def trend_table(content: AuditContent) -> Table | None:
    """Every trend: slope a step with its interval."""
    rows = (
        (
            *_texts(row["factor"], row["model"]),
            Cell(str(row["corpus"]), _prefix(row)),
            Cell(str(row["measure"])),
            Cell(str(row["levels"]), str(row["step"])),
            _slope(row),
            Cell(f"{int(row['n']):,}", f"{int(row['n_left_out']):,} left out"),
        )
        for row in content.rows("trends")
    )
    return records(_texts("Factor", "Model", "Corpus", "Measure", "Levels", "Change a step", "Records"), rows)


def difference_table(content: AuditContent) -> Table | None:
    """Every paired difference between two models, of every measure."""
    rows = (
        (
            Cell(f"{row['model']} − {row['against']}", str(row["relation"])),
            Cell(str(row["corpus"]), f"prefix {int(row['prefix_tokens'])}, {row['decoding']}"),
            Cell(str(row["measure"])),
            Cell(_difference(evidence_of("", row, "difference"))),
            Cell(ABSENT if (p := number(row["p"])) is None else decimal(p)),
            *(Cell(f"{int(row[name]):,}") for name in ("n_pairs", "n_subjects")),
        )
        for row in content.rows("differences")
        if row["relation"] != "decoding"
    )
    return records(_texts("Models", "Corpus", "Measure", "Difference", "p", "Pairs", "Subjects"), rows)


def meanings(content: AuditContent) -> Iterator[str]:
    """Title and meaning of each measure in the tables, and why it is unscored where it is."""
    reasons: dict[str, dict[str, None]] = {}
    for row in content.rows("ratios"):
        known = reasons.setdefault(str(row["measure"]), {})
        if isinstance(row["reason"], str):
            known[row["reason"]] = None
    for name, why in reasons.items():
        title, meaning = measure_words(name)
        yield f"{name}: {title}. {meaning}." + (f" Unscored: {'; '.join(why)}." if why else "")


def table_5(content: AuditContent) -> Table | None:
    """One row a model, prompt and match: share of removed options given back, and the difference from baselines."""
    rows = []
    for row in content.rows("options"):
        place = {name: row[name] for name in ("model", "prompt", "match")}
        gaps = content.rows("option_differences", **place)
        against = (f"{gap['against']}: {points(evidence_of('', gap, 'difference'))}" for gap in gaps)
        value = number(row["value"])
        shown = Cell(f"{UNSCORED}: {row['reason']}") if value is None else Cell(percent(value), _edges(row))
        counts = (f"{int(row[name]):,}" for name in ("n_scored", "n_unscored"))
        rows.append((*_texts(*place.values()), shown, Cell("; ".join(against) or ABSENT), *_texts(*counts)))
    head = ("Model", "Prompt", "Match", "Given back", "− baseline, points", "Scored", "Unscored")
    return records(_texts(*head), rows)


def table_7(content: AuditContent) -> list[tuple[str, Table]]:
    """A table a pair and way of counting: one row a corpus and share, one column a prefix length."""
    pairs: dict[tuple[Any, ...], dict[tuple[str, str], dict[int, Row]]] = {}
    for row in content.rows("persistence"):
        pair = (row["before"], row["after"], row["by"], int(row["at_least"]))
        line = pairs.setdefault(pair, {}).setdefault((str(row["corpus"]), str(row["measure"])), {})
        line[int(row["prefix_tokens"])] = row
    columns = (Cell("Corpus"), Cell("Share"), *_prefix_columns(content))
    return [
        (
            f"{before} → {after}, by {by}, runs of {length}",
            Table(
                columns,
                tuple(
                    (*_texts(corpus, SHARES[measure]), *(_share(line.get(prefix)) for prefix in content.prefixes))
                    for (corpus, measure), line in lines.items()
                ),
            ),
        )
        for (before, after, by, length), lines in pairs.items()
    ]


def position_tables(content: AuditContent) -> list[tuple[str, Table]]:
    """A table a model, corpus and length of run: one row a segment and prefix length, one column a way to count."""
    places: dict[tuple[Any, ...], dict[tuple[int, str], dict[str, Row]]] = {}
    for row in content.rows("positions"):
        place = (row["model"], row["corpus"], int(row["at_least"]))
        segment = (int(row["prefix_tokens"]), f"{int(row['first'])}-{int(row['last'])}")
        places.setdefault(place, {}).setdefault(segment, {})[str(row["measure"])] = row
    columns = _texts("Prefix", "Tokens", *_POSITION_SHARES.values())
    return [
        (
            f"{model} on {corpus}, runs of {length}",
            Table(
                columns,
                tuple(
                    (*_texts(*segment), *(_share(cells.get(name)) for name in _POSITION_SHARES))
                    for segment, cells in lines.items()
                ),
            ),
        )
        for (model, corpus, length), lines in places.items()
    ]


def kinds_table(content: AuditContent) -> Table | None:
    """Table 3: one row a kind, one column a model and way of sorting; spans without a kind at the end."""
    counts: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
    for row in content.rows("kinds"):
        cells = counts.setdefault((str(row["title"]), str(row["group"] or "")), {})
        column = (str(row["model"]), str(row["by"]))
        cells[column] = cells.get(column, 0) + int(row["n"])
    columns = list(dict.fromkeys(column for cells in counts.values() for column in cells))
    totals = {column: sum(cells.get(column, 0) for cells in counts.values()) for column in columns}
    order = {group: place for place, group in enumerate(_GROUPS)}
    rows = (
        (*_texts(title, group or "none"), *(_count(cells.get(one, 0), totals[one]) for one in columns))
        for (title, group), cells in sorted(counts.items(), key=lambda item: order.get(item[0][1], len(order)))
    )
    return records((*_texts("Kind", "Group"), *(Cell(model, f"by {way}") for model, way in columns)), rows)


def agreement_table(content: AuditContent) -> Table | None:
    """Agreement of rules, judge and person."""
    rows = (
        (
            Cell(f"{row['first']} and {row['second']}", str(row["model"])),
            *_texts(row["of"], str(row["measure"]).replace("_", " ")),
            _value(row, str(row["words"])),
            Cell(f"{int(row['n']):,}"),
        )
        for row in content.rows("agreement")
    )
    return records(_texts("Ways", "Of", "Measure", "Value", "Spans"), rows)


def identifier_table(content: AuditContent, table: str) -> Table | None:
    """Table 9 or 10: one row a kind, with masked examples."""
    rows = (
        (
            Cell(str(row["group"]), str(row["kind"]).replace("_", " ")),
            *_texts(row["model"], f"{int(row['n']):,}", f"{int(row['n_records']):,}"),
            Cell(decimal(float(row["per_record"])), interval(number(row["low"]), number(row["high"]))),
            Cell(str(row["example"])),
        )
        for row in content.rows("identifiers", table=table)
    )
    head = ("Kind", "Model", "Frequency", "Records", "Per audited record", "Shape of an example")
    return records(_texts(*head), rows)


def epoch_table(content: AuditContent) -> Table | None:
    """The numbers of Figure 7: one row a measure, one column an epoch."""
    rows = content.rows("epochs")
    epochs = sorted({int(row["epoch"]) for row in rows})
    entries = ((Cell(str(row["measure"]).replace("_", " ")), str(int(row["epoch"])), _value(row)) for row in rows)
    return grid("Epoch", entries, [str(epoch) for epoch in epochs])


def _texts(*values: object) -> tuple[Cell, ...]:
    return tuple(Cell(str(value)) for value in values)


def _run(measure: str) -> str:
    return measure.replace("_", " of ")


def _prefix_columns(content: AuditContent) -> tuple[Cell, ...]:
    return tuple(Cell(str(prefix), "prefix") for prefix in content.prefixes)


def _prefix(row: Row) -> str:
    length = number(row["prefix_tokens"])
    return "all prefixes" if length is None else f"prefix {length:.0f}"


def _role(model: AuditedModel) -> str:
    unit = "" if model.unit == "tokens" else f"counted in {model.unit}"
    against = f"against {', '.join(model.baselines)}" if model.baselines else ""
    return "; ".join(filter(None, (against, unit)))


def _subjects(content: AuditContent, model: AuditedModel, corpus: str, prefix: int) -> int:
    """Subjects of the measure that has most."""
    place = {"model": model.label, "corpus": corpus, "prefix_tokens": prefix, "decoding": GREEDY}
    return max((int(row["n_subjects"]) for row in content.rows("ratios", **place)), default=0)


def _ratio(content: AuditContent, model: AuditedModel, corpus: str, prefix: int, measure: str) -> Cell:
    """A mean with its interval and its differences from the model's baselines."""
    gaps = {
        other: content.gap("baseline", model.label, other, corpus, prefix, measure) for other in model.baselines
    }
    notes = (
        f"− {other}: {points(gap) if _is_share(measure) else _difference(gap)}"
        for other, gap in gaps.items()
        if gap is not None and gap.value is not None
    )
    cell = _reading_cell(content.reading(model.label, corpus, prefix, measure), measure)
    return Cell(cell.text, "; ".join(filter(None, (cell.note, *notes))))


def _is_share(measure: str) -> bool:
    return measure.startswith("run_")


def _reading_cell(reading: Reading | None, measure: str) -> Cell:
    """A mean, shares of probes in percent, with its interval and the number unscored."""
    if reading is None:
        return Cell(ABSENT)
    unscored = f"{reading.n_unscored:,} unscored" if reading.n_unscored else ""
    edges = _edges(reading) if _is_share(measure) else interval(reading.low, reading.high)
    note = ", ".join(filter(None, (edges, unscored)))
    if reading.value is None:
        return Cell(UNSCORED, note)
    return Cell(percent(reading.value) if _is_share(measure) else decimal(reading.value), note)


def _of_copies(row: Row | None, measure: str) -> Cell:
    if row is None:
        return Cell(ABSENT)
    cell = _reading_cell(reading_of(row), measure)
    return Cell(cell.text, f"{cell.note} of {int(row['n_subjects']):,}".strip())


def _slope(row: Row) -> Cell:
    slope = evidence_of("", row, "slope")
    if slope.value is None:
        return Cell(UNSCORED, slope.reason)
    return Cell(signed(slope.value), interval(slope.low, slope.high) if slope.measured else "no interval")


def _difference(gap: Evidence | None) -> str:
    if gap is None or gap.value is None:
        return ABSENT
    return f"{signed(gap.value)} {interval(gap.low, gap.high) if gap.measured else ''}".strip()


def _share(row: Row | None) -> Cell:
    if row is None:
        return Cell(ABSENT)
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED, str(row["reason"]))
    return Cell(percent(value), f"{_edges(row)} of {int(row['n']):,}".strip())


def _count(n: int, total: int) -> Cell:
    return Cell(f"{n:,}", f"{100 * n / total:.1f}% of {total:,}" if total else "")


def _edges(number_of: Row | Reading | Evidence) -> str:
    """An interval of a share in percent."""
    if isinstance(number_of, Mapping):
        low, high = number(number_of["low"]), number(number_of["high"])
    else:
        low, high = number_of.low, number_of.high
    return "" if low is None or high is None else f"[{100 * low:.2f}, {100 * high:.2f}]"


def _value(row: Row, more: str = "") -> Cell:
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED, reason if isinstance(reason := row.get("reason"), str) else "")
    edges = interval(number(row["low"]), number(row["high"]))
    return Cell(decimal(value), ", ".join(filter(None, (edges, more))))
