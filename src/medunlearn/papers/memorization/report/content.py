"""What an audit report is made of. The caller gathers it from audits' folders; nothing here reads a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.papers.amnesia.report.content import Contrast
from medunlearn.reports.readings import Reading, number, reading_of, rows_of
from medunlearn.reports.verdicts import FEWEST_SUBJECTS

GREEDY = "greedy"
PRIMARY = "run_30"
EXACT = ("run_30", "run_50")


@dataclass(frozen=True, slots=True)
class Audited:
    """One audited model.

    Attributes:
        label: its name in the report; unique.
        unit: what is counted: ``tokens`` of its tokenizer, or ``words``.
        baselines: labels of the models that it is held against.
        facts: what ``run.json`` says of it, as words.
    """

    label: str
    unit: str
    baselines: tuple[str, ...]
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A memorized span for who may see it; used only where ``show_text``."""

    model: str
    corpus: str
    prefix_tokens: int
    length: int
    kind: str
    text: str


@dataclass(frozen=True)
class AuditContent:
    """Everything that an audit report shows; every table may be empty.

    Attributes:
        title: of the page.
        models: the audited models, in the order that they were given.
        ratios: model, corpus, prefix_tokens, decoding, measure, value, low, high, n_scored, n_unscored, n_subjects,
            reason. Measures of runs are shares of probes, 0-1, higher = more memorized.
        differences: relation (``baseline``, ``size``, ``persistence``, ``decoding``), model, against, corpus,
            prefix_tokens, decoding, measure, difference, low, high, p, n_pairs, n_subjects.
        trends: factor, model, corpus, prefix_tokens, measure, levels, step, slope, low, high, p, n, n_left_out,
            n_subjects, reason.
        duplication: model, corpus, prefix_tokens, copies, measure, value, low, high, n_scored, n_unscored,
            n_subjects; greedy, where it is known how often a record stood in the training text.
        positions: model, corpus, prefix_tokens, at_least, segment, first, last, measure, value, low, high, n,
            n_subjects, reason.
        persistence: before, after, by, at_least, corpus, prefix_tokens, measure, value, low, high, n, n_probes,
            n_subjects, reason.
        kinds: model, by, corpus, group, kind, title, n, share; kind is null for spans without one.
        agreement: model, first, second, of, measure, value, low, high, words, n, n_subjects, reason.
        identifiers: model, table, group, kind, n, n_records, n_subjects, per_record, low, high, example (masked).
        options, option_differences: by model, prompt and match.
        epochs: epoch, measure, value, low, high.
        measures: a measure's name -> title, and meaning with range and direction.
        clinical, datasets: corpora that were declared so.
        caveats: sentences for the top of the page.
        missing: what was not measured, and how it can be.
        examples: used only where ``show_text``.
        replicates: of the bootstrap.
    """

    title: str
    models: tuple[Audited, ...]
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
    measures: Mapping[str, tuple[str, str]]
    clinical: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    examples: tuple[Shown, ...] = ()
    show_text: bool = False
    replicates: int = 1000

    @cached_property
    def _rows(self) -> dict[str, list[Mapping[str, Any]]]:
        return {}

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """The rows of one of the tables as mappings, made once: figures, tables and findings all read them."""
        if table not in self._rows:
            self._rows[table] = list(rows_of(getattr(self, table)))
        return self._rows[table]

    @cached_property
    def corpora(self) -> list[str]:
        """Every corpus, in the order of the audits."""
        return [str(name) for name in self.ratios["corpus"].drop_duplicates()]

    @cached_property
    def prefixes(self) -> list[int]:
        """Every prefix length, ascending."""
        return sorted({int(length) for length in self.ratios["prefix_tokens"]})

    @cached_property
    def _readings(self) -> dict[tuple[str, str, int, str, str], Reading]:
        return {
            (row["model"], row["corpus"], int(row["prefix_tokens"]), row["decoding"], row["measure"]): reading_of(
                row
            )
            for row in self.rows("ratios")
        }

    def reading(self, model: str, corpus: str, prefix: int, measure: str, decoding: str = GREEDY) -> Reading | None:
        """One number; None where there is no such row."""
        return self._readings.get((model, corpus, prefix, decoding, measure))

    def models_of(self, corpus: str) -> list[Audited]:
        """The models that were asked about a corpus."""
        known = {row["model"] for row in self.rows("ratios") if row["corpus"] == corpus}
        return [model for model in self.models if model.label in known]

    @cached_property
    def _gaps(self) -> dict[tuple[str, str, str, str, int, str, str], Mapping[str, Any]]:
        names = ("relation", "model", "against", "corpus", "prefix_tokens", "decoding", "measure")
        return {tuple(row[name] for name in names): row for row in self.rows("differences")}

    def gap(
        self,
        relation: str,
        model: str,
        against: str,
        corpus: str,
        prefix: int,
        measure: str,
        decoding: str = GREEDY,
    ) -> Contrast | None:
        """A paired difference; None where there is no such row."""
        row = self._gaps.get((relation, model, against, corpus, prefix, decoding, measure))
        return None if row is None else contrast_of(row, "difference")

    def shown_examples(self) -> tuple[Shown, ...]:
        """The spans that may be shown: none unless ``show_text``."""
        return self.examples if self.show_text else ()


def contrast_of(row: Mapping[str, Any], value: str, minus: float = 0.0) -> Contrast:
    """A row's number with its interval, to decide by; without one where fewer than five subjects are behind it.

    Args:
        value: the number's column.
        minus: a threshold that is taken off.
    """
    subjects = next((int(row[name]) for name in ("n_subjects", "n_questions") if name in row), 0)
    found, low, high = (number(row[name]) for name in (value, "low", "high"))
    moved = [None if one is None else one - minus for one in (found, low, high)]
    if subjects < FEWEST_SUBJECTS and found is not None:
        return Contrast(moved[0], None, None, subjects, f"{subjects} subjects alone")
    reason = row.get("reason")
    return Contrast(moved[0], moved[1], moved[2], subjects, reason if isinstance(reason, str) else "")
