"""What a reconstruction attack leaves on disk, and how attacked models are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from medunlearn.attacks.reconstruction.results import ATTACK, compare_models
from medunlearn.results.runs import Run
from medunlearn.results.scores import read_scores

SUMMARY = "reconstruction_summary.parquet"
ATTACKS = "attacks"
RESPONSES = Path(ATTACKS) / "responses"


@dataclass(frozen=True)
class Reconstructed:
    """One model that was asked with ever more context.

    Attributes:
        run: the run whose model it is.
        record: the attack's own run, in a folder below it.
    """

    run: Run
    record: Run

    @staticmethod
    def find(run: Run, split: str) -> Reconstructed | None:
        """The complete attack on a split in a run's folder that was asked for last; None where there is none."""
        for record in reversed(run.complete_below(ATTACKS)):
            if record.info.split == split and (record.folder / SUMMARY).exists():
                return Reconstructed(run, record)
        return None

    @cached_property
    def scores(self) -> pd.DataFrame:
        """As :mod:`medunlearn.attacks.reconstruction` describes them."""
        table = read_scores(self.record.folder)
        return table[table["attack"] == ATTACK].reset_index(drop=True)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """As :mod:`medunlearn.attacks.reconstruction` describes it."""
        return pd.read_parquet(self.record.folder / SUMMARY)


@dataclass(frozen=True)
class Reconstructions:
    """Models that were asked the same: the one in question first, then those it is compared with."""

    models: tuple[Reconstructed, ...]
    replicates: int
    seed: int

    def table(self) -> pd.DataFrame:
        """The summaries of all models, with ``model`` and ``role``; empty without models."""
        tables = [one.summary.assign(model=one.run.label, role=one.run.role) for one in self.models]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences with intervals: model, against, and what ``compare_models`` gives.

        The first model against each other one, and every unlearned model against target and retrained ones.
        """
        tables = [
            compare_models(one.scores, other.scores, replicates=self.replicates, seed=self.seed).assign(
                model=one.run.label, against=other.run.label, against_role=other.run.role
            )
            for one, other in self._pairs()
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _pairs(self) -> Iterator[tuple[Reconstructed, Reconstructed]]:
        for place, one in enumerate(self.models):
            for other in self.models:
                anchored = one.run.role == "unlearned" and other.run.role != "unlearned"
                if other is not one and (place == 0 or anchored):
                    yield one, other
