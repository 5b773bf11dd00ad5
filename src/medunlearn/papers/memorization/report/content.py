"""The tables that a report of audits shows. The caller reads them from the audits' folders; nothing here does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.reports.claims import Evidence
from medunlearn.reports.readings import Reading, number, reading_of, rows_of

GREEDY = "greedy"
PRIMARY = "run_30"
EXACT = ("run_30", "run_50")
MATCHED = "matched tokens, runs of 30"
"""The measure of a trend over positions."""


@dataclass(frozen=True, slots=True)
class AuditedModel:
    """One audited model.

    Attributes:
        label: its name in the report; unique.
        unit: of lengths: ``tokens`` of its tokenizer, or ``words``.
        baselines: labels of the models that it is compared with.
        facts: the settings and results of its ``run.json`` as words.
    """

    label: str
    unit: str
    baselines: tuple[str, ...]
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A memorized span with its text; shown only where ``show_text``."""

    model: str
    corpus: str
    prefix_tokens: int
    length: int
    kind: str
    text: str


@dataclass(frozen=True)
class AuditContent:
    """Tables and facts of a report of audits; every table may be empty.

    Attributes:
        ratios: model, corpus, prefix_tokens, decoding, measure, value, low, high, n_scored, n_unscored, n_subjects,
            reason. Measures of runs are shares of probes, 0-1, higher = more memorized.
        differences: relation (``baseline``, ``size``, ``persistence``, ``decoding``), model, against, corpus,
            prefix_tokens, decoding, measure, difference, low, high, p, n_pairs, n_subjects.
        trends: factor, model, corpus, prefix_tokens, measure, levels, step, slope, low, high, p, n, n_left_out,
            n_subjects, reason.
        duplication: greedy ratios with copies: times that a record stood in the training text.
        positions: model, corpus, prefix_tokens, at_least, segment, first, last, measure, value, low, high, n,
            n_subjects, reason.
        persistence: before, after, by, at_least, corpus, prefix_tokens, measure, value, low, high, n, n_probes,
            n_subjects, reason.
        kinds: model, by, corpus, group, kind, title, n; kind is null for spans without one.
        agreement: model, first, second, of, measure, value, low, high, words, n, n_subjects, reason.
        identifiers: model, table, group, kind, n, n_records, n_subjects, per_record, low, high, example (masked).
        options, option_differences: by model, prompt and match.
        epochs: epoch, measure, value, low, high.
        clinical, datasets: corpora declared to be patients' records, and questions with answers.
        missing: (part of the report, how to get it).
        replicates: of the bootstrap.
    """

    title: str
    models: tuple[AuditedModel, ...]
    ratios: pd.DataFrame
    differences: pd.DataFrame
    trends: pd.DataFrame
    duplication: pd.DataFrame
    positions: pd.DataFrame
    persistence: pd.DataFrame
    kinds: pd.DataFrame
    agreement: pd.DataFrame
    identifiers: pd.DataFrame
    options: pd.DataFrame
    option_differences: pd.DataFrame
    epochs: pd.DataFrame
    clinical: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    examples: tuple[SpanExample, ...] = ()
    show_text: bool = False
    replicates: int = 1000

    @cached_property
    def _rows(self) -> dict[str, list[Mapping[str, Any]]]:
        return {}

    def rows(self, name: str, /, **labels: object) -> list[Mapping[str, Any]]:
        """Rows of one of the tables, those with the given labels."""
        if name not in self._rows:
            self._rows[name] = list(rows_of(getattr(self, name)))
        rows = self._rows[name]
        return [row for row in rows if all(row[label] == value for label, value in labels.items())]

    @cached_property
    def corpora(self) -> list[str]:
        """Every corpus, in the order of the audits."""
        return [str(name) for name in self.ratios["corpus"].drop_duplicates()]

    @cached_property
    def prefixes(self) -> list[int]:
        """Every prefix length, ascending."""
        return sorted({int(length) for length in self.ratios["prefix_tokens"]})

    @cached_property
    def _readings(self) -> dict[tuple[Any, ...], Reading]:
        names = ("model", "corpus", "prefix_tokens", "measure", "decoding")
        return {tuple(row[name] for name in names): reading_of(row) for row in self.rows("ratios")}

    def reading(self, model: str, corpus: str, prefix: int, measure: str, decoding: str = GREEDY) -> Reading | None:
        """One number; None where there is no such row."""
        return self._readings.get((model, corpus, prefix, measure, decoding))

    def models_of(self, corpus: str) -> list[AuditedModel]:
        """Models that were audited on a corpus."""
        known = {row["model"] for row in self.rows("ratios", corpus=corpus)}
        return [model for model in self.models if model.label in known]

    @cached_property
    def baselines(self) -> frozenset[str]:
        """Labels of models that others are compared with."""
        return frozenset(other for model in self.models for other in model.baselines)

    @cached_property
    def _gaps(self) -> dict[tuple[Any, ...], Mapping[str, Any]]:
        names = ("relation", "model", "against", "corpus", "prefix_tokens", "measure", "decoding")
        return {tuple(row[name] for name in names): row for row in self.rows("differences")}

    def gap(self, relation: str, model: str, against: str, *place: str | int) -> Evidence | None:
        """A paired difference at corpus, prefix length, measure and decoding; None where there is no such row."""
        decoding = () if len(place) > 3 else (GREEDY,)
        row = self._gaps.get((relation, model, against, *place, *decoding))
        return None if row is None else evidence_of("difference", row, "difference")

    def shown_examples(self) -> tuple[SpanExample, ...]:
        """The spans that may be shown: none unless ``show_text``."""
        return self.examples if self.show_text else ()


def evidence_of(name: str, row: Mapping[str, Any], column: str, minus: float = 0.0) -> Evidence:
    """A row's number, minus a threshold, with its interval."""
    value, low, high = (number(row[key]) for key in (column, "low", "high"))
    value, low, high = (None if edge is None else edge - minus for edge in (value, low, high))
    subjects = next((int(row[key]) for key in ("n_subjects", "n_questions") if key in row), None)
    reason = row.get("reason")
    return Evidence(name, value, low, high, subjects, reason if isinstance(reason, str) else "")
