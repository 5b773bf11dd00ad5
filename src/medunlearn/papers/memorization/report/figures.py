"""Figures 1 to 7 of the memorization paper, and one by number of copies: lines with bands, bars,
panels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from medunlearn.papers.memorization.report.content import (
    EXACT,
    GREEDY,
    LOSS,
    PRIMARY,
    AuditContent,
    Point,
    Row,
    epoch_values,
    is_memorization,
    least_loss,
    point,
    prefix_words,
)
from medunlearn.reports import figures
from medunlearn.reports.figures import (
    COLOURS,
    Spec,
    axes_names,
    band,
    layout,
    panels,
    plot,
    safe,
    short,
    turn_colour,
)
from medunlearn.reports.readings import number

_DASHES = ("solid", "dash", "dot", "dashdot")
Titled = Iterator[tuple[str, Spec]]


def legend(content: AuditContent) -> tuple[tuple[str, str, str], ...]:
    """Label, symbol and CSS variable of each model; a baseline's symbol is hollow."""
    return tuple(
        (model.label, "○" if model.label in content.baselines else "●", turn_colour(place))
        for place, model in enumerate(content.models)
    )


def figure_1(content: AuditContent) -> Titled:
    """Per corpus: the ratio of runs of 30 (left) and 50 (right) over prefix lengths, one line per model."""
    for corpus in content.corpora:
        groups: list[tuple[str, list[Spec]]] = [(measure.replace("_", " of "), []) for measure in EXACT]
        for measure, (_, lines) in zip(EXACT, groups, strict=True):
            for label, _, shade in legend(content):
                points = _points(content, label, corpus, measure)
                lines += line(label, points, shade, hollow=label in content.baselines)
        if any(lines for _, lines in groups):
            yield corpus, panels(groups, _prefix_axis(content), "ratio", content.prefixes, named=False)


def figure_2(content: AuditContent) -> Titled:
    """Per model and corpus with several decodings: their ratios at the shortest prefix, greedy first."""
    for place, model in enumerate(content.models):
        for corpus in content.corpora:
            rows = content.rows("ratios", model=model.label, corpus=corpus, measure=PRIMARY)
            shortest = min((row["prefix_tokens"] for row in rows if row["decoding"] != GREEDY), default=None)
            if shortest is not None:
                rows = [row for row in rows if row["prefix_tokens"] == shortest]
                rows.sort(key=lambda row: bool(row["decoding"] != GREEDY))
                title = f"{model.label} on {corpus}, {prefix_words(shortest)}"
                yield title, bars({"": rows}, "decoding", "decoding", "ratio", first=place)


def figure_3(content: AuditContent) -> Titled:
    """Per model and corpus: share of responses with a run of 30 starting in a segment, one bar per prefix
    length.
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in content.rows("positions", measure="ratio", at_least=30):
        series = groups.setdefault(f"{row['model']} on {row['corpus']}", {})
        segment = {**row, "tokens": f"{row['first']}-{row['last']}"}
        series.setdefault(prefix_words(row["prefix_tokens"]), []).append(segment)
    for title, series in groups.items():
        yield title, bars(series, "tokens", "tokens of the response", "ratio")


def figure_copies(content: AuditContent) -> Titled:
    """Per corpus: the ratio of runs of 30 by copies in the training text, a line per model and prefix length."""
    groups: dict[str, dict[tuple[str, int], list[Point]]] = {}
    for row in content.rows("duplication", measure=PRIMARY):
        series = groups.setdefault(row["corpus"], {})
        series.setdefault((row["model"], row["prefix_tokens"]), []).append(point(row, "copies"))
    for corpus, series in groups.items():
        models = list(dict.fromkeys(model for model, _ in series))
        lines: list[Spec] = []
        for place, ((model, prefix), points) in enumerate(series.items()):
            lines += line(f"{model}, {prefix_words(prefix)}", points, turn_colour(models.index(model)), dash=place)
        ticks = sorted({int(copies) for points in series.values() for copies, *_ in points})
        if lines and len(ticks) > 1:
            yield corpus, panels([("run of 30", lines)], "copies", "ratio", ticks)


def figure_4(content: AuditContent) -> Titled:
    """Per prompt: share of removed options given back by each model, exact beside relaxed."""
    prompts = dict.fromkeys(row["prompt"] for row in content.rows("options"))
    for prompt in prompts:
        series = {match: content.rows("options", prompt=prompt, match=match) for match in ("exact", "relaxed")}
        yield prompt, bars(series, "model", "model", "options given back")


def figure_6(rows: Sequence[Row]) -> dict[str, Spec]:
    """Top-k accuracy of each model on all admissions (A), and at the least k by medical specialty (B).

    Args:
        rows: of :func:`medunlearn.papers.memorization.diagnosis.accuracy.accuracy_table`.
    """
    least, specs = min((row["k"] for row in rows), default=0), dict[str, Spec]()
    for title, by in (("A: all admissions", "k"), (f"B: top-{least} by specialty", "specialty")):
        series: dict[str, list[Row]] = {}
        for row in rows:
            if bool(row["specialty"]) == (by == "specialty") and (by == "k" or row["k"] == least):
                series.setdefault(row["model"], []).append({**row, "k": f"top-{row['k']}"})
        if series:
            specs[title] = bars(series, by, by, "accuracy")
            specs[title]["layout"]["yaxis"] |= {"range": [0, 1]}
    return specs


def figure_5(content: AuditContent) -> Titled:
    """Per pair and corpus: the ratio of runs of 50 before and after further fine-tuning, over prefix lengths."""
    for pair in dict.fromkeys((row["before"], row["after"]) for row in content.rows("persistence")):
        for corpus in content.corpora:
            lines: list[Spec] = []
            for place, label in enumerate(pair):
                lines += line(label, _points(content, label, corpus, EXACT[1]), turn_colour(place), dash=place)
            if lines:
                spec = panels([("run of 50", lines)], _prefix_axis(content), "ratio", content.prefixes)
                yield f"{' → '.join(pair)} on {corpus}", spec


def figure_7(content: AuditContent) -> Spec | None:
    """Memorization, validation loss and accuracy by epoch: three panels of one figure, the least loss marked."""
    lines = epoch_values(content)
    groups = {
        "memorization": [name for name in lines if is_memorization(name)],
        "validation loss": [name for name in lines if name == LOSS],
        "accuracy": [name for name in lines if name != LOSS and not is_memorization(name)],
    }
    least = least_loss(content)
    return epoch_panels(groups, lines, () if least is None else ((least, {"color": "--muted", "dash": "dot"}),))


def _prefix_axis(content: AuditContent) -> str:
    return f"prefix ({'/'.join(dict.fromkeys(model.unit for model in content.models))})"


def _points(content: AuditContent, model: str, corpus: str, measure: str) -> list[Point]:
    rows = (content.ratio(model, corpus, prefix, measure) for prefix in content.prefixes if prefix)
    return [point(row, "prefix_tokens") for row in rows if row is not None]


def line(name: str, points: Sequence[Point], shade: str, *, dash: int = 0, hollow: bool = False) -> list[Spec]:
    """A line with a band of its intervals; nothing if no point has a value.

    Args:
        dash: index of the dash pattern; 0 is a solid line.
    """
    if all(value is None for _, value, _, _ in points):
        return []
    label = {"name": safe(name), "legendgroup": safe(name), "cliponaxis": False}
    trace = figures.line(name, shade, f"<b>{safe(name)}</b><br>%{{x}}: %{{y:.4f}}<extra></extra>") | label
    trace["line"] |= {"dash": _DASHES[dash % len(_DASHES)]}
    trace |= {
        "mode": "lines+markers",
        "x": [place for place, *_ in points],
        "y": [None if value is None else short(value) for _, value, _, _ in points],
        "marker": {"color": shade, "size": 7, "symbol": "circle-open" if hollow else "circle"},
    }
    edges = [(place, low, high) for place, _, low, high in points]
    return [*band(edges, {"type": "scatter", **label}, shade), trace]


def epoch_panels(
    groups: Mapping[str, Sequence[str]],
    lines: Mapping[str, Sequence[Point]],
    marks: Sequence[tuple[int, dict[str, Any]]] = (),
) -> Spec | None:
    """Panels over epochs; a colour is taken once, since the legend is of all panels.

    Args:
        groups: title of a panel -> names of its lines.
        lines: name -> points by epoch.
        marks: epochs with the style of a vertical line.
    """
    place = {name: place for place, name in enumerate(name for names in groups.values() for name in names)}

    def traces(name: str) -> list[Spec]:
        return line(name.replace("_", " "), lines[name], turn_colour(place[name]), dash=place[name] // COLOURS)

    filled = [(title, list(chain.from_iterable(map(traces, names)))) for title, names in groups.items() if names]
    if not filled:
        return None
    epochs = sorted({int(epoch) for points in lines.values() for epoch, *_ in points})
    spec = panels(filled, "epoch", "", epochs)
    for epoch, style in marks:
        edges = {"type": "line", "x0": epoch, "x1": epoch, "y0": 0, "y1": 1, "line": {"width": 1, **style}}
        shapes = [{"xref": f"x{axis}", "yref": f"y{axis} domain"} | edges for axis in axes_names(len(filled))]
        spec["layout"].setdefault("shapes", []).extend(shapes)
    return spec


def bars(series: Mapping[str, Sequence[Row]], label: str, x: str, y: str, first: int = 0) -> Spec:
    """Grouped bars with whiskers over categories.

    Args:
        series: name -> rows with value, low, high, and their category under ``label``.
        first: index of the first colour.
    """
    data = []
    for place, (name, rows) in enumerate(series.items(), start=first):
        edges = [(number(row["value"]), number(row["low"]), number(row["high"])) for row in rows]
        hover = f"<b>{safe(name)}</b> %{{x}}: %{{y:.4f}}<extra></extra>"
        categories = (str(row[label]) for row in rows)
        data.append(figures.bars(name, categories, edges, turn_colour(place), hover, width=2))
    frame = layout(None, x, y, small=True)
    frame["xaxis"] |= {"type": "category"}
    frame["yaxis"] |= {"rangemode": "tozero"}
    if len(data) <= 1:
        return plot(data, frame, (56, 10, 10, 60), barmode="group")
    names = {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"}
    return plot(data, frame, (56, 10, 34, 60), barmode="group", showlegend=True, legend=names)
