"""Figures 1, 2, 3, 5 and 7 of the memorization paper, and one of copies, from one's own audits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medunlearn.papers.memorization.report.claims import LOSS, epoch_values, is_memorization, least_loss
from medunlearn.papers.memorization.report.content import EXACT, GREEDY, PRIMARY, AuditContent
from medunlearn.papers.memorization.report.drawing import Point, bar, bars, colour, dash, line, mark, panels
from medunlearn.reports.figures import Spec
from medunlearn.reports.readings import number

Titled = list[tuple[str, Spec]]


def legend(content: AuditContent) -> tuple[tuple[str, str, str], ...]:
    """Label, symbol and CSS variable of each model; a baseline's symbol is hollow."""
    return tuple(
        (model.label, "○" if model.label in content.baselines else "●", colour(place))
        for place, model in enumerate(content.models)
    )


def figure_1(content: AuditContent) -> Titled:
    """Per corpus: the ratio of runs of 30 (left) and 50 (right) over prefix lengths, a line a model."""
    colours = {model.label: colour(place) for place, model in enumerate(content.models)}
    figures = []
    for corpus in content.corpora:
        groups: list[tuple[str, list[Spec]]] = []
        for measure in EXACT:
            lines: list[Spec] = []
            for model in content.models_of(corpus):
                points = _points(content, model.label, corpus, measure)
                lines += line(model.label, points, colours[model.label], hollow=model.label in content.baselines)
            groups.append((measure.replace("_", " of "), lines))
        if any(lines for _, lines in groups):
            figures.append((corpus, panels(groups, "prefix (tokens)", "ratio", ticks=content.prefixes)))
    return figures


def figure_2(content: AuditContent) -> Titled:
    """Per model and corpus with several decodings: their ratios at the shortest prefix, greedy first."""
    figures = []
    for place, model in enumerate(content.models):
        for corpus in content.corpora:
            rows = content.rows("ratios", model=model.label, corpus=corpus, measure=PRIMARY)
            prefixes = {int(row["prefix_tokens"]) for row in rows if row["decoding"] != GREEDY}
            if prefixes:
                at_shortest = [row for row in rows if int(row["prefix_tokens"]) == min(prefixes)]
                at_shortest.sort(key=lambda row: row["decoding"] != GREEDY)
                title = f"{model.label} on {corpus}, prefix {min(prefixes)}"
                figures.append((title, bars([bar("", at_shortest, "decoding", colour(place))], "decoding")))
    return figures


def figure_3(content: AuditContent) -> Titled:
    """Per model and corpus: share of responses in which a run of 30 starts in a segment, a bar a prefix length."""
    groups: dict[tuple[str, str], dict[int, list[Any]]] = {}
    for row in content.rows("positions", measure="ratio", at_least=30):
        series = groups.setdefault((str(row["model"]), str(row["corpus"])), {})
        labelled = {**row, "tokens": f"{int(row['first'])}-{int(row['last'])}"}
        series.setdefault(int(row["prefix_tokens"]), []).append(labelled)
    return [
        (
            f"{model} on {corpus}",
            bars(
                [
                    bar(f"prefix {prefix}", rows, "tokens", colour(place))
                    for place, (prefix, rows) in enumerate(series.items())
                ],
                "tokens of the response",
            ),
        )
        for (model, corpus), series in groups.items()
    ]


def figure_copies(content: AuditContent) -> Titled:
    """Per corpus: the ratio of runs of 30 by copies in the training text, a line a model and prefix length."""
    groups: dict[str, dict[tuple[str, int], list[Point]]] = {}
    for row in content.rows("duplication", measure=PRIMARY):
        series = groups.setdefault(str(row["corpus"]), {})
        edges = (number(row["value"]), number(row["low"]), number(row["high"]))
        series.setdefault((str(row["model"]), int(row["prefix_tokens"])), []).append((float(row["copies"]), *edges))
    figures = []
    for corpus, series in groups.items():
        models = list(dict.fromkeys(model for model, _ in series))
        lines: list[Spec] = []
        for place, ((model, prefix), points) in enumerate(series.items()):
            lines += line(f"{model}, prefix {prefix}", points, colour(models.index(model)), dash=dash(place))
        ticks = sorted({int(copies) for points in series.values() for copies, *_ in points})
        if lines and len(ticks) > 1:
            figures.append((corpus, panels([("run of 30", lines)], "copies", "ratio", ticks=ticks, named=True)))
    return figures


def figure_5(content: AuditContent) -> Titled:
    """Per pair and corpus: the ratio of runs of 50 before and after further fine-tuning, over prefix lengths."""
    pairs = dict.fromkeys((str(row["before"]), str(row["after"])) for row in content.rows("persistence"))
    figures = []
    for before, after in pairs:
        for corpus in content.corpora:
            lines = line(before, _points(content, before, corpus, EXACT[1]), colour(0))
            lines += line(after, _points(content, after, corpus, EXACT[1]), colour(1), dash="dash")
            if lines:
                groups = [("run of 50", lines)]
                spec = panels(groups, "prefix (tokens)", "ratio", ticks=content.prefixes, named=True)
                figures.append((f"{before} → {after} on {corpus}", spec))
    return figures


def figure_7(content: AuditContent) -> Spec | None:
    """Memorization, validation loss and accuracy by epoch: three panels of one figure, the least loss marked."""
    lines: dict[str, list[Point]] = {
        measure: [(float(epoch), *value) for epoch, value in values.items()]
        for measure, values in epoch_values(content).items()
    }
    groups = (
        ("memorization", [name for name in lines if is_memorization(name)]),
        ("validation loss", [name for name in lines if name == LOSS]),
        ("accuracy", [name for name in lines if name != LOSS and not is_memorization(name)]),
    )
    least = least_loss(content)
    return epoch_panels(groups, lines, () if least is None else ((least, {"color": "--muted", "dash": "dot"}),))


def epoch_panels(
    groups: Sequence[tuple[str, Sequence[str]]],
    lines: dict[str, list[Point]],
    marks: Sequence[tuple[int, dict[str, Any]]] = (),
) -> Spec | None:
    """Panels (title, names of lines) over epochs; a colour is taken once, since the legend is of all panels.

    Args:
        lines: name -> points by epoch.
        marks: epochs with the style of a vertical line.
    """
    order = [name for _, names in groups for name in names]
    drawn = []
    for title, names in groups:
        specs: list[Spec] = []
        for name in names:
            place = order.index(name)
            specs += line(name.replace("_", " "), lines[name], colour(place), dash=dash(place, 8))
        if names:
            drawn.append((title, specs))
    if not drawn:
        return None
    epochs = sorted({int(place) for points in lines.values() for place, *_ in points})
    spec = panels(drawn, "epoch", "", ticks=epochs, named=True)
    for epoch, style in marks:
        mark(spec, len(drawn), epoch, **style)
    return spec


def _points(content: AuditContent, model: str, corpus: str, measure: str) -> list[Point]:
    readings = ((prefix, content.reading(model, corpus, prefix, measure)) for prefix in content.prefixes)
    return [(prefix, one.value, one.low, one.high) for prefix, one in readings if one is not None]
