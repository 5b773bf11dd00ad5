"""The verdict of the first screen: the model closest to the retrained model, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medunlearn.reports.blocks import Headline
from medunlearn.reports.readings import Gap, Standing, signed_with_interval

if TYPE_CHECKING:
    from medunlearn.results.reference_check import ReferenceCheck

RANKING_NOTE = (
    "Distance: the root of the two squared differences from the retrained model, in utility and in forgetting; "
    "0 = the same. Where intervals overlap, the order of the methods is not settled. Differences are paired on "
    "subjects; no interval here is corrected for the number of comparisons."
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


def verdict(ranked: Sequence[Standing], reference: ReferenceCheck | None) -> tuple[str | None, Headline]:
    """Label of the unlearned model closest to the retrained model (None without one), and how certain that is.

    Args:
        ranked: a broken model is never the closest; with a broken target or retrained model nothing is decided.
        reference: the check of target and retrained model; if it failed, its reasons are the answer.
    """
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
    candidates = [
        (standing.distance, standing)
        for standing in ranked
        if standing.model.role == "unlearned" and standing.distance is not None and not standing.model.problems
    ]
    left_out = [f"Left out, because broken: {', '.join(model.label for model in broken)}."] if broken else []
    if not candidates:
        why = "No unlearned model that works has both numbers and the retrained model's too."
        return None, "Not known", (*left_out, why)
    distance, closest = candidates[0]
    target = next((standing.distance for standing in ranked if standing.model.role == "target"), None)
    if target is not None and distance >= target:
        worse = f"The closest, {closest.model.label}, is {distance:.3f} away; the target model {target:.3f}."
        nearest = "No method came closer to the retrained model than the target model did."
        return None, "None", (*left_out, nearest, worse)
    gaps = {"utility": closest.utility_gap, "forgetting": closest.forgetting_gap}
    measured = {name: gap for name, gap in gaps.items() if gap is not None}
    differs = ", ".join(f"{name} {signed_with_interval(gap)}" for name, gap in measured.items())
    return closest, "", (*left_out, f"Against the retrained model: {differs}.", _certainty(measured))


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
