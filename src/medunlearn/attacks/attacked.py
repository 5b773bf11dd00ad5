"""What attacks leave on disk, and how attacked models are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.attacks.membership.results import ABOVE, AUC, BELOW, MEASURE, compare, privacy_leaks
from medunlearn.attacks.reconstruction.attacked import SUMMARY as RECONSTRUCTION
from medunlearn.attacks.reconstruction.attacked import Reconstructed, Reconstructions
from medunlearn.results.runs import Run
from medunlearn.results.scores import read_scores

FOLDER = "attacks"
SUMMARY = "membership_summary.parquet"
CURVES = "membership_curves.parquet"

OVER_FORGOTTEN, LEAKS, NOT_TOLD_APART = "over-forgotten", "still leaks", "not told apart"


@dataclass(frozen=True)
class Attacked:
    """One model, attacked on one split.

    Attributes:
        run: the run whose model it is.
        record: the attack's own run, in a folder below it.
    """

    run: Run
    record: Run

    @staticmethod
    def find(run: Run, split: str) -> Attacked | None:
        """The complete attack on membership on a split that was asked for last; None where there is none."""
        matching = [one for one in run.complete_below(FOLDER) if one.info.split == split]
        found = [one for one in matching if (one.folder / SUMMARY).exists()]
        return Attacked(run, found[-1]) if found else None

    @property
    def tells_members(self) -> bool:
        """Whether membership was attacked."""
        return (self.record.folder / SUMMARY).exists()

    @cached_property
    def scores(self) -> pd.DataFrame:
        """As :func:`medunlearn.attacks.membership.results.score_candidates` gives them."""
        table = read_scores(self.record.folder)
        return table[table["measure"] == MEASURE].astype({"member": "bool"}).reset_index(drop=True)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """As :func:`medunlearn.attacks.membership.results.summarize` gives it."""
        return pd.read_parquet(self.record.folder / SUMMARY)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """As :func:`medunlearn.attacks.membership.results.curves` gives them."""
        return pd.read_parquet(self.record.folder / CURVES)


@dataclass(frozen=True)
class Attacks:
    """Models attacked on the same documents: the one in question first, then those it is compared with."""

    models: tuple[Attacked, ...]
    replicates: int
    seed: int

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences of areas, with intervals: model, against, and what ``compare`` gives.

        The first model against each other one, and every model against the retrained ones.
        """
        tables = [
            compare(one.scores, other.scores, replicates=self.replicates, seed=self.seed).assign(
                model=one.run.label, against=other.run.label, against_role=other.run.role
            )
            for one, other in self._pairs()
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @cached_property
    def privacy_leaks(self) -> pd.DataFrame:
        """MUSE's privacy leakage of each model against each retrained one: model, against, and what
        :func:`medunlearn.attacks.membership.results.privacy_leaks` gives; empty without a retrained model."""
        tables = [
            privacy_leaks(one.scores, other.scores, replicates=self.replicates, seed=self.seed).assign(
                model=one.run.label, against=other.run.label
            )
            for other in self.models
            for one in self.models
            if one.tells_members and other.tells_members
            if other.run.role == "retrained" and one.run.role != "retrained"
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _pairs(self) -> Iterator[tuple[Attacked, Attacked]]:
        members = [one for one in self.models if one.tells_members]
        for place, one in enumerate(members):
            for other in members:
                is_reference = other.run.role == "retrained" and one.run.role != "retrained"
                if other is not one and (place == 0 or is_reference):
                    yield one, other

    @cached_property
    def reconstructions(self) -> Reconstructions:
        """What reconstruction attacks found; of no models where there were none."""
        found = [Reconstructed(one.run, one.record) for one in self.models]
        asked = tuple(one for one in found if (one.record.folder / RECONSTRUCTION).exists())
        return Reconstructions(asked, self.replicates, self.seed)

    def table(self) -> pd.DataFrame:
        """Membership: one row a model, group, attack and measure, as ``summarize`` gives them; empty where it was
        not attacked. Areas of unlearned models have a reading.

        The reading is ``over-forgotten`` where the area lies below the retrained model's (its interval of the
        difference leaves 0 out), ``still leaks`` where it lies above, else ``not told apart``. Without a retrained
        model it is read against 0.5.
        """
        members = [one for one in self.models if one.tells_members]
        if not members:
            return pd.DataFrame()
        tables = [one.summary.assign(model=one.run.label, role=one.run.role) for one in members]
        table = pd.concat(tables, ignore_index=True)
        readings = pd.Series([self._reading(row) for row in table.to_dict("records")], dtype="string")
        return table.assign(reading=readings)

    def _reading(self, row: Mapping[Any, Any]) -> str | None:
        if row["measure"] != AUC or row["role"] != "unlearned":
            return None
        sides = [row["against_chance"]]
        found = self.comparisons
        if len(found):
            same = (found["model"] == row["model"]) & (found["against_role"] == "retrained")
            same &= (found["group"] == row["group"]) & (found["attack"] == row["attack"])
            sides = found.loc[same, "reading"].tolist() or sides
        return reading(sides)


def reading(sides: list[object]) -> str | None:
    """In a word what it says that an area lies on these sides of its references; None where no side is known."""
    known = {str(side) for side in sides if isinstance(side, str)}
    if not known:
        return None
    if BELOW in known:
        return OVER_FORGOTTEN
    return LEAKS if ABOVE in known else NOT_TOLD_APART
