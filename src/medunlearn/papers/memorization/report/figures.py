"""Figures 1, 2, 3, 5 and 7 of the memorization paper, and one of copies, from one's own audits."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.papers.memorization.report.claims import LOSS, epoch_values, is_memorization, least_loss
from medunlearn.papers.memorization.report.content import EXACT, GREEDY, PRIMARY, AuditContent, Row
from medunlearn.papers.memorization.report.drawing import Point, bars, colour, epoch_panels, line, panels, point
from medunlearn.reports.figures import Spec

Titled = Iterator[tuple[str, Spec]]


def legend(content: AuditContent) -> tuple[tuple[str, str, str], ...]:
    """Label, symbol and CSS variable of each model; a baseline's symbol is hollow."""
    return tuple(
        (model.label, "○" if model.label in content.baselines else "●", colour(place))
        for place, model in enumerate(content.models)
    )


def figure_1(content: AuditContent) -> Titled:
    """Per corpus: the ratio of runs of 30 (left) and 50 (right) over prefix lengths, a line a model."""
    for corpus in content.corpora:
        groups: list[tuple[str, list[Spec]]] = [(measure.replace("_", " of "), []) for measure in EXACT]
        for measure, (_, lines) in zip(EXACT, groups, strict=True):
            for label, _, shade in legend(content):
                points = _points(content, label, corpus, measure)
                lines += line(label, points, shade, hollow=label in content.baselines)
        if any(lines for _, lines in groups):
            yield corpus, panels(groups, "prefix (tokens)", "ratio", content.prefixes, named=False)


def figure_2(content: AuditContent) -> Titled:
    """Per model and corpus with several decodings: their ratios at the shortest prefix, greedy first."""
    for place, model in enumerate(content.models):
        for corpus in content.corpora:
            rows = content.rows("ratios", model=model.label, corpus=corpus, measure=PRIMARY)
            shortest = min((row["prefix_tokens"] for row in rows if row["decoding"] != GREEDY), default=None)
            if shortest is not None:
                rows = [row for row in rows if row["prefix_tokens"] == shortest]
                rows.sort(key=lambda row: bool(row["decoding"] != GREEDY))
                title = f"{model.label} on {corpus}, prefix {shortest}"
                yield title, bars({"": rows}, "decoding", "decoding", "ratio", first=place)


def figure_3(content: AuditContent) -> Titled:
    """Per model and corpus: share of responses in which a run of 30 starts in a segment, a bar a prefix length."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in content.rows("positions", measure="ratio", at_least=30):
        series = groups.setdefault(f"{row['model']} on {row['corpus']}", {})
        segment = {**row, "tokens": f"{row['first']}-{row['last']}"}
        series.setdefault(f"prefix {row['prefix_tokens']}", []).append(segment)
    for title, series in groups.items():
        yield title, bars(series, "tokens", "tokens of the response", "ratio")


def figure_copies(content: AuditContent) -> Titled:
    """Per corpus: the ratio of runs of 30 by copies in the training text, a line a model and prefix length."""
    groups: dict[str, dict[tuple[str, int], list[Point]]] = {}
    for row in content.rows("duplication", measure=PRIMARY):
        series = groups.setdefault(row["corpus"], {})
        series.setdefault((row["model"], row["prefix_tokens"]), []).append(point(row, "copies"))
    for corpus, series in groups.items():
        models = list(dict.fromkeys(model for model, _ in series))
        lines: list[Spec] = []
        for place, ((model, prefix), points) in enumerate(series.items()):
            lines += line(f"{model}, prefix {prefix}", points, colour(models.index(model)), dash=place)
        ticks = sorted({int(copies) for points in series.values() for copies, *_ in points})
        if lines and len(ticks) > 1:
            yield corpus, panels([("run of 30", lines)], "copies", "ratio", ticks)


def figure_5(content: AuditContent) -> Titled:
    """Per pair and corpus: the ratio of runs of 50 before and after further fine-tuning, over prefix lengths."""
    for pair in dict.fromkeys((row["before"], row["after"]) for row in content.rows("persistence")):
        for corpus in content.corpora:
            lines: list[Spec] = []
            for place, label in enumerate(pair):
                points = _points(content, label, corpus, EXACT[1])
                lines += line(label, points, colour(place), dash=place)
            if lines:
                spec = panels([("run of 50", lines)], "prefix (tokens)", "ratio", content.prefixes)
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


def _points(content: AuditContent, model: str, corpus: str, measure: str) -> list[Point]:
    rows = (content.ratio(model, corpus, prefix, measure) for prefix in content.prefixes)
    return [point(row, "prefix_tokens") for row in rows if row is not None]
