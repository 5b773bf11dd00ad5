"""What an audit leaves on disk, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from medunlearn.audit.summary import differences, paper_differences, paper_summary, summarize
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.results.runs import Run

if TYPE_CHECKING:
    from medunlearn.audit.parts import Besides

VERB = "audit"
PROBES, SCORES, SPANS, STARTS = "probes.parquet", "scores.parquet", "spans.parquet", "starts.parquet"
RESPONSES = "responses"
BASELINES = "baselines"
BASELINES_FILE = "baselines.json"

KEYS = [("probe_id", pa.string()), ("variant", pa.string()), ("sample", pa.int32())]
SCORES_SCHEMA = pa.schema([*KEYS, ("measure", pa.string()), ("value", pa.float64()), ("reason", pa.string())])
SPANS_SCHEMA = pa.schema(
    [
        *KEYS,
        ("length", pa.int32()),
        ("in_response", pa.int32()),
        ("in_suffix", pa.int32()),
        ("text", pa.string()),
    ]
)
STARTS_SCHEMA = pa.schema([*KEYS, ("response", pa.string()), ("suffix", pa.string())])


@dataclass(frozen=True)
class Audit:
    """One model (or its stored responses), audited, and the baselines that it is compared with.

    Attributes:
        run: the recorded result.
        baselines: audits of other models with the same settings.
        besides: what further steps found that were asked for with it; None where the audit was read from disk.
    """

    run: Run
    baselines: tuple[Audit, ...] = ()
    besides: Besides | None = None

    @staticmethod
    def open(folder: Path | str) -> Audit:
        """A complete audit.

        Raises:
            InputError: the folder holds none, or one that did not finish.
        """
        run = Run.open(folder)
        if run.info.get("verb") != VERB:
            raise InputError(f"{folder} holds a run of `{run.info.get('verb')}`, not of `audit`.")
        path = run.folder / BASELINES_FILE
        named = read_json(path)["folders"] if path.exists() else []
        found = [Audit.open(run.folder / one) for one in named]
        return Audit(run, tuple(_told_apart(run, one) for one in found))

    @property
    def label(self) -> str:
        """What tables and plots call the model."""
        return self.run.label

    @property
    def unit(self) -> str:
        """What texts are counted in: ``tokens of ...``, or ``words and punctuation marks``."""
        return str(self.run.info["results"]["unit"]["name"])

    @property
    def noun(self) -> str:
        """``tokens`` or ``words``: what lengths are called."""
        return str(self.run.info["results"]["unit"]["noun"])

    @cached_property
    def _probes(self) -> pd.DataFrame:
        return pd.read_parquet(self.run.folder / PROBES)

    def probes(self) -> pd.DataFrame:
        """One row a probe: probe_id, record_id, subject, corpus, prefix_tokens, prefix, suffix, suffix_tokens."""
        return self._probes.copy(deep=False)

    @cached_property
    def _scores(self) -> pd.DataFrame:
        return pd.read_parquet(self.run.folder / SCORES)

    def scores(self) -> pd.DataFrame:
        """One row a probe, variant, sample and measure: with value, or the reason why there is none."""
        return self._scores.copy(deep=False)

    def spans(self) -> pd.DataFrame:
        """One row a maximal run of at least 30 tokens, with its length, its places in both texts, and its text."""
        return pd.read_parquet(self.run.folder / SPANS)

    def starts(self) -> pd.DataFrame:
        """The texts of the first 100 tokens: probe_id, variant, sample, response, suffix."""
        return pd.read_parquet(self.run.folder / STARTS)

    def responses(self) -> pd.DataFrame:
        """One row a response: probe_id, variant, sample, response, response_tokens, finished."""
        folder = self.run.folder / RESPONSES
        names = ["probe_id", "variant", "sample", "response", "response_tokens", "finished"]
        if not folder.exists():
            return pd.DataFrame(columns=names)
        kept = ResponseStore(folder, ResponseStore.settings_of(folder)).read().values()
        rows = [(r.question_id, r.variant, r.sample, r.response, r.response_tokens, r.finished) for r in kept]
        return pd.DataFrame(rows, columns=names)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The audit's settings."""
        found: Mapping[str, Any] = self.run.info["config"]
        return found

    def summary(self) -> pd.DataFrame:
        """Means of this model with intervals over subjects (:func:`~.summary.summarize`)."""
        return summarize(
            self._scores, self._probes, replicates=self.settings["replicates"], seed=self.settings["seed"]
        ).assign(unit=self.noun)

    def table(self) -> pd.DataFrame:
        """One row a model, corpus, prefix length, variant and measure.

        ``value, low, high, n_scored, n_unscored, n_subjects`` as :func:`~.summary.summarize` gives them; of the
        audited model's rows with baselines, also ``baseline`` and ``difference, difference_low, difference_high, p,
        n_pairs``: the model minus that baseline on the probes of both, paired; with several baselines a row each.
        """
        own = self.summary().assign(model=self.label)
        if self.baselines:
            own = pd.concat(
                [
                    own.merge(
                        self.differences(one), how="left", on=["corpus", "prefix_tokens", "variant", "measure"]
                    )
                    for one in self.baselines
                ]
            )
        others = [one.summary().assign(model=one.label) for one in self.baselines]
        found = pd.concat([own, *others], ignore_index=True)
        front = ["model", "corpus", "prefix_tokens", "variant", "measure", "unit"]
        return found[[*front, *(name for name in found.columns if name not in front)]]

    def differences(self, baseline: Audit) -> pd.DataFrame:
        """This model minus a baseline, paired on probes, with intervals over subjects."""
        found = differences(
            (self._scores, self._probes),
            (baseline._scores, baseline._probes),
            replicates=self.settings["replicates"],
            seed=self.settings["seed"],
        )
        return found.assign(baseline=baseline.label)

    def paper_table(self) -> pd.DataFrame:
        """The paper's own statistics (:mod:`medunlearn.statistics.ranksum`, which says where they mislead).

        One row a model, corpus, prefix length, variant and measure: mean of 100 draws' means with their percentile
        interval; of the audited model's rows also the p-value against each baseline.
        """
        seed = self.settings["seed"]
        own = paper_summary(self._scores, self._probes, seed=seed).assign(model=self.label)
        if self.baselines:
            own = pd.concat(
                [
                    own.merge(
                        paper_differences(
                            (self._scores, self._probes), (one._scores, one._probes), seed=seed
                        ).assign(baseline=one.label),
                        how="left",
                        on=["corpus", "prefix_tokens", "variant", "measure"],
                    )
                    for one in self.baselines
                ]
            )
        others = [
            paper_summary(one._scores, one._probes, seed=seed).assign(model=one.label) for one in self.baselines
        ]
        return pd.concat([own, *others], ignore_index=True)


def _told_apart(run: Run, baseline: Audit) -> Audit:
    """The baseline under a label that is not the model's."""
    if baseline.label != run.label:
        return baseline
    label = f"{baseline.label} (baseline)"
    return replace(baseline, run=Run(baseline.run.folder, {**baseline.run.info, "label": label}))
