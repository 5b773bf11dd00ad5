"""No leakage: what trials are chosen by and what is reported on share no subject and no question."""

from __future__ import annotations

from typing import Any

import pytest

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES
from medunlearn.probes.question_selection import half_of, questions_to_ask
from medunlearn.probes.rank_plan import rank_plan


def asked(**values: Any) -> EvaluateSettings:
    return check(EvaluateSettings, {"split": "random_25", **values})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_halves_share_nothing_and_leave_nothing_out(hospital: Benchmark, seed: int) -> None:
    split, parts = hospital.split("random_25"), {}
    for half in ("choosing", "reporting"):
        questions = questions_to_ask(hospital, split, asked(subjects=half, seed=seed))
        parts[half] = {
            "questions": {question.question_id for question in questions},
            "subjects": {hospital.subject(question.record_id) for question in questions},
        }
    whole = {question.question_id for question in questions_to_ask(hospital, split, asked(seed=seed))}
    for name in ("questions", "subjects"):
        assert not parts["choosing"][name] & parts["reporting"][name]
    assert parts["choosing"]["questions"] | parts["reporting"]["questions"] == whole
    # 5 forget and 15 retain subjects; of an odd number the choosing half has one more.
    assert [len(parts[half]["subjects"]) for half in ("choosing", "reporting")] == [3 + 8, 2 + 7]


def test_halves_depend_on_the_seed_alone(hospital: Benchmark) -> None:
    """A subject of the choosing half is one in every fold, under every limit, and where facts are ranked."""
    split = hospital.split("random_25")
    halves = {
        side: {half: half_of(hospital, split, side, asked(subjects=half)) for half in ("choosing", "reporting")}
        for side in SIDES
    }
    sides = hospital.sides(split)
    for half in ("choosing", "reporting"):
        for more in ({"folds": ["train"]}, {"folds": ["holdout"]}, {"limit": 1}, {"limit": 2, "ranked": 1}):
            settings = asked(subjects=half, rank_in="both", **more)
            plan = rank_plan(hospital, "random_25", settings, ["ranked_first"])
            assert plan.questions
            assert plan.records
            assert {hospital.subject(name) for name in plan.records} <= {
                *halves["forget"][half],
                *halves["retain"][half],
            }
            ranked = [question for question in hospital.questions if question.question_id in plan.questions]
            for questions in (questions_to_ask(hospital, split, settings), ranked):
                for question in questions:
                    assert hospital.subject(question.record_id) in halves[sides[question.record_id]][half]
    limited = questions_to_ask(hospital, split, asked(subjects="reporting", limit=1))
    assert len({hospital.subject(question.record_id) for question in limited}) == 2  # one a side
    other = half_of(hospital, split, "retain", asked(subjects="choosing", seed=7))
    assert other != halves["retain"]["choosing"]
