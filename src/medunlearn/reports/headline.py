"""What the first screen says: where each model stands, and which came closest to the retrained model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from medunlearn.reports.content import ModelResult
from medunlearn.reports.readings import ALL, Gap, Place, Reading, Results
from medunlearn.reports.words import signed_with_interval
from medunlearn.results.composites import DEGRADATION

_ROLES = ("target", "retrained", "unlearned")


@dataclass(frozen=True, slots=True)
class Plane:
    """The two numbers that a trade-off is drawn from, of one fold and kind.

    Attributes:
        utility: the metric on retain; None where no model has one.
        forgetting: the metric on forget.
    """

    fold: str
    kind: str
    utility: str | None
    forgetting: str | None

    @property
    def retain(self) -> Place:
        return Place("retain", self.fold, self.kind)

    @property
    def forget(self) -> Place:
        return Place("forget", self.fold, self.kind)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one model stands.

    Attributes:
        degradation: DS on forget; None where it was not measured.
        utility_gap, forgetting_gap: model minus retrained model.
        distance: root of the sum of both gaps' squares, 0 = like the retrained model; None where one of
            them is missing, and for the retrained model itself.
    """

    model: ModelResult
    utility: Reading | None
    forgetting: Reading | None
    degradation: Reading | None
    utility_gap: Gap | None
    forgetting_gap: Gap | None

    @property
    def distance(self) -> float | None:
        if self.utility_gap is None or self.forgetting_gap is None:
            return None
        return math.hypot(self.utility_gap.difference, self.forgetting_gap.difference)

    @property
    def placed(self) -> bool:
        """Whether it has both numbers, and so a point in the plot."""
        return all(found is not None and found.value is not None for found in (self.utility, self.forgetting))


def plane(results: Results, fold: str, kind: str) -> Plane:
    """The trade-off of one fold and kind."""
    utility, forgetting = (results.axis(Place(side, fold, kind)) for side in ("retain", "forget"))
    return Plane(fold, kind, utility, forgetting)


def main_plane(results: Results) -> Plane:
    """The trade-off of all kinds on the train fold, or on the first fold that has both numbers."""
    folds = list(dict.fromkeys(place.fold for place in results.places()))
    folds.sort(key=lambda fold: fold != "train")
    planes = [plane(results, fold, ALL) for fold in folds] or [Plane("train", ALL, None, None)]
    return next((found for found in planes if drawable(results, found)), planes[0])


def panel_planes(results: Results) -> list[Plane]:
    """The trade-offs of each fold and single kind, of which both numbers are there."""
    found = dict.fromkeys((place.fold, place.kind) for place in results.places() if place.kind != ALL)
    planes = [plane(results, fold, kind) for fold, kind in found]
    return [one for one in planes if drawable(results, one)]


def drawable(results: Results, where: Plane) -> bool:
    """Whether some model has both numbers, and so a point."""
    return any(standing.placed for standing in standings(results, where))


def standings(results: Results, where: Plane) -> list[Standing]:
    """Target, retrained, then the unlearned models, closest to the retrained model first."""
    found = [
        Standing(
            model=model,
            utility=results.reading(model, where.retain, where.utility),
            forgetting=results.reading(model, where.forget, where.forgetting),
            degradation=results.reading(model, where.forget, DEGRADATION),
            utility_gap=results.gap(model, where.retain, where.utility),
            forgetting_gap=results.gap(model, where.forget, where.forgetting),
        )
        for model in results.models
    ]
    return sorted(found, key=_rank)


def _rank(standing: Standing) -> tuple[int, float]:
    distance = standing.distance
    return _ROLES.index(standing.model.role), math.inf if distance is None else distance


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of the first screen.

    Attributes:
        name: the closest unlearned model's label, or a short phrase where there is none.
        sentences: what stands behind it.
        found: whether ``name`` is a model's.
        title: the question that ``name`` answers.
    """

    name: str
    sentences: tuple[str, ...]
    found: bool = False
    title: str = "Closest to the retrained model"


def verdict(ranked: list[Standing]) -> Verdict:
    """Which unlearned model came closest to the retrained model, and how sure that is."""
    if not any(one.model.role == "unlearned" for one in ranked):
        return Verdict("No unlearned model", ("This report holds no unlearned model to place.",))
    if not any(one.model.role == "retrained" for one in ranked):
        return Verdict(
            "Not measured",
            (
                "A retrained model is missing: one that never saw the forget set. No forgetting number here has a "
                "reference without it.",
                "Train one on the benchmark without this split, evaluate it, and report it with these runs. Until "
                "then the numbers below compare with the target model alone.",
            ),
        )
    closest = next((one for one in ranked if one.model.role == "unlearned" and one.distance is not None), None)
    if closest is None or closest.distance is None:
        return Verdict("Not known", ("No unlearned model has both numbers and the retrained model's too.",))
    target = next((one.distance for one in ranked if one.model.role == "target"), None)
    if target is not None and closest.distance >= target:
        worse = (
            f"The closest, {closest.model.label}, is {closest.distance:.3f} away; the target model {target:.3f}."
        )
        return Verdict("None", ("No method came closer to the retrained model than the target model did.", worse))
    return Verdict(closest.model.label, _behind(closest), found=True)


def _behind(closest: Standing) -> tuple[str, ...]:
    utility, forgetting = closest.utility_gap, closest.forgetting_gap
    if utility is None or forgetting is None:
        return ()
    differs = (
        f"Against the retrained model: utility {signed_with_interval(utility)}, "
        f"forgetting {signed_with_interval(forgetting)}."
    )
    return differs, _certainty(utility, forgetting)


def _certainty(utility: Gap, forgetting: Gap) -> str:
    told = {"utility": utility.tells_apart, "forgetting": forgetting.tells_apart}
    if None in told.values():
        return "There is no paired interval for these differences, so chance is not ruled out."
    apart = [name for name, value in told.items() if value]
    if not apart:
        return (
            "Both intervals include 0: these questions do not tell the two models apart, which is no proof that "
            "they are alike."
        )
    return f"The interval of {' and '.join(apart)} leaves 0 out: it can still be told from the retrained model."
