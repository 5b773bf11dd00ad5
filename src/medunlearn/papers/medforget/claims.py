"""MedForget's findings as rules on a sweep's own numbers; claims and rules in words stand in ``report.yaml``.

A case is a method and a measure, decided only by intervals over patients. One training seed, or fewer than
:data:`FEWEST_DOCUMENTS` documents or five patients, decide nothing. A rule has premises, and is open where one of
them is not settled: that there is something to forget, that it was forgotten, that the model still works.

Source: MedForget, Sections 5.1 to 5.4 and A.2, which state the findings without intervals or thresholds; the
thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from medunlearn.papers.medforget.contrasts import ALL, PROPORTION
from medunlearn.papers.medforget.measures import IDENTITIES, REPHRASED, SETS, SHARED, LevelMeasure
from medunlearn.papers.medforget.sequence import GONE, STAYING, STAYS, STILL_WORKS
from medunlearn.papers.medforget.sweep import LevelResults, Scope
from medunlearn.papers.sweeps.models import TARGET_MODEL, unlearned
from medunlearn.papers.sweeps.report import finding
from medunlearn.papers.sweeps.results import settled
from medunlearn.reports.claims import FAILS, HOLDS, LEAST_SEEDS, OPEN, Case, Evidence, Finding, Verdict

MEMORIZED = 0.9
FEWEST_DOCUMENTS = 20
KNOWN = "it is not settled that there is something to forget: the target against the retrained model"
FORGOTTEN = "it is not settled that anything was forgotten: the target against the unlearned model"
WORKS = "it is not settled that the model still answers half of what it should keep"
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
    """The case; open where too few documents or training seeds decided it."""
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


def _labels(split: str, method: str, measure: LevelMeasure) -> dict[str, str]:
    return {"split": split, "method": method, "measure": measure.title}


def _case(
    labels: Mapping[str, str],
    premises: Sequence[tuple[str, Evidence]],
    evidence: Sequence[Evidence],
    says: Mapping[Verdict, str],
) -> Case:
    """A case that holds where all evidence is above 0; open, with its reason, where a premise is not."""
    everything = (*(premise for _, premise in premises), *evidence)
    for reason, premise in premises:
        if premise.above is not True:
            return Case(labels, OPEN, reason, everything)
    return settled(labels, everything, [number.above for number in evidence], says)


def _known(results: LevelResults, split: str, measure: LevelMeasure, group: str = "forget") -> tuple[str, Evidence]:
    words = f"target minus retrained model, {group} set of {split}"
    return KNOWN, results.evidence(words, "known", split, "", group, measure.name)


def _forgotten(results: LevelResults, split: str, method: str, measure: LevelMeasure) -> tuple[str, Evidence]:
    words = f"target minus unlearned model, forget set of {split}"
    return FORGOTTEN, results.evidence(words, "forgotten", split, method, "forget", measure.name)


def _works(results: LevelResults, split: str, method: str, measure: LevelMeasure) -> tuple[str, Evidence]:
    """Names are read by what the model keeps of the sections."""
    words = f"unlearned model minus half of the target, retain set of {split}"
    return WORKS, results.evidence(words, "works", split, method, "retain", measure.name)


def _memorized(results: LevelResults) -> Cases:
    says = {HOLDS: "memorized", FAILS: "not memorized"}
    for scope in results.levels:
        for measure in results.tasks:
            number = results.number(scope.split, TARGET_MODEL, "forget", measure.name)
            if number is not None and number.value is not None:
                above = Evidence.of(f"{measure.title} of the target, minus {MEMORIZED:g}", number, MEMORIZED)
                known = _known(results, scope.split, measure)[1]
                yield _case(_labels(scope.split, "target", measure), [], [above, known], says)


def _deletion(results: LevelResults) -> Cases:
    says = {HOLDS: "more at the coarsest level", FAILS: "more at the finest level"}
    for method, measure, coarse, fine in _ends(results):
        premises = [
            premise
            for scope in (coarse, fine)
            for premise in (
                _known(results, scope.split, measure),
                _works(results, scope.split, method, measure),
            )
        ]
        more, less = (
            results.evidence(words, name, coarse.split, method, results.compared("forget"), measure.name)
            for name, words in (
                ("forgotten more", f"forgotten on {coarse.split}, minus {fine.split}"),
                ("left less", f"left over the retrained model on {fine.split}, minus {coarse.split}"),
            )
        )
        if less.value is not None:
            yield _case(_labels(_pair(coarse, fine), method, measure), premises, [more, less], says)


def _utility(results: LevelResults) -> Cases:
    for group in ("retain", "general"):
        words = {HOLDS: "more lost at the coarsest level", FAILS: "more lost at the finest", OPEN: "not settled"}
        says = {verdict: f"{text}, {group} set" for verdict, text in words.items()}
        for method, measure, coarse, fine in _ends(results):
            more, beyond = (
                results.evidence(f"{words} {coarse.split}, minus {fine.split}, {group} set", name, *at)
                for at in [(coarse.split, method, group, measure.name)]
                for name, words in (
                    ("lost more", "lost on"),
                    ("lost more than retrained", "lost beside the retrained model on"),
                )
            )
            if beyond.value is not None:
                # Two destroyed models say nothing of the levels: one of them must work.
                works = [_works(results, scope.split, method, measure) for scope in (fine, coarse)]
                premise = next((working for working in works if working[1].above), works[0])
                yield _case(_labels(_pair(coarse, fine), method, measure), [premise], [more, beyond], says)


def _reconstruction(results: LevelResults) -> Cases:
    for scope in results.levels[1:]:
        for method, measure in _each(results, *results.tasks) if scope.level in ("section", "study") else ():
            leaks, more, helped, share = (
                results.evidence(words, name, scope.split, method, ALL, measure.name)
                for name, words in (
                    ("leaks", "given all identifiers, over the retrained model"),
                    ("leaks more", f"that, minus the same of {results.levels[0].split}"),
                    ("brought back", "given all identifiers, minus none, minus the target's own change"),
                    (PROPORTION, "given all identifiers, minus none changed in the target's proportion"),
                )
            )
            if leaks.value is not None and share.value is not None:
                says = {
                    HOLDS: "names bring it back, and more than at the coarsest level",
                    FAILS: "no more than the retrained model"
                    if leaks.above is False
                    else "names bring nothing back beyond the target's own change"
                    if helped.above is False or share.above is False
                    else "the coarsest level leaks more",
                }
                premises = [
                    _forgotten(results, scope.split, method, measure),
                    _works(results, scope.split, method, measure),
                ]
                yield _case(_labels(scope.split, method, measure), premises, [leaks, more, helped, share], says)


def _suppressed(results: LevelResults) -> Cases:
    """Section 5.1 as the paper reads it: unlearned models beside the target alone, whatever else they lost."""
    for scope in results.levels:
        for method, measure in _each(results, *results.tasks):
            less = [
                results.evidence(
                    f"target minus unlearned model, {group} set of {scope.split}",
                    *("forgotten", scope.split, method, group, measure.name),
                )
                for group in ("forget", "rephrase")
            ]
            if all(number.value is not None for number in less):
                works = _works(results, scope.split, method, measure)[1].above
                lower = "lower on both" if works else "lower on both; so it is of a model that answers nothing"
                says = {HOLDS: lower, FAILS: "not lower on one of the two"}
                yield _case(_labels(scope.split, method, measure), [], less, says)


def _rephrased(results: LevelResults) -> Cases:
    for scope, group in product(results.levels, REPHRASED):
        varied = "" if group == REPHRASED[0] else f" ({SETS[group].title.lower()})"
        says = {
            HOLDS: f"deletion persists{varied}",
            FAILS: f"the unlearned model answers better than the target{varied}",
            OPEN: f"not settled{varied}",
        }
        for method, measure in _each(results, *results.tasks):
            words = f"target minus unlearned model, rephrased questions of {scope.split}{varied}"
            less = results.evidence(words, "forgotten", scope.split, method, group, measure.name)
            known = _known(results, scope.split, measure, group)
            if less.value is not None and known[1].value is not None:
                premises = [
                    known,
                    _forgotten(results, scope.split, method, measure),
                    _works(results, scope.split, method, measure),
                ]
                yield _case(_labels(scope.split, method, measure), premises, [less], says)


def _flat(results: LevelResults) -> Cases:
    words = {HOLDS: "more is left", FAILS: "less is left", OPEN: "not settled"}
    says = {verdict: f"{text} after flat unlearning" for verdict, text in words.items()}
    for scope in results.levels:
        for method, measure in _each(results, *IDENTITIES, *results.tasks):
            name = f"unlearned on {scope.partner}, minus on {scope.split}, of what both forget"
            left = results.evidence(name, "flat over hierarchical", scope.split, method, SHARED, measure.name)
            if left.value is not None:
                premises = [
                    _works(results, split, method, results.tasks[-1] if measure in IDENTITIES else measure)
                    for split in (scope.split, str(scope.partner))
                ]
                yield _case(_labels(scope.split, method, measure), premises, [left], says)


def _sequence(results: LevelResults) -> Cases:
    """Requests before the last one, asked again: the share of what they took away that is still gone."""
    says = {HOLDS: "earlier requests stay forgotten", FAILS: "more than a tenth of what was forgotten came back"}
    words = {
        GONE: "target minus unlearned model right after each earlier request",
        STILL_WORKS: "unlearned model minus half of the target, retain set",
        STAYS: f"target minus unlearned model on earlier requests, minus {STAYING:.0%} of that right after each",
    }
    steps = results.sequence.loc[results.sequence["step"] > 1, ["method", "step", "split"]].drop_duplicates()
    for (method, step, split), measure in product(steps.itertuples(index=False, name=None), results.tasks):
        gone, works, stays = (
            Evidence.of(f"{text}, request {step}", results.in_sequence[method, str(step), measure.name, name])
            for name, text in words.items()
        )
        if stays.value is not None:
            yield _case(_labels(split, method, measure), [(FORGOTTEN, gone), (WORKS, works)], [stays], says)


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
    return f"{coarse.split}{AGAINST}{fine.split}"


CASES: dict[str, Callable[[LevelResults], Cases]] = {
    "memorized": _memorized,
    "suppressed": _suppressed,
    "deletion": _deletion,
    "utility": _utility,
    "reconstruction": _reconstruction,
    "rephrased": _rephrased,
    "hierarchy": _flat,
    "sequence": _sequence,
}
