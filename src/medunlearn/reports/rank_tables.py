"""What the models still know, in a report of runs: ranks of facts among alternatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from medunlearn.reports.blocks import Bullets, Cell, Figure, Prose, Section, Spec, Table, section
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import colours, layout, plot, safe, short, whiskers
from medunlearn.reports.formatting import decimal, p_text
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import records, value_cell

MEASURE = "ranked_first"
NOTES: tuple[str, ...] = (
    "Each fact of an answer stands among alternatives of its kind: other numbers, dates, names, answers of other "
    "subjects. A model that finds the true one likeliest knows it, whatever it says when it is asked. A method "
    "that only keeps a model from saying the answer leaves this number high.",
    "A model that never saw a subject ranks her facts by chance, and by what is usual: so read each model beside "
    "the retrained one. At that level the likelihood of her facts tells nothing more of her.",
)
Row = Mapping[str, Any]


def rank_section(content: ReportContent) -> Section | None:
    """Share of facts ranked first, by model and fold, with calibration; None where no fact was ranked."""
    rows = [(model, row) for model in content.models for row in _rows(model)]
    if not rows:
        return None
    return section(
        "What the models still know: ranks of facts",
        Prose(NOTES),
        Figure(_figure(content), "Bar chart: share of facts ranked first on forget, one bar a model", size="wide"),
        _table(content),
        Bullets(tuple(_calibration(content))),
        name="ranks",
    )


def _rows(model: ModelResult) -> Iterator[Row]:
    """Rows of the summary with the share ranked first, all kinds of questions together, forget before retain."""
    for side in ("forget", "retain"):
        for row in rows_of(model.summary):
            if row["measure"] == MEASURE and row["kind"] == "all" and row["side"] == side and row["n_scored"]:
                yield row


def _table(content: ReportContent) -> Table | None:
    places = list(dict.fromkeys((r["side"], r["fold"]) for model in content.models for r in _rows(model)))
    subjects = {row["model"]: row for row in rows_of(content.ranks.table)}
    columns = (
        Cell("Model"),
        *(Cell(f"{side}, {fold}", "facts ranked first") for side, fold in places),
        Cell("Subjects still told", f"p ≤ {content.ranks.alpha:g}, of the forget set"),
    )

    def line(model: ModelResult) -> tuple[Cell, ...]:
        values = {(row["side"], row["fold"]): value_cell(row) for row in _rows(model)}
        told = subjects.get(model.label)
        count = None if told is None else number(told["told"])
        text = "–" if told is None or count is None else f"{count:.0f} of {told['subjects']}"
        last = Cell(text, _median(told)) if told else Cell("–")
        return (Cell(model.label), *(values.get(place, Cell("–")) for place in places), last)

    return records(columns, (line(model) for model in content.models if list(_rows(model))))


def _median(row: Row) -> str:
    median = number(row["median_p"])
    return "" if median is None else f"median p {p_text(median)}"


def _calibration(content: ReportContent) -> Iterator[str]:
    ranks = content.ranks
    if ranks.beside_unseen:
        yield (
            "p of a subject: the share of subjects unseen by the retrained model, and herself, whose facts rank "
            f"as high on average; it cannot be below {p_text(ranks.least_p)}."
        )
    else:
        yield (
            "p of a subject: e times the geometric mean of her facts' exact p-values, which holds however her "
            f"facts depend on each other; it cannot be below {p_text(ranks.least_p)}."
        )
    if ranks.least_p > ranks.alpha:
        unseen = f"that takes {math.ceil(1 / ranks.alpha) - 1} unseen subjects"
        more = unseen if ranks.beside_unseen else "rank among more alternatives (--alternatives 99)"
        yield f"So it tells nobody at {ranks.alpha:g}: {more}."
    checked = ranks.calibration
    if checked is None:
        yield "No subject here is unseen by a model, so p-values could not be checked on such a one."
        return
    how = (
        f"{checked['facts']} facts of {checked['subjects']} subjects that the retrained model never saw: "
        f"{decimal(checked['first'])} ranked first (uniform: {decimal(1 / ranks.of)}), Kolmogorov-Smirnov distance "
        f"{decimal(checked['distance'])}, p {p_text(checked['p'])} on one fact a subject."
    )
    yield how
    if not checked["uniform"]:
        yield (
            "They are not uniform: which values are usual tells something of the true ones. So subjects are read "
            "beside those unseen ones."
        )


def _figure(content: ReportContent) -> Spec:
    """Share ranked first on the forget set's training questions, one bar a model."""
    colour = colours(content.models)
    bars = []
    for model in content.models:
        row = next((one for one in _rows(model) if one["side"] == "forget"), None)
        value = None if row is None else number(row["value"])
        if row is None or value is None:
            continue
        bars.append(
            {
                "type": "bar",
                "name": safe(model.label),
                "x": [safe(model.label)],
                "y": [short(value)],
                "marker": {"color": colour[model.label]},
                "error_y": whiskers([(value, number(row["low"]), number(row["high"]))], "--muted"),
                "hovertemplate": "%{y:.3f}<extra>%{x}</extra>",
            }
        )
    frame = layout(None, "", "facts ranked first, forget set", small=True)
    frame["yaxis"] |= {"range": [0, 1.02]}
    frame["xaxis"] |= {"type": "category", "dtick": 1}
    return plot(bars, frame, (52, 10, 12, 44))
