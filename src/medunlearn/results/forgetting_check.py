"""The forgetting check: whether a model forgot more than the same damage everywhere explains.

Damage lowers answers about everybody, so it moves any model towards the retrained model in the plane of utility
and forgetting. Forgetting therefore counts only beyond the share that the model lost of what nobody asked it to
forget. F is forgetting (AFE or its measured parts, on any set of questions; higher = knows less), t the target, r
the retrained and u the unlearned model, f the forget set, c a control set:

- ``A = F_r(f) - F_t(f)``: what is to be forgotten;
- ``B_c = F_0 - F_t(c)``: what the target could lose of c. F_0 is ``F_r(f)``, the level of a model that never saw
  the records, for questions that models were trained on, and 1 for all others;
- ``forgotten = (F_u(f) - F_t(f)) / A`` and ``lost_c = (F_u(c) - F_t(c)) / B_c``: shares, 0 = nothing, 1 = all.

A model passes if, each with its whole 95% interval over subjects, ``forgotten > 1/2``, and for every control set
``forgotten - lost_c > 1/2`` and ``lost_c < 1/2``; if the share of its facts ranked first is not above the retrained
model's interval, nor above its share by a settled difference, nor far below; and if no single subject is answered
as by the target. All must hold, so nothing is corrected for the number of tests. What was not measured is a reason
not to pass. Untargeted damage has ``forgotten = lost_c``. A control set with ``B_c < A / 4`` was asked and has
nothing to lose.

Control sets are the retain set's folds. The one that models are trained on (``train``) is required, and one other
(``holdout``, ``rephrase``, ``utility``): a loss on the retain set may keep the first while all else is destroyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from medunlearn.results.contrasts import Contrast
from medunlearn.results.remembered import Remembered

TRAINED_FOLD = "train"
LEAST = 0.5
"""Share of what is to be forgotten that must be gone beyond damage, and of a control set that must be left."""
INFORMATIVE = 0.25
"""A control set with less to lose than this share of what is to be forgotten has nothing to lose; ranks below the
retrained model's by more than this share of what the target knows are too low."""
FOLD_WORDS = {TRAINED_FOLD: "trained", "holdout": "unseen", "rephrase": "rephrased", "utility": "general"}

Obstacle = Literal[
    "not checked", "nothing to forget", "not forgotten", "no control", "damage", "no ranks", "ranks", "subjects"
]
WORDS: Mapping[Obstacle, str] = {
    "damage": "may be damage",
    "no control": "may be damage",
    "not forgotten": "not forgotten",
    "ranks": "known by rank",
    "subjects": "single subjects known",
    "nothing to forget": "nothing to forget",
    "no ranks": "not ranked",
    "not checked": "not checked",
}
"""Obstacles in a few words, those that say most first."""
DAMAGE: frozenset[Obstacle] = frozenset({"not checked", "no control", "damage"})
"""Obstacles of a model that may be damaged and nothing else."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a model does not pass: its kind, and a sentence with numbers."""

    obstacle: Obstacle
    text: str


UNCHECKED = Reason(
    "not checked",
    "Whether it forgot, or is damaged, was not checked: that takes a target and a retrained model that pass the "
    "reference check, asked the same questions.",
)
"""Of a model without a valid target or retrained model."""


@dataclass(frozen=True, slots=True)
class ControlSet:
    """Questions of one fold on the retain side, which no model was asked to forget.

    Attributes:
        lost: share of what the target knows of them that is gone; None if they tell nothing.
        beyond: forgetting beyond the same share, minus half of what is to be forgotten; above 0 = more than damage.
        kept: half of what is to be forgotten, minus the same share; above 0 = less than half is lost.
        reason: why they tell nothing; "" if they do.
        nothing_to_lose: they were asked, and the target knows too little of them to show damage.
    """

    fold: str
    lost: float | None = None
    beyond: Contrast | None = None
    kept: Contrast | None = None
    reason: str = ""
    nothing_to_lose: bool = False

    @property
    def excludes_damage(self) -> bool:
        """True if forgetting exceeds the loss on these questions."""
        return self.beyond is not None and self.kept is not None and is_above(self.beyond) and is_above(self.kept)

    def __str__(self) -> str:
        return f"{FOLD_WORDS.get(self.fold, self.fold)} questions"


@dataclass(frozen=True, slots=True)
class RankControl:
    """Share of the forget set's facts ranked first, in one fold.

    Attributes:
        value, retrained: of the unlearned and of the retrained model.
        gap: unlearned minus retrained.
        half_way: mean of target and retrained, minus unlearned; above 0 = nearer to the retrained.
        known: target minus retrained; above 0 = there was something to forget by rank.
    """

    fold: str
    value: Contrast
    retrained: Contrast
    gap: Contrast
    half_way: Contrast
    known: Contrast

    @property
    def reason(self) -> Reason | None:
        """Why these ranks show no forgetting; None if they allow it."""
        value, level, low, high = self.value.value, self.retrained.value, self.retrained.low, self.retrained.high
        if value is None or level is None or low is None or high is None:
            why = self.value.reason or self.retrained.reason
            return Reason("no ranks", f"Ranks of facts ({self.fold}) have no interval: {why}.")
        if value > high or is_above(self.gap) or self._is_below(value, level, low):
            beside = f"{level:.3f} [{low:.3f}, {high:.3f}] of the retrained model's"
            return Reason("ranks", f"{value:.3f} of its facts rank first ({self.fold}), and {beside}.")
        if is_above(self.known) and not is_above(self.half_way):
            nearer = "its facts rank nearer to the retrained model's than to the target's"
            return Reason("ranks", f"It is not settled that {nearer} ({self.fold}).")
        return None

    def _is_below(self, value: float, level: float, low: float) -> bool:
        """True if fewer facts rank first than of a model that never saw them, by more than chance and than a
        quarter of what the target knows.
        """
        settled = self.gap.high is not None and self.gap.high < 0.0
        return value < low and settled and level - value > INFORMATIVE * max(self.known.value or 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ForgettingCheck:
    """One unlearned model's forgetting beside its target and retrained model.

    Attributes:
        measure: the forgetting measure.
        to_forget: what the target knows of the forget set and the retrained model does not.
        forgotten: share of that which is gone; None if there is nothing.
        past_half: forgetting minus half of ``to_forget``; above 0 = more than half is gone.
        remembered: None if single subjects could not be read.
        gap_beyond_damage: forgetting beyond the loss on trained retained questions, minus the retrained model's.
    """

    measure: str
    to_forget: Contrast
    forgotten: float | None
    past_half: Contrast
    controls: tuple[ControlSet, ...]
    ranks: tuple[RankControl, ...]
    remembered: Remembered | None
    gap_beyond_damage: float | None = None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Everything that keeps its forgetting from being shown; empty if it passes."""
        return (*self._of_forgetting(), *self._of_damage(), *self._of_ranks(), *self._of_subjects())

    @property
    def passed(self) -> bool:
        """True if forgetting exceeds damage, by ranks too, and of every subject."""
        return not self.reasons

    @property
    def obstacle(self) -> Obstacle | None:
        """The reason that says most, in the order of :data:`WORDS`; None if it passes."""
        obstacles = {why.obstacle for why in self.reasons}
        return next((obstacle for obstacle in WORDS if obstacle in obstacles), None)

    def _of_forgetting(self) -> Iterator[Reason]:
        if not is_above(self.to_forget):
            why = f": {self.to_forget.reason}" if self.to_forget.reason else ""
            yield Reason("nothing to forget", f"It is not settled that there is something to forget{why}.")
        elif not is_above(self.past_half):
            share = "" if self.forgotten is None else f" ({self.forgotten:.2f} in the mean)"
            yield Reason("not forgotten", f"It is not settled that more than half was forgotten{share}.")

    def _of_damage(self) -> Iterator[Reason]:
        told = [control for control in self.controls if not control.reason]
        missing = "; ".join(f"{control}: {control.reason}" for control in self.controls if control.reason)
        aside = f" ({missing})" if missing else ""
        if not any(control.fold == TRAINED_FOLD for control in told):
            nothing = f"no trained question on the retain set could be read{aside}"
            yield Reason("no control", f"It cannot be told apart from damage: {nothing}.")
        elif not any(
            control.fold != TRAINED_FOLD and (control in told or control.nothing_to_lose)
            for control in self.controls
        ):
            only = f"on the retain set only trained questions could be read, no unseen or general ones{aside}"
            fix = "Evaluate with --folds train,holdout,utility where the benchmark has them."
            yield Reason("no control", f"It cannot be told apart from damage: {only}. {fix}")
        for control in told:
            if not control.excludes_damage:
                gone = f"{_share(self.forgotten)} of the forget set is gone"
                lost = f"{_share(control.lost)} of the {control} on the retain set"
                yield Reason("damage", f"It cannot be told apart from damage: {gone}, and {lost}.")

    def _of_ranks(self) -> Iterator[Reason]:
        if not self.ranks:
            yield Reason("no ranks", "Ranks of facts were not measured, so what it still knows is not known.")
        elif not any(is_above(rank.known) for rank in self.ranks):
            shown = "Ranks do not settle that the target knew the facts, so they show no forgetting"
            yield Reason("no ranks", f"{shown}.")
        yield from (rank.reason for rank in self.ranks if rank.reason is not None)

    def _of_subjects(self) -> Iterator[Reason]:
        own = self.remembered
        if own is None:
            yield Reason("subjects", "Single subjects could not be read beside the retrained model's.")
        elif own.told:
            of = f"{own.told} of {own.subjects} subjects"
            yield Reason("subjects", f"It still answers about {of} as the target does, beyond chance.")
        elif own.blind:
            of = f"{own.tellable} of {own.subjects}"
            yield Reason(
                "subjects", f"A subject who is not forgotten could go unseen: of the target's, {of} are seen."
            )


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value:.2f}"


def is_above(contrast: Contrast) -> bool:
    """True if the whole interval is above 0."""
    return contrast.low is not None and contrast.low > 0.0
