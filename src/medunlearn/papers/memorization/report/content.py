"""Content of a report of audits: its tables by name, its models and its remarks. Reads no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import pandas as pd

from medunlearn.audit import position
from medunlearn.audit.audit_tables import CELL
from medunlearn.audit.first_screen import FirstScreen
from medunlearn.data.data_use import UNKNOWN
from medunlearn.data.origins import Provenance
from medunlearn.models.health import banner
from medunlearn.reports.claims import Evidence
from medunlearn.reports.readings import number, rows_of

Row = Mapping[str, Any]
Point = tuple[float, float | None, float | None, float | None]
"""Place on the axis, value, low, high."""

GREEDY = "greedy"
PRIMARY = "run_30"
EXACT = ("run_30", "run_50")
LOSS = "validation loss"
MATCHED = "matched tokens, runs of 30"
"""The measure of a trend over positions."""

ACCURACY = "accuracy.parquet"
"""File of the top-k accuracies of `audit diagnosis`."""

_PLACE = itemgetter("model", "corpus", "prefix_tokens", "measure", "decoding")
"""Labels that name a mean."""
_NUMBERS = ("value", "low", "high", "n_scored", "n_unscored", "n_subjects")
_GAP = ("difference", "low", "high", "p", "n_pairs")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "ratios": ("model", *CELL, "measure", *_NUMBERS, "reason"),
    "differences": ("relation", "model", "against", *CELL, "measure", *_GAP, "n_subjects"),
    "trends": (
        *("factor", "model", "corpus", "prefix_tokens", "measure", "levels", "step"),
        *("slope", "low", "high", "p", "n", "n_left_out", "n_subjects", "reason"),
    ),
    "beyond": (
        *("factor", "model", "against", "after", "corpus", "prefix_tokens"),
        *("value", "low", "high", "n_subjects", "reason"),
    ),
    "duplication": ("model", "corpus", "prefix_tokens", "copies", "measure", *_NUMBERS),
    "positions": ("model", "corpus", "prefix_tokens", "at_least", *position.COLUMNS),
    "persistence": (
        *("before", "after", "by", "at_least", "corpus", "prefix_tokens", "measure"),
        *("value", "low", "high", "n", "n_probes", "n_subjects", "reason"),
    ),
    "kinds": ("model", "by", "corpus", "group", "kind", "title", "n"),
    "agreement": (
        *("first", "second", "of", "measure", "value", "low", "high"),
        *("words", "n", "n_subjects", "reason", "model"),
    ),
    "identifiers": (
        *("model", "table", "group", "kind", "n", "n_records", "n_subjects"),
        *("per_record", "low", "high", "example"),
    ),
    "options": ("model", "prompt", "match", *_NUMBERS[:-1], "n_questions", "reason"),
    "option_differences": ("model", "against", "prompt", "match", *_GAP, "n_questions"),
    "answers": ("model", "prompt", "measure", "group", "value", "low", "high", "n", "n_unscored"),
    "near": ("model", "corpus", "prefix_tokens", "measure", "least", "n_near", "n_run", "n", "n_subjects"),
    "accuracy": ("model", "specialty", "k", "value", "low", "high", "n", "n_subjects", "n_unread"),
    "epochs": ("epoch", "measure", "value", "low", "high"),
}
"""Tables of a report and their columns. Measures of runs are shares of probes, 0-1, higher = more memorized; a
relation is ``baseline``, ``size``, ``persistence`` or ``decoding``; a kind is null for spans without one. The
groups of ``answers`` are ``all``, ``member``, ``non-member`` and the difference of the last two."""


def stacked(name: str, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The parts of a table concatenated, with NaN for missing numbers; empty ones are skipped."""
    filled = [part for part in parts if len(part)]
    columns = list(COLUMNS[name])
    table = pd.concat(filled, ignore_index=True)[columns] if filled else pd.DataFrame(columns=columns)
    return table.astype(dict.fromkeys(table.select_dtypes("Float64"), "float64"))


def prefix_words(length: object) -> str:
    """A prefix length in words; 0 stands for stored responses whose prefixes differ in length."""
    value = number(length)
    if value is None:
        return "all prefixes"
    return f"prefix {value:.0f}" if value else "mixed prefixes"


@dataclass(frozen=True, slots=True)
class AuditedModel:
    """One audited model.

    Attributes:
        label: its name in the report; unique.
        unit: unit of lengths: ``tokens`` of its tokenizer, or ``words``.
        baselines: labels of the models that it is compared with.
        unseen: corpora that it never saw.
        trained: corpora that it was trained on, where declared.
        facts: settings and results of its ``run.json`` in words.
        problems: why it is broken; a broken model gets no verdict.
    """

    label: str
    unit: str
    baselines: tuple[str, ...]
    facts: Mapping[str, str]
    problems: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditContent:
    """Tables and facts of a report of audits.

    Attributes:
        tables: every table of :data:`COLUMNS`; each may be empty.
        data_use: data use of all audits together, in words.
        clinical, datasets: corpora declared to be patients' records, and questions with answers.
        missing: (part of the report, how to get it).
        searches: stage (``identifiers``, ``kinds``, ``options``) -> labels of the models for which it was run.
        screens: first screen of each audited model that is not a baseline of another.
        examples: memorized spans with their text: model, corpus, prefix_tokens, length, kind, text.
        near_examples: texts that are nearly repeated: model, corpus, prefix_tokens, measure, value, original,
            generated.
        replicates: bootstrap replicates.
        provenance: language models that sorted memorized spans.
    """

    title: str
    models: tuple[AuditedModel, ...]
    tables: Mapping[str, pd.DataFrame]
    data_use: str = UNKNOWN
    clinical: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    searches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    screens: tuple[FirstScreen, ...] = ()
    examples: tuple[Row, ...] = ()
    near_examples: tuple[Row, ...] = ()
    show_text: bool = False
    replicates: int = 1000
    provenance: tuple[Provenance, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """Warnings about broken models; also the first caveats."""
        return banner(self.problems)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of each broken model -> why."""
        return {model.label: model.problems for model in self.models if model.problems}

    def rows(self, name: str, /, **labels: object) -> list[Row]:
        """Rows of a table that have the given labels."""
        return [row for row in self._rows[name] if all(row[label] == value for label, value in labels.items())]

    def ratio(self, model: str, corpus: str, prefix: int, measure: str) -> Row | None:
        """The greedy mean of a measure."""
        return self._ratios.get((model, corpus, prefix, measure, GREEDY))

    def gap(self, relation: str, against: str, row: Row) -> Evidence | None:
        """The paired difference of a mean from that of another model or decoding."""
        gap = self._gaps.get((relation, against, *_PLACE(row)))
        return None if gap is None else evidence_of("difference", gap, "difference")

    @cached_property
    def _rows(self) -> dict[str, list[Row]]:
        return {name: list(rows_of(table)) for name, table in self.tables.items()}

    @cached_property
    def _ratios(self) -> dict[tuple[Any, ...], Row]:
        return {_PLACE(row): row for row in self._rows["ratios"]}

    @cached_property
    def _gaps(self) -> dict[tuple[Any, ...], Row]:
        return {(row["relation"], row["against"], *_PLACE(row)): row for row in self._rows["differences"]}

    @cached_property
    def corpora(self) -> list[str]:
        """Every corpus, in order of the audits."""
        return [str(name) for name in self.tables["ratios"]["corpus"].drop_duplicates()]

    @cached_property
    def prefixes(self) -> list[int]:
        """Every prefix length, ascending."""
        return sorted({int(length) for length in self.tables["ratios"]["prefix_tokens"]})

    @cached_property
    def baselines(self) -> frozenset[str]:
        """Labels of models that others are compared with."""
        return frozenset(other for model in self.models for other in model.baselines)

    def tells_of_training(self, row: Row) -> bool:
        """False for a row of texts that its model never saw, or that the baseline was trained on, too.

        Rows without a corpus are of the questions of ``datasets``.
        """
        models = {model.label: model for model in self.models}
        corpora = {row["corpus"]} if "corpus" in row else set(self.datasets)
        model, against = (models.get(row.get(name, "")) for name in ("model", "against"))
        if model is not None and corpora and corpora <= {*model.unseen}:
            return False
        is_baseline = row.get("relation", "baseline") == "baseline"
        return not (is_baseline and against is not None and corpora & {*against.trained})

    def shown_examples(self) -> tuple[Row, ...]:
        """The spans to show: none unless ``show_text``."""
        return self.examples if self.show_text else ()


def evidence_of(name: str, row: Row, column: str, minus: float = 0.0) -> Evidence:
    """A row's number, minus a threshold, with its interval."""
    value, low, high = (number(row[key]) for key in (column, "low", "high"))
    value, low, high = (None if edge is None else edge - minus for edge in (value, low, high))
    subjects = next((int(row[key]) for key in ("n_subjects", "n_questions") if key in row), None)
    reason = row.get("reason")
    return Evidence(name, value, low, high, subjects, reason if isinstance(reason, str) else "")


def point(row: Row, at: str) -> Point:
    """A row's value and interval at the x position in a column."""
    return (float(row[at]), number(row["value"]), number(row["low"]), number(row["high"]))


def epoch_values(content: AuditContent) -> dict[str, list[Point]]:
    """Measure -> epoch, value, low, high, by epoch; epochs without a value are dropped."""
    lines: dict[str, list[Point]] = {}
    for row in content.rows("epochs"):
        if number(row["value"]) is not None:
            lines.setdefault(row["measure"], []).append(point(row, "epoch"))
    return {measure: sorted(line, key=lambda at: at[0]) for measure, line in lines.items()}


def is_memorization(measure: str) -> bool:
    """True if a measure of the table of epochs is a memorization measure."""
    return measure.startswith(("run ", "memorization", "longest run", "extraction"))


def least_loss(content: AuditContent) -> int | None:
    """The epoch with the lowest validation loss; the first on ties."""
    losses = {epoch: value for epoch, value, *_ in epoch_values(content).get(LOSS, ()) if value is not None}
    return int(min(losses, key=lambda epoch: losses[epoch])) if losses else None
