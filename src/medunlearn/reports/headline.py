"""The verdict of the first screen: the model closest to the retrained model, and how certain that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from medunlearn.reports.blocks import Headline
from medunlearn.reports.readings import Gap, Standing, signed_with_interval
from medunlearn.results.forgetting_check import UNCHECKED, Obstacle

if TYPE_CHECKING:
    from medunlearn.results.reference_check import ReferenceCheck

RANKING_NOTE = (
    "Distance: the root of the two squared differences from the retrained model, in utility and in forgetting; "
    "0 = the same. Damage shortens it, too, so models whose forgetting does not exceed their damage stand last. "
    "Where intervals overlap, the order is not settled. Differences are paired on subjects; no interval here is "
    "corrected for the number of comparisons."
)
NO_REFERENCE = (
    "A retrained model is missing: one that never saw the forget set. No forgetting number here has a reference "
    "without it.",
    "Train one on the benchmark without this split, evaluate it, and report it with these runs. Until then the "
    "numbers below compare with the target model alone.",
)
SEVERAL = "There are several target or retrained models here; report the models of each with its own."
REFUSED = (
    "So closeness to the retrained model says nothing yet. Train target and retrained model until both hold; where "
    "an interval is too wide, ask about more subjects."
)

ANSWERS: Mapping[Obstacle, str] = {
    **dict.fromkeys(("damage", "no control"), "Not told apart from damage"),
    **dict.fromkeys(("not forgotten", "ranks", "subjects"), "None"),
    **dict.fromkeys(("nothing to forget", "no ranks"), "Not decided"),
    "not checked": "Not checked",
}
"""Obstacle of a model -> the answer in place of its name."""


def verdict(
    ranked: Sequence[Standing], reference: ReferenceCheck | None, undecided: str = ""
) -> tuple[str | None, Headline]:
    """Label of the unlearned model closest to the retrained model (None without one), and how certain that is.

    Args:
        ranked: a broken model is never the closest, nor one whose forgetting does not exceed what damage explains
            (:mod:`medunlearn.results.forgetting_check`). Beside a broken target or retrained model none is.
        reference: the check of target and retrained model; if it failed, its reasons are the answer.
        undecided: reason why no number of the page decides anything (:func:`.provenance.undecided`).
    """
    if undecided:
        why = f"{undecided[0].upper()}{undecided[1:]}, so no number here means anything."
        return None, Headline("Closest to the retrained model", "Not decided", (why,))
    closest, answer, sentences = _verdict(ranked, reference)
    label = None if closest is None else closest.model.label
    return label, Headline("Closest to the retrained model", label or answer, sentences)


def _verdict(
    ranked: Sequence[Standing], reference: ReferenceCheck | None
) -> tuple[Standing | None, str, tuple[str, ...]]:
    roles = {standing.model.role for standing in ranked}
    if "unlearned" not in roles:
        return None, "No unlearned model", ("This report holds no unlearned model to place.",)
    if "retrained" not in roles:
        return None, "Not measured", NO_REFERENCE
    if sum(standing.model.role != "unlearned" for standing in ranked) > len(roles - {"unlearned"}):
        return None, "Not decided", (SEVERAL,)
    broken = [standing.model for standing in ranked if standing.model.problems]
    for model in broken:
        if model.role != "unlearned":
            why = f"{model.label} is broken: {'; '.join(model.problems)}."
            return None, "Not decided", (why, "Nothing can be read against a broken model. Train it again.")
    if reference is not None and not reference.passed:
        return None, "Not decided", (*reference.reasons, REFUSED)
    working = [
        standing
        for standing in ranked
        if standing.model.role == "unlearned" and standing.distance is not None and not standing.model.problems
    ]
    left_out = (f"Left out, because broken: {', '.join(model.label for model in broken)}.",) if broken else ()
    if not working:
        why = "No unlearned model that works has both numbers and the retrained model's too."
        return None, "Not known", (*left_out, why)
    target = next((standing.distance for standing in ranked if standing.model.role == "target"), None)
    forgetful = [(standing.distance_beyond_damage, standing) for standing in working if standing.forgets]
    measured_beyond = [(distance, standing) for distance, standing in forgetful if distance is not None]
    if not measured_beyond:
        nearest = min(working, key=lambda standing: standing.distance or 0.0)
        if target is None or (nearest.distance or 0.0) < target:
            return None, *_unproven(nearest, left_out)
        return None, "None", (*left_out, *_no_closer(nearest, nearest.distance or 0.0, target))
    distance, closest = measured_beyond[0]
    if target is not None and distance >= target:
        return None, "None", (*left_out, *_no_closer(closest, distance, target))
    gaps = {"utility": closest.utility_gap, "forgetting": closest.forgetting_gap}
    measured = {name: gap for name, gap in gaps.items() if gap is not None}
    differs = ", ".join(f"{name} {signed_with_interval(gap)}" for name, gap in measured.items())
    against = f"Against the retrained model: {differs}."
    return closest, "", (*left_out, against, _certainty(measured), *_beyond_damage(closest))


def _no_closer(nearest: Standing, distance: float, target: float) -> tuple[str, str]:
    return (
        "No method came closer to the retrained model than the target model did.",
        f"The closest, {nearest.model.label}, is {distance:.3f} away; the target model {target:.3f}.",
    )


def _unproven(nearest: Standing, left_out: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The answer where no model passes the forgetting check: what keeps the nearest from it."""
    own = f"{nearest.model.label} is nearest in these numbers ({nearest.distance:.3f}), which decides nothing."
    reasons = (UNCHECKED,) if nearest.check is None else nearest.check.reasons
    obstacle = None if nearest.check is None else nearest.check.obstacle
    answer = ANSWERS[obstacle or "not checked"]
    return answer, (*left_out, own, *(why.text for why in reasons))


def _beyond_damage(standing: Standing) -> Iterator[str]:
    """The share that is gone of what was to be forgotten, beside the shares of everything else."""
    if standing.check is None:
        return
    lost = [
        f"{control.lost:.2f} of the {control}" for control in standing.check.controls if control.lost is not None
    ]
    idle = [f"{control}: {control.reason}" for control in standing.check.controls if control.reason]
    yield f"Gone: {standing.check.forgotten:.2f} of what was to be forgotten; on the retain set {', '.join(lost)}."
    if idle:
        yield f"Not read beside it: {'; '.join(idle)}."


def _certainty(gaps: dict[str, Gap]) -> str:
    if any(gap.tells_apart is None for gap in gaps.values()):
        return "There is no paired interval for these differences, so chance is not ruled out."
    apart = [name for name, gap in gaps.items() if gap.tells_apart]
    if not apart:
        return (
            "Both intervals include 0: these questions do not tell the two models apart, which is no proof that "
            "they are alike."
        )
    return f"The interval of {' and '.join(apart)} leaves 0 out: it can still be told from the retrained model."
