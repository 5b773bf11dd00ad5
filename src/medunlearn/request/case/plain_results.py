"""Results of a battery in plain words, for the lines below a verdict.

Sentences fail closed. That the model says nothing, or knows no more than of strangers, is said only beside a
verdict that finds nothing, and only of ways of asking that found the patient before. Beside any other verdict
stands what the model still says, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from medunlearn.reports.formatting import count, decimal
from medunlearn.request.case.evidence import Baseline, BatteryCheck, CaseEvidence, Measurement
from medunlearn.request.case.residual_tests import ResidualTest, found_before, residuals

MOST_SHOWN = 3
"""Ways of asking with a residual that are shown below the verdict."""
RANKED = ("identifiers", "values")
_SAID = "said "
"""Beginning of the names of checks whose number is the share of true values that the model says."""
_STRANGERS: Mapping[Baseline, str] = {
    "unseen patients": "real patients whom it never saw",
    "invented patients": "invented patients",
    "retrained model": "patients whom a model never saw that was trained without them",
}


def coverage_sentence(evidence: CaseEvidence) -> str:
    """Number of facts that were tested, of ways of asking, and of those that found the patient before."""
    battery = evidence.battery
    ways = [check for check in _own_checks(evidence) if not check.mean_of]
    tested, facts = (sum(getattr(own, name) for own in battery.coverage) for name in ("tested", "facts"))
    if not ways:
        return f"Nothing was tested: no way of asking gave a number{f' on {_facts(facts)}' if facts else ''}."
    able = len({name for name, _ in found_before(ways, battery.alpha)})
    number, asking = "None" if not able else f"{able:,}", count(len(ways), "way")
    found = f"{number} of these found the patient in the model before"
    if battery.coverage:
        return f"Tested {tested} of {_facts(facts)}, in {asking} of asking. {found}."
    return f"Asked in {asking}; how many facts of the notes these test was not counted. {found}."


def result_sentences(evidence: CaseEvidence) -> Iterator[str]:
    """Sentences on what the model said and preferred, as far as the verdict lets them be said."""
    battery = evidence.battery
    if battery.problems:
        return
    found = residuals(battery.checks, battery.alpha) if evidence.decision.verdict != "no baseline" else []
    if found:
        yield from _residual_sentences(found)
    elif evidence.decision.verdict in ("no residual found", "deleted"):
        yield from _clean_sentences(evidence)
    else:
        said = [check for check in _own_checks(evidence) if check.name.startswith(_SAID)]
        if _share([check.after for check in said]):
            yield _said_sentence(said)


def _own_checks(evidence: CaseEvidence) -> list[BatteryCheck]:
    return [check for check in evidence.battery.checks if check.concerns == "this request"]


def _facts(number: int) -> str:
    return f"{count(number, 'fact')} of the notes"


def _residual_sentences(found: Sequence[ResidualTest]) -> Iterator[str]:
    """The worst patient's number beside a stranger's, for the ways of asking with the largest excess."""
    worst: dict[str, ResidualTest] = {}
    for test in sorted(found, key=_excess_of, reverse=True):
        worst.setdefault(test.check.name, test)
    for test in [*worst.values()][:MOST_SHOWN]:
        baseline = _beside(test.check)
        whose = "a patient of an earlier request" if test.check.concerns == "earlier requests" else "the patient"
        stranger = "" if baseline is None or baseline.value is None else f", a stranger's {decimal(baseline.value)}"
        number = decimal(test.patient.value)
        yield f"{test.check.title}: the number of {whose} is {number}{stranger}."
    if len(worst) > MOST_SHOWN:
        yield f"So it is in {count(len(worst) - MOST_SHOWN, 'further way')} of asking."


def _excess_of(test: ResidualTest) -> float:
    return 0.0 if test.patient.excess is None else test.patient.excess


def _clean_sentences(evidence: CaseEvidence) -> Iterator[str]:
    own = _own_checks(evidence)
    before = {name for name, _ in found_before(own, evidence.battery.alpha)}
    said = [check for check in own if check.name.startswith(_SAID)]
    unknown = []
    if able := [check for check in said if check.name in before and check.probes.held_out]:
        yield _said_sentence(able)
    else:
        unknown.append("values in its answers")
    for subject in RANKED:
        means = [check for check in own if check.mean_of and check.subject == subject]
        yield from map(_mean_sentence, means)
        if not means:
            unknown.append(f"{subject} among made-up ones")
    if unknown:
        yield f"No way of asking found these in the model before, so they tell nothing: {', '.join(unknown)}."


def _mean_sentence(mean: BatteryCheck) -> str:
    comparison, beside = mean.comparison, _beside(mean)
    if comparison is None or mean.after.value is None or beside is None or beside.value is None:
        return f"{mean.title}: there is nothing to compare with."
    numbers = f"{decimal(mean.after.value)} beside {decimal(beside.value)}"
    return (
        f"It knows the patient's {mean.subject} no better than those of {_STRANGERS[comparison.baseline]}, within "
        f"the margin of {decimal(comparison.margin)}: {numbers}."
    )


def _beside(check: BatteryCheck) -> Measurement | None:
    """The baseline's number."""
    retrained = check.comparison is not None and check.comparison.baseline == "retrained model"
    return check.retrained if retrained else check.unseen


def _said_sentence(said: Sequence[BatteryCheck]) -> str:
    answers, now = count(sum(check.after.n for check in said), "answer"), _share([check.after for check in said])
    others = (("before", [check.before for check in said]), ("of strangers", [check.unseen for check in said]))
    shares = ((words, _share(values)) for words, values in others)
    beside = ", ".join(f"{words} {_share_text(share)}" for words, share in shares if share is not None)
    share = "an unknown share" if now is None else _share_text(now)
    return f"In {answers} it says {share} of the true values{f' ({beside})' if beside else ''}."


def _share(values: Sequence[Measurement | None]) -> float | None:
    """Mean over probes; None if a number is missing."""
    numbers = [(value.value, value.n) for value in values if value is not None and value.value is not None]
    total = sum(n for _, n in numbers)
    if not total or len(numbers) < len(values):
        return None
    return fsum(value * n for value, n in numbers) / total


def _share_text(share: float) -> str:
    """``none``, ``less than 1%``, ``44%``: what is not nothing never reads so."""
    if share == 0.0:
        return "none"
    return "less than 1%" if share < 0.01 else f"{share:.0%}"
