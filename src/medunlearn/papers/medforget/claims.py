"""MedForget's findings as rules on a sweep's numbers; claims and rules in words are in ``report.yaml``.

A case is a method and a measure, decided only by intervals over patients. Cases with one training seed, or fewer
than :data:`FEWEST_DOCUMENTS` documents or five patients, stay open. A rule has premises, and is open if one of them
is undecided: that there is something to forget, that it was forgotten, that the model still works.

Source: MedForget, Sections 5.1 to 5.4 and A.2, which state the findings without intervals or thresholds; the
thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from medunlearn.papers.medforget.contrasts import ALL, PROPORTION
from medunlearn.papers.medforget.measures import IDENTITIES, LevelMeasure
from medunlearn.papers.medforget.question_sets import REPHRASED, SETS
from medunlearn.papers.medforget.scopes import Scope
from medunlearn.papers.medforget.sequence import GONE, STAYING, STAYS, STILL_WORKS
from medunlearn.papers.medforget.sweep import LevelResults
from medunlearn.papers.sweeps.models import TARGET_MODEL, unlearned
from medunlearn.papers.sweeps.page import finding
from medunlearn.papers.sweeps.results import settled
from medunlearn.reports.claims import FAILS, HOLDS, LEAST_SEEDS, OPEN, Case, Evidence, Finding, Verdict

MEMORIZED = 0.9
FEWEST_DOCUMENTS = 20
PREMISES = {
    "known": (
        "it is not settled that there is something to forget: the target against the retrained model",
        "target minus retrained model, {group} set of {split}",
    ),
    "forgotten": (
        "it is not settled that anything was forgotten: the target against the unlearned model",
        "target minus unlearned model, {group} set of {split}",
    ),
    "works": (
        "it is not settled that the model still answers half of what it should keep",
        "unlearned model minus half of the target, {group} set of {split}",
    ),
}
"""Contrast -> what is said where it is not above 0, and the contrast in words."""
AGAINST = " against "
Cases = Iterator[Case]


def findings(results: LevelResults) -> tuple[Finding, ...]:
    """The findings, in the paper's order."""
    return tuple(
        finding("medforget", name, [_enough(results, case, name) for case in cases(results)])
        for name, cases in CASES.items()
        if name != "sequence" or len(results.sequence)
    )


def _enough(results: LevelResults, case: Case, name: str) -> Case:
    """The case, set to open if it has too few documents or training seeds."""
    scopes = [scope for scope in results.splits if scope.split in case.labels["split"].split(AGAINST)]
    documents = min(scope.shared if name == "hierarchy" else scope.sections for scope in scopes)
    if name == "sequence":
        order = results.sequence[results.sequence["method"] == case.labels["method"]].set_index("step")["split"]
        earlier = set(order[order.index < order[order == case.labels["split"]].index[0]])
        documents = sum(scope.sections for scope in results.splits if scope.split in earlier)
    if name in ("deletion", "reconstruction") and results.common:
        documents = results.common
    few = ""
    if len(results.seeds) < LEAST_SEEDS:
        few = "one training seed decides nothing"
    elif documents < FEWEST_DOCUMENTS:
        few = f"{documents} documents to forget decide nothing"
    if not few or case.verdict not in (HOLDS, FAILS):
        return case
    return replace(case, verdict=OPEN, says=f"{few}; otherwise: {case.says}")


@dataclass(frozen=True)
class _MeasuredMethod:
    """The numbers of one method and measure."""

    results: LevelResults
    method: str
    measure: LevelMeasure

    def evidence(self, words: str, name: str, split: str, group: str) -> Evidence:
        method = "" if name == "known" else self.method
        return self.results.evidence(words, name, split, method, group, self.measure.name)

    def premise(self, name: str, split: str, group: str = "") -> tuple[str, Evidence]:
        """Reason to leave a case open, and the contrast that must be above 0."""
        reason, words = PREMISES[name]
        group = group or ("retain" if name == "works" else "forget")
        return reason, self.evidence(words.format(group=group, split=split), name, split, group)

    def case(
        self,
        split: str,
        premises: Sequence[tuple[str, Evidence]],
        evidence: Sequence[Evidence],
        says: Mapping[Verdict, str],
    ) -> Case:
        """A case that holds if all evidence is above 0; open, with a reason, if a premise is not."""
        labels = {"split": split, "method": self.method, "measure": self.measure.title}
        everything = (*(premise for _, premise in premises), *evidence)
        for reason, premise in premises:
            if premise.above is not True:
                return Case(labels, OPEN, reason, everything)
        return settled(labels, everything, [number.above for number in evidence], says)


def _memorization_cases(results: LevelResults) -> Cases:
    says = {HOLDS: "memorized", FAILS: "not memorized"}
    for scope, measure in product(results.levels, results.tasks):
        target = _MeasuredMethod(results, "target", measure)
        number = results.number(scope.split, TARGET_MODEL, "forget", measure.name)
        if number is not None and number.value is not None:
            above = Evidence.of(f"{measure.title} of the target, minus {MEMORIZED:g}", number, MEMORIZED)
            yield target.case(scope.split, [], [above, target.premise("known", scope.split)[1]], says)


def _deletion(results: LevelResults) -> Cases:
    says = {HOLDS: "more at the coarsest level", FAILS: "more at the finest level"}
    for model, coarse, fine in _ends(results):
        at = (coarse.split, results.compared("forget"))
        more = model.evidence(f"forgotten on {coarse.split}, minus {fine.split}", "forgotten more", *at)
        words = f"left over the retrained model on {fine.split}, minus {coarse.split}"
        less = model.evidence(words, "left less", *at)
        if less.value is not None:
            premises = [model.premise(name, s.split) for s in (coarse, fine) for name in ("known", "works")]
            yield model.case(_pair(coarse, fine), premises, [more, less], says)


def _utility(results: LevelResults) -> Cases:
    words = {HOLDS: "more lost at the coarsest level", FAILS: "more lost at the finest", OPEN: "not settled"}
    for group in ("retain", "general"):
        says = {verdict: f"{text}, {group} set" for verdict, text in words.items()}
        for model, coarse, fine in _ends(results):
            where = f"{coarse.split}, minus {fine.split}, {group} set"
            more = model.evidence(f"lost on {where}", "lost more", coarse.split, group)
            beyond = model.evidence(
                f"lost beside the retrained model on {where}", "lost more than retrained", coarse.split, group
            )
            if beyond.value is not None:
                # Two destroyed models say nothing of the levels: one of them must work.
                works = [model.premise("works", scope.split) for scope in (fine, coarse)]
                premise = next((working for working in works if working[1].above), works[0])
                yield model.case(_pair(coarse, fine), [premise], [more, beyond], says)


def _reconstruction(results: LevelResults) -> Cases:
    words = {
        "leaks": "given all identifiers, over the retrained model",
        "leaks more": f"that, minus the same of {results.levels[0].split}" if results.levels else "",
        "brought back": "given all identifiers, minus none, minus the target's own change",
        PROPORTION: "given all identifiers, minus none changed in the target's proportion",
    }
    for scope in results.levels[1:]:
        for model in _each(results, *results.tasks) if scope.level in ("section", "study") else ():
            evidence = [model.evidence(text, name, scope.split, ALL) for name, text in words.items()]
            leaks, _, helped, share = evidence
            if leaks.value is not None and share.value is not None:
                failed = "the coarsest level leaks more"
                if leaks.above is False:
                    failed = "no more than the retrained model"
                elif helped.above is False or share.above is False:
                    failed = "names bring nothing back beyond the target's own change"
                says = {HOLDS: "names bring it back, and more than at the coarsest level", FAILS: failed}
                premises = [model.premise(name, scope.split) for name in ("forgotten", "works")]
                yield model.case(scope.split, premises, evidence, says)


def _suppression_cases(results: LevelResults) -> Cases:
    """Section 5.1 as stated in the paper: unlearned models compared only with the target, whatever else they
    lost.
    """
    for scope in results.levels:
        for model in _each(results, *results.tasks):
            less = [model.premise("forgotten", scope.split, group)[1] for group in ("forget", "rephrase")]
            if all(number.value is not None for number in less):
                works = model.premise("works", scope.split)[1].above
                lower = "lower on both" if works else "lower on both; so it is of a model that answers nothing"
                says = {HOLDS: lower, FAILS: "not lower on one of the two"}
                yield model.case(scope.split, [], less, says)


def _paraphrase_cases(results: LevelResults) -> Cases:
    for scope, group in product(results.levels, REPHRASED):
        varied = "" if group == REPHRASED[0] else f" ({SETS[group].title.lower()})"
        says = {
            HOLDS: f"deletion persists{varied}",
            FAILS: f"the unlearned model answers better than the target{varied}",
            OPEN: f"not settled{varied}",
        }
        for model in _each(results, *results.tasks):
            words = f"target minus unlearned model, rephrased questions of {scope.split}{varied}"
            less = model.evidence(words, "forgotten", scope.split, group)
            learned = model.premise("known", scope.split, group)
            if less.value is not None and learned[1].value is not None:
                premises = [learned, *(model.premise(name, scope.split) for name in ("forgotten", "works"))]
                yield model.case(scope.split, premises, [less], says)


def _flat(results: LevelResults) -> Cases:
    words = {HOLDS: "more is left", FAILS: "less is left", OPEN: "not settled"}
    says = {verdict: f"{text} after flat unlearning" for verdict, text in words.items()}
    for scope in results.levels:
        for model in _each(results, *IDENTITIES, *results.tasks):
            name = f"unlearned on {scope.partner}, minus on {scope.split}, of what both forget"
            more = model.evidence(name, "flat over hierarchical", scope.split, "shared")
            if more.value is not None:
                # Names are read by what the model keeps of the sections.
                working = replace(model, measure=results.tasks[-1]) if model.measure in IDENTITIES else model
                premises = [working.premise("works", split) for split in (scope.split, str(scope.partner))]
                yield model.case(scope.split, premises, [more], says)


def _sequence(results: LevelResults) -> Cases:
    """Earlier requests asked again after the last one: the share of their forgetting that persists."""
    says = {HOLDS: "earlier requests stay forgotten", FAILS: "more than a tenth of what was forgotten came back"}
    words = {
        GONE: "target minus unlearned model right after each earlier request",
        STILL_WORKS: "unlearned model minus half of the target, retain set",
        STAYS: f"target minus unlearned model on earlier requests, minus {STAYING:.0%} of that right after each",
    }
    steps = results.sequence.loc[results.sequence["step"] > 1, ["method", "step", "split"]].drop_duplicates()
    for (method, step, split), measure in product(steps.itertuples(index=False, name=None), results.tasks):
        forgotten, works, stays = (
            Evidence.of(f"{text}, request {step}", results.in_sequence[method, str(step), measure.name, name])
            for name, text in words.items()
        )
        if stays.value is not None:
            premises = [(PREMISES["forgotten"][0], forgotten), (PREMISES["works"][0], works)]
            yield _MeasuredMethod(results, method, measure).case(split, premises, [stays], says)


def _each(results: LevelResults, *measures: LevelMeasure) -> Iterator[_MeasuredMethod]:
    return (_MeasuredMethod(results, method, measure) for method in results.methods for measure in measures)


def _ends(results: LevelResults) -> Iterator[tuple[_MeasuredMethod, Scope, Scope]]:
    """Each method and measure with the coarsest and the finest level of its runs."""
    for model in _each(results, *results.measured(*results.tasks)):
        scopes = [scope for scope in results.levels if results.has(scope.split, unlearned(model.method))]
        if len(scopes) >= 2:
            yield model, scopes[0], scopes[-1]


def _pair(coarse: Scope, fine: Scope) -> str:
    return f"{coarse.split}{AGAINST}{fine.split}"


CASES: dict[str, Callable[[LevelResults], Cases]] = {
    "memorized": _memorization_cases,
    "suppressed": _suppression_cases,
    "deletion": _deletion,
    "utility": _utility,
    "reconstruction": _reconstruction,
    "rephrased": _paraphrase_cases,
    "hierarchy": _flat,
    "sequence": _sequence,
}
