"""AMNESIA's findings as rules on a sweep's own contrasts.

A case is a method on a split, decided only by intervals. Thresholds are relative to the sweep's own target and
retrained models.

Source: AMNESIA, Sections 6.1 to 6.3 and 7, which state the findings without intervals or thresholds; the thresholds
are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from medunlearn.papers.amnesia.contrasts import GROWTH, HOLDOUT, TRAIN
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, RANDOM, Step, SweepResults
from medunlearn.papers.sweeps.models import unlearned
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Evidence, Finding, Verdict, decide
from medunlearn.reports.words import ALL

Cases = Iterator[Case]
UNSETTLED = "not settled"


def findings(results: SweepResults) -> tuple[Finding, ...]:
    """The five findings of every context, in the paper's order."""
    return tuple(
        Finding(name, claim, rule, tuple(cases(results, context)), context)
        for context in results.contexts
        for name, claim, rule, cases in RULES
    )


def _case(split: str, method: str, verdict: Verdict, says: str, *evidence: Evidence) -> Case:
    return Case({"split": split, "method": method}, verdict, says, evidence)


def _random_forgetting(results: SweepResults, context: str) -> Cases:
    for step, method in _models(results, context):
        if step.scope == RANDOM:
            at = (context, step.split, method, TRAIN, ALL)
            known = Evidence.of(
                "forgetting of the retrained model over target", results.contrast("forgetting to gain", *at)
            )
            forgot = Evidence.of("forgetting past half-way", results.contrast("forgetting past half-way", *at))
            name = "utility above 0.8 of target"
            kept = Evidence.of(name, results.contrast(name, *at))
            verdict, says = _forgets_or_keeps(known.above, forgot.above, kept.above)
            yield _case(step.split, method, verdict, says, known, forgot, kept)


def _forgets_or_keeps(known: bool | None, forgot: bool | None, kept: bool | None) -> tuple[Verdict, str]:
    if known is not True and forgot is not None:
        return OPEN, "nothing to forget: the target answers no better than the retrained model"
    if forgot is None or kept is None:
        return OPEN, "an interval holds its threshold, or a model is missing"
    if forgot:
        return (FAILS, "forgets and keeps utility") if kept else (HOLDS, "collapses: forgets, and loses utility")
    if kept:
        return HOLDS, "fails: keeps utility, and does not forget"
    return FAILS, "loses utility without forgetting"


def _growth(results: SweepResults, context: str) -> Cases:
    for scope in results.scopes:
        sized = [step for step in results.steps_of(scope) if step.percent is not None and step.disease]
        for method in results.methods:
            steps = [step for step in sized if results.has(context, step.split, unlearned(method))]
            if len(steps) >= 2:
                large = steps[-1].split
                name = f"gain over target, {steps[0].size} to {steps[-1].size}"
                grown = Evidence.of(name, results.contrast(GROWTH, context, large, method, TRAIN, ALL))
                verdict = decide([grown.above])
                says = {HOLDS: "grows", FAILS: "shrinks"}.get(verdict, "no growth that can be told from none")
                yield _case(large, method, verdict, says, grown)


def _same_disease(results: SweepResults, context: str) -> Cases:
    names = ("lost by same disease", "lost by same more than by other", "utility of others above 0.8 of target")
    for scope in results.scopes:
        for method in results.methods:
            split = _largest_with_interval(results, context, scope, method)
            if split is None:
                continue
            at = (context, split, method, TRAIN, MEAN_OF_KINDS)
            lost, more, kept = (Evidence.of(name, results.contrast(name, *at)) for name in names)
            verdict = decide([lost.below, more.below, kept.above])
            says = {
                HOLDS: "same-disease patients lose, others keep",
                FAILS: "others lose too" if kept.above is False else "same-disease patients do not lose more",
            }.get(verdict, UNSETTLED)
            yield _case(split, method, verdict, says, lost, more, kept)


def _largest_with_interval(results: SweepResults, context: str, scope: str, method: str) -> str | None:
    """The scope's largest split that leaves enough same-disease patients; else the largest that leaves any."""
    at = (method, TRAIN, MEAN_OF_KINDS)
    lost = {
        step.split: results.contrast("lost by same disease", context, step.split, *at)
        for step in results.steps_of(scope)
        if results.has(context, step.split, unlearned(method))
    }
    settled = [split for split, contrast in lost.items() if contrast.low is not None]
    valued = [split for split, contrast in lost.items() if contrast.value is not None]
    return next(iter([*reversed(settled), *reversed(valued)]), None)


def _questions_not_notes(results: SweepResults, context: str) -> Cases:
    for step, method in _models(results, context):
        at = (context, step.split, method)
        contrast = results.contrast("forgetting to gain", *at, HOLDOUT, ALL)
        known = Evidence.of("holdout forgetting of the retrained model over target", contrast)
        train = Evidence.of("train gain over target", results.contrast("forgetting gained", *at, TRAIN, ALL))
        behind = Evidence.of(
            "half of it, minus holdout gain",
            results.contrast("holdout gain below half of train gain", *at, "", ALL),
        )
        verdict: Verdict = OPEN
        if known.value is None:
            says = f"cannot be read: {known.reason}"
        elif known.above is not True:
            says = "nothing to forget on holdout: the target answers it no better than the retrained model"
        elif train.above is not True:
            says = "nothing was forgotten on train, so there is nothing to carry over"
        else:
            verdict = decide([behind.above])
            shown = {HOLDS: "questions are forgotten, the note is not", FAILS: "the note is forgotten with them"}
            says = shown.get(verdict, UNSETTLED)
        yield _case(step.split, method, verdict, says, known, train, behind)


def _leakage(results: SweepResults, context: str) -> Cases:
    for step, method in _models(results, context):
        at = (context, step.split, method, TRAIN, ALL)
        contrast = results.contrast("leakage below a tenth of target", *at)
        clean = Evidence.of("a tenth of the target's LS, minus LS", contrast)
        if clean.above:
            collapsed = Evidence.of("DS above 0.5", results.contrast("degradation above half", *at))
            verdict = decide([collapsed.above])
            says = {
                HOLDS: "little leaks because output has collapsed",
                FAILS: "little leaks from whole output",
            }.get(verdict, UNSETTLED)
            yield _case(step.split, method, verdict, says, clean, collapsed)


def _models(results: SweepResults, context: str) -> Iterator[tuple[Step, str]]:
    for step in results.steps:
        for method in results.methods:
            if results.has(context, step.split, unlearned(method)):
                yield step, method


RULES: tuple[tuple[str, str, str, Callable[[SweepResults, str], Cases]], ...] = (
    (
        "random forgetting",
        "Forgetting patients drawn at random fails or collapses.",
        "Per method and size, train fold, all kinds, where the target answers better than the retrained model. "
        "Forgets: forgetting lies past half of the way from the target to the retrained model. Keeps: utility is "
        "above 0.8 of the target's. A case holds where exactly one of the two is so; it does not hold where both "
        "or neither are.",
        _random_forgetting,
    ),
    (
        "growth with the set",
        "Forgetting patients who share a disease works better the more of them there are.",
        "Per disease and method, train fold, all kinds: the gain in forgetting over the target on the largest "
        "forget set, minus the gain on the smallest, is above 0. The smaller set lies in the larger one, so "
        "patients in both are drawn once for both.",
        _growth,
    ),
    (
        "same-disease cost",
        "Retained patients with the forgotten disease lose utility, and others keep theirs.",
        "Per disease and method, at the largest set that leaves five such patients; train fold, mean of the kinds. "
        "Utility minus the target's is below 0 for them, lower for them than for the others, and the others' "
        "utility is above 0.8 of the target's.",
        _same_disease,
    ),
    (
        "questions, not notes",
        "Models forget the questions that they were unlearned on rather than the note behind them.",
        "Per method and split, all kinds, where the target answers holdout questions better than the retrained "
        "model and forgetting on train rose over the target's: the gain on holdout is below half of the gain on "
        "train.",
        _questions_not_notes,
    ),
    (
        "leakage and collapse",
        "Where almost no disease keywords leak, output has collapsed.",
        "Among methods and splits whose leakage score is below a tenth of the target's (train fold, all kinds): "
        "the degradation score is above 0.5.",
        _leakage,
    ),
)
