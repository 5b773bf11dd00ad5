"""``--stop ranks``: end unlearning once the forgotten patients' facts rank like a stranger's, without a retrained
model.

After every evaluated epoch, facts of the forgotten patients and of unseen patients are ranked among alternatives
(:mod:`medunlearn.study.epochs.rank_watch`). Patients are strangers where their ranks together, and each patient's
after Holm's correction, are no more surprising than those of unseen patients
(:func:`medunlearn.statistics.others.chance_of_surprise`, as in the verdicts of `forget`); in a benchmark without
unseen patients, than chance for facts whose alternatives are exchangeable (Fisher's combination, which dependent
facts make stricter: the run goes on). The floor is a share of the target's mean probability of a token of retained
questions. Then

- the patients are strangers and the floor is kept: the run ends;
- they are strangers and it is not: *recovery* (:class:`medunlearn.training.batch_plan.UtilityRecovery`). The
  learning rate falls, and steps are on the retain set alone while the patients are strangers, until the floor is
  kept;
- the floor is not kept and the method has no retain term to recover by: the run ends.

A high learning rate lowers utility in the first epochs and restores it as it falls, so that the floor alone ends no
run that can recover. The run's model is the best epoch by :func:`rank_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.data.storage import read_frame
from medunlearn.methods import retain_term_of
from medunlearn.methods.families import DIVERGENCE, LOSS
from medunlearn.methods.retain_terms import KL, NLL
from medunlearn.results.fact_table import ALPHA
from medunlearn.study.epochs.epoch_selection import EpochStanding, Rule
from medunlearn.study.epochs.rank_watch import RETAINED, STRANGER_P, STRANGERS
from medunlearn.training.batch_plan import UtilityRecovery

KEY = "stop"
"""Name of the outcome in a run's results; runs without ``--stop`` have none."""
Reason = Literal["ranks", "utility", "none"]


def by_ranks(epochs: pd.DataFrame, floor: float) -> list[EpochStanding]:
    """Standings of every epoch after the target; an epoch below the floor of utility is broken.

    The number of an epoch is its p-value, up to the level of the test: beyond it patients are strangers, and a
    larger p-value is chance. Below the floor it is multiplied by the share that is kept. Without a number where the
    target's own patients are no different from strangers.
    """
    known = _is_known(epochs)
    standings = []
    for number in sorted({*epochs["epoch"].tolist()} - {0}):
        values = _numbers(epochs[epochs["epoch"] == number])
        p, share = values.get(STRANGER_P), values.get(RETAINED)
        parts = {name: value for name, value in ((STRANGER_P, p), (RETAINED, share)) if value is not None}
        low = share is None or share < floor
        problem = "utility on retained questions is below the floor" if low else ""
        value = None if p is None or not known else min(p, ALPHA) * ((share or 0.0) if low else 1.0)
        standings.append(EpochStanding(number, parts, value, problem=problem))
    return standings


def recovery_after(epochs: pd.DataFrame, done: int, most: int) -> UtilityRecovery | None:
    """The recovery that the epoch after ``done`` ones is part of.

    It begins once all patients are strangers, and the forget set rests while they are. Where it is over and they
    are not, they are forgotten as before, until another one.

    Args:
        epochs: measurements, of a run that goes on.
        most: epochs of the run at most.
    """
    recovery = None
    for number in sorted({*epochs["epoch"].tolist()} - {0}) if _is_known(epochs) else ():
        if number <= done:
            rests = _numbers(epochs[epochs["epoch"] == number]).get(STRANGER_P, 0.0) > ALPHA
            if recovery is None or number >= recovery.end(most):
                recovery = UtilityRecovery(number, rests) if rests else None
            else:
                recovery = UtilityRecovery(recovery.start, rests)
    return recovery


def recoveries(table: Path, most: int) -> Callable[[int], UtilityRecovery | None]:
    """:func:`recovery_after` of a run's table of epochs, which is read once an epoch."""

    @cache
    def after(done: int) -> UtilityRecovery | None:
        return recovery_after(read_frame(table), done, most)

    return lambda done: after(done) if done else None


def retain_part(method: str) -> NLL | KL | None:
    """The term of recovery: the kind that a method's own retain term is of; None without one of these kinds."""
    parts: dict[str, NLL | KL] = {LOSS: NLL(), DIVERGENCE: KL()}
    return parts.get(retain_term_of(method))


def rank_rule(floor: float) -> Rule:
    """The rule of the best epoch with ``--stop ranks``."""
    words = (
        f"p-value of being strangers on one half of the values, up to {ALPHA:g}, of epochs with {floor:g} or more "
        "of the target's probability of retained answers; of equal epochs the earlier"
    )
    return Rule(lambda epochs: by_ranks(epochs, floor), lambda _: words)


def _is_known(epochs: pd.DataFrame) -> bool:
    """True if the ranks tell the patients from strangers before the first step."""
    p = _numbers(epochs[epochs["epoch"] == 0]).get(STRANGER_P)
    return p is not None and p <= ALPHA


def _numbers(epoch: pd.DataFrame) -> dict[str, float]:
    rows = epoch[epoch["measure"].isin((STRANGER_P, STRANGERS, RETAINED)) & epoch["value"].notna()]
    return {str(name): float(value) for name, value in zip(rows["measure"], rows["value"], strict=True)}


@dataclass(frozen=True, slots=True)
class RankStop:
    """Outcome of the rule after an epoch.

    Attributes:
        reason: ``ranks``: the patients are strangers; ``utility``: the floor was touched; ``none``: neither.
        epoch: the last measured epoch.
        p: least p-value of the patients together and of each, 0-1.
        strangers: share of patients who are strangers, 0-1.
        patients: number of patients with a ranked fact.
        retained: probability of a token of retained questions as a share of the target's, 0 and up; None if it is
            not finite.
        floor: its least allowed value.
        keeps_floor: whether any epoch kept it.
        is_known: whether the ranks told the patients from strangers before the first step; else they end nothing.
        recovery: epoch after which recovery began; None without it.
    """

    reason: Reason
    epoch: int
    p: float
    strangers: float
    patients: int
    retained: float | None
    floor: float
    keeps_floor: bool
    is_known: bool
    recovery: int | None = None

    @staticmethod
    def after(epochs: pd.DataFrame, floor: float, most: int | None = None) -> RankStop:
        """The outcome after the last epoch of a table.

        Args:
            most: epochs of a run that can recover; None for one that cannot, which utility ends at once.
        """
        last = int(epochs["epoch"].max())
        rows = epochs[epochs["epoch"] == last]
        values = _numbers(rows)
        retained = values.get(RETAINED)
        patients = int(rows[rows["measure"] == STRANGER_P]["n_subjects"].iloc[0])
        known = _is_known(epochs)
        recovery = None if most is None else recovery_after(epochs, last - 1, most)
        strangers = values[STRANGER_P] > ALPHA and known
        reason: Reason = "none"
        if retained is None or retained < floor:
            if most is None or (strangers and recovery is not None and last >= recovery.end(most)):
                reason = "utility"
        elif strangers:
            reason = "ranks"
        start = None if recovery is None else recovery.start
        keeps = any(not standing.problem for standing in by_ranks(epochs, floor))
        return RankStop(
            reason, last, values[STRANGER_P], values[STRANGERS], patients, retained, floor, keeps, known, start
        )

    @staticmethod
    def of(results: Mapping[str, Any]) -> RankStop | None:
        """The outcome in a run's results; None without one."""
        recorded = results.get(KEY)
        return None if recorded is None else RankStop(**recorded)

    @property
    def words(self) -> str:
        """Measurement and consequence, in one sentence without a full stop."""
        count = round(self.strangers * self.patients)
        share = "a probability that is not finite" if self.retained is None else f"{self.retained:.1%} of it"
        measured = (
            f"facts of {count} of {self.patients} forgotten patients rank like a stranger's (p = {self.p:.2g}; one "
            f"half of the values), and retained answers keep {share} (floor {self.floor:.0%})"
        )
        ends = {
            "ranks": f"unlearning ended after epoch {self.epoch} by ranks",
            "utility": f"unlearning ended after epoch {self.epoch} with utility below its floor"
            + ("" if self.keeps_floor else ", which no epoch kept"),
            "none": f"neither rule of --stop ended unlearning until epoch {self.epoch}",
        }
        unknown = "" if self.is_known else "; they ranked so before the first step too, which tells nothing"
        alone = "" if self.recovery is None else f"; utility recovered from epoch {self.recovery} on"
        return f"{ends[self.reason]}: {measured}{alone}{unknown}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
