"""Does memorization rise while the validation loss still falls? From what each epoch left, in pairs.

Source: Memorization in Large Language Models in Medicine, Section 4.3 and Figure 7.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.verbatim import RUN_LENGTHS
from medunlearn.papers.memorization.diagnosis.memorization import PROBES
from medunlearn.papers.memorization.diagnosis.validation import LOSSES
from medunlearn.reports.claims import FAILS, FEWEST_SUBJECTS, HOLDS, NOT_MEASURABLE, OPEN, Verdict
from medunlearn.results.runs import Run
from medunlearn.statistics import Difference, paired_difference, resample_pairs


@dataclass(frozen=True)
class Rise:
    """What changes from the model before training to the epoch of the least validation loss.

    Attributes:
        tokens: length of the run that counts as memorized.
        first, last: the two epochs.
        loss: change of the validation loss, in nats a token; below 0: it fell.
        trained: change of the share of training records that are memorized; above 0: it rose.
        held_out: the same on records that no model is trained on, where memorization cannot be; what rises there is
            wording that records share. None without such records.
    """

    tokens: int
    first: int
    last: int
    loss: Difference
    trained: Difference
    held_out: Difference | None

    @property
    def verdict(self) -> Verdict:
        """``holds`` where both intervals leave 0 out on the side that the paper says.

        ``does not hold`` where an interval lies on the other side, or nothing was memorized at all.
        """
        loss, trained = self.loss, self.trained
        if loss.low is None or loss.high is None or trained.low is None or trained.high is None:
            return NOT_MEASURABLE
        if min(loss.n_clusters, trained.n_clusters) < FEWEST_SUBJECTS:
            return NOT_MEASURABLE
        if loss.high < 0 < trained.low:
            return HOLDS
        if loss.low > 0 or trained.high <= 0:
            return FAILS
        return OPEN

    def facts(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def rises(run: Run, *, replicates: int, seed: int) -> list[Rise]:
    """One for each length of a run; none where the run was not watched for both."""
    told = run.info["results"].get("epochs")
    if not told or told["best"] is None:
        return []
    first, last = 0, int(told["best"])
    tables = {
        (epoch, name): path
        for epoch in (first, last)
        for name in (LOSSES, PROBES)
        if (path := run.epoch(epoch).folder / name).exists()
    }
    if len(tables) < 4:
        return []
    (loss_before, probes_before), (loss_after, probes_after) = (
        tuple(pd.read_parquet(tables[epoch, name]) for name in (LOSSES, PROBES)) for epoch in (first, last)
    )
    loss = _loss(loss_after, loss_before, replicates, seed)
    found = []
    for tokens in RUN_LENGTHS:
        changes = {
            fold: _change(probes_after, probes_before, fold, tokens, replicates, seed)
            for fold in ("train", "holdout")
        }
        trained = changes["train"]
        if trained is not None:
            found.append(Rise(tokens, first, last, loss, trained, changes["holdout"]))
    return found


def _loss(after: pd.DataFrame, before: pd.DataFrame, replicates: int, seed: int) -> Difference:
    matched = after.merge(before[["key", "nll"]], on="key", suffixes=("", "_before"))
    tokens = matched["tokens"].to_numpy(dtype=float)
    pairs = resample_pairs(
        np.column_stack([matched["nll"].to_numpy(dtype=float), tokens]),
        np.column_stack([matched["nll_before"].to_numpy(dtype=float), tokens]),
        matched["subject"].tolist(),
        replicates=replicates,
        seed=seed,
    )
    return pairs.difference([0, 1], lambda means: means[..., 0] / means[..., 1])


def _change(
    after: pd.DataFrame, before: pd.DataFrame, fold: str, tokens: int, replicates: int, seed: int
) -> Difference | None:
    column = f"run_{tokens}"
    matched = after[after["fold"] == fold].merge(
        before[["probe_id", column]], on="probe_id", suffixes=("", "_before")
    )
    if not len(matched):
        return None
    return paired_difference(
        matched[column].to_numpy(dtype=float, na_value=np.nan),
        matched[f"{column}_before"].to_numpy(dtype=float, na_value=np.nan),
        matched["subject"].tolist(),
        replicates=replicates,
        seed=seed,
    )
