"""MedForget's findings as rules on a sweep's own numbers; claims and rules in words stand in ``report.yaml``.

A case is a method and a measure, decided only by intervals over patients; fewer than five patients settle nothing.

Source: MedForget, Sections 5.1 to 5.4 and A.2, which state the findings without intervals or thresholds; the
thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from medunlearn.papers.medforget.contrasts import ALL
from medunlearn.papers.medforget.sweep import IDENTITIES, LevelMeasure, LevelResults, Scope
from medunlearn.papers.sweeps.models import TARGET_MODEL, unlearned
from medunlearn.papers.sweeps.report import finding
from medunlearn.papers.sweeps.results import settled
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Evidence, Finding

MEMORIZED = 0.9
Cases = Iterator[Case]


def findings(results: LevelResults) -> tuple[Finding, ...]:
    """The findings, in the paper's order."""
    return tuple(finding("medforget", name, list(cases(results))) for name, cases in CASES.items())


def _labels(split: str, method: str, measure: LevelMeasure) -> dict[str, str]:
    return {"split": split, "method": method, "measure": measure.title}


def _memorized(results: LevelResults) -> Cases:
    says = {HOLDS: "memorized", FAILS: "not memorized"}
    for scope in results.levels:
        for measure in results.tasks:
            number = results.number(scope.split, TARGET_MODEL, "forget", measure.name)
            if number is not None and number.value is not None:
                above = Evidence.of(f"{measure.title} of the target, minus {MEMORIZED:g}", number, MEMORIZED)
                yield settled(_labels(scope.split, "target", measure), [above], [above.above], says)


def _deletion(results: LevelResults) -> Cases:
    says = {HOLDS: "more at the coarsest level", FAILS: "more at the finest level"}
    for method, measure, coarse, fine in _ends(results):
        known = [
            results.evidence(f"to forget on {scope.split}", "known", scope.split, "", "forget", measure.name)
            for scope in (coarse, fine)
        ]
        words = f"forgotten on {coarse.split}, minus {fine.split}"
        more = results.evidence(words, "forgotten more", coarse.split, method, "forget", measure.name)
        labels, evidence = _labels(_pair(coarse, fine), method, measure), (*known, more)
        if any(one.value is not None and one.above is not True for one in known):
            unsettled = (
                "it is not settled that there is something to forget: the target against the retrained model"
            )
            yield Case(labels, OPEN, unsettled, evidence)
        else:
            yield settled(labels, evidence, [more.above], says)


def _utility(results: LevelResults) -> Cases:
    for group in ("retain", "general"):
        words = {HOLDS: "more lost at the coarsest level", FAILS: "more lost at the finest", OPEN: "not settled"}
        says = {verdict: f"{text}, {group} set" for verdict, text in words.items()}
        for method, measure, coarse, fine in _ends(results):
            name = f"lost on {coarse.split}, minus {fine.split}, {group} set"
            more = results.evidence(name, "lost more", coarse.split, method, group, measure.name)
            if more.value is not None:
                yield settled(_labels(_pair(coarse, fine), method, measure), [more], [more.above], says)


def _reconstruction(results: LevelResults) -> Cases:
    for scope in results.levels[1:]:
        for method, measure in _each(results, *results.tasks) if scope.level in ("section", "study") else ():
            leaks, more, helped = (
                results.evidence(words, name, scope.split, method, ALL, measure.name)
                for name, words in (
                    ("leaks", "given all identifiers, over the retrained model"),
                    ("leaks more", f"that, minus the same of {results.levels[0].split}"),
                    ("identifiers help", "given all identifiers, minus none"),
                )
            )
            if helped.value is not None:
                less = "no more than the retrained model"
                failed = less if leaks.above is False else "the coarsest level leaks more"
                says = {HOLDS: "leaks, and more than the coarsest level", FAILS: failed}
                signs = [leaks.above, more.above]
                yield settled(_labels(scope.split, method, measure), [leaks, more, helped], signs, says)


def _rephrased(results: LevelResults) -> Cases:
    says = {HOLDS: "leaks less", FAILS: "leaks more"}
    for scope in results.levels:
        for method, measure in _each(results, *results.tasks):
            at = (scope.split, method, "rephrase", measure.name)
            over = results.evidence("rephrased minus original", "rephrased over original", *at)
            if over.value is not None:
                yield settled(_labels(scope.split, method, measure), [over], [over.below], says)


def _flat(results: LevelResults) -> Cases:
    words = {HOLDS: "more is left", FAILS: "less is left", OPEN: "not settled"}
    says = {verdict: f"{text} after flat unlearning" for verdict, text in words.items()}
    for scope in results.levels:
        for method, measure in _each(results, *IDENTITIES, *results.tasks):
            name = f"unlearned on {scope.partner}, minus on {scope.split}"
            at = (scope.split, method, "forget", measure.name)
            left = results.evidence(name, "flat over hierarchical", *at)
            if left.value is not None:
                yield settled(_labels(scope.split, method, measure), [left], [left.above], says)


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


CASES: dict[str, Callable[[LevelResults], Cases]] = {
    "memorized": _memorized,
    "deletion": _deletion,
    "utility": _utility,
    "reconstruction": _reconstruction,
    "rephrased": _rephrased,
    "hierarchy": _flat,
}
