"""AMNESIA's findings as rules on a sweep's own numbers: each holds, does not hold, or cannot be settled.

A rule is decided case by case (a method on a split), and only by intervals: a case holds where each of its
differences has an interval that leaves 0 out on the side that the finding says, and does not hold where one is
settled on the other side. Thresholds are relative to the sweep's own target and retrained models.

Source: AMNESIA, Sections 6.1 to 6.3 and 7, which state the findings without intervals or thresholds; the thresholds
are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from medunlearn.papers.amnesia.report.cases import Case, Evidence, Finding
from medunlearn.papers.amnesia.report.content import MEAN_OF_KINDS, RANDOM, UNLEARNED, Step, SweepContent
from medunlearn.reports.readings import ALL
from medunlearn.reports.verdicts import FAILS, HOLDS, OPEN, Verdict

Judge = Callable[[SweepContent, str], Iterator[Case]]


def findings(content: SweepContent) -> tuple[Finding, ...]:
    """The five findings of every context, in the paper's order."""
    return tuple(
        Finding(name, claim, rule, context, tuple(judge(content, context)))
        for context in content.contexts
        for name, claim, rule, judge in _FINDINGS
    )


def _decide(*signs: bool | None) -> Verdict:
    """Holds where every sign is for it; does not hold where one is against it."""
    if any(sign is False for sign in signs):
        return FAILS
    return HOLDS if all(sign is True for sign in signs) else OPEN


def _random_forgetting(content: SweepContent, context: str) -> Iterator[Case]:
    for step, method in _cells(content, context):
        if step.scope != RANDOM:
            continue
        forgot = content.contrast("forgetting past half-way", context, step.split, method, "train", ALL)
        kept = content.contrast("utility above 0.8 of target", context, step.split, method, "train", ALL)
        known = content.contrast("forgetting to gain", context, step.split, method, "train", ALL)
        verdict, says = _forgets_or_keeps(known.above, forgot.above, kept.above)
        evidence = (
            Evidence("forgetting of the retrained model over target", known),
            Evidence("forgetting past half-way", forgot),
            Evidence("utility above 0.8 of target", kept),
        )
        yield Case(context, step.split, method, verdict, says, evidence)


def _forgets_or_keeps(known: bool | None, forgot: bool | None, kept: bool | None) -> tuple[Verdict, str]:
    if known is not True and forgot is not None:
        return OPEN, "nothing to forget: the target answers no better than the retrained model"
    if forgot is None or kept is None:
        return OPEN, "an interval holds its threshold, or a model is missing"
    if forgot:
        return (FAILS, "forgets and keeps utility") if kept else (HOLDS, "collapses: forgets, and loses utility")
    return (
        (HOLDS, "fails: keeps utility, and does not forget")
        if kept
        else (FAILS, "loses utility without forgetting")
    )


def _growth(content: SweepContent, context: str) -> Iterator[Case]:
    for scope in content.scopes:
        steps = [step for step in content.steps_of(scope) if step.percent is not None and step.disease]
        for method in content.methods:
            there = [step for step in steps if content.has(context, step.split, (UNLEARNED, method))]
            if len(there) < 2:
                continue
            large = there[-1].split
            grown = content.contrast("growth of forgetting", context, large, method, "train", ALL)
            verdict = _decide(grown.above)
            says = {HOLDS: "grows", FAILS: "shrinks", OPEN: "no growth that can be told from none"}[verdict]
            evidence = (Evidence(f"gain over target, {there[0].percent}% to {there[-1].percent}%", grown),)
            yield Case(context, large, method, verdict, says, evidence)


def _same_disease(content: SweepContent, context: str) -> Iterator[Case]:
    for scope in content.scopes:
        for method in content.methods:
            split = _last_with_an_interval(content, context, scope, method)
            if split is None:
                continue
            names = (
                "lost by same disease",
                "lost by same more than by other",
                "utility of others above 0.8 of target",
            )
            found = [content.contrast(name, context, split, method, "train", MEAN_OF_KINDS) for name in names]
            lost, more, kept = (one.above for one in found)
            verdict = _decide(_negated(lost), _negated(more), kept)
            says = {
                HOLDS: "same-disease patients lose, others keep",
                FAILS: "others lose too" if kept is False else "same-disease patients do not lose more",
                OPEN: "not settled",
            }[verdict]
            evidence = tuple(Evidence(name, one) for name, one in zip(names, found, strict=True))
            yield Case(context, split, method, verdict, says, evidence)


def _last_with_an_interval(content: SweepContent, context: str, scope: str, method: str) -> str | None:
    """The scope's largest split that leaves enough same-disease patients; else the largest that leaves any."""
    there = [
        step.split for step in content.steps_of(scope) if content.has(context, step.split, (UNLEARNED, method))
    ]
    name, at = "lost by same disease", ("train", MEAN_OF_KINDS)
    found = {split: content.contrast(name, context, split, method, *at) for split in there}
    settled = [split for split, one in found.items() if one.low is not None]
    valued = [split for split, one in found.items() if one.value is not None]
    return next(iter([*reversed(settled), *reversed(valued)]), None)


def _questions_not_notes(content: SweepContent, context: str) -> Iterator[Case]:
    for step, method in _cells(content, context):
        at = (context, step.split, method)
        known = content.contrast("forgetting to gain", *at, "holdout", ALL)
        train = content.contrast("forgetting gained", *at, "train", ALL)
        behind = content.contrast("holdout gain below half of train gain", *at, "", ALL)
        evidence = (
            Evidence("holdout forgetting of the retrained model over target", known),
            Evidence("train gain over target", train),
            Evidence("half of it, minus holdout gain", behind),
        )
        if known.above is not True:
            says = "nothing to forget on holdout: the target answers it no better than the retrained model"
            says = says if known.value is not None else f"cannot be read: {known.reason}"
            yield Case(*at, OPEN, says, evidence)
        elif train.above is not True:
            yield Case(*at, OPEN, "nothing was forgotten on train, so there is nothing to carry over", evidence)
        else:
            verdict = _decide(behind.above)
            shown = {HOLDS: "questions are forgotten, the note is not", FAILS: "the note is forgotten with them"}
            yield Case(*at, verdict, shown.get(verdict, "not settled"), evidence)


def _leakage(content: SweepContent, context: str) -> Iterator[Case]:
    for step, method in _cells(content, context):
        at = (context, step.split, method)
        clean = content.contrast("leakage below a tenth of target", *at, "train", ALL)
        if clean.above is not True:
            continue
        collapsed = content.contrast("degradation above half", *at, "train", ALL)
        verdict = _decide(collapsed.above)
        says = {HOLDS: "little leaks because output has collapsed", FAILS: "little leaks from whole output"}
        evidence = (Evidence("a tenth of the target's LS, minus LS", clean), Evidence("DS above 0.5", collapsed))
        yield Case(*at, verdict, says.get(verdict, "not settled"), evidence)


def _cells(content: SweepContent, context: str) -> Iterator[tuple[Step, str]]:
    for step in content.steps:
        for method in content.methods:
            if content.has(context, step.split, (UNLEARNED, method)):
                yield step, method


def _negated(sign: bool | None) -> bool | None:
    return None if sign is None else not sign


_FINDINGS: tuple[tuple[str, str, str, Judge], ...] = (
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


def findings_text(content: SweepContent) -> str:
    """The findings for a terminal: verdict, counts, and the numbers of every case."""
    lines: list[str] = []
    for found in findings(content):
        lines += [f"{found.verdict.upper()}: {found.claim} ({found.context})", f"  {found.summary}"]
        lines += [
            f"  {case.split}, {case.method}: {case.verdict}; {case.says}; " + "; ".join(map(str, case.evidence))
            for case in found.cases
        ]
        lines += [f"  Rule: {found.rule}", ""]
    return "\n".join(lines).rstrip() + "\n"
