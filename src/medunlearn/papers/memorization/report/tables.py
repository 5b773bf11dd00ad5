"""The tables of how much is memorized, as plain cells for HTML and Markdown alike: Tables 2 and 8, Figure 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medunlearn.papers.amnesia.report.content import Contrast
from medunlearn.papers.memorization.report.cases import Finding
from medunlearn.papers.memorization.report.content import EXACT, GREEDY, AuditContent, Audited, contrast_of
from medunlearn.reports.readings import Reading, number, reading_of
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED, decimal, interval, signed

TABLE_2_MEASURES = ("run_30", "run_50", "rouge_l", "bleu", "bert_score", "bart_score")


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
                subjects = _subjects(content, model, corpus, prefix)
                rows.append((Cell(corpus), Cell(model.label, _role(model)), Cell(subjects), *cells))
    columns = (
        Cell("Corpus"),
        Cell("Model"),
        Cell("Subjects"),
        *(Cell(*_title(content, name)) for name in measures),
    )
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


def _subjects(content: AuditContent, model: Audited, corpus: str, prefix: int) -> str:
    """How many subjects the numbers rest on; of the measure that has most."""
    rows = content.rows("ratios")
    place = (model.label, corpus, prefix, GREEDY)
    names = ("model", "corpus", "prefix_tokens", "decoding")
    return (
        f"{max((int(row['n_subjects']) for row in rows if tuple(row[one] for one in names) == place), default=0):,}"
    )


def _value(content: AuditContent, model: Audited, corpus: str, prefix: int, measure: str) -> Cell:
    reading = content.reading(model.label, corpus, prefix, measure)
    gaps = [content.gap("baseline", model.label, other, corpus, prefix, measure) for other in model.baselines]
    notes = [_interval(reading, measure)]
    notes += [
        f"− {other}: {points(gap) if is_share(measure) else _signed(gap)}"
        for other, gap in zip(model.baselines, gaps, strict=True)
        if gap is not None and gap.value is not None
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
    return ", ".join(part for part in (edges, unscored) if part)


def _signed(gap: Contrast | None) -> str:
    return (
        ABSENT if gap is None or gap.value is None else f"{signed(gap.value)} {interval(gap.low, gap.high)}".strip()
    )


def decoding_table(content: AuditContent) -> Table | None:
    """One row a model, corpus, prefix length and decoding: the ratios and their difference from greedy."""
    rows = []
    sampled = _sampled(content)
    for row in content.rows("ratios"):
        if row["measure"] not in EXACT or (str(row["model"]), str(row["corpus"])) not in sampled:
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


def copies_table(content: AuditContent) -> Table | None:
    """One row a model, corpus, prefix length and measure; one column a number of copies in the training text."""
    copies = sorted({int(row["copies"]) for row in content.rows("duplication")})
    lines: dict[tuple[str, str, int, str], dict[int, Mapping[str, Any]]] = {}
    for row in content.rows("duplication"):
        place = (str(row["model"]), str(row["corpus"]), int(row["prefix_tokens"]), str(row["measure"]))
        lines.setdefault(place, {})[int(row["copies"])] = row
    rows = tuple(
        (
            *(Cell(name) for name in (model, corpus, str(prefix), measure.replace("_", " of "))),
            *(_of_copies(cells.get(many), measure) for many in copies),
        )
        for (model, corpus, prefix, measure), cells in lines.items()
    )
    head = (
        *("Model", "Corpus", "Prefix", "Measure"),
        *(f"{many:,} {'copy' if many == 1 else 'copies'}" for many in copies),
    )
    return Table(tuple(map(Cell, head)), rows) if rows else None


def _of_copies(row: Mapping[str, Any] | None, measure: str) -> Cell:
    if row is None:
        return Cell(ABSENT)
    found = reading_of(row)
    under = f"{_interval(found, measure)} of {int(row['n_subjects']):,}"
    return Cell(_text(found, measure), under.strip())


def _sampled(content: AuditContent) -> set[tuple[str, str]]:
    """Models and corpora with another decoding than greedy."""
    rows = content.rows("ratios")
    return {(str(row["model"]), str(row["corpus"])) for row in rows if row["decoding"] != GREEDY}


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
        for row in content.rows("trends")
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
        for row in content.rows("differences")
        if row["relation"] != "decoding"
    )
    columns = ("Models", "Corpus", "Measure", "Difference", "p", "Pairs", "Subjects")
    return Table(tuple(map(Cell, columns)), rows) if rows else None


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
    """What each measure in the tables means, and why it is unscored where it is."""
    reasons: dict[str, dict[str, None]] = {}
    for row in content.rows("ratios"):
        found = reasons.setdefault(str(row["measure"]), {})
        if isinstance(row["reason"], str):
            found[row["reason"]] = None
    for name, why in reasons.items():
        title, meaning = content.measures.get(name, (name, "range and direction not given"))
        yield f"{name}: {title}. {meaning}." + (f" Unscored: {'; '.join(why)}." if why else "")


def _title(content: AuditContent, measure: str) -> tuple[str, str]:
    return content.measures.get(measure, (measure, ""))[0], measure


def _role(model: Audited) -> str:
    unit = "" if model.unit == "tokens" else f"counted in {model.unit}"
    against = f"against {', '.join(model.baselines)}" if model.baselines else ""
    return "; ".join(part for part in (against, unit) if part)


def _has(content: AuditContent, measure: str) -> bool:
    return bool((content.ratios["measure"] == measure).any()) if len(content.ratios) else False


def _p(row: Mapping[str, Any]) -> str:
    found = number(row["p"])
    return ABSENT if found is None else decimal(found)
