"""Attacks in a report of runs: membership inference, reconstruction from identifiers, and recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Spec, Table, details, figures, section
from medunlearn.reports.content import ModelResult, Recovery, ReportContent
from medunlearn.reports.figures import colours, layout, line, plot, short, whiskers
from medunlearn.reports.formatting import signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import gap_cell, grid, records, value_cell

MEASURES = {
    "auc": "area under the ROC curve",
    "tpr_at_1pct_fpr": "true positives at 1% false positives",
    "tpr_at_0.1pct_fpr": "true positives at 0.1% false positives",
}
MEMBERSHIP_NOTES: tuple[str, ...] = (
    "An attack scores documents of the forget set and documents of the same kind that no model was trained on; "
    "higher = more likely a member. The area is how often a member outscores a non-member: 1 = every member is "
    "told, 0.5 = guessing.",
    "The retrained model never saw the forget set, so its area is what forgetting should reach. Over-forgotten: "
    "the area lies below it (without a retrained model: below 0.5), with the interval. That tells members as well "
    "as an area above does: they are the ones that the model avoids.",
)
RECONSTRUCTION_NOTES: tuple[str, ...] = (
    "The forget set's questions, asked again with ever more identifiers in front: the nearest level's name, then "
    "the next one's too. Higher = leaks more. The change is from the question with nothing in front, paired.",
    "The retrained model never saw these records: its answers are guesses. What a model leaks beyond it was not "
    "forgotten.",
)
RECOVERY_NOTES: Mapping[str, tuple[str, str]] = {
    "relearning": (
        "The model is fine-tuned for a few steps, in memory: on retained subjects' items, or on the items of half "
        "of the forgotten subjects and asked about the other half. Strength: steps done.",
        "The retrained model learns by the same steps what others' items teach. What a model says beyond it was "
        "not forgotten, but suppressed.",
    ),
    "quantization": (
        "The matrices of the decoder layers are rounded to 8 and to 4 bits. Strength: their type; none: as they "
        "are.",
        "Unlearning moves weights by little, and rounding may move them back. Rounding also damages: read the "
        "retain side beside the forget side.",
    ),
    "sampling": (
        "Each question is answered many times at random. ROUGE-L is that of the best of k samples, facts said "
        "those in any of them; extraction is the probability that one of them begins with the answer, token by "
        "token.",
        "Strength: the number of samples, k. The retrained model guesses more right with more samples, too.",
    ),
}
"""Kind -> what was done, and how to read it."""
_DASHES = {"target": "dot", "retrained": "dash", "unlearned": "solid"}
Row = Mapping[str, Any]


def membership_section(content: ReportContent) -> Section | None:
    """AUCs and rates by group of documents, differences, and ROC curves; None if no model was attacked."""
    tables = membership_tables(content)
    if not tables:
        return None
    reasons = _membership_reasons(content)
    return section(
        "Membership inference",
        Prose(MEMBERSHIP_NOTES),
        tables,
        Bullets(reasons) if reasons else None,
        details("Differences between models, paired on documents", _area_differences(content)),
        figures(roc_figures(content), "ROC curves"),
        name="membership",
    )


def membership_tables(content: ReportContent) -> list[Table]:
    """A table per group: one row per attack and measure, one column per model."""

    def attack(row: Row) -> Cell:
        measure = str(row["measure"])
        return Cell(_title(content, row["attack"]), MEASURES.get(measure, measure))

    def value(row: Row) -> Cell:
        return value_cell(row, "" if pd.isna(row["reading"]) else str(row["reading"]))

    table, tables = content.membership.table, []
    for group in table["group"].unique() if len(table) else ():
        rows = [row for row in rows_of(table) if row["group"] == group]
        rows.sort(key=lambda row: list(MEASURES).index(row["measure"]))
        documents = "Documents" if group == "all" else _group(group).capitalize()
        members, others = (max(int(row[name]) for row in rows) for name in ("n_members", "n_nonmembers"))
        title = f"{documents}: {members} members, {others} non-members"
        tables.append((title, rows))
    return _model_tables(content, rows_of(table), "Attack", tables, attack, value)


def _model_tables(
    content: ReportContent,
    models: Iterable[Row],
    head: str,
    parts: list[tuple[str, list[Row]]],
    name: Callable[[Row], Cell],
    value: Callable[[Row], Cell],
) -> list[Table]:
    labels = [model.label for model in _present_models(content, models)]
    grids = (grid(head, ((name(r), r["model"], value(r)) for r in rows), labels, title) for title, rows in parts)
    return [table for table in grids if table]


def _membership_reasons(content: ReportContent) -> tuple[str, ...]:
    """Distinct reasons of unscored numbers."""
    attacks: dict[str, dict[str, None]] = {}
    for row in rows_of(content.membership.table):
        if number(row["value"]) is None:
            attacks.setdefault(str(row["reason"]), {})[_title(content, row["attack"])] = None
    return tuple(f"Unscored, {', '.join(names)}: {reason}." for reason, names in attacks.items())


def _differences(
    comparisons: pd.DataFrame, names: tuple[str, str], cells: Callable[[Row], tuple[Cell, Cell]]
) -> Table | None:
    """Known differences of two models; ``cells`` gives the labels of a row."""
    columns = (Cell("Models"), *map(Cell, names), Cell("Difference", "95% interval"))
    rows = [row for row in rows_of(comparisons) if number(row["difference"]) is not None]
    return records(columns, ((_pair(row), *cells(row), gap_cell(row)) for row in rows))


def _area_differences(content: ReportContent) -> Table | None:
    columns = (Cell("Models"), Cell("Attack"), Cell("Difference of areas", "95% interval"), Cell("It lies"))
    rows = (
        (
            _pair(row),
            Cell(_title(content, row["attack"]), "" if row["group"] == "all" else _group(row["group"])),
            gap_cell(row),
            Cell(str(row["reading"] or "")),
        )
        for row in rows_of(content.membership.comparisons)
        if number(row["difference"]) is not None
    )
    return records(columns, rows)


def roc_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """A ROC plot per group and attack, one line per model, and the diagonal of guessing."""
    curves, plots = content.membership.curves, []
    frame = layout(([-0.01, 1.01], [-0.01, 1.01]), "false positive rate", "true positive rate", small=True)
    diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": {"color": "--line", "width": 1}}
    hover = "%{y:.3f} at %{x:.3f}<extra>%{fullData.name}</extra>"
    for (group, attack), part in curves.groupby(["group", "attack"], sort=False) if len(curves) else ():
        lines = []
        for model in _present_models(content, rows_of(part)):
            rows = part[part["model"] == model.label]
            x, y = ([short(float(rate)) for rate in rows[name]] for name in ("fpr", "tpr"))
            lines.append(_model_line(content, model, hover, "lines", x=x, y=y))
        title = _title(content, attack) + ("" if group == "all" else f", {_group(group)}")
        plots.append((title, plot(lines, frame, (52, 10, 40, 44), shapes=[diagonal], showlegend=True)))
    return plots


def reconstruction_section(content: ReportContent) -> Section | None:
    """Leakage by the identifiers in a question's prefix; None if no model was attacked."""
    table = content.reconstruction.table
    if table.empty:
        return None

    def value(row: Row) -> Cell:
        change = number(row["change"])
        return value_cell(row, "" if change is None else f"change {signed(change)}")

    parts = [
        (f"{kind} questions on {side}: {_measure_title(content, measure)}", list(rows_of(part)))
        for (side, _, kind, measure), part in table.groupby(["side", "fold", "kind", "measure"], sort=False)
    ]
    head = "Identifiers in front"
    differences = _differences(
        content.reconstruction.comparisons,
        ("Questions", head),
        lambda row: (Cell(str(row["kind"]), _measure_title(content, row["measure"])), _front(row)),
    )
    plots = [
        (title, _strength_figure(content, rows, lambda row: _front(row).text, head.lower(), "leakage", 64))
        for title, rows in parts
    ]
    return section(
        "Reconstruction",
        Prose(RECONSTRUCTION_NOTES),
        [table for part in parts for table in _model_tables(content, part[1], head, [part], _front, value)],
        details("Differences between models, paired on questions", differences),
        figures(plots, "Leakage by identifiers in front"),
    )


def recovery_section(content: ReportContent, part: Recovery) -> Section | None:
    """Table of knowledge recovered by relearning, quantization or sampling; None without scores."""
    tables = recovery_tables(content, part)
    if not tables:
        return None
    readings = set(part.table["reading"].dropna())
    words = [f"{word.capitalize()}: {part.words[word]}." for word in part.words if word in readings]
    differences = _differences(
        part.comparisons,
        ("What", "Strength"),
        lambda row: (Cell(_recovery_title(content, part, row)), Cell(str(row["strength"]))),
    )
    return section(
        part.title,
        Prose(
            (
                *RECOVERY_NOTES[part.kind],
                "Higher = gives away more. The change is by the attack, paired on questions.",
            )
        ),
        tables,
        Bullets((*words, *part.notes)) if words or part.notes else None,
        details("Differences between models, paired on questions", differences),
        figures(recovery_figures(content, part), "By strength"),
        name=part.kind,
    )


def recovery_tables(content: ReportContent, part: Recovery) -> list[Table]:
    """A table per attack, side and measure: one row per strength, one column per model."""

    def value(row: Row) -> Cell:
        change, reading = number(row["change"]), row["reading"]
        words = ["" if change is None else f"change {signed(change)}", "" if pd.isna(reading) else str(reading)]
        return value_cell(row, ", ".join(word for word in words if word))

    groups = [(_recovery_title(content, part, rows[0]), rows) for rows in _by_measure(part)]
    models = rows_of(part.table)
    return _model_tables(content, models, "Strength", groups, lambda row: Cell(str(row["strength"])), value)


def recovery_figures(content: ReportContent, part: Recovery) -> Iterator[tuple[str, Spec]]:
    """Leakage on the forget set by strength, a plot per measure, one line per model with intervals."""
    for rows in _by_measure(part):
        if rows[0]["side"] == "forget":
            figure = _strength_figure(content, rows, lambda row: str(row["strength"]), "strength")
            yield _recovery_title(content, part, rows[0]), figure


def _by_measure(part: Recovery) -> list[list[Row]]:
    groups = part.table.groupby(["attack", "side", "measure"], sort=False) if len(part.table) else ()
    return [list(rows_of(rows)) for _, rows in groups]


def _recovery_title(content: ReportContent, part: Recovery, row: Row) -> str:
    titles = {name: title for name, (title, _) in {**content.metrics, **part.measures}.items()}
    on = str(row["attack"]).partition(".")[2].replace("_", " ")
    title = titles.get(row["measure"], row["measure"])
    return f"{title}, {row['side']}" + (f", trained on {on}" if on else "")


def _strength_figure(
    content: ReportContent, rows: list[Row], name: Callable[[Row], str], x: str, y: str = "", bottom: int = 44
) -> Spec:
    """Leakage by attack strength, one line per model with its intervals; ``name`` gives the label of a row's
    strength.
    """
    names, lines = list(dict.fromkeys(map(name, rows))), []
    for model in _present_models(content, rows):
        own = [row for row in rows if row["model"] == model.label and number(row["value"]) is not None]
        edges = whiskers((number(row["value"]), number(row["low"]), number(row["high"])) for row in own)
        points = {"x": list(map(name, own)), "y": [short(row["value"]) for row in own], "error_y": edges}
        hover = "%{y:.3f}, %{x}<extra>%{fullData.name}</extra>"
        lines.append(_model_line(content, model, hover, "lines+markers", **points))
    # Gen Score is in percent, everything else from 0 to 1.
    most = 100.0 if any(value > 1 for trace in lines for value in trace["y"]) else 1.0
    frame = layout(([-0.3, len(names) - 0.7], [-0.02 * most, 1.02 * most]), x, y, small=True)
    frame["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": names}
    return plot(lines, frame, (52, 10, 40, bottom), showlegend=True)


def _model_line(content: ReportContent, model: ModelResult, hover: str, mode: str, **points: Any) -> Spec:
    colour = colours(content.models)[model.label]
    return line(model.label, colour, hover, mode=mode, dash=_DASHES[model.role], **points)


def _present_models(content: ReportContent, rows: Iterable[Row]) -> list[ModelResult]:
    labels = {row["model"] for row in rows}
    return [model for model in content.models if model.label in labels]


def _pair(row: Row) -> Cell:
    return Cell(str(row["model"]), f"− {row['against']}")


def _title(content: ReportContent, attack: Any) -> str:
    return str(content.membership.titles.get(attack, attack))


def _measure_title(content: ReportContent, metric: Any) -> str:
    return content.metrics[metric][0] if metric in content.metrics else str(metric)


def _group(group: Any) -> str:
    return str(group).replace("_", " ")


def _front(row: Row) -> Cell:
    """The identifiers in front of a question."""
    return Cell(str(row["identifiers"]) or "nothing")
