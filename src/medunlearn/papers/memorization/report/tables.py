"""Tables 1 to 10 of the paper, and the numbers of its figures, from the user's audits.

``report.yaml`` declares them; this module formats their cells and computes rows that must be derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from medunlearn.audit.options.option_summary import ALL, CONTRAST, MEMBER, NONMEMBER
from medunlearn.errors import MedunlearnError
from medunlearn.metrics import get_metric
from medunlearn.metrics.measure import FIRST
from medunlearn.papers.memorization.report.content import (
    EXACT,
    GREEDY,
    AuditContent,
    Row,
    evidence_of,
    prefix_words,
)
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.blocks import Cell, Table
from medunlearn.reports.claims import Evidence
from medunlearn.reports.formatting import ABSENT, UNSCORED, decimal, interval, p_text, percent_interval, signed
from medunlearn.reports.readings import number
from medunlearn.reports.table_blocks import cross_table, records

WORDS = paper_yaml("memorization", "report")
TABLE_2_MEASURES = (
    *("run_30", "run_30.short_is_zero", "run_50", "run_50.short_is_zero", "rouge_l", "rouge_l.unstemmed_f"),
    *("bleu", "bleu.unsmoothed_words", "bert_score", "bert_score.released_code"),
    *("bart_score", "bart_score.released_code"),
)
_SHARES = {"only_before": "before only", "common": "common", "only_after": "after only", "retained": "retained"}
_POSITION_SHARES = {
    "starts": "Of all runs",
    "tokens": "Of all matched tokens",
    "memorized": "Of memorized responses",
    "ratio": "Of all responses",
    "ratio_reached": "Of responses so long",
}
ANSWER_GROUPS = (ALL, MEMBER, NONMEMBER, CONTRAST)
OPTION_MATCHES = {
    "exact": "Exact option",
    "exact.lettered": "Exact option, lettered",
    "relaxed": "Relaxed option",
    "relaxed.lettered": "Relaxed option, lettered",
}
PAPER_PROMPTS = ("another", "any")
"""Prompts in the order in which Table 5 takes one: the paper asks a model for one other option."""
HOLDOUT = "_holdout"
_GROUPS = ("harmful", "uninformative", "beneficial")


def listed(content: AuditContent, name: str, **labels: object) -> Table | None:
    """A declared listing of the rows with the given labels."""
    columns = WORDS["listings"][name]
    rows = _rows(content, name, labels)
    return records(map(Cell, columns), (tuple(_cell(row, how) for how in columns.values()) for row in rows))


def crossed(content: AuditContent, name: str, **labels: object) -> dict[str, Table]:
    """Title -> table of a declared cross table; a dash for missing rows."""
    crossing = WORDS["crossings"][name]
    rows = _rows(content, name, labels)
    columns = _columns(content, name, rows)
    entries: dict[str, list[tuple[tuple[Cell, ...], object, Cell]]] = {}
    for row in rows:
        heads = tuple(_cell(row, how) for how in crossing["heads"].values())
        entry = (heads, row[crossing["column"]], _cell(row, crossing["value"]))
        entries.setdefault(crossing["title"].format_map(row), []).append(entry)
    tables = {title: cross_table(crossing["heads"], parts, columns) for title, parts in entries.items()}
    return {title: table for title, table in tables.items() if table}


def _cell(row: Row, how: str | list[str]) -> Cell:
    if isinstance(how, list):
        text, note = how
        return Cell(text.format_map(row), note.format_map(row))
    if how in _MAKERS:
        cell = _MAKERS[how](row)
        return cell if isinstance(cell, Cell) else Cell(cell)
    return Cell(how.format_map(row) if "{" in how else str(row[how]))


def _columns(content: AuditContent, name: str, rows: Iterable[Row]) -> dict[object, Cell]:
    if name == "measures":
        present = {row["measure"] for row in content.rows("ratios")}
        return {
            measure: Cell(measure_words(measure)[0], measure) for measure in TABLE_2_MEASURES if measure in present
        }
    if name == "overview":
        return {corpus: Cell(corpus) for corpus in content.corpora}
    if name in ("answers", "option_groups"):
        groups = {row["group"] for row in rows}
        return {group: Cell(group) for group in ANSWER_GROUPS if group in groups}
    if name == "accuracy":
        return {model: Cell(model) for model in dict.fromkeys(row["model"] for row in rows)}
    if name == "positions":
        return {measure: Cell(title) for measure, title in _POSITION_SHARES.items()}
    if name == "duplication":
        copies = sorted({row["copies"] for row in rows})
        return {n: Cell(f"{n:,} {'copy' if n == 1 else 'copies'}") for n in copies}
    if name == "epochs":
        return {epoch: Cell(str(epoch)) for epoch in sorted({row["epoch"] for row in rows})}
    return {prefix: Cell(str(prefix or "mixed"), "prefix") for prefix in content.prefixes}


def _rows(content: AuditContent, name: str, labels: Mapping[str, object]) -> list[Row]:
    """Rows of a declared table."""
    match name:
        case "measures":
            rows = _greedy(content, **labels)
            return [row for row in rows if row["measure"] in TABLE_2_MEASURES]
        case "overview":
            firsts = {(row["model"], row["corpus"]): row for row in _greedy(content, **labels)}
            return list(firsts.values())
        case "answers":
            return [row for row in content.rows("answers") if not row["prompt"]]
        case "option_groups":
            return [row for row in content.rows("answers") if row["measure"] in OPTION_MATCHES]
        case "prefixes":
            order = [(model.label, measure) for model in content.models for measure in EXACT]
            rows = (row for row in _greedy(content, **labels) if row["measure"] in EXACT)
            return sorted(rows, key=lambda row: order.index((row["model"], row["measure"])))
        case "decodings":
            return list(_decodings(content))
        case "options":
            return [{**row, "gaps": _option_gaps(content, row)} for row in content.rows("options")]
        case "differences":
            return [row for row in content.rows("differences") if row["relation"] != "decoding"]
    return content.rows(name, **labels)


def _greedy(content: AuditContent, **labels: object) -> Iterator[Row]:
    """Greedy ratios by corpus and model, with the model's role, most subjects and differences from baselines."""
    models = {model.label: model for model in content.models}
    rows = content.rows("ratios", decoding=GREEDY, **labels)
    subjects: dict[tuple[str, str], int] = {}
    for row in rows:
        place = row["model"], row["corpus"]
        subjects[place] = max(subjects.get(place, 0), row["n_subjects"])
    for row in sorted(rows, key=lambda row: content.corpora.index(row["corpus"])):
        model = models[row["model"]]
        unit = "" if model.unit == "tokens" else f"counted in {model.unit}"
        against = f"against {', '.join(model.baselines)}" if model.baselines else ""
        gaps = ((other, content.gap("baseline", other, row)) for other in model.baselines)
        text = _points if _is_share(row) else _difference
        notes = [f"− {other}: {text(gap)}" for other, gap in gaps if gap is not None and gap.value is not None]
        role = "; ".join(filter(None, (against, unit)))
        yield {**row, "role": role, "gaps": notes, "subjects": subjects[row["model"], row["corpus"]]}


def _decodings(content: AuditContent) -> Iterator[Row]:
    """Ratios of models with several decodings, with their differences from greedy."""
    rows = content.rows("ratios")
    sampled = {(row["model"], row["corpus"]) for row in rows if row["decoding"] != GREEDY}
    for row in rows:
        if row["measure"] in EXACT and (row["model"], row["corpus"]) in sampled:
            gap = content.gap("decoding", GREEDY, row)
            yield {**row, "gap": _points(gap) if gap else ""}


def _option_gaps(content: AuditContent, row: Row) -> str:
    gaps = content.rows("option_differences", **{name: row[name] for name in ("model", "prompt", "match")})
    return "; ".join(f"{gap['against']}: {_points(evidence_of('', gap, 'difference'))}" for gap in gaps) or ABSENT


def fine_tuning_table(content: AuditContent) -> tuple[Table | None, str]:
    """Table 5: per data set and model, measures at the shortest prefix and options given back; and their prompt.

    Options of a data set's questions are those of members, options of its held-out ones those of non-members.
    """
    prompts = list(dict.fromkeys(row["prompt"] for row in content.rows("options")))
    prompt = next((name for name in PAPER_PROMPTS if name in prompts), next(iter(prompts), ""))
    corpora = [name for name in content.corpora if name.removesuffix(HOLDOUT) in content.datasets]
    entries: list[tuple[tuple[Cell, ...], object, Cell]] = []
    for row in _greedy(content, prefix_tokens=min(filter(None, content.prefixes), default=0)):
        if row["corpus"] in corpora and row["measure"] in TABLE_2_MEASURES:
            heads = Cell(row["corpus"]), Cell(row["model"], row["role"])
            entries.append((heads, row["measure"], _ratio(row)))
    heads_of = {(heads[0].text, heads[1].text): heads for heads, *_ in entries}
    for corpus, model in heads_of:
        group = ANSWER_GROUPS[2 if corpus.endswith(HOLDOUT) else 1]
        for row in content.rows("answers", model=model, group=group, prompt=prompt):
            if row["measure"] in OPTION_MATCHES:
                entries.append((heads_of[corpus, model], row["measure"], _given_back(row)))
    present = {column for _, column, _ in entries}
    columns: dict[object, Cell] = {m: Cell(measure_words(m)[0], m) for m in TABLE_2_MEASURES if m in present}
    columns |= {m: Cell(title, m) for m, title in OPTION_MATCHES.items() if m in present}
    return cross_table(["Data set", "Model"], entries, columns), prompt


def kinds_table(content: AuditContent) -> Table | None:
    """Table 3: one row per kind, one column per model and sorter; spans without a kind last."""
    counts: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
    for row in content.rows("kinds"):
        cells = counts.setdefault((row["title"], row["group"] or ""), {})
        column = row["model"], row["by"]
        cells[column] = cells.get(column, 0) + row["n"]
    columns = list(dict.fromkeys(column for cells in counts.values() for column in cells))
    totals = {column: sum(cells.get(column, 0) for cells in counts.values()) for column in columns}
    order = {group: place for place, group in enumerate(_GROUPS)}
    rows = (
        (Cell(title), Cell(group or "none"), *(_count(cells.get(column, 0), totals[column]) for column in columns))
        for (title, group), cells in sorted(counts.items(), key=lambda item: order.get(item[0][1], len(order)))
    )
    return records((Cell("Kind"), Cell("Group"), *(Cell(model, f"by {way}") for model, way in columns)), rows)


def _count(n: int, total: int) -> Cell:
    return Cell(f"{n:,}", f"{100 * n / total:.1f}% of {total:,}" if total else "")


def measure_words(name: str) -> tuple[str, str]:
    """Title and meaning of an audit measure; an unknown one keeps its name."""
    try:
        measure = get_metric(name)
    except MedunlearnError:
        return name, "range and direction not given"
    cut = f"; of the first {FIRST} tokens of both texts" if measure.needs[0] == "response" else ""
    return measure.title, f"{measure.meaning}{cut}"


def meanings(content: AuditContent) -> Iterator[str]:
    """Title and meaning of each measure in the tables, with reasons for unscored values."""
    reasons: dict[str, dict[str, None]] = {}
    for row in content.rows("ratios"):
        reasons.setdefault(row["measure"], {}).update(
            {row["reason"]: None} if isinstance(row["reason"], str) else {}
        )
    for name, why in reasons.items():
        title, meaning = measure_words(name)
        yield f"{name}: {title}. {meaning}." + (f" Unscored: {'; '.join(why)}." if why else "")


def _percent(value: float) -> str:
    """``10.48%``: the precision used in the paper."""
    return f"{100 * value:.2f}%".replace("-", "−")


def _edges(row: Row, share: bool) -> str:
    """An interval; in percent for a share."""
    edges = number(row["low"]), number(row["high"])
    return percent_interval(*edges, ".2f") if share else interval(*edges)


def _is_share(row: Row) -> bool:
    return str(row["measure"]).startswith("run_")


def _ratio(row: Row) -> Cell:
    """A mean with its interval and number of unscored probes; shares in percent."""
    value, share = number(row["value"]), _is_share(row)
    unscored = f"{row['n_unscored']:,} unscored" if row["n_unscored"] else ""
    note = ", ".join(filter(None, (_edges(row, share), unscored)))
    return Cell(UNSCORED if value is None else _percent(value) if share else decimal(value), note)


def _ratio_and_gaps(row: Row) -> Cell:
    cell = _ratio(row)
    return Cell(cell.text, "; ".join(filter(None, (cell.note, *row["gaps"]))))


def _ratio_of_subjects(row: Row) -> Cell:
    cell = _ratio(row)
    return Cell(cell.text, f"{cell.note} of {row['n_subjects']:,}".strip())


def _share(row: Row) -> Cell:
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED, str(row["reason"]))
    return Cell(_percent(value), f"{_edges(row, True)} of {row['n']:,}".strip())


def _given_back(row: Row) -> Cell:
    value = number(row["value"])
    if value is None:
        return Cell(f"{UNSCORED}: {row['reason']}" if row.get("reason") else UNSCORED)
    return Cell(_percent(value), _edges(row, True))


def _value(row: Row) -> Cell:
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED, reason if isinstance(reason := row.get("reason"), str) else "")
    return Cell(decimal(value), ", ".join(filter(None, (_edges(row, False), str(row.get("words", ""))))))


def _slope(row: Row) -> Cell:
    slope = evidence_of("", row, "slope")
    if slope.value is None:
        return Cell(UNSCORED, slope.reason)
    return Cell(signed(slope.value), interval(slope.low, slope.high) if slope.measured else "no interval")


def _difference(gap: Evidence) -> str:
    if gap.value is None:
        return ABSENT
    return f"{signed(gap.value)} {interval(gap.low, gap.high) if gap.measured else ''}".strip()


def _points(gap: Evidence) -> str:
    """A difference of shares in percentage points with its interval."""
    if gap.value is None:
        return ABSENT
    edges = percent_interval(gap.low, gap.high, ".2f") if gap.measured else "(no interval)"
    return f"{100 * gap.value:+.2f} {edges}".replace("-", "−")


def _p(row: Row) -> str:
    return p_text(number(row["p"]))


def _corpus_and_prefix(row: Row) -> Cell:
    return Cell(row["corpus"], prefix_words(row["prefix_tokens"]))


_MAKERS: Mapping[str, Callable[[Row], Cell | str]] = {
    "run": lambda row: row["measure"].replace("_", " of "),
    "ratio": _ratio,
    "ratio_and_gaps": _ratio_and_gaps,
    "ratio_of_subjects": _ratio_of_subjects,
    "share": _share,
    "share_name": lambda row: _SHARES[row["measure"]],
    "given_back": _given_back,
    "answer": lambda row: (
        Cell(_points(evidence_of("", row, "value"))) if row["group"] == CONTRAST else _given_back(row)
    ),
    "accuracy": lambda row: Cell(_percent(row["value"]), f"{_edges(row, True)} of {row['n_subjects']:,}".strip()),
    "place_of_accuracy": lambda row: f"{row['specialty'] or 'all'}, top-{row['k']}",
    "subjects": lambda row: f"{row['subjects']:,}",
    "value": _value,
    "slope": _slope,
    "difference": lambda row: _difference(evidence_of("", row, "difference")),
    "p": _p,
    "prefix": lambda row: str(row["prefix_tokens"] or "mixed"),
    "corpus_and_prefix": _corpus_and_prefix,
    "corpus_prefix_and_decoding": lambda row: Cell(
        row["corpus"], f"{prefix_words(row['prefix_tokens'])}, {row['decoding']}"
    ),
    "measure_in_words": lambda row: row["measure"].replace("_", " "),
    "group_and_kind": lambda row: Cell(row["group"], row["kind"].replace("_", " ")),
    "per_record": lambda row: Cell(decimal(row["per_record"]), _edges(row, False)),
}
"""Makers of cells, as ``report.yaml`` names them."""
