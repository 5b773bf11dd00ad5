"""Recovery attacks in a report of runs: what comes back by relearning, rounded weights or many samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from medunlearn.reports.attack_tables import known_differences, model_line, model_tables, pair_cell, present_models
from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Spec, Table, details, figures, section
from medunlearn.reports.content import Recovery, ReportContent
from medunlearn.reports.figures import layout, plot, short, whiskers
from medunlearn.reports.formatting import signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import gap_cell, records, value_cell

NOTES: Mapping[str, tuple[str, str]] = {
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
Row = Mapping[str, Any]


def recovery_sections(content: ReportContent) -> Iterator[Section]:
    """A section a kind of recovery attack that there was."""
    for part in content.recovery:
        shown = _section(content, part)
        if shown is not None:
            yield shown


def _section(content: ReportContent, part: Recovery) -> Section | None:
    tables = recovery_tables(content, part)
    if not tables:
        return None
    words = [f"{word.capitalize()}: {part.words[word]}." for word in part.words if word in _readings(part)]
    return section(
        part.title,
        Prose((*NOTES[part.kind], "Higher = gives away more. The change is by the attack, paired on questions.")),
        tables,
        Bullets((*words, *part.notes)) if words or part.notes else None,
        details("Differences between models, paired on questions", _differences(content, part)),
        figures(list(recovery_figures(content, part)), "By strength"),
        name=part.kind,
    )


def recovery_tables(content: ReportContent, part: Recovery) -> list[Table]:
    """A table an attack, side and measure: one row a strength, one column a model."""

    def value(row: Row) -> Cell:
        change, reading = number(row["change"]), row["reading"]
        words = ["" if change is None else f"change {signed(change)}", "" if pd.isna(reading) else str(reading)]
        return value_cell(row, ", ".join(word for word in words if word))

    groups = [(_title(content, part, key), list(rows_of(rows))) for key, rows in _groups(part.table)]
    return [
        table
        for title, rows in groups
        for table in model_tables(
            content, part.table, "Strength", [(title, rows)], lambda row: Cell(str(row["strength"])), value
        )
    ]


def recovery_figures(content: ReportContent, part: Recovery) -> Iterator[tuple[str, Spec]]:
    """Leakage of the forget set by strength, a plot a measure, one line a model with its intervals."""
    for key, rows in _groups(part.table):
        if key[1] != "forget":
            continue
        names, lines = list(dict.fromkeys(str(row["strength"]) for row in rows_of(rows))), []
        for model in present_models(content, rows):
            own = [row for row in rows_of(rows) if row["model"] == model.label]
            edges = whiskers((number(row["value"]), number(row["low"]), number(row["high"])) for row in own)
            x, y = [str(row["strength"]) for row in own], [short(row["value"]) for row in own]
            hover = "%{y:.3f}, %{x}<extra>%{fullData.name}</extra>"
            lines.append(model_line(content, model, hover, "lines+markers", x=x, y=y, error_y=edges))
        frame = layout(([-0.3, len(names) - 0.7], [-0.02, 1.02]), "strength", "", small=True)
        frame["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": names}
        yield _title(content, part, key), plot(lines, frame, (52, 10, 40, 44), showlegend=True)


def _groups(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    for (attack, side, measure), rows in table.groupby(["attack", "side", "measure"], sort=False):
        yield (str(attack), str(side), str(measure)), rows


def _title(content: ReportContent, part: Recovery, key: tuple[str, str, str]) -> str:
    attack, side, measure = key
    known = {name: title for name, (title, _) in {**content.metrics, **part.measures}.items()}
    on = attack.partition(".")[2].replace("_", " ")
    return f"{known.get(measure, measure)}, {side}" + (f", trained on {on}" if on else "")


def _readings(part: Recovery) -> set[str]:
    return set(part.table["reading"].dropna()) if len(part.table) else set()


def _differences(content: ReportContent, part: Recovery) -> Table | None:
    columns = (Cell("Models"), Cell("What"), Cell("Strength"), Cell("Difference", "95% interval"))
    rows = (
        (
            pair_cell(row),
            Cell(_title(content, part, (row["attack"], row["side"], row["measure"]))),
            Cell(str(row["strength"])),
            gap_cell(row),
        )
        for row in known_differences(part.comparisons)
    )
    return records(columns, rows)
