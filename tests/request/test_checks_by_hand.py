"""Checks of a battery from numbers that we make: what they compare; what search and verdict make of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import norm

from medunlearn.attacks.attack_protocol import AskedSubject, AskingWay
from medunlearn.config import ForgetSettings, check
from medunlearn.data.said_values import SaidFacts
from medunlearn.errors import ConfigError, UnknownNameError
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request import trial_search
from medunlearn.request.battery_checks import BatteryMaterial
from medunlearn.request.case.evidence import Battery, CostReading, Measurement
from medunlearn.request.case.residual_tests import found_before
from medunlearn.request.case.verdicts import decide
from medunlearn.request.patient_choice import PatientGroups
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.standings import Standings
from medunlearn.request.trial_search import (
    AUTO,
    ForgetCandidate,
    ForgetTrial,
    TrialReading,
    TrialSearch,
    Tries,
    begun,
    trial_folder,
)
from medunlearn.request.verifying_attacks import (
    never_tested,
    untested_attacks,
    verifying_attacks,
    with_battery,
)
from medunlearn.results.runs import Run
from medunlearn.statistics.others import Surprise
from medunlearn.study.sized_defaults import rate_of_size

WAYS = {name: AskingWay(name, f"Title {name}", "given", "measure") for name in ("ranks", "said")}
UNSEEN = tuple(f"unseen-{place}" for place in range(12))
HER = {"her": "e" * 64}


def stands(hers: Mapping[str, float], seed: int = 0, problems: tuple[str, ...] = ()) -> Standings:
    """A model that knows nothing of unseen patients (about 0.5) and so much of her."""
    draws = np.random.default_rng(seed)
    values = {
        name: {who: float(value) for who, value in zip(UNSEEN, draws.normal(0.5, 0.05, len(UNSEEN)), strict=True)}
        | {"her": hers[name]}
        for name in WAYS
    }
    return Standings(WAYS, values, {name: dict.fromkeys(values[name], 40) for name in WAYS}, problems)


KNOWS, FORGOT, HALF = {"ranks": 0.99, "said": 0.95}, {"ranks": 0.5, "said": 0.52}, {"ranks": 0.85, "said": 0.5}


def material(after: Standings, retrained: Standings | None = None, *, margin: float = 0.25) -> BatteryMaterial:
    return BatteryMaterial(stands(KNOWS), after, retrained, HER, UNSEEN, False, margin)


def verdict(material: BatteryMaterial) -> str:
    checks = (*material.means(0.05), *material.checks())
    battery = Battery(name="by hand", version="1", alpha=0.05, checks=checks, problems=material.after.problems)
    return decide(battery, models=("in", "out")).verdict


@pytest.mark.parametrize(
    ("after", "expected"),
    [(KNOWS, "residual found"), (HALF, "residual found"), (FORGOT, "no residual found")],
)
@pytest.mark.parametrize("beside", [False, True])
def test_verdicts(after: Mapping[str, float], expected: str, beside: bool) -> None:
    """The model that knows is the control that did nothing; half forgotten is found by the ranks alone."""
    never = stands({"ranks": 0.47, "said": 0.5}, seed=2) if beside else None
    assert verdict(material(stands(after, seed=1), never)) == expected


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (material(stands({"ranks": 0.5, "said": 0.0}, problems=("all answers are alike",))), "inconclusive"),
        (replace(material(stands(FORGOT, seed=1)), before=stands(FORGOT)), "inconclusive"),
        (material(stands(FORGOT, seed=1), margin=0.02), "inconclusive"),
        (replace(material(stands(FORGOT)), unseen=UNSEEN[:2]), "no baseline"),
    ],
    ids=["a broken model", "a model that never knew", "a margin that is too small", "too few others"],
)
def test_without_evidence_there_is_no_other_verdict(compared: BatteryMaterial, expected: str) -> None:
    assert verdict(compared) == expected


def test_what_was_not_tested_is_listed() -> None:
    """Ways without a baseline; ways in which somebody could not be asked."""
    after = stands(FORGOT)
    alone = replace(material(after), unseen=UNSEEN[:2])
    assert [untested.name for untested in alone.untested()] == ["ranks baseline", "said baseline"]
    silent = replace(material(after), patients={**HER, "silent": "f" * 64})
    titles = {untested.name: untested.title for untested in silent.untested()}
    assert {*titles} == {"ranks of all", "said of all"}
    assert titles["ranks of all"].endswith(": 1 of 2 patients")
    assert [*material(after).untested()] == []


def test_beside_a_retrained_model_the_difference_counts() -> None:
    """A value that everybody guesses is no residual: the retrained model ranks it as high."""
    after, guessed = stands({"ranks": 0.8, "said": 0.5}, seed=1), stands({"ranks": 0.79, "said": 0.5}, seed=1)
    assert verdict(material(after)) == "residual found"
    (ranks, _) = material(after, guessed).checks()
    assert ranks.comparison is not None
    assert ranks.comparison.baseline == "retrained model"
    assert ranks.comparison.excess.value == pytest.approx(0.01)


def ranked(hers: float, seed: int = 0) -> Standings:
    """Two facts a patient: unseen ones have any rank, hers this one."""
    p = np.random.default_rng(seed).uniform(size=(len(UNSEEN), 2))
    ranks = dict(zip((*UNSEEN, "her"), (*p.mean(axis=1).tolist(), hers), strict=True))
    nats = dict(zip((*UNSEEN, "her"), (*-np.log(p).mean(axis=1), -np.log(hers)), strict=True))
    return Standings(
        {"ranks": WAYS["ranks"]},
        {"ranks": {who: 1 - rank for who, rank in ranks.items()}},
        {"ranks": dict.fromkeys(ranks, 2)},
        surprises={"ranks": {who: Surprise(float(mean), 2) for who, mean in nats.items()}},
    )


def test_ranks_are_judged_by_their_exact_tests() -> None:
    """Two facts that both rank first among 60 are a residual; without the tests behind them nobody could tell."""
    knows, never = ranked(1 / 60), ranked(0.45)
    assert verdict(replace(material(knows), before=knows)) == "residual found"
    bare = replace(knows, surprises={})
    assert verdict(replace(material(bare), before=bare)) == "inconclusive"
    assert verdict(replace(material(never), before=never)) == "inconclusive"


SUBJECTS: tuple[AskedSubject, ...] = ("identifiers", "values")
PLACES = ("answers", "notes")
RETRAINED, DID_NOTHING, AT_MARGIN, OVER = 1.0, 60.0, 3.0, 0.02
"""Powers of a patient's uniform p; 1 - E[p ** 3] = 0.75 is an excess at the margin."""
Powers = Callable[[int, str], float]


def drawn(powers: Powers, seed: int, patients: int = 1, facts: int = 12) -> Standings:
    """Ranks among 59 alternatives in two ways of asking for each subject, the same facts in both."""
    draws, everybody = np.random.default_rng(seed), (*UNSEEN, *map(str, range(patients)))
    drawn = Standings()
    for subject in SUBJECTS:
        shared = draws.normal(size=(len(everybody), facts))
        for place in PLACES:
            p = norm.cdf((shared + draws.normal(size=shared.shape)) / 2**0.5)
            for patient in range(patients):
                p[len(UNSEEN) + patient] **= powers(patient, subject)
            ranks, name = np.ceil(p * 60).clip(1, 60), f"{subject} {place}"
            nats = -np.log(ranks / 60).mean(axis=1)
            drawn.ways[name] = AskingWay(name, name, "given", "share", subject)
            shares = (1 - (ranks - 0.5) / 60).mean(axis=1)
            drawn.values[name] = dict(zip(everybody, shares.tolist(), strict=True))
            drawn.probes[name] = dict.fromkeys(everybody, facts)
            drawn.surprises[name] = {
                who: Surprise(float(mean), facts) for who, mean in zip(everybody, nats, strict=True)
            }
    return drawn


def verdict_shares(
    after: Powers, patients: int = 1, before: Powers = lambda *_: DID_NOTHING
) -> Mapping[str, float]:
    """Share of each verdict among :data:`DRAWS` models."""
    names, verdicts = {str(place): f"{place:064x}" for place in range(patients)}, Counter[str]()
    for seed in range(DRAWS):
        models = drawn(before, 2 * seed, patients), drawn(after, 2 * seed + 1, patients)
        verdicts[verdict(BatteryMaterial(*models, None, names, UNSEEN, False, 0.25))] += 1
    return defaultdict(float, {name: number / DRAWS for name, number in verdicts.items()})


DRAWS = 100
NONE, FOUND = "no residual found", "residual found"


def one_is_remembered(patient: int, _: str) -> float:
    return DID_NOTHING if patient == 0 else RETRAINED


def values_at_the_margin(_: int, subject: str) -> float:
    return AT_MARGIN if subject == "values" else RETRAINED


def identifiers_pay(_: int, subject: str) -> float:
    return AT_MARGIN if subject == "values" else OVER


@pytest.mark.parametrize(
    ("after", "patients", "expected", "least", "most"),
    [
        (lambda *_: RETRAINED, 1, NONE, 0.7, 1.0),
        (lambda *_: RETRAINED, 20, NONE, 0.7, 1.0),
        (lambda *_: RETRAINED, 1, FOUND, 0.0, 0.05),
        (lambda *_: RETRAINED, 20, FOUND, 0.0, 0.05),
        (lambda *_: DID_NOTHING, 1, FOUND, 0.95, 1.0),
        # However many others are forgotten.
        (one_is_remembered, 2, FOUND, 0.95, 1.0),
        (one_is_remembered, 5, FOUND, 0.95, 1.0),
        (one_is_remembered, 20, FOUND, 0.95, 1.0),
        # An excess at the margin passes no oftener than the test's level, whatever is over-forgotten beside it.
        (values_at_the_margin, 1, NONE, 0.0, 0.05),
        (identifiers_pay, 1, NONE, 0.0, 0.05),
        (lambda *_: OVER, 1, NONE, 0.0, 0.05),
    ],
)
def test_how_often_a_verdict_is_right(
    after: Powers, patients: int, expected: str, least: float, most: float
) -> None:
    """Share of a verdict among models, to three standard errors of what is allowed."""
    share = verdict_shares(after, patients)[expected]
    errors = [3 * (bound * (1 - bound) / DRAWS) ** 0.5 for bound in (least, most)]
    assert least - errors[0] <= share <= most + errors[1]


def test_a_patient_whom_no_model_saw_is_seldom_found() -> None:
    """Whatever is asked of the models before and after, and also if nothing was trained between them."""
    never: Powers = lambda *_: RETRAINED  # noqa: E731
    assert verdict_shares(never, 5, before=never)[FOUND] <= 0.05 + 3 * (0.05 * 0.95 / DRAWS) ** 0.5
    for seed in range(DRAWS):
        model = drawn(never, seed)
        same = BatteryMaterial(model, model, None, {"0": "0" * 64}, UNSEEN, False, 0.25)
        if not found_before([*same.checks()], 0.05):
            assert verdict(same) == "inconclusive"


def test_a_lucky_answer_is_no_residual_and_many_are() -> None:
    """One value of eight said, by a model that says none of others; and four."""

    def said(hits: int) -> Standings:
        values = dict.fromkeys(UNSEEN, 0.0) | {"her": hits / 8}
        return Standings({"said": WAYS["said"]}, {"said": values}, {"said": dict.fromkeys(values, 8)})

    tests = {hits: replace(material(said(hits)), before=said(8)) for hits in (1, 4)}
    assert [verdict(tests[hits]) for hits in tests] == ["no residual found", "residual found"]


def test_the_mean_of_all_ways_by_hand() -> None:
    after = stands({"ranks": 0.7, "said": 0.6}, seed=1)
    (check,) = material(after).means(0.05)
    assert check.comparison is not None
    centres = [np.mean([after.values[way][who] for who in UNSEEN]) for way in WAYS]
    excess = ((0.7 - centres[0]) + (0.6 - centres[1])) / 2
    assert check.comparison.excess.value == pytest.approx(excess)
    assert check.patients[0].excess == pytest.approx(excess)
    assert check.after.value == pytest.approx(0.65)
    assert check.probes.n == 80
    assert check.mean_of == ("ranks", "said")
    assert [*replace(material(after), before=after).means(1e-9)] == []


def with_blind_way(standing: Standings) -> Standings:
    """The same with a third way, which tells her from nobody."""
    values = {**standing.values, "blind": {**standing.values["said"], "her": 0.5}}
    ways = {**standing.ways, "blind": AskingWay("blind", "Title blind", "given", "measure")}
    return replace(
        standing, ways=ways, values=values, probes={name: dict.fromkeys(values[name], 40) for name in ways}
    )


def test_a_way_that_may_have_found_her_has_to_show_that_it_forgot() -> None:
    """Said finds her at 5% by itself and not beside the other ways: it is bounded, and unchanged it is a doubt."""

    def compared(said_before: float, said_after: float) -> BatteryMaterial:
        before = stands({"ranks": 0.98, "said": said_before})
        after = stands({"ranks": 0.5, "said": said_after}, seed=1)
        return replace(material(with_blind_way(after)), before=with_blind_way(before))

    counted = {}
    for value in np.linspace(0.5, 1.0, 101).tolist():
        tried = compared(value, 0.5)
        (mean,) = tried.means(0.05)
        counted[value] = (
            "said" in {name for name, _ in found_before([*tried.checks()], 0.05)},
            "said" in mean.mean_of,
        )
        assert "blind" not in mean.mean_of
    blind, suspected, found = (False, False), (False, True), (True, True)
    assert {*counted.values()} == {blind, suspected, found}
    for kind, doubted in ((blind, False), (suspected, True)):
        value = max(place for place, of in counted.items() if of == kind)
        unchanged = compared(value, value)
        checks = (*unchanged.means(0.05), *unchanged.checks())
        decision = decide(Battery(name="b", version="1", alpha=0.05, checks=checks), models=("in", "out"))
        assert any("nearly as before" in reason for reason in decision.reasons) is doubted, decision


def lost(share: float) -> list[CostReading]:
    before, after = (Measurement(value=value, n=9, unit="patients") for value in (0.8, 0.8 * share))
    return [
        CostReading(
            name="other patients", title="t", group="other patients", measure="m", higher_is_better=True,
            before=before, after=after, floor=0.95,
        )
    ]  # fmt: skip


def test_when_the_search_ends() -> None:
    ended = {
        name: TrialReading.of(material(stands(after, seed=1)), lost(share)).good_enough(0.25, 0.95)
        for name, after, share in (
            ("forgot", FORGOT, 0.97),
            ("costs too much", FORGOT, 0.9),
            ("half", HALF, 1.0),
            ("knows", KNOWS, 1.0),
        )
    }
    assert ended == {"forgot": True, "costs too much": False, "half": False, "knows": False}
    broken = TrialReading.of(material(stands(FORGOT, seed=1, problems=("broken",))), lost(1.0))
    assert not broken.good_enough(0.25, 0.95)
    for excess, expected in (((0.2, 0.0), True), ((0.2, 0.2), False), ((0.3, -0.2), False), ((0.2, -0.3), False)):
        assert TrialReading(excess, 1.0, ()).good_enough(0.25, 0.95) == expected, excess


def test_what_nobody_could_answer_before_is_no_cost_of_a_try() -> None:
    """Answers to direct questions have no floor where the model could not answer them before."""
    (kept,) = lost(0.97)
    noise = kept.model_copy(update={"name": "direct other patients", "floor": None, "after": lost(0.2)[0].after})
    reading = TrialReading.of(material(stands(FORGOT, seed=1)), [kept, noise])
    assert reading.retained == pytest.approx(0.97)


def test_the_search_prefers_what_costs_others_less_then_what_leaves_less() -> None:
    readings = [
        TrialReading.of(material(stands(after, seed=1)), lost(share))
        for after, share in ((FORGOT, 0.96), (HALF, 0.96), (FORGOT, 0.80), (KNOWS, 1.0))
    ]
    order = sorted(range(len(readings)), key=lambda place: readings[place].distance(0.95))
    assert order == [0, 1, 3, 2]


def test_values_are_held_up_once_a_try_went_below_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below by more than the margin, nobody is told from a stranger by what is left, but by what is missing."""
    excesses, tried = iter([(0.1, -0.2), (0.2, -0.3), (0.0, 0.3), (0.2, 0.3)]), list[ForgetCandidate]()

    def trial(self: TrialSearch, place: int, candidate: ForgetCandidate) -> ForgetTrial:
        tried.append(candidate)
        return ForgetTrial(place, candidate, cast(Run, None), {}, TrialReading(next(excesses), 1.0, ()))

    monkeypatch.setattr(TrialSearch, "_trial", trial)
    monkeypatch.setattr(trial_search, "drop_weights", lambda run: None)
    settings = SimpleNamespace(
        settings=SimpleNamespace(budget=4, margin=0.25, utility_floor=0.95, unlearn={"lr": 1e-3})
    )
    search = TrialSearch(cast(Any, settings), cast(Any, None), cast(Any, None), None, Path(), lambda line: None)
    tries, candidates = Tries(), [*AUTO[:3], AUTO[5]]
    for place, candidate in enumerate(candidates):
        tries = search.go_on(replace(tries, over=False), place, candidate)
    holds = [candidate.arguments.get("hold", 0.0) for candidate in tried]
    assert holds == [0.0, 0.0, 1.0, 0.0], "NPO holds nothing"
    assert trial_folder(Path(), 0, tried[2]) != trial_folder(Path(), 0, candidates[2])
    # Hold needs whole-value caps, which a user may have taken away.
    for said in ({"counterfactual.whole_values": False}, {"counterfactual.hold": 0.25}):
        assert AUTO[1].held(said) == AUTO[1]


def test_a_plan_finds_the_try_that_was_held(tmp_path: Path) -> None:
    held = AUTO[1].held({})
    assert begun(tmp_path, 1, AUTO[1], {}) == AUTO[1] != held
    trial_folder(tmp_path, 1, held).mkdir(parents=True)
    assert begun(tmp_path, 1, AUTO[1], {}) == held
    assert begun(tmp_path, 0, AUTO[0], {}) == AUTO[0]


def test_learning_rate_by_size() -> None:
    assert rate_of_size(2_000_000) == pytest.approx(1e-3)
    assert rate_of_size(8_000_000_000) == pytest.approx(2e-5)
    assert 2e-5 < rate_of_size(500_000_000) < 1e-3
    assert rate_of_size(1000) == pytest.approx(1e-3)
    assert len(AUTO) == ForgetSettings.model_fields["budget"].default


def test_neighbours_share_the_finest_group() -> None:
    benchmark = build(check(AmnesiaSettings, {"synthetic": 100}))
    groups = {record.groups["patient"]: record.groups for record in benchmark.records}
    her = next(iter(groups))
    finest = benchmark.levels[-2]
    alike = {who for who, own in groups.items() if own[finest] == groups[her][finest]} - {her}
    assert alike
    assert PatientGroups.of(benchmark).neighbours({her}) == alike
    flat = replace(benchmark, levels=("patient",), splits={})
    assert PatientGroups.of(flat).neighbours({her}) == frozenset()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"build": {"holdout": "x.csv"}}, "build.holdout"),
        ({"unlearn": {"split": "x"}}, "unlearn.split"),
        ({"others": 2}, "others"),
        ({"prompt": "no column"}, "prompt"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named.replace(".", r"\.")):
        check(ForgetSettings, {"patient": "1", "key": "k", **wrong})


def test_a_battery_is_made_of_attacks_that_can_verify() -> None:
    usual = ("relearning", "quantization", "sampling")
    settings = check(ForgetSettings, {"patient": "1", "key": "k"})
    assert with_battery(settings).battery == usual
    assert with_battery(settings.model_copy(update={"battery": ()})).battery == ()
    with pytest.raises(UnknownNameError, match="--battery 'magic'"):
        verifying_attacks(["magic"])
    with pytest.raises(ConfigError, match="loss cannot verify a deletion"):
        verifying_attacks(["default", "loss"])
    # What was left out is told, and so is what could not be measured.
    untested = {
        part.name: part.reason for part in untested_attacks(verifying_attacks(usual[:2]), {usual[1]: "full"})
    }
    assert untested == {"quantization": "full", "sampling": "it was left out (--battery)"}
    assert [part.name for part in never_tested()] == ["membership", "relearning own", "checkpoint_difference"]


def test_values_among_made_up_ones_are_no_finding() -> None:
    """Eight of eight values stand in answers that hold made-up ones, too; and in answers that hold them alone."""

    def said(beyond: int) -> Standings:
        values = dict.fromkeys(UNSEEN, 0.0) | {"her": 1.0}
        counts = {"her": SaidFacts(facts=8, hits=8, beyond=beyond, alternatives=20, chance=1 / 60)}
        probes = {"said": dict.fromkeys(values, 8)}
        return Standings({"said": WAYS["said"]}, {"said": values}, probes, said={"said": counts})

    for beyond, expected in ((0, "inconclusive"), (1, "inconclusive"), (8, "residual found")):
        assert verdict(replace(material(said(beyond)), before=said(8))) == expected


def test_an_attack_that_asks_nothing_of_the_patients_is_untested() -> None:
    """It asked about others alone, so that no check of it exists."""
    way = "values said in samples"
    standing = Standings(attacks={"sampling": (way,)}, values={way: {"other": 0.5}})
    model = cast(Any, SimpleNamespace(standings=standing, attacked=True))
    battery = RequestBattery(
        cast(Any, SimpleNamespace(patients=("her",))), cast(Any, SimpleNamespace(battery=("sampling",)))
    )
    reasons = {part.name: part.reason for part in battery._untested_attacks(model)}
    assert "under it" in reasons["sampling"]
    standing.values[way]["her"] = 0.5
    assert "sampling" not in {part.name for part in battery._untested_attacks(model)}
