"""A recovery attack in a report of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.recovery.recovery_interface import GROUP, RecoveryInterface
from medunlearn.attacks.recovery.recovery_results import READINGS, shown
from medunlearn.reports.attack_tables import difference_table, model_tables, strength_figure
from medunlearn.reports.blocks import Bullets, Cell, Prose, Section, Spec, Table, details, figures, section
from medunlearn.reports.content import AttackPart, ReportContent
from medunlearn.reports.formatting import UNSCORED, decimal, signed
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.table_blocks import value_cell

Row = Mapping[str, Any]
READ_AS = "Higher = gives away more. The change is by the attack, paired on questions."


@dataclass(frozen=True)
class Recovery:
    """Results of one recovery attack, over all kinds of questions.

    Attributes:
        name, title: of the attack; ``title`` is its name in reports.
        table: model, role, attack, strength (the first is the unattacked model), side, fold, measure, value, low,
            high, change, reading.
        comparisons: model, against, attack, strength, side, fold, measure, difference, low, high, p.
        words: reading -> its basis.
        measures: measures specific to the attack: name -> (title, meaning).
        about: what was done, and how to read it.
        variant_words: words in front of a variant's name.
        notes: sentences on skipped or meaningless parts.
        more: further tables.
    """

    name: str
    title: str
    table: pd.DataFrame
    comparisons: pd.DataFrame
    words: Mapping[str, str]
    measures: Mapping[str, tuple[str, str]]
    about: tuple[str, ...] = ()
    variant_words: str = ""
    notes: tuple[str, ...] = ()
    more: tuple[Table, ...] = ()


def recovery_part(
    content: ReportContent, attack: type[RecoveryInterface], attacks: Attacks | None, notes: Sequence[str]
) -> AttackPart:
    """The part of a report; no readings for broken models or without a valid reference."""
    if attacks is None:
        return AttackPart(GROUP, _missing_section(attack, notes), {})
    own = gather_recovery(content, attack, attacks, notes)
    data = {own.name: {"table": own.table, "comparisons": own.comparisons, "notes": own.notes}}
    return AttackPart(
        GROUP, recovery_section(content, own), data, brings_back=True, outcomes=outcomes(content, own)
    )


def outcomes(content: ReportContent, part: Recovery) -> dict[str, Cell]:
    """Label of a model -> its worst reading, and the strongest state and measure that it stands on."""
    order, worst = list(part.words), dict[str, Row]()
    for row in rows_of(part.table):
        if pd.isna(row["reading"]):
            continue
        before = worst.get(row["model"])
        if before is None or order.index(row["reading"]) <= order.index(before["reading"]):
            worst[row["model"]] = row
    return {label: _outcome(content, part, row) for label, row in worst.items()}


def _outcome(content: ReportContent, part: Recovery, row: Row) -> Cell:
    value = number(row["value"])
    text = UNSCORED if value is None else decimal(value)
    return Cell(
        f"{part.title}: {row['reading']}", f"{row['strength']}: {_recovery_title(content, part, row)} {text}"
    )


def _missing_section(attack: type[RecoveryInterface], notes: Sequence[str]) -> Section | None:
    return section(attack.title, Bullets(tuple(notes)), name=attack.name) if notes else None


def gather_recovery(
    content: ReportContent, attack: type[RecoveryInterface], attacks: Attacks, notes: Sequence[str] = ()
) -> Recovery:
    """Tables of a recovery attack on the report's models."""
    table = shown(attacks.table())
    broken = [model.label for model in content.models if model.problems]
    table["reading"] = table["reading"].mask(table["model"].isin(broken))
    if content.reference is not None and not content.reference.passed:
        table = table.assign(reading=None)
    return Recovery(
        name=attack.name,
        title=attack.title,
        table=table,
        comparisons=shown(attacks.comparisons),
        words=READINGS,
        measures=attack.measures,
        about=attack.about or _plain_words(attack),
        variant_words=attack.variant_words,
        notes=(*(note for model in attacks.models for note in model.notes), *notes),
        more=tuple(attack.more_tables({model.run.label: model.facts for model in attacks.models})),
    )


def _plain_words(attack: type[RecoveryInterface]) -> tuple[str, ...]:
    """Words on an attack that has none of its own."""
    question = attack.question.rstrip(".?")
    return (
        f"The attack tells {question}. Strength: its states, from the model as it is ({attack.before}).",
        "The retrained model under the same attack is what forgetting should reach. What a model says beyond it "
        "was not forgotten.",
    )


def recovery_section(content: ReportContent, part: Recovery) -> Section | None:
    """Table of knowledge recovered by relearning, quantization or sampling; None without scores."""
    tables = recovery_tables(content, part)
    if not tables:
        return None
    readings = set(part.table["reading"].dropna())
    words = [f"{word.capitalize()}: {part.words[word]}." for word in part.words if word in readings]
    labels = [
        (Cell(_recovery_title(content, part, row)), Cell(str(row["strength"]))) for row in rows_of(part.comparisons)
    ]
    differences = difference_table(part.comparisons, ("What", "Strength"), labels)
    return section(
        part.title,
        Prose(
            (
                *part.about,
                READ_AS,
            )
        ),
        tables,
        Bullets((*words, *part.notes)) if words or part.notes else None,
        details("Differences between models, paired on questions", differences),
        figures(recovery_figures(content, part), "By strength"),
        details("One patient's answer", part.more),
        name=part.name,
    )


def recovery_tables(content: ReportContent, part: Recovery) -> list[Table]:
    """A table per attack, side and measure: one row per strength, one column per model."""

    def value(row: Row) -> Cell:
        change, reading = number(row["change"]), row["reading"]
        words = ["" if change is None else f"change {signed(change)}", "" if pd.isna(reading) else str(reading)]
        return value_cell(row, ", ".join(word for word in words if word))

    groups = [
        (
            _recovery_title(content, part, rows[0]),
            [(Cell(str(row["strength"])), row["model"], value(row)) for row in rows],
        )
        for rows in _by_measure(part)
    ]
    return model_tables(content, rows_of(part.table), "Strength", groups)


def recovery_figures(content: ReportContent, part: Recovery) -> list[tuple[str, Spec]]:
    """Leakage on the forget set by strength, a plot per measure, one line per model with intervals."""
    return [
        (
            _recovery_title(content, part, rows[0]),
            strength_figure(content, rows, [str(row["strength"]) for row in rows], "strength"),
        )
        for rows in _by_measure(part)
        if rows[0]["side"] == "forget"
    ]


def _by_measure(part: Recovery) -> list[list[Row]]:
    groups = part.table.groupby(["attack", "side", "measure"], sort=False) if len(part.table) else ()
    return [list(rows_of(rows)) for _, rows in groups]


def _recovery_title(content: ReportContent, part: Recovery, row: Row) -> str:
    titles = {name: title for name, (title, _) in {**content.metrics, **part.measures}.items()}
    on = str(row["attack"]).removeprefix(part.name).removeprefix(".").replace("_", " ")
    title = titles.get(row["measure"], row["measure"])
    return f"{title}, {row['side']}" + (f", {part.variant_words} {on}" if on else "")
