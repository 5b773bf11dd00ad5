"""MedForget's findings as rules on a sweep's own numbers.

A case is a method and a measure, decided only by intervals over patients; fewer than five patients settle nothing.

Source: MedForget, Sections 5.1 to 5.4 and A.2, which state the findings without intervals or thresholds; the
thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from medunlearn.papers.medforget.contrasts import ALL
from medunlearn.papers.medforget.sweep import IDENTITIES, LevelMeasure, LevelResults, Scope
from medunlearn.papers.sweeps.models import TARGET_MODEL, unlearned
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Evidence, Finding, Verdict, decide

MEMORIZED = 0.9
UNSETTLED = "not settled"
Cases = Iterator[Case]


def findings(results: LevelResults) -> tuple[Finding, ...]:
    """The findings, in the paper's order."""
    return tuple(Finding(name, claim, rule, tuple(cases(results))) for name, claim, rule, cases in RULES)


def _case(split: str, method: str, measure: LevelMeasure, verdict: Verdict, says: str, *evidence: Evidence) -> Case:
    return Case({"split": split, "method": method, "measure": measure.title}, verdict, says, evidence)


def _memorized(results: LevelResults) -> Cases:
    for scope in results.levels:
        for measure in results.tasks:
            number = results.number(scope.split, TARGET_MODEL, "forget", measure.name)
            if number is not None and number.value is not None:
                above = Evidence.of(f"{measure.title} of the target, minus {MEMORIZED:g}", number, MEMORIZED)
                verdict = decide([above.above])
                says = {HOLDS: "memorized", FAILS: "not memorized"}.get(verdict, UNSETTLED)
                yield _case(scope.split, "target", measure, verdict, says, above)


def _deletion(results: LevelResults) -> Cases:
    for method, measure, coarse, fine in _ends(results):
        known = [
            Evidence.of(
                f"to forget on {scope.split}", results.contrast("known", scope.split, "", "forget", measure.name)
            )
            for scope in (coarse, fine)
        ]
        contrast = results.contrast("forgotten more", coarse.split, method, "forget", measure.name)
        more = Evidence.of(f"forgotten on {coarse.split}, minus {fine.split}", contrast)
        verdict: Verdict = OPEN
        if any(one.value is not None and one.above is not True for one in known):
            says = "it is not settled that there is something to forget: the target against the retrained model"
        else:
            verdict = decide([more.above])
            shown = {HOLDS: "more at the coarsest level", FAILS: "more at the finest level"}
            says = shown.get(verdict, UNSETTLED)
        yield _case(_pair(coarse, fine), method, measure, verdict, says, *known, more)


def _utility(results: LevelResults) -> Cases:
    for group in ("retain", "general"):
        for method, measure, coarse, fine in _ends(results):
            contrast = results.contrast("lost more", coarse.split, method, group, measure.name)
            if contrast.value is not None:
                more = Evidence.of(f"lost on {coarse.split}, minus {fine.split}, {group} set", contrast)
                verdict = decide([more.above])
                shown = {HOLDS: "more lost at the coarsest level", FAILS: "more lost at the finest"}
                says = f"{shown.get(verdict, UNSETTLED)}, {group} set"
                yield _case(_pair(coarse, fine), method, measure, verdict, says, more)


def _reconstruction(results: LevelResults) -> Cases:
    for scope in results.levels[1:]:
        for method, measure in _each(results, *results.tasks) if scope.level in ("section", "study") else ():
            at = (scope.split, method, ALL.name, measure.name)
            leaks, more, helped = (
                Evidence.of(words, results.contrast(name, *at))
                for name, words in (
                    ("leaks", "given all identifiers, over the retrained model"),
                    ("leaks more", f"that, minus the same of {results.levels[0].split}"),
                    ("identifiers help", "given all identifiers, minus none"),
                )
            )
            if helped.value is not None:
                verdict = decide([leaks.above, more.above])
                says = {
                    HOLDS: "leaks, and more than the coarsest level",
                    FAILS: "no more than the retrained model"
                    if leaks.above is False
                    else "the coarsest level leaks more",
                }.get(verdict, UNSETTLED)
                yield _case(scope.split, method, measure, verdict, says, leaks, more, helped)


def _rephrased(results: LevelResults) -> Cases:
    for scope in results.levels:
        for method, measure in _each(results, *results.tasks):
            contrast = results.contrast("rephrased over original", scope.split, method, "rephrase", measure.name)
            if contrast.value is not None:
                over = Evidence.of("rephrased minus original", contrast)
                verdict = decide([over.below])
                says = {HOLDS: "leaks less", FAILS: "leaks more"}.get(verdict, UNSETTLED)
                yield _case(scope.split, method, measure, verdict, says, over)


def _flat(results: LevelResults) -> Cases:
    for scope in results.levels:
        for method, measure in _each(results, *IDENTITIES, *results.tasks):
            contrast = results.contrast("flat over hierarchical", scope.split, method, "forget", measure.name)
            if contrast.value is not None:
                left = Evidence.of(f"unlearned on {scope.partner}, minus on {scope.split}", contrast)
                verdict = decide([left.above])
                says = {HOLDS: "more is left", FAILS: "less is left"}.get(verdict, UNSETTLED)
                yield _case(scope.split, method, measure, verdict, f"{says} after flat unlearning", left)


def _each(results: LevelResults, *measures: LevelMeasure) -> Iterator[tuple[str, LevelMeasure]]:
    return ((method, measure) for method in results.methods for measure in measures)


def _ends(results: LevelResults) -> Iterator[tuple[str, LevelMeasure, Scope, Scope]]:
    """Method and measure with the coarsest and the finest level that the method was run on."""
    for method in results.methods:
        scopes = [scope for scope in results.levels if results.has(scope.split, unlearned(method))]
        if len(scopes) >= 2:
            for measure in results.measured(*results.tasks):
                yield method, measure, scopes[0], scopes[-1]


def _pair(coarse: Scope, fine: Scope) -> str:
    return f"{coarse.split} against {fine.split}"


RULES: tuple[tuple[str, str, str, Callable[[LevelResults], Cases]], ...] = (
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
