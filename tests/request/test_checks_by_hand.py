"""Checks of a battery from numbers that we make: what they compare; what search and verdict make of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from medunlearn.config import ForgetSettings, check
from medunlearn.errors import ConfigError, UnknownNameError
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request.battery_checks import BatteryMaterial
from medunlearn.request.case.evidence import Battery, CostReading, Measurement
from medunlearn.request.case.verdicts import decide
from medunlearn.request.request_benchmarks import neighbours_of
from medunlearn.request.standings import AskingWay, Standings
from medunlearn.request.trial_search import AUTO, TrialReading, rate_of_size
from medunlearn.request.verifying_attacks import (
    never_tested,
    untested_attacks,
    verifying_attacks,
    with_battery,
)
from medunlearn.statistics.others import Surprise

WAYS = {name: AskingWay(name, f"Title {name}", "given", "measure") for name in ("ranks", "said")}
UNSEEN = tuple(f"unseen-{place}" for place in range(12))
HER = ("her",)


def stands(hers: Mapping[str, float], seed: int = 0, problems: tuple[str, ...] = ()) -> Standings:
    """A model that knows nothing of unseen patients (about 0.5) and so much of her."""
    draws = np.random.default_rng(seed)
    values = {
        name: {who: float(value) for who, value in zip(UNSEEN, draws.normal(0.5, 0.05, len(UNSEEN)), strict=True)}
        | {"her": hers[name]}
        for name in WAYS
    }
    return Standings(WAYS, values, {name: dict.fromkeys(values[name], 10) for name in WAYS}, problems)


KNOWS, FORGOT, HALF = {"ranks": 0.99, "said": 0.95}, {"ranks": 0.5, "said": 0.52}, {"ranks": 0.85, "said": 0.5}


def material(after: Standings, retrained: Standings | None = None, *, margin: float = 0.25) -> BatteryMaterial:
    return BatteryMaterial(stands(KNOWS), after, retrained, HER, UNSEEN, False, margin)


def verdict(material: BatteryMaterial) -> str:
    together = material.together(0.05)
    checks = (*material.checks(), *([together] if together else []))
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
    silent = replace(material(after), patients=(*HER, "silent"))
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


PLACES = tuple(f"place {number}" for number in range(5))


def drawn(rank: Mapping[str, float], seed: int, facts: int = 4) -> Standings:
    """Ranks of a few facts in five ways of asking; her p is uniform, to the power given (1: not known)."""
    draws, patients = np.random.default_rng(seed), (*UNSEEN, "her")
    p = {place: draws.uniform(size=(len(patients), facts)) for place in PLACES}
    for place in PLACES:
        p[place][-1] **= rank.get(place, 1.0)
    return Standings(
        {place: AskingWay(place, place, "given", "share") for place in PLACES},
        {place: dict(zip(patients, (1 - p[place]).mean(axis=1).tolist(), strict=True)) for place in PLACES},
        {place: dict.fromkeys(patients, facts) for place in PLACES},
        surprises={
            place: {
                who: Surprise(float(mean), facts)
                for who, mean in zip(patients, -np.log(p[place]).mean(axis=1), strict=True)
            }
            for place in PLACES
        },
    )


@pytest.mark.parametrize(
    ("power", "expected", "least", "most"),
    [
        # Who never saw her passes, though the bound of each way alone is above the margin; seldom a residual.
        (1.0, "no residual found", 0.6, 1.0),
        (1.0, "residual found", 0.0, 0.05),
        # 1 - E[p ** 3] = 0.75: an excess at the margin is let pass no oftener than the test's level allows.
        (3.0, "no residual found", 0.0, 0.05),
        (30.0, "residual found", 0.95, 1.0),
    ],
)
def test_how_often_a_verdict_is_right(power: float, expected: str, least: float, most: float) -> None:
    """Share of a verdict among 200 models, to three standard errors of the most that is allowed."""
    share, error = verdict_shares(power)[expected], 3 * (most * (1 - most) / 200) ** 0.5
    assert least <= share <= most + error


@cache
def verdict_shares(power: float) -> Mapping[str, float]:
    before, verdicts = drawn(dict.fromkeys(PLACES, 60.0), seed=1), Counter[str]()
    for seed in range(200):
        after = drawn(dict.fromkeys(PLACES, power), seed=seed + 2)
        verdicts[verdict(replace(material(after), before=before))] += 1
    return defaultdict(float, {name: number / 200 for name, number in verdicts.items()})


def test_one_way_in_which_she_is_still_known_is_not_averaged_away() -> None:
    before = drawn(dict.fromkeys(PLACES, 60.0), seed=1)
    for seed in range(30):
        after = drawn({PLACES[0]: 60.0}, seed=seed + 2)
        assert verdict(replace(material(after), before=before)) != "no residual found"


def test_the_mean_of_all_ways_by_hand() -> None:
    after = stands({"ranks": 0.7, "said": 0.6}, seed=1)
    check = material(after).together(0.05)
    assert check is not None
    assert check.comparison is not None
    centres = [np.mean([after.values[way][who] for who in UNSEEN]) for way in WAYS]
    assert check.comparison.excess.value == pytest.approx(((0.7 - centres[0]) + (0.6 - centres[1])) / 2)
    assert check.after.value == pytest.approx(0.65)
    assert check.probes.n == 20
    assert replace(material(after), before=after).together(1e-9) is None


def lost(share: float) -> list[CostReading]:
    before, after = (Measurement(value=value, n=9, unit="patients") for value in (0.8, 0.8 * share))
    return [
        CostReading(
            name="other patients", title="t", group="other patients", measure="m", higher_is_better=True,
            before=before, after=after,
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


def test_the_search_prefers_what_costs_others_less_then_what_leaves_less() -> None:
    readings = [
        TrialReading.of(material(stands(after, seed=1)), lost(share))
        for after, share in ((FORGOT, 0.96), (HALF, 0.96), (FORGOT, 0.80), (KNOWS, 1.0))
    ]
    order = sorted(range(len(readings)), key=lambda place: readings[place].distance(0.95))
    assert order == [0, 1, 3, 2]


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
    assert neighbours_of(benchmark, {her}) == alike
    flat = replace(benchmark, levels=("patient",), splits={})
    assert neighbours_of(flat, {her}) == frozenset()


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
    assert [part.name for part in never_tested()] == ["membership", "relearning own"]
