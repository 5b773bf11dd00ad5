"""MedForget's findings as rules on a sweep's own numbers: each holds, does not hold, or cannot be settled.

A rule is decided case by case (a method and a measure), and only by intervals over patients: a case holds where
each of its differences has an interval that leaves 0 out on the side that the finding says, does not hold where one
is settled on the other side, and is open otherwise, also with fewer than five patients.

Source: MedForget, Sections 5.1 to 5.4 and A.2, which state the findings without intervals or thresholds; the
thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from medunlearn.papers.amnesia.report.cases import Evidence
from medunlearn.papers.amnesia.report.content import Contrast, Measured
from medunlearn.papers.medforget.report.cases import Case, Finding, negated
from medunlearn.papers.medforget.report.content import (
    BY_NAME,
    IDENTIFIERS,
    IDENTITIES,
    TARGET_MODEL,
    LevelContent,
    Measure,
    Scope,
    unlearned,
)
from medunlearn.reports.verdicts import FAILS, FEWEST_SUBJECTS, HOLDS, OPEN, Verdict, decide

MEMORIZED = 0.9
GIVEN_ALL = f"given {IDENTIFIERS[-1]}"

Judge = Callable[[LevelContent], Iterator[Case]]


def findings(content: LevelContent) -> tuple[Finding, ...]:
    """The findings, in the paper's order."""
    return tuple(Finding(name, claim, rule, tuple(judge(content))) for name, claim, rule, judge in _FINDINGS)


def _memorized(content: LevelContent) -> Iterator[Case]:
    for scope in content.levels:
        for measure in content.tasks:
            found = content.number(scope.split, TARGET_MODEL, "forget", measure.name)
            if found is not None and found.value is not None:
                above = _minus(found, MEMORIZED)
                verdict = decide([above.above])
                says = {HOLDS: "memorized", FAILS: "not memorized", OPEN: "not settled"}[verdict]
                evidence = (Evidence(f"{measure.title} of the target, minus {MEMORIZED:g}", above),)
                yield Case(scope.split, "target", measure.title, verdict, says, evidence)


def _minus(found: Measured, threshold: float) -> Contrast:
    """A number with its interval, minus a constant."""
    one = found.reading
    few = one.n_subjects < FEWEST_SUBJECTS
    value, low, high = (None if edge is None else edge - threshold for edge in (one.value, one.low, one.high))
    reason = f"fewer than {FEWEST_SUBJECTS} patients: no interval" if few else ""
    return Contrast(value, None if few else low, None if few else high, one.n_subjects, reason)


def _deletion(content: LevelContent) -> Iterator[Case]:
    for method, measure, coarse, fine in _ends(content):
        known = [content.contrast("known", one.split, "", "forget", measure.name) for one in (coarse, fine)]
        more = content.contrast("forgotten more", coarse.split, method, "forget", measure.name)
        evidence = (
            *(
                Evidence(f"to forget on {one.split}", found)
                for one, found in zip((coarse, fine), known, strict=True)
            ),
            Evidence(f"forgotten on {coarse.split}, minus {fine.split}", more),
        )
        if any(one.value is not None and one.above is not True for one in known):
            says = "it is not settled that there is something to forget: the target against the retrained model"
            yield Case(_pair(coarse, fine), method, measure.title, OPEN, says, evidence)
            continue
        verdict = decide([more.above])
        shown = {HOLDS: "more at the coarsest level", FAILS: "more at the finest level", OPEN: "not settled"}
        yield Case(_pair(coarse, fine), method, measure.title, verdict, shown[verdict], evidence)


def _utility(content: LevelContent) -> Iterator[Case]:
    for group, where in (("retain", "retain set"), ("general", "general set")):
        for method, measure, coarse, fine in _ends(content):
            more = content.contrast("lost more", coarse.split, method, group, measure.name)
            if more.value is None:
                continue
            verdict = decide([more.above])
            shown = {
                HOLDS: "more lost at the coarsest level",
                FAILS: "more lost at the finest",
                OPEN: "not settled",
            }
            evidence = (Evidence(f"lost on {coarse.split}, minus {fine.split}, {where}", more),)
            yield Case(_pair(coarse, fine), method, measure.title, verdict, f"{shown[verdict]}, {where}", evidence)


def _reconstruction(content: LevelContent) -> Iterator[Case]:
    if len(content.levels) < 2:
        return
    coarse = content.levels[0]
    for scope in content.levels[1:]:
        if scope.level not in ("section", "study"):
            continue
        for method in content.methods:
            for measure in content.tasks:
                at = (scope.split, method, GIVEN_ALL, measure.name)
                leaks, more, helped = (
                    content.contrast(name, *at) for name in ("leaks", "leaks more", "identifiers help")
                )
                if helped.value is None:
                    continue
                verdict, says = _leaking(leaks.above, more.above)
                evidence = (
                    Evidence("given all identifiers, over the retrained model", leaks),
                    Evidence(f"that, minus the same of {coarse.split}", more),
                    Evidence("given all identifiers, minus none", helped),
                )
                yield Case(scope.split, method, measure.title, verdict, says, evidence)


def _leaking(leaks: bool | None, more: bool | None) -> tuple[Verdict, str]:
    verdict = decide([leaks, more])
    if verdict == FAILS:
        return FAILS, "no more than the retrained model" if leaks is False else "the coarsest level leaks more"
    return verdict, "leaks, and more than the coarsest level" if verdict == HOLDS else "not settled"


def _rephrased(content: LevelContent) -> Iterator[Case]:
    for scope in content.levels:
        for method in content.methods:
            for measure in content.tasks:
                found = content.contrast("rephrased over original", scope.split, method, "rephrase", measure.name)
                if found.value is None:
                    continue
                verdict = decide([negated(found.above)])
                says = {HOLDS: "leaks less", FAILS: "leaks more", OPEN: "not settled"}[verdict]
                evidence = (Evidence("rephrased minus original", found),)
                yield Case(scope.split, method, measure.title, verdict, says, evidence)


def _flat(content: LevelContent) -> Iterator[Case]:
    for scope in content.levels:
        for method in content.methods:
            for measure in (*IDENTITIES, *content.tasks):
                found = content.contrast("flat over hierarchical", scope.split, method, "forget", measure.name)
                if found.value is None:
                    continue
                verdict = decide([found.above])
                says = {HOLDS: "more is left", FAILS: "less is left", OPEN: "not settled"}[verdict]
                evidence = (Evidence(f"unlearned on {scope.partner}, minus on {scope.split}", found),)
                yield Case(scope.split, method, measure.title, verdict, f"{says} after flat unlearning", evidence)


def _ends(content: LevelContent) -> Iterator[tuple[str, Measure, Scope, Scope]]:
    """Method and measure with the coarsest and the finest level that the method was run on."""
    for method in content.methods:
        there = [scope for scope in content.levels if content.has(scope.split, unlearned(method))]
        if len(there) < 2:
            continue
        for measure in content.measured(*content.tasks):
            yield method, BY_NAME[measure.name], there[0], there[-1]


def _pair(coarse: Scope, fine: Scope) -> str:
    return f"{coarse.split} against {fine.split}"


_FINDINGS: tuple[tuple[str, str, str, Judge], ...] = (
    (
        "memorized",
        "The target model has memorized what is to be forgotten.",
        f"Per level and measure: the target's number on the forget set is above {MEMORIZED:g}. Without it the "
        "others say little.",
        _memorized,
    ),
    (
        "deletion",
        "Coarser levels are deleted more thoroughly.",
        "Per method and measure, where the target answers better than the retrained model on both (not asked "
        "without retrained models): the drop from target to unlearned model on the forget set of the coarsest "
        "level, minus that of the finest, is above 0. "
        "Patients in both forget sets are drawn once for both.",
        _deletion,
    ),
    (
        "utility",
        "Coarser levels cost more utility.",
        "Per method and measure, on the retain set and on the general set: the drop from target to unlearned model "
        "at the coarsest level, minus that at the finest, is above 0.",
        _utility,
    ),
    (
        "reconstruction",
        "What was forgotten at a fine level is reconstructed from identifiers.",
        "Per method, measure, and the levels study and section, with the names of institution, patient and study "
        "in front of the question: the unlearned model answers better than the retrained one asked alike, and more "
        "so than the model unlearned at the coarsest level.",
        _reconstruction,
    ),
    (
        "rephrased",
        "Rephrased questions on turned views leak less than the original ones.",
        "Per method, level and measure: the number on the rephrased forget questions, minus that on the original "
        "ones, is below 0. Above 0 they leak more, and the finding does not hold.",
        _rephrased,
    ),
    (
        "hierarchy",
        "Unlearning along the hierarchy removes more of a node than flat unlearning of the same amount.",
        "Per method, level and measure (the level's names and its sections): on the level's forget set, the model "
        "unlearned on as many questions drawn without hierarchy answers better than that unlearned on the level.",
        _flat,
    ),
)


def findings_text(content: LevelContent) -> str:
    """The findings for a terminal: verdict and counts, in all and by method; the report has every case."""
    lines: list[str] = []
    for found in findings(content):
        lines += [f"{found.verdict.upper()}: {found.claim}", f"  {found.summary}"]
        lines += [f"  {line}" for line in by_method(found)]
        lines += [f"  Rule: {found.rule}", ""]
    return "\n".join(lines).rstrip() + "\n"


def by_method(found: Finding) -> Iterator[str]:
    """``NPO: 3 for, 0 against, 1 open`` of every method."""
    for method in dict.fromkeys(case.method for case in found.cases):
        verdicts = [case.verdict for case in found.cases if case.method == method]
        counts = (
            (verdicts.count(HOLDS), "for"),
            (verdicts.count(FAILS), "against"),
            (verdicts.count(OPEN), "open"),
        )
        yield f"{method}: " + ", ".join(f"{count} {word}" for count, word in counts)
