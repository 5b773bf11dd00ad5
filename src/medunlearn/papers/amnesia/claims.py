"""AMNESIA's findings as rules on a sweep's contrasts; claims and rules in words are in ``report.yaml``.

A case is a method on a split, decided only by intervals. Thresholds are relative to the sweep's own target and
retrained models.

Source: AMNESIA, Sections 6.1 to 6.3 and 7, which state the findings without intervals or thresholds; the thresholds
are ours. A model equal to the target or the retrained model meets no rule (see the control tests).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from medunlearn.papers.amnesia.contrasts import GROWTH
from medunlearn.papers.amnesia.sweep import HOLDOUT, MEAN_OF_KINDS, RANDOM, TRAIN, SizeResults
from medunlearn.papers.sweeps.models import unlearned
from medunlearn.papers.sweeps.page import finding
from medunlearn.papers.sweeps.results import settled
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Evidence, Finding, Verdict
from medunlearn.reports.formatting import ALL

Cases = Iterator[Case]
FOLDS = (TRAIN, HOLDOUT)
MOVED = ("forgetting gained", "utility gained")
HALF_WAY = "forgetting past half-way"
LOST = "lost by same disease"
OTHERS_KEEP = "utility of others above 0.8 of target"


def findings(results: SizeResults) -> tuple[Finding, ...]:
    """The five findings of every context, in the paper's order."""
    return tuple(
        finding("amnesia", name, list(cases(results, context)), context)
        for context in results.contexts
        for name, cases in CASES.items()
    )


def _random_forgetting(results: SizeResults, context: str) -> Cases:
    for step, method in results.runs(context):
        if step.scope == RANDOM:
            at = (context, step.split, method, TRAIN, ALL)
            words = "forgetting of the retrained model over target"
            to_forget = results.evidence(words, "forgetting to gain", *at)
            names = (*MOVED, HALF_WAY, "utility above 0.8 of target")
            evidence = (to_forget, *(results.evidence(name, name, *at) for name in names))
            verdict, says = _forgets_or_keeps(*evidence)
            yield Case({"split": step.split, "method": method}, verdict, says, evidence)


def _forgets_or_keeps(
    to_forget: Evidence, gained: Evidence, utility: Evidence, half_way: Evidence, utility_kept: Evidence
) -> tuple[Verdict, str]:
    forgets, keeps = half_way.above, utility_kept.above
    if unknown := _nothing_to_forget(to_forget, TRAIN):
        return OPEN, unknown
    if forgets is None or keeps is None:
        return OPEN, "an interval holds its threshold, or a model is missing"
    if forgets:
        return (FAILS, "forgets and keeps utility") if keeps else (HOLDS, "collapses: forgets, and loses utility")
    if not keeps:
        return HOLDS, "fails: loses utility, and does not forget"
    if gained.above is not True and utility.below is not True:
        return OPEN, "did nothing that can be told: neither forgetting nor utility moved"
    return HOLDS, "fails: keeps utility, and does not forget"


def _growth(results: SizeResults, context: str) -> Cases:
    for steps in results.scopes.values():
        for method in results.methods:
            sized = [
                step
                for step in steps
                if step.percent is not None and step.disease and results.has(context, step.split, unlearned(method))
            ]
            if len(sized) >= 2:
                large = sized[-1].split
                at = (context, large, method, TRAIN)
                words = (
                    f"forgetting of the patients of {sized[0].size}, at {sized[-1].size} minus at {sized[0].size}"
                )
                grown, beyond = (
                    results.evidence(text, name, *at, ALL)
                    for text, name in zip((words, "the same, minus the retrained models'"), GROWTH, strict=True)
                )
                others = results.evidence(OTHERS_KEEP, OTHERS_KEEP, *at, MEAN_OF_KINDS)
                failed = "shrinks" if grown.above is False else "grows no more than with the retrained models"
                says = {
                    HOLDS: "grows",
                    FAILS: "others lose utility too" if others.above is False else failed,
                    OPEN: "no growth that can be told from none",
                }
                evidence = [grown, beyond, others]
                yield settled(
                    {"split": large, "method": method}, evidence, [number.above for number in evidence], says
                )


def _same_disease(results: SizeResults, context: str) -> Cases:
    names = (LOST, "lost by same more than by other", "lost by same disease beyond retrained", OTHERS_KEEP)
    for scope in results.scopes:
        for method in results.methods:
            split = _largest_with_interval(results, context, scope, method)
            if split is not None:
                at = (context, split, method, TRAIN, MEAN_OF_KINDS)
                *losses, others = evidence = [results.evidence(name, name, *at) for name in names]
                failed = "others lose too" if others.above is False else "same-disease patients do not lose more"
                says = {HOLDS: "same-disease patients lose, others keep", FAILS: failed}
                signs = [*(loss.below for loss in losses), others.above]
                yield settled({"split": split, "method": method}, evidence, signs, says)


def _largest_with_interval(results: SizeResults, context: str, scope: str, method: str) -> str | None:
    """The scope's largest split with enough retained same-disease patients for an interval; else the largest with
    any.
    """
    losses = {
        step.split: results.contrast(LOST, context, step.split, method, TRAIN, MEAN_OF_KINDS)
        for step in reversed(results.scopes[scope])
        if results.has(context, step.split, unlearned(method))
    }
    settling = [split for split, contrast in losses.items() if contrast.low is not None]
    valued = [split for split, contrast in losses.items() if contrast.value is not None]
    return next(iter([*settling, *valued]), None)


def _questions_not_notes(results: SizeResults, context: str) -> Cases:
    says = {HOLDS: "questions are forgotten, the note is not", FAILS: "the note is forgotten with them"}
    for step, method in results.runs(context):
        at = (context, step.split, method)
        words = "forgetting of the retrained model over target"
        to_forget = tuple(
            results.evidence(f"{fold} {words}", "forgetting to gain", *at, fold, ALL) for fold in FOLDS
        )
        train, holdout = (results.evidence(f"{fold} {HALF_WAY}", HALF_WAY, *at, fold, ALL) for fold in FOLDS)
        labels, evidence = {"split": step.split, "method": method}, (*to_forget, train, holdout)
        if reason := _unreadable(to_forget, train):
            yield Case(labels, OPEN, reason, evidence)
        else:
            yield settled(labels, evidence, [holdout.below], says)


def _nothing_to_forget(to_forget: Evidence, fold: str) -> str:
    """Reason why nothing can be concluded on a fold; empty if the target knows more than the retrained model."""
    if to_forget.value is None:
        return f"cannot be read: {to_forget.reason}"
    if to_forget.below:
        return f"nothing to forget on {fold}: the target answers it worse than the retrained model"
    if not to_forget.above:
        why = to_forget.too_little or "the interval of what the retrained model forgets holds 0"
        return f"not settled that there is something to forget on {fold}: {why}"
    return ""


def _unreadable(to_forget: Sequence[Evidence], train: Evidence) -> str:
    for fold, evidence in reversed(tuple(zip(FOLDS, to_forget, strict=True))):
        if reason := _nothing_to_forget(evidence, fold):
            return reason
    return "" if train.above is True else "the trained questions were not forgotten, so nothing could carry over"


def _leakage(results: SizeResults, context: str) -> Cases:
    for step, method in results.runs(context):
        at = (context, step.split, method, TRAIN, ALL)
        clean = results.evidence("a tenth of the target's LS, minus LS", "leakage below a tenth of target", *at)
        if clean.above:
            collapsed = results.evidence("degenerate responses above 0.5", "degradation above half", *at)
            utility = results.evidence("utility above 0.8 of target", "utility above 0.8 of target", *at)
            verdict, says = OPEN, "not settled"
            if collapsed.above:
                verdict, says = HOLDS, "little leaks because output has collapsed"
            elif collapsed.above is False and utility.above:
                verdict, says = FAILS, "little leaks, and utility is kept"
            elif utility.above is False:
                says = "output is not repetitive, but utility is lost: broken in another way"
            yield Case({"split": step.split, "method": method}, verdict, says, (clean, collapsed, utility))


CASES: dict[str, Callable[[SizeResults, str], Cases]] = {
    "random forgetting": _random_forgetting,
    "growth with the set": _growth,
    "same-disease cost": _same_disease,
    "questions, not notes": _questions_not_notes,
    "leakage and collapse": _leakage,
}
