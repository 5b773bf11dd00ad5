"""Next steps of a request, computed from its evidence: a sentence for each thing that its owner can do now.

Every sentence names the flags of `medunlearn forget` that it is about. A sentence stands only where its case is
given: nobody is told to try harder where probes are too few, or to destroy a model that is still needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from medunlearn.config import ForgetSettings
from medunlearn.reports.formatting import count
from medunlearn.request.case.evidence import NOTHING_TRAINED, BatteryCheck, CaseEvidence
from medunlearn.request.case.residual_tests import ResidualTest, found_before, is_above, residuals
from medunlearn.request.case.verdicts import LEAST_FACTS
from medunlearn.statistics.others import LEAST_OTHERS


def _usual(name: str) -> object:
    return ForgetSettings.model_fields[name].default


GO_ON = (
    "Go on from the model that came out: give the same command with that model and another --out. It has all "
    f"tries again (--method auto --budget {_usual('budget')}; a smaller budget leaves some out)."
)
BEGIN_AGAIN = (
    "Begin again from the model before: this one may know the patient still, and answers about others lost too "
    f"much. Allow all tries (--method auto --budget {_usual('budget')}), train fewer weights (--unlearn.trainable "
    "lora) or use another --method, with another --out."
)
EXACT = (
    "If `medunlearn train` trained the model, delete exactly: --method exact trains again without the patient, and "
    "leaves nothing to test."
)
TRAIN_ANYWAY = "Nothing was trained yet: repeat the command with --anyway and another --out."
EARLIER = (
    "Do not use this model: patients of earlier requests came back. Repeat the request from the model before, with "
    "a smaller learning rate (--unlearn.lr), another --method, and another --out."
)
BROKEN = (
    "Do not use this model: it is broken. Repeat the request from the model before, with a smaller learning rate "
    "(--unlearn.lr), fewer passes (--unlearn.epochs) or another --method, and another --out."
)
BROKEN_TRAINING = "Do not use this model: it is broken. Look at the training that made it."
TOO_FAR = (
    "The patient was pushed below strangers, which betrays that somebody was removed. Repeat the request from the "
    "model before, with a smaller learning rate (--unlearn.lr) or fewer passes (--unlearn.epochs), and another "
    "--out."
)
ASK_OTHERWISE = (
    "Ask in other ways: as the model was trained to answer (--prompt, --template), and with questions of your own "
    "(--questions)."
)
ANYWAY = "If you know that the model was trained on the patient, --anyway makes it forget all the same."
MORE_FACTS = f"Test more facts of each patient: a larger --facts ({_usual('facts')} unless you name a number)."
OWN_QUESTIONS = "Ask questions of your own about the patient: --questions qa.csv."
REAL_NOTES = (
    "Compare with real people: the strangers were invented. Name notes of patients whom the model never saw "
    "(--holdout)."
)
NEW_STRANGERS = (
    "Find other strangers: these are not like the patient. Name notes of patients whom the model never saw, of the "
    "same kind and time as the patient's (--holdout)."
)
STRANGERS = (
    f"Name notes of patients whom the model never saw, at least {LEAST_OTHERS} of them (--holdout), or a model "
    "that was trained without the patient (--retrained)."
)
SAME_TRAINING = (
    "Make the training repeatable: a second training without the patient gave another model. On a CPU, with the "
    "same software, it gives the same one."
)
GENTLER = (
    "Answers about others lost too much. Repeat the request from the model before, with a smaller learning rate "
    "(--unlearn.lr) or another --method, and another --out."
)
TRAINED_ANEW = (
    "Answers about others differ because the model was trained anew. Look at that training before you use the "
    "model: its settings are those of the run, and only the patient's records are missing."
)
MEASURE_OTHERS = (
    "Measure what it cost others: give notes of other patients of the training too, and name general tasks "
    "(--utility-tasks)."
)
DESTROY = (
    "Put the new model in place. Then delete the model before, with every copy, adapter and quantized form of it; "
    "`medunlearn case purge` lists the files. Delete the work folder when nobody will test again."
)


def next_steps(evidence: CaseEvidence) -> tuple[str, ...]:
    """Sentences about what to do next, the most urgent first."""
    steps = dict.fromkeys(chain(_verdict_steps(evidence), _others_steps(evidence), _closing_steps(evidence)))
    if BEGIN_AGAIN in steps:
        steps.pop(GENTLER, None)
    return tuple(steps)


def _verdict_steps(evidence: CaseEvidence) -> Iterator[str]:
    verdict = evidence.decision.verdict
    if verdict == "no baseline":
        yield STRANGERS if evidence.battery.baseline_fault is None else _better_strangers(evidence)
    elif verdict == "residual found":
        yield from _residual_steps(evidence)
    elif verdict == "inconclusive":
        steps = [*_doubt_steps(evidence)]
        yield from steps or (MORE_FACTS, OWN_QUESTIONS)


def _residual_steps(evidence: CaseEvidence) -> Iterator[str]:
    battery = evidence.battery
    concerned = {test.check.concerns for test in residuals(battery.checks, battery.alpha)}
    if "earlier requests" in concerned:
        yield EARLIER
    elif "this request" in concerned:
        yield from _try_harder(evidence)
    if _is_invented(evidence):
        yield REAL_NOTES


def _try_harder(evidence: CaseEvidence) -> Iterator[str]:
    if evidence.exact is not None:
        yield SAME_TRAINING
    elif evidence.method == NOTHING_TRAINED:
        yield TRAIN_ANYWAY
    else:
        yield BEGIN_AGAIN if evidence.decision.others == "not kept" else GO_ON
        yield EXACT


def _doubt_steps(evidence: CaseEvidence) -> Iterator[str]:
    battery, patients = evidence.battery, evidence.request.patients
    if battery.problems:
        yield BROKEN if evidence.exact is None else BROKEN_TRAINING
        return
    own = [check for check in battery.checks if check.concerns == "this request"]
    means = [check for check in own if check.mean_of]
    if evidence.exact is not None:
        yield SAME_TRAINING
    elif any(map(_is_below, means)):
        yield TOO_FAR
    elif any(map(_may_be_left, means)) or any(_stands_out(check, battery.alpha) for check in own):
        yield from _try_harder(evidence)
    yield from _unfound_steps(evidence, own)
    few_probes = [MORE_FACTS, OWN_QUESTIONS] if any(map(_has_few_probes, means)) else []
    yield from (*few_probes, *_fact_steps(evidence))
    if any(map(_is_unbounded, means)) or _is_above_few(own) or any(_is_untested(own, who) for who in patients):
        yield STRANGERS
    if _is_invented(evidence):
        yield REAL_NOTES


def _unfound_steps(evidence: CaseEvidence, own: Sequence[BatteryCheck]) -> Iterator[str]:
    """Steps for patients whom no way of asking found in the model before."""
    patients, before = evidence.request.patients, {who for _, who in found_before(own, evidence.battery.alpha)}
    unfound = [who for who in patients if who not in before and not _is_untested(own, who)]
    if not unfound:
        return
    many = f"No way of asking found {count(len(unfound), 'patient')} of {len(patients)} in the model before. "
    yield f"{many if len(patients) > 1 else ''}{ASK_OTHERWISE}"
    if evidence.method == NOTHING_TRAINED:
        yield ANYWAY


def _fact_steps(evidence: CaseEvidence) -> Iterator[str]:
    """Steps for patients of whom fewer facts were tested than a verdict needs."""
    few = [coverage for coverage in evidence.battery.coverage if coverage.tested < LEAST_FACTS]
    if any("--facts" in facts.reason for coverage in few for facts in coverage.untested):
        yield MORE_FACTS
    if few:
        yield OWN_QUESTIONS


def _excess(check: BatteryCheck) -> tuple[float, float, float] | None:
    """Excess, its upper bound and the margin; None without one of them."""
    comparison = check.comparison
    if comparison is None or comparison.excess.value is None or comparison.excess.high is None:
        return None
    return comparison.excess.value, comparison.excess.high, comparison.margin


def _is_below(check: BatteryCheck) -> bool:
    numbers = _excess(check)
    return numbers is not None and numbers[0] < -numbers[2]


def _has_few_probes(check: BatteryCheck) -> bool:
    numbers = _excess(check)
    return numbers is not None and abs(numbers[0]) <= numbers[2] < numbers[1]


def _is_unbounded(check: BatteryCheck) -> bool:
    return _excess(check) is None


def _may_be_left(check: BatteryCheck) -> bool:
    """True for a mean nearer to the margin than to strangers, or above it for a single patient."""
    numbers = _excess(check)
    if numbers is not None and numbers[0] >= numbers[2] / 2 and numbers[1] > numbers[2]:
        return True
    return any(test.excess is not None and is_above(ResidualTest(check, test)) for test in check.patients)


def _stands_out(check: BatteryCheck, alpha: float) -> bool:
    """True for a way of asking that is above the margin by more than chance, taken by itself."""
    comparison = check.comparison
    if check.mean_of or comparison is None or comparison.excess.value is None:
        return False
    return comparison.excess.value > comparison.margin and comparison.p < alpha


def _is_above_few(own: Sequence[BatteryCheck]) -> bool:
    """True if the patient is above the few strangers who could be asked in one way."""
    margins = [check.comparison.margin for check in own if check.comparison is not None]
    for check in own:
        if check.comparison is None and check.unseen is not None and margins:
            after, strangers = check.after.value, check.unseen.value
            if after is not None and strangers is not None and after - strangers > max(margins):
                return True
    return False


def _is_untested(own: Sequence[BatteryCheck], patient: str) -> bool:
    """True for a patient who was asked about, beside too few strangers to tell."""
    tests = [test for check in own for test in check.patients if test.patient == patient]
    return bool(tests) and all(test.p_before is None for test in tests)


def _is_invented(evidence: CaseEvidence) -> bool:
    checks = evidence.battery.checks
    return any(
        check.comparison is not None and check.comparison.baseline == "invented patients" for check in checks
    )


def _better_strangers(evidence: CaseEvidence) -> str:
    return REAL_NOTES if _is_invented(evidence) else NEW_STRANGERS


def _others_steps(evidence: CaseEvidence) -> Iterator[str]:
    others = evidence.decision.others
    if others == "not measured":
        yield MEASURE_OTHERS
    elif others == "not kept" and evidence.exact is not None:
        yield TRAINED_ANEW
    elif others == "not kept" and not evidence.battery.problems:
        yield GENTLER


def _closing_steps(evidence: CaseEvidence) -> Iterator[str]:
    if not evidence.decision.carried_out:
        return
    yield DESTROY
    events, by = ", ".join(evidence.next_test.events), evidence.next_test.by
    latest = "" if by is None else f", and at the latest on {by.isoformat()}"
    yield f"Test again {events}{latest}: `medunlearn verify MODEL case/ --work FOLDER`."
