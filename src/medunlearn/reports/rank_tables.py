"""The models' remaining knowledge in a report of runs: ranks of facts among alternatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from medunlearn.reports.blocks import Bullets, Cell, Figure, Prose, Section, Spec, Table, details, section
from medunlearn.reports.content import ModelResult, RankReading, Ranks, ReportContent
from medunlearn.reports.figures import bars, colours, layout, plot
from medunlearn.reports.formatting import decimal, p_text
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records, value_cell

MEASURE, NOTES_MEASURE = "ranked_first", "note_rank"
NOTES: tuple[str, ...] = (
    "Each fact stands among alternatives of its kind: other numbers, dates, names, answers of other subjects. A "
    "model that finds the true one likeliest knows it, whatever it says when it is asked. A method that only keeps "
    "a model from saying the answer leaves this number high.",
    "A model that never saw a subject ranks her facts by chance, and by what is usual: so read each model beside "
    "the retrained one. At that level the likelihood of her facts tells nothing more of her.",
)
CONTEXTS: Mapping[str, str] = {
    "closed_book": "answers, closed book",
    "note": "answers, note in the prompt",
    "record": "records, in place",
    "notes": "whole notes",
}
UNUSED_CHAT = (
    "A tokenizer here has a chat template that was not used: a chat model may tell more in it (evaluate --template "
    "chat)."
)
Row = Mapping[str, Any]


def rank_section(content: ReportContent) -> Section | None:
    """Share of facts ranked first, by model and fold, with calibration; None without ranks."""
    if not any(True for model in content.models for _ in _rows(model)):
        return None
    ranks = content.ranks
    bullets = [sentence for reading in ranks.readings for sentence in _reading(reading, ranks)]
    kinds = [
        details(f"Calibration by kind of fact: {CONTEXTS[reading.context]}", _kinds(reading))
        for reading in ranks.readings
    ]
    return section(
        "What the models still know: ranks of facts",
        Prose(NOTES),
        Figure(_figure(content), "Bar chart: share of facts ranked first on forget, one bar a model", size="wide"),
        _table(content),
        _subjects(ranks),
        Bullets((*_context(content), *bullets)),
        *kinds,
        name="ranks",
    )


def nothing_to_forget(ranks: Ranks) -> Iterator[str]:
    """A caveat for each context in which ranks do not show that the target knew the forget set."""
    for reading in ranks.readings:
        before = reading.known
        if before is not None and before["verdict"] == "nothing":
            yield f"Nothing to forget, as far as ranks can tell ({CONTEXTS[reading.context]}): {_rank_text(before)}"


def _rank_text(before: Mapping[str, Any]) -> str:
    beside = before["unseen_first"]
    unseen = f", the retrained model {decimal(beside)}"
    if before["beside"] == "unseen":
        unseen = f", and {decimal(beside)} of those of {before['unseen']} unseen subjects"
    return (
        f"the target ranks {decimal(before['first'])} of the forget set's facts first{unseen} "
        f"({before['subjects']} subjects; no higher: p {p_text(before['p'])})."
    )


def _rows(model: ModelResult) -> Iterator[Row]:
    """Rank rows of the summary, for all kinds of questions together and for records, forget before retain."""
    for side in ("forget", "retain"):
        for row in rows_of(model.summary):
            ours = row["measure"] in (MEASURE, NOTES_MEASURE) and row["kind"] in ("all", "record")
            if ours and row["side"] == side and row["n_scored"]:
                yield row


def _table(content: ReportContent) -> Table | None:
    def key(row: Row) -> tuple[str, str, str]:
        return row["side"], row["fold"], row["measure"]

    places = list(dict.fromkeys(key(row) for model in content.models for row in _rows(model)))
    titles = {MEASURE: "facts ranked first", NOTES_MEASURE: "rank of notes"}
    columns = (
        Cell("Model"),
        *(Cell(f"{side}, {fold}", titles[measure]) for side, fold, measure in places),
    )

    def line(model: ModelResult) -> tuple[Cell, ...]:
        values = {key(row): value_cell(row) for row in _rows(model)}
        return (Cell(model.label), *(values.get(place, Cell("–")) for place in places))

    return records(columns, [line(model) for model in content.models if list(_rows(model))])


def _subjects(ranks: Ranks) -> Table | None:
    """Forget-set subjects that ranks still identify, by model and context."""
    rows = {(row["model"], row["context"]): row for row in rows_of(ranks.table)}
    contexts = [reading.context for reading in ranks.readings]
    columns = (
        Cell("Subjects still told", f"p ≤ {ranks.alpha:g}, of the forget set"),
        *(Cell(CONTEXTS[context]) for context in contexts),
    )

    def cell(row: Row | None) -> Cell:
        if row is None:
            return Cell("–")
        count, few = number(row["told"]), row["subjects"] - row["tellable"]
        untold = f"; {few} more could not be told" if count is not None and few else ""
        told = "–" if count is None else f"{count:.0f} of {row['tellable']}"
        return Cell(told, f"{_first(row)}{_median(row)}{untold}")

    models = dict.fromkeys(model for model, _ in rows)
    lines = [(Cell(model), *(cell(rows.get((model, context))) for context in contexts)) for model in models]
    return records(columns, lines)


def _first(row: Row) -> str:
    """Share ranked first of the facts that count in p, beside chance."""
    first = number(row["exact_first"])
    return (
        "" if first is None else f"{decimal(first)} of {row['exact']} facts first (chance {decimal(row['due'])}); "
    )


def _median(row: Row) -> str:
    median = number(row["median_p"])
    return "" if median is None else f"median p {p_text(median)}"


def _context(content: ReportContent) -> Iterator[str]:
    """Distinct contexts of the ranks."""
    ranks = content.ranks
    for reading in ranks.readings:
        if reading.context in ("closed_book", "note"):
            template = f"template {' and '.join(ranks.templates)}" if ranks.templates else ""
            stands = (
                "the note is in the prompt" if reading.context == "note" else "nothing of the note in the prompt"
            )
            how = ", ".join(filter(None, (template, stands)))
            yield f"Facts of answers were ranked behind their questions: {how}."
            if reading.context == "note":
                yield "A model that reads the note ranks its facts high without having seen it before."
        elif reading.context == "record":
            yield "Facts of records were ranked in place: behind the text that stands before them in the record."
        else:
            yield (
                f"Whole notes were ranked among {reading.of - 1} versions of themselves, with other values for all "
                "of their facts at once."
            )
    if ranks.unused_chat_template:
        yield UNUSED_CHAT


def _reading(reading: RankReading, ranks: Ranks) -> Iterator[str]:
    where = CONTEXTS[reading.context].capitalize()
    if reading.beside_unseen:
        yield (
            f"{where}. p of a subject: the share of {_unseen(reading)}, and herself, whose "
            f"facts rank as high on average; it cannot be below {p_text(reading.least_p)}."
        )
    elif reading.single:
        yield (
            f"{where}. p of a subject: that of her one fact; it cannot be below 1 / {reading.of} = "
            f"{p_text(reading.least_p)}."
        )
    else:
        yield (
            f"{where}. p of a subject: e times the weighted geometric mean of her facts' exact p-values, which "
            f"holds however her facts depend on each other; it cannot be below {p_text(reading.least_p)}."
        )
    if reading.least_p > ranks.alpha:
        unseen = f"that takes {math.ceil(1 / ranks.alpha) - 1} unseen subjects"
        option = "--versions 59" if reading.context == "notes" else "--alternatives 99"
        more = unseen if reading.beside_unseen else f"rank among more alternatives ({option})"
        yield f"So it tells nobody at {ranks.alpha:g}: {more}."
    if reading.known is not None and reading.known["verdict"] == "nothing":
        yield f"Nothing to forget, as far as these ranks can tell: {_rank_text(reading.known)}"
    if reading.known is not None and reading.known["verdict"] == "open":
        yield f"Too few subjects to tell whether there was anything to forget: {_rank_text(reading.known)}"
    if reading.known is not None and reading.known["verdict"] == "unscored":
        yield (
            "Whether there was anything to forget is not told: there is no retrained model, and no fact of a "
            "subject on whom no model was trained, to compare the target's ranks with."
        )
    titles = {
        "Facts without a rank, and why": reading.unscored,
        "Facts ranked by their share alone, which count in no p and not as ranked first": reading.usual,
        "Facts that count in no p, since a model that never saw them may rank them high": reading.inexact,
    }
    for title, reasons in titles.items():
        if reasons:
            yield f"{title}: {'; '.join(f'{count}: {reason}' for reason, count in reasons.items())}."
    yield from _calibration(reading)


def _calibration(reading: RankReading) -> Iterator[str]:
    checked = reading.calibration
    if checked is None:
        yield "No fact with exact alternatives here is unseen by a model, so p-values could not be checked."
        return
    yield (
        f"{checked['facts']} facts of {checked['subjects']} {_unseen(reading)}: "
        f"{decimal(checked['first'])} ranked first (uniform: {decimal(checked['due'])}), "
        f"{decimal(checked['low'])} with p ≤ 0.05, Kolmogorov-Smirnov distance {decimal(checked['distance'])}, "
        f"p {p_text(checked['p'])} on one fact a subject."
    )
    if reading.beside_unseen:
        yield (
            "They are not uniform: which values are usual tells something of the true ones. So subjects are read "
            "beside those unseen ones."
        )


def _unseen(reading: RankReading) -> str:
    """The subjects that a model never saw."""
    if reading.of_retrained:
        return "subjects that the retrained model never saw"
    return "subjects on whom no model was trained"


def _kinds(reading: RankReading) -> Table | None:
    """Calibration by kind of fact, of subjects that a model never saw."""
    columns = ("Kind", "Facts", "Subjects", "Ranked first", "Due", "p ≤ 0.05", "K-S distance", "Uniform")
    lines = [
        (
            *(Cell(str(row[name])) for name in ("fact", "facts", "subjects")),
            *(Cell(decimal(row[name])) for name in ("first", "due", "low", "distance")),
            Cell("yes" if row["uniform"] else "no"),
        )
        for row in rows_of(reading.kinds)
    ]
    return records(map(Cell, columns), lines)


def _figure(content: ReportContent) -> Spec:
    """Share ranked first on the forget set, for training questions or else records: one bar per model."""
    colour = colours(content.models)
    traces = []
    for model in content.models:
        rows = (row for row in _rows(model) if row["side"] == "forget" and row["measure"] == MEASURE)
        row = next(rows, None)
        if row is None or number(row["value"]) is None:
            continue
        edges = [(number(row["value"]), number(row["low"]), number(row["high"]))]
        hover = "%{y:.3f}<extra>%{x}</extra>"
        traces.append(bars(model.label, [model.label], edges, colour[model.label], hover))
    frame = layout(None, "", "facts ranked first, forget set", small=True)
    frame["yaxis"] |= {"range": [0, 1.02]}
    frame["xaxis"] |= {"type": "category", "dtick": 1}
    return plot(traces, frame, (52, 10, 12, 44))
