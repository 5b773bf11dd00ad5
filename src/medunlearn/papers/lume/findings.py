"""LUME's findings as rules: each is supported, contradicted, or left open by the runs' numbers.

A rule is decided case by case (a run, and a task if the finding is about tasks), and only by intervals over
documents: a case holds if the interval of each number is on the stated side of its threshold, contradicts the
finding if one is on the other side, and is open otherwise. t is the target model (epoch 0), r the retrained model.
``findings.yaml`` has the claims in words. Cases with fewer than :data:`DOCUMENTS` documents or :data:`SEEDS`
training seeds stay open. A claim is on a group of methods (:mod:`~.method_groups`): every run of it counts, and it
holds only if it is decided for each form of the group that the paper ran.

Source: LUME, Section 3, which states the findings on figures, without intervals or thresholds; the thresholds are
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from medunlearn.papers.lume.measured import Measured, minus
from medunlearn.papers.lume.method_groups import (
    ASCENT,
    ASCENT_FORMS,
    DIFFERENCE,
    EVERY_METHOD,
    PREFERENCES,
    MethodGroup,
)
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import (
    FAILS,
    HOLDS,
    NOT_MEASURABLE,
    OPEN,
    Case,
    Evidence,
    Finding,
    Verdict,
    decide,
    settle,
)

MEMORIZED = 0.9
UTILITY = "utility"
UNSETTLED = "not settled"
DOCUMENTS = 20
"""Fewer documents decide nothing: with 5 a side, one document moves a mean by a fifth."""
SEEDS = 3
"""Fewer training seeds decide nothing: methods that destroy a model end elsewhere with another seed."""


def _case(
    measured: Measured, run: str, task: str, verdict: Verdict, says: str, evidence: Sequence[Evidence]
) -> Case:
    """A case with its seed and its number of documents, the smallest over its numbers."""
    documents = min((number.n_subjects for number in evidence if number.n_subjects is not None), default=0)
    labels = {
        "run": run,
        "task": task.replace("_", " "),
        "seed": str(measured.seed_of.get(run, "")),
        "documents": str(documents),
    }
    if verdict in (HOLDS, FAILS) and documents < DOCUMENTS:
        verdict, says = OPEN, f"{documents} documents decide nothing; here: {says}"
    elif verdict in (HOLDS, FAILS) and len(measured.seeds) < SEEDS:
        verdict, says = OPEN, f"{len(measured.seeds)} training seeds decide nothing; here: {says}"
    return Case(labels, verdict, says, tuple(evidence))


def _case_of(
    measured: Measured,
    run: str,
    task: str,
    evidence: Sequence[Evidence],
    says: Mapping[Verdict, str],
    side: Literal["above", "below"] = "above",
    note: str = "",
) -> Case:
    """A case decided by all its evidence; ``says`` has the words for a decided verdict."""
    verdict = settle(evidence, side)
    return _case(measured, run, task, verdict, says.get(verdict, UNSETTLED) + note, evidence)


def _memorization_cases(measured: Measured) -> Iterator[Case]:
    for seed in measured.seeds:
        runs = [label for label in measured.runs if measured.seed_of[label] == seed]
        lines = next((lines for run in runs if (lines := measured.regurgitation(run))), {})
        for (task, side), line in lines.items():
            if 0 in line:
                above = minus(f"regurgitation on {side}", line[0], MEMORIZED)
                says = {HOLDS: f"memorized on {side}", FAILS: f"not memorized on {side}"}
                case = _case_of(measured, runs[0], task, [above], says)
                yield replace(case, labels={**case.labels, "run": "target"})


def _to_zero(measured: Measured) -> Iterator[Case]:
    for run in measured.of_group(*ASCENT_FORMS, ASCENT):
        for task, evidence in measured.contrasts("zero", run).items():
            stays = sum(number.above is True for number in evidence)
            failed = f"stays above in {stays} of {len(evidence)} numbers"
            says = {HOLDS: "falls to zero on both sides", FAILS: failed}
            yield _case_of(measured, run, task, evidence, says, "below")


def _recovers(measured: Measured) -> Iterator[Case]:
    """Cases of recovery; measures that never fell cannot recover."""
    for run in measured.of_group(DIFFERENCE):
        for task, fell in measured.contrasts("fell", run).items():
            rose = measured.contrasts("rose", run).get(task, [])
            signs = [up.above for down, up in zip(fell, rose, strict=True) if down.above]
            verdict = decide(signs) if signs else OPEN
            says = {HOLDS: "falls and rises again", FAILS: "falls and stays down"}.get(verdict, UNSETTLED)
            nothing = "nothing to recover: no settled fall on retain"
            yield _case(measured, run, task, verdict, says if signs else nothing, (*fell, *rose))


def _slower(measured: Measured) -> Iterator[Case]:
    for run in measured.of_group(PREFERENCES):
        # A small learning rate slows a method, too.
        seed = measured.seed_of[run]
        others = measured.of_group(*ASCENT_FORMS, ASCENT, seed=seed)
        missing = [group.title for group in ASCENT_FORMS if not measured.of_group(group, seed=seed)]
        rates = {label: measured.rates.get(label) for label in (run, *others)}
        listed = ", ".join(f"{label} {rate:g}" for label, rate in rates.items() if rate)
        note = f"; learning rates differ: {listed}" if len(set(rates.values())) > 1 else ""
        for task, evidence in measured.contrasts("slower", run).items():
            faster = sum(number.below is True for number in evidence)
            failed = f"faster in {faster} of {len(evidence)} comparisons"
            case = _case_of(measured, run, task, evidence, {HOLDS: "slower than each", FAILS: failed}, note=note)
            absent = f"no run of {', '.join(missing)} to be slower than"
            yield replace(case, verdict=OPEN, says=absent) if missing and case.verdict == HOLDS else case


def _attack_evidence(measured: Measured, *groups: MethodGroup) -> Iterator[tuple[str, Evidence, Evidence, str]]:
    """Runs with the target's AUC and their own, both minus the retrained model's, and reasons why nothing can be
    concluded.
    """
    for run in measured.of_group(*groups):
        seed = measured.seed_of[run]
        start, gap = measured.target_gap(seed), measured.area_gap(run, seed)
        reference = measured.references.get(seed)
        if start is not None and gap is not None:
            reasons = () if reference is None else reference.reasons
            nothing = "nothing to bring down: the target's AUC is not settled above the retrained model's"
            yield run, start, gap, " ".join(reasons) or ("" if start.above else nothing)


_WAY = "AUC, minus the retrained model's"


def _half(start: Evidence) -> float:
    return 0.5 * (start.value or 0.0)


def _membership_falls(measured: Measured) -> Iterator[Case]:
    """Cases of AUCs within half of the target's distance to the retrained model, on either side."""
    for run, start, gap, reason in _attack_evidence(measured, *ASCENT_FORMS, ASCENT):
        half = _half(start)
        upper = Evidence.of(f"{_WAY}, minus half of the target's distance ({half:.3f})", gap, half)
        lower = Evidence.of(f"{_WAY}, plus that half", gap, -half)
        verdict = decide([upper.below, lower.above])
        failed = "stays nearer to the target" if upper.above else "falls as far below the retrained model"
        says = {HOLDS: "nearer to the retrained model than the target is", FAILS: failed}.get(verdict, UNSETTLED)
        verdict, says = (OPEN, reason) if reason else (verdict, says)
        yield _case(measured, run, "", verdict, says, [start, upper, lower])


def _membership_stays(measured: Measured) -> Iterator[Case]:
    """Cases of a high AUC; open unless regurgitation fell, since a model that forgot nothing keeps its AUC."""
    for run, start, gap, reason in _attack_evidence(measured, PREFERENCES):
        area = Evidence.of(f"{_WAY}, minus half of the target's distance", gap, _half(start))
        fell = measured.fall(run)
        if not any(number.below for number in fell):
            reason = reason or "nothing was forgotten, so its AUC says nothing"
        says = {HOLDS: "stays nearer to the target", FAILS: "comes nearer to the retrained model"}
        case = _case_of(measured, run, "", [area], says)
        yield _case(measured, run, "", OPEN, reason, [start, area, *fell]) if reason else case


def _over_forgotten(measured: Measured) -> Iterator[Case]:
    for run, start, gap, reason in _attack_evidence(measured, DIFFERENCE):
        area = replace(gap, name=_WAY)
        says = {HOLDS: "below the retrained model's", FAILS: "above the retrained model's"}
        case = _case_of(measured, run, "", [area], says, "below")
        yield _case(measured, run, "", OPEN, reason, [start, area]) if reason else case


def _utility(measured: Measured) -> Iterator[Case]:
    for run in measured.of_group(*ASCENT_FORMS, PREFERENCES, EVERY_METHOD):
        line = measured.line(run, UTILITY)
        start = line[0].value if 0 in line else None
        if start is not None and max(line) > 0:
            loss = minus(f"utility after epoch {max(line)}, 0.9 of target", line[max(line)], 0.9 * start)
            yield _case_of(measured, run, "", [loss], {HOLDS: "loses utility", FAILS: "keeps utility"}, "below")


def _settled_by_all(measured: Measured, cases: Sequence[Case], forms: Sequence[MethodGroup]) -> tuple[Case, ...]:
    """The cases of a claim on several forms of a method. It holds only if each form, and each method with a case,
    has a settled one.
    """
    if not cases or not forms:
        return tuple(cases)
    settled = {measured.runs[case.labels["run"]] for case in cases if case.verdict in (HOLDS, FAILS)}
    missing = [form for form in forms if not any(method in form for method in settled)]
    methods = dict.fromkeys(measured.runs[case.labels["run"]] for case in cases)
    others = [m for m in methods if m not in settled and not any(m in form for form in missing)]
    titles = ", ".join([*(form.title for form in missing), *others])
    if not titles:
        return tuple(cases)
    absent = Case({"run": titles}, NOT_MEASURABLE, "no settled case, and the claim is about it too")
    opened = (
        replace(case, verdict=OPEN, says=f"{case.says}; but {titles} is not settled")
        if case.verdict == HOLDS
        else case
        for case in cases
    )
    return (*opened, absent)


_CASES: Mapping[str, tuple[Callable[[Measured], Iterator[Case]], tuple[MethodGroup, ...]]] = {
    "memorized": (_memorization_cases, ()),
    "zero": (_to_zero, ASCENT_FORMS),
    "recovery": (_recovers, ()),
    "slower": (_slower, ()),
    "membership falls": (_membership_falls, ASCENT_FORMS),
    "membership stays": (_membership_stays, ()),
    "over-forgotten": (_over_forgotten, ()),
    "utility": (_utility, (*ASCENT_FORMS, PREFERENCES)),
}
"""Finding -> its cases, and the forms of a method that must all be settled."""


def findings(measured: Measured) -> tuple[Finding, ...]:
    """LUME's findings in the paper's order; empty for runs without evaluated epochs or attacks."""
    if not measured.runs:
        return ()
    words = paper_yaml("lume", "findings")
    return tuple(
        Finding(name, cases=_settled_by_all(measured, list(cases(measured)), forms), **words[name])
        for name, (cases, forms) in _CASES.items()
    )
