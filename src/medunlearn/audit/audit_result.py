"""An audit's results: means with intervals, differences from baselines, and the paper's own statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.audit.asking import titles_of
from medunlearn.audit.audit_tables import (
    PROBES,
    SPANS,
    STARTS,
    VERB,
    WAY,
    AuditTables,
    baseline_folders,
    cell_of,
    leaves_chat_template,
    read_tables,
    stored_responses,
)
from medunlearn.audit.probe_summary import differences, means, paper_differences, paper_summary
from medunlearn.audit.worst_cases import pseudonyms
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError
from medunlearn.results.runs import Run
from medunlearn.results.scores import read_scores

if TYPE_CHECKING:
    from medunlearn.audit.first_screen import FirstScreen
    from medunlearn.audit.identifiers.search import IdentifierSearch
    from medunlearn.audit.options.option_audit import OptionsAudit


@dataclass(frozen=True)
class StageResults:
    """Results of the optional stages; None if one was not asked for.

    Attributes:
        identifiers: with :attr:`~medunlearn.audit.identifiers.search.IdentifierSearch.table9` and the like.
        kinds: one row per shared run: kind, group (beneficial, uninformative, harmful), by.
        options: regenerated answer options, with ``table()``.
    """

    identifiers: IdentifierSearch | None = None
    kinds: pd.DataFrame | None = None
    options: OptionsAudit | None = None

    def against(self, others: Sequence[StageResults]) -> StageResults:
        """The same results, with options compared with the first baseline that has them."""
        other = next((result.options for result in others if result.options is not None), None)
        if self.options is None or other is None:
            return self
        return replace(self, options=replace(self.options, baseline=other))


@dataclass(frozen=True)
class Audit:
    """One audited model (or its stored responses) and the baselines that it is compared with.

    Attributes:
        run: the recorded result.
        baselines: audits of other models with the same settings.
        stages: results of optional stages; None if the audit was read from disk.
    """

    run: Run
    baselines: tuple[Audit, ...] = ()
    stages: StageResults | None = None

    @staticmethod
    def open(folder: Path | str) -> Audit:
        """A complete audit.

        Raises:
            InputError: the folder holds none, or one that did not finish.
        """
        run = Run.open(folder)
        if run.info.verb != VERB:
            raise InputError(f"{folder} holds a run of `{run.info.verb}`, not of `audit`.")
        baselines = [Audit.open(path) for path in baseline_folders(run.folder)]
        return Audit(run, tuple(baseline._distinct_from(run.label) for baseline in baselines))

    @property
    def label(self) -> str:
        """Model name in tables and plots."""
        return self.run.label

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of this model and of each baseline -> why it is broken; healthy models have no entry."""
        return {audit.label: audit.run.info.problems for audit in (self, *self.baselines)}

    @property
    def unused_chat_template(self) -> bool:
        """True if a tokenizer of these models has a chat template that the audit did not use."""
        return any(leaves_chat_template(audit.run.info.results) for audit in (self, *self.baselines))

    @property
    def unit(self) -> str:
        """Unit of lengths: ``tokens of ...``, or ``words and punctuation marks``."""
        return str(self.run.info.results["unit"]["name"])

    @property
    def noun(self) -> str:
        """Short unit of lengths: ``tokens`` or ``words``."""
        return str(self.run.info.results["unit"]["noun"])

    @property
    def settings(self) -> Mapping[str, Any]:
        """The audit's settings."""
        return self.run.info.config

    @cached_property
    def _scores(self) -> pd.DataFrame:
        return read_scores(self.run.folder)

    def _read(self, name: str) -> pd.DataFrame:
        return read_frame(self.run.folder / name)

    def probes(self) -> pd.DataFrame:
        """One row per probe: probe_id, record_id, subject, corpus, prefix_tokens, prefix, suffix, suffix_tokens."""
        return self._read(PROBES)

    def scores(self) -> pd.DataFrame:
        """The score table; an item is a probe. Labels: corpus, prefix_tokens, decoding, copies, sample.

        ``way`` too, where there are other ways of asking than the beginning of a text.
        """
        return self._scores.copy(deep=False)

    def spans(self) -> pd.DataFrame:
        """One row per maximal shared run of at least 30 tokens: length, positions in both texts, text."""
        return self._read(SPANS)

    def starts(self) -> pd.DataFrame:
        """Texts of the first 100 tokens: probe_id, variant, sample, response, suffix."""
        return self._read(STARTS)

    def responses(self) -> pd.DataFrame:
        """One row per response: probe_id, variant, sample, response, response_tokens, finished."""
        columns = ["question_id", "variant", "sample", "response", "response_tokens", "finished"]
        stored = stored_responses(self.run.folder).values()
        table = pd.DataFrame(
            [[getattr(response, name) for name in columns] for response in stored], columns=columns
        )
        return table.rename(columns={"question_id": "probe_id"})

    def summary(self) -> pd.DataFrame:
        """Means of this model with intervals over subjects (:func:`~.summary.means`)."""
        return means(self._scores, **self._draws).assign(unit=self.noun)

    def table(self) -> pd.DataFrame:
        """One row per model, corpus, prefix length, decoding, way of asking where there are several, and measure.

        ``value, low, high, n_scored, n_unscored, n_subjects`` as in :func:`~.summary.means`. With baselines,
        the audited model has a row per baseline, with ``baseline`` and ``difference, difference_low,
        difference_high, p, n_pairs``: model minus baseline, paired on the probes of both.
        """
        table = self._with_baselines(
            [audit.summary() for audit in (self, *self.baselines)],
            [self.differences(baseline) for baseline in self.baselines],
        )
        front = ["model", *self._row, "unit"]
        return table[[*front, *(name for name in table.columns if name not in front)]]

    def differences(self, baseline: Audit) -> pd.DataFrame:
        """This model minus a baseline, paired on probes, with intervals over subjects."""
        return differences(self._scores, baseline._scores, **self._draws).assign(baseline=baseline.label)

    def paper_table(self) -> pd.DataFrame:
        """The paper's own statistics (:mod:`medunlearn.statistics.two_sample`, which says where they mislead).

        One row per model, corpus, prefix length, decoding and measure: mean of 100 draws' means with their
        percentile interval; for the audited model also the p-value against each baseline.
        """
        seed = self.settings["seed"]
        return self._with_baselines(
            [paper_summary(audit._scores, seed=seed) for audit in (self, *self.baselines)],
            [
                paper_differences(self._scores, baseline._scores, seed=seed).assign(baseline=baseline.label)
                for baseline in self.baselines
            ],
        )

    @property
    def way_titles(self) -> dict[str, str]:
        """Way of asking -> its title; empty if texts were only continued from their beginnings."""
        ways = self._scores[WAY].unique().tolist() if WAY in self._scores.columns else []
        return titles_of(ways, dict(self.settings))

    def first_screen(self, show_text: int = 0) -> FirstScreen:
        """Extractable patients, leaked identifiers, searches that were not made, and the worst cases.

        Args:
            show_text: number of worst cases that include the text of prompt and response.
        """
        from medunlearn.audit.first_screen import first_screen

        tables, *others = self._tables
        return first_screen(tables, others, pseudonyms([tables]), show_text=show_text)

    def patients(self) -> dict[str, str]:
        """Pseudonym -> subject; pseudonyms are valid for this audit's first screen and reports only."""
        return {name: subject for subject, name in pseudonyms(self._tables[:1]).items()}

    @cached_property
    def _tables(self) -> list[AuditTables]:
        """The tables of this audit and of its baselines, by displayed label."""
        return [replace(read_tables(audit.run.folder), label=audit.label) for audit in (self, *self.baselines)]

    @property
    def _row(self) -> list[str]:
        return [*cell_of(self._scores), "measure"]

    @property
    def _draws(self) -> dict[str, int]:
        return {"replicates": self.settings["replicates"], "seed": self.settings["seed"]}

    def _with_baselines(self, summaries: list[pd.DataFrame], gaps: list[pd.DataFrame]) -> pd.DataFrame:
        """The model's rows joined to each of its differences, then the baselines' rows."""
        labels = [audit.label for audit in (self, *self.baselines)]
        model_rows, *others = (table.assign(model=label) for table, label in zip(summaries, labels, strict=True))
        if gaps:
            model_rows = pd.concat([model_rows.merge(gap, how="left", on=self._row) for gap in gaps])
        return pd.concat([model_rows, *others], ignore_index=True)

    def _distinct_from(self, label: str) -> Audit:
        return replace(self, run=self.run.relabelled(f"{label} (baseline)")) if self.label == label else self
