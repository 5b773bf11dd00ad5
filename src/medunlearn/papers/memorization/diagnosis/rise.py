"""Tests whether memorization rises while the validation loss still falls, by paired comparison of epochs.

Source: Memorization in Large Language Models in Medicine, Section 4.3 and Figure 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.storage import read_frame
from medunlearn.metrics.verbatim import RUN_LENGTHS
from medunlearn.papers.memorization.diagnosis.measures import LOSSES
from medunlearn.papers.memorization.diagnosis.memorization import PROBES
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import (
    FAILS,
    HOLDS,
    NOT_MEASURABLE,
    OPEN,
    Case,
    Evidence,
    Finding,
    Verdict,
)
from medunlearn.reports.formatting import signed
from medunlearn.results.runs import Run
from medunlearn.statistics import Estimate, paired_difference, resample_pairs
from medunlearn.statistics.bootstrap import ratio
from medunlearn.statistics.intervals import MIN_SUBJECTS

_EVIDENCE = {"loss": "validation loss", "trained": "memorized, training", "held_out": "memorized, held out"}


@dataclass(frozen=True)
class Rise:
    """Change from the model before training to the epoch of the lowest validation loss.

    Attributes:
        tokens: length of the run that counts as memorized.
        first, last: the two epochs.
        loss: change of the validation loss, in nats per token; below 0: it fell.
        trained: change of the share of memorized training records; above 0: it rose.
        held_out: the same on held-out records, where a rise is due to wording shared by records. None without such
            records.
    """

    tokens: int
    first: int
    last: int
    loss: Estimate
    trained: Estimate
    held_out: Estimate | None

    @property
    def verdict(self) -> Verdict:
        """The verdict by the rule of ``diagnosis.yaml``."""
        loss, trained = self.loss, self.trained
        if loss.low is None or loss.high is None or trained.low is None or trained.high is None:
            return NOT_MEASURABLE
        if min(loss.n_clusters, trained.n_clusters) < MIN_SUBJECTS:
            return NOT_MEASURABLE
        if loss.high < 0 < trained.low:
            return HOLDS if self._beyond_held_out(trained.low) else OPEN
        return FAILS if loss.low > 0 or trained.high <= 0 else OPEN

    def _beyond_held_out(self, low: float) -> bool:
        """True if the rise on training records exceeds that on held-out ones, unpaired."""
        high = None if self.held_out is None else self.held_out.high
        return high is not None and low > high

    def facts(self) -> dict[str, Any]:
        names = ("tokens", "first", "last", "verdict")
        gaps = {name: getattr(self, name) for name in ("loss", "trained", "held_out")}
        return {name: getattr(self, name) for name in names} | {
            name: None
            if gap is None
            else {
                "difference": gap.value,
                "n_pairs": gap.n,
                **{of: getattr(gap, of) for of in ("low", "high", "p", "n_clusters", "replicates_dropped")},
            }
            for name, gap in gaps.items()
        }


def rises(run: Run, *, replicates: int, seed: int) -> list[Rise]:
    """One rise for each run length; empty unless the run measured both."""
    epochs = run.info["results"].get("epochs")
    if not epochs or epochs["best"] is None:
        return []
    last = int(epochs["best"])
    paths = [[run.epoch(epoch).folder / name for epoch in (0, last)] for name in (LOSSES, PROBES)]
    if not all(path.exists() for pair in paths for path in pair):
        return []
    losses, (before, after) = ([read_frame(path) for path in pair] for pair in paths)
    draws = {"replicates": replicates, "seed": seed}
    loss = _loss(losses[0], losses[1], draws)
    changes = {
        n: [_change(before, after, fold, f"run_{n}", draws) for fold in ("train", "holdout")] for n in RUN_LENGTHS
    }
    return [
        Rise(tokens, 0, last, loss, trained, held_out) for tokens, (trained, held_out) in changes.items() if trained
    ]


def _loss(before: pd.DataFrame, after: pd.DataFrame, draws: Mapping[str, int]) -> Estimate:
    matched = after.merge(before[["key", "nll"]], on="key", suffixes=("", "_before"))
    ours, theirs = (matched[[name, "tokens"]].to_numpy(dtype=float) for name in ("nll", "nll_before"))
    return resample_pairs(ours, theirs, matched["subject"].tolist(), **draws).difference([0, 1], ratio)


def _change(
    before: pd.DataFrame, after: pd.DataFrame, fold: str, column: str, draws: Mapping[str, int]
) -> Estimate | None:
    of_fold = after[after["fold"] == fold]
    matched = of_fold.merge(before[["probe_id", column]], on="probe_id", suffixes=("", "_before"))
    if not len(matched):
        return None
    ours, theirs = (matched[name].to_numpy(dtype=float, na_value=np.nan) for name in (column, f"{column}_before"))
    return paired_difference(ours, theirs, matched["subject"].tolist(), **draws)


def rise_finding(rise: Iterable[Mapping[str, Any]]) -> Finding | None:
    """The claim with a case per run length, from :meth:`Rise.facts`; None if not measured."""
    cases = []
    for facts in rise:
        gaps = {words: facts[name] for name, words in _EVIDENCE.items() if facts[name]}
        evidence = (
            Evidence(words, gap["difference"], gap["low"], gap["high"], gap["n_clusters"])
            for words, gap in gaps.items()
        )
        loss, trained = (facts[name]["difference"] for name in ("loss", "trained"))
        says = "unscored" if None in (loss, trained) else f"loss {signed(loss)}, memorized {signed(trained)}"
        labels = {"run": f"{facts['tokens']} tokens", "epochs": f"{facts['first']} to {facts['last']}"}
        cases.append(Case(labels, facts["verdict"], says, tuple(evidence)))
    return Finding(**paper_yaml("memorization", "diagnosis")["rise"], cases=tuple(cases)) if cases else None
