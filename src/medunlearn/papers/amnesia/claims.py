"""AMNESIA's findings as rules on a sweep's own contrasts; claims and rules in words stand in ``report.yaml``.

A case is a method on a split, decided only by intervals. Thresholds are relative to the sweep's own target and
retrained models.

Source: AMNESIA, Sections 6.1 to 6.3 and 7, which state the findings without intervals or thresholds; the thresholds
are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from medunlearn.papers.amnesia.contrasts import GROWTH
from medunlearn.papers.amnesia.sweep import HOLDOUT, MEAN_OF_KINDS, RANDOM, TRAIN, SizeResults
from medunlearn.papers.sweeps.models import unlearned
from medunlearn.papers.sweeps.report import finding
from medunlearn.papers.sweeps.results import settled
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Evidence, Finding, Verdict
from medunlearn.reports.formatting import ALL

Cases = Iterator[Case]


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
            known = results.evidence(words, "forgetting to gain", *at)
            names = ("forgetting past half-way", "utility above 0.8 of target")
            forgot, kept = (results.evidence(name, name, *at) for name in names)
            verdict, says = _forgets_or_keeps(known.above, forgot.above, kept.above)
            yield Case({"split": step.split, "method": method}, verdict, says, (known, forgot, kept))


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


def _growth(results: SizeResults, context: str) -> Cases:
    says = {HOLDS: "grows", FAILS: "shrinks", OPEN: "no growth that can be told from none"}
    for steps in results.scopes.values():
        for method in results.methods:
            sized = [
                step
                for step in steps
                if step.percent is not None and step.disease and results.has(context, step.split, unlearned(method))
            ]
            if len(sized) >= 2:
                large = sized[-1].split
                words = f"gain over target, {sized[0].size} to {sized[-1].size}"
                grown = results.evidence(words, GROWTH, context, large, method, TRAIN, ALL)
                yield settled({"split": large, "method": method}, [grown], [grown.above], says)


def _same_disease(results: SizeResults, context: str) -> Cases:
    names = ("lost by same disease", "lost by same more than by other", "utility of others above 0.8 of target")
    for scope in results.scopes:
        for method in results.methods:
            split = _largest_with_interval(results, context, scope, method)
            if split is not None:
                at = (context, split, method, TRAIN, MEAN_OF_KINDS)
                lost, more, kept = (results.evidence(name, name, *at) for name in names)
                failed = "others lose too" if kept.above is False else "same-disease patients do not lose more"
                says = {HOLDS: "same-disease patients lose, others keep", FAILS: failed}
                signs = [lost.below, more.below, kept.above]
                yield settled({"split": split, "method": method}, [lost, more, kept], signs, says)


def _largest_with_interval(results: SizeResults, context: str, scope: str, method: str) -> str | None:
    """The scope's largest split that leaves enough same-disease patients; else the largest that leaves any."""
    lost = {
        step.split: results.contrast("lost by same disease", context, step.split, method, TRAIN, MEAN_OF_KINDS)
        for step in reversed(results.scopes[scope])
        if results.has(context, step.split, unlearned(method))
    }
    settling = [split for split, contrast in lost.items() if contrast.low is not None]
    valued = [split for split, contrast in lost.items() if contrast.value is not None]
    return next(iter([*settling, *valued]), None)


def _questions_not_notes(results: SizeResults, context: str) -> Cases:
    says = {HOLDS: "questions are forgotten, the note is not", FAILS: "the note is forgotten with them"}
    for step, method in results.runs(context):
        at = (context, step.split, method)
        words = "holdout forgetting of the retrained model over target"
        known = results.evidence(words, "forgetting to gain", *at, HOLDOUT, ALL)
        train = results.evidence("train gain over target", "forgetting gained", *at, TRAIN, ALL)
        name = "holdout gain below half of train gain"
        behind = results.evidence("half of it, minus holdout gain", name, *at, "", ALL)
        labels, evidence = {"split": step.split, "method": method}, (known, train, behind)
        if reason := _unreadable(known, train):
            yield Case(labels, OPEN, reason, evidence)
        else:
            yield settled(labels, evidence, [behind.above], says)


def _unreadable(known: Evidence, train: Evidence) -> str:
    if known.value is None:
        return f"cannot be read: {known.reason}"
    if known.above is not True:
        return "nothing to forget on holdout: the target answers it no better than the retrained model"
    return "" if train.above is True else "nothing was forgotten on train, so there is nothing to carry over"


def _leakage(results: SizeResults, context: str) -> Cases:
    says = {HOLDS: "little leaks because output has collapsed", FAILS: "little leaks from whole output"}
    for step, method in results.runs(context):
        at = (context, step.split, method, TRAIN, ALL)
        clean = results.evidence("a tenth of the target's LS, minus LS", "leakage below a tenth of target", *at)
        if clean.above:
            collapsed = results.evidence("DS above 0.5", "degradation above half", *at)
            labels = {"split": step.split, "method": method}
            yield settled(labels, [clean, collapsed], [collapsed.above], says)


CASES: dict[str, Callable[[SizeResults, str], Cases]] = {
    "random forgetting": _random_forgetting,
    "growth with the set": _growth,
    "same-disease cost": _same_disease,
    "questions, not notes": _questions_not_notes,
    "leakage and collapse": _leakage,
}
