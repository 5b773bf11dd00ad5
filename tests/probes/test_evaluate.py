"""Evaluation: who is asked what, once, and what is written down."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

import medunlearn.probes.evaluate as evaluate_module
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.probes.evaluate import evaluate, evaluate_one, evaluate_together
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.questioning import Questioning
from medunlearn.probes.score import metric_names
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.report.gather import gather
from medunlearn.study.rescore import score
from medunlearn.training.processes import Processes


def settings(**values: Any) -> EvaluateSettings:
    quick = {"split": "random_10", "replicates": 20, "limit": 2, "max_new_tokens": 4, "allow_broken": True}
    return check(EvaluateSettings, {**quick, **values})


def test_the_questions_asked(hospital: Benchmark) -> None:
    split = hospital.split("random_10")
    sides = hospital.sides(split)
    everything = questions_to_ask(hospital, split, settings(limit=None))
    assert {q.question_id for q in everything} == {q.question_id for q in hospital.questions}
    some = questions_to_ask(hospital, split, settings(limit=3))
    assert [q for q in everything if q in some] == some
    subjects = {side: {q.record_id for q in some if sides[q.record_id] == side} for side in ("forget", "retain")}
    assert (len(subjects["forget"]), len(subjects["retain"])) == (2, 3)
    assert {q.record_id for q in questions_to_ask(hospital, split, settings(limit=3, seed=1))} != {
        q.record_id for q in some
    }
    assert {q.fold for q in questions_to_ask(hospital, split, settings(folds=["holdout"]))} == {"holdout"}


def test_what_is_written_down(hospital: Benchmark, copy: Callable[..., Run]) -> None:
    run = copy()
    one = evaluate_one(run, hospital, settings(), quiet=True)
    info = json.loads((one.record.folder / "run.json").read_text())
    assert (info["verb"], info["status"]) == ("evaluate", "complete")
    assert info["config"] == settings().model_dump(mode="json")
    assert info["inputs"]["benchmark"] == hospital.fingerprint
    assert len(info["inputs"]["model"]) == 64
    assert set(info["stages"]) == {"keywords", "ask", "rank", "score"}
    assert info["results"]["split"] == {"name": "random_10", "level": "patient", "forget": 2, "retain": 18}
    assert info["results"]["context"] == "closed_book"
    assert info["results"]["batches"].startswith("packed: shared text once")
    assert info["results"]["generation"].startswith("shared text once: one key/value cache")
    assert "option_batches" not in info["results"]
    ids = {q.question_id for q in questions_to_ask(hospital, hospital.split("random_10"), settings())}
    assert len(ids) == 32
    assert set(one.questions["question_id"]) == set(one.responses) == ids
    assert one.scores.groupby("measure")["question_id"].agg(set).map(ids.__eq__).all()
    # What is unscored has a reason, what is scored has none.
    assert (one.scores["value"].isna() == one.scores["reason"].notna()).all()
    # No encoder was named, so the benchmark's measures that need one have no rows.
    assert not {"cs", "es"} & set(one.table["measure"])
    assert set(one.table["node"]) <= set(hospital.hierarchy.nodes("disease"))
    written = (one.record.folder / "run.json").read_text()
    assert not [i.value for record in hospital.records for i in record.identifiers if i.value in written]


@pytest.mark.parametrize(
    "changes", [{"metrics": ("exact_match",)}, {"replicates": 30}, {"split": "patient=patient-0001"}, {"limit": 1}]
)
def test_other_scores_ask_nothing_new(
    hospital: Benchmark, target: Run, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_one(target, hospital, settings(limit=None), quiet=True)
    monkeypatch.setattr(ResponseStore, "add", lambda *args: pytest.fail("a question was asked"))
    monkeypatch.setattr("medunlearn.models.load.load_model", lambda *args, **more: pytest.fail("loaded"))
    results = evaluate_one(target, hospital, settings(**changes), quiet=True).record.info["results"]
    # No model was asked, so nothing is said of how.
    assert not {"batches", "option_batches", "generation"} & set(results)


def test_a_response_does_not_depend_on_its_company(hospital: Benchmark, copy: Callable[..., Run]) -> None:
    alone = evaluate_one(copy("a"), hospital, settings(limit=1, batch_size=1), quiet=True).responses
    together = evaluate_one(copy("b"), hospital, settings(limit=None), quiet=True).responses
    assert len(alone) == 16
    for question_id, response in alone.items():
        assert together[question_id].response_tokens == response.response_tokens
        assert together[question_id].answer_hits == response.answer_hits
        assert together[question_id].answer_log_probs == pytest.approx(response.answer_log_probs, rel=1e-4)


def test_a_model_against_itself_differs_in_nothing(hospital: Benchmark, copy: Callable[..., Run]) -> None:
    evaluation = evaluate(copy("a"), hospital, settings(), against=[copy("b")], quiet=True)
    assert set(evaluation.table()["model"]) == {"target (a)", "target (b)"}
    differences = evaluation.comparisons["difference"].dropna()
    assert len(differences) > 10
    assert (differences == 0).all()
    first, second = evaluation.models
    pd.testing.assert_frame_equal(first.scores, second.scores, check_exact=True)


def test_the_folder_tells_evaluations_apart(hospital: Benchmark, copy: Callable[..., Run]) -> None:
    run = copy()
    for changes in ({}, {"replicates": 30}, {"split": "random_15"}):
        evaluate_one(run, hospital, settings(**changes), quiet=True)
    assert len(list((run.folder / "evaluations").glob("*/run.json"))) == 3
    with pytest.raises(InputError, match="several splits: random_10, random_15"):
        Evaluated.find(run)
    assert Evaluated.find(run, "random_10").record.info["config"]["replicates"] == 30
    # What was asked for last is what a report takes, even where nothing had to be done for it.
    evaluate_one(run, hospital, settings(), quiet=True)
    assert Evaluated.find(run, "random_10").record.info["config"]["replicates"] == 20


@pytest.mark.parametrize(
    ("changes", "part"), [({"limit": 1}, "different questions"), ({"context": "note"}, "in context")]
)
def test_a_report_mixes_nothing(
    hospital: Benchmark, copy: Callable[..., Run], changes: dict[str, Any], part: str
) -> None:
    first = evaluate_one(copy("a"), hospital, settings(), quiet=True)
    second = evaluate_one(copy("b"), hospital, settings(**changes), quiet=True)
    with pytest.raises(InputError, match=part):
        gather("t", [first, second])


def test_wrong_settings(hospital: Benchmark, target: Run) -> None:
    for changes, error in (
        ({"split": "random_11"}, UnknownNameError),
        ({"metrics": ("rouge",)}, UnknownNameError),
        ({"folds": ("utility",)}, ConfigError),
        ({"split": "patient="}, InputError),
    ):
        with pytest.raises(error):
            evaluate_one(target, hospital, settings(**changes), quiet=True)


def test_ranks_of_facts_are_measured_and_told_again(hospital: Benchmark, copy: Callable[..., Run]) -> None:
    run = copy()
    how = settings(metrics=["em", "ranked_first"], ranked=1, alternatives=9)
    one = evaluate_one(run, hospital, how, quiet=True)
    facts = one.facts
    assert set(facts["side"]) == {"forget", "retain"}
    assert facts.groupby("side")["subject"].nunique().tolist() == [1, 1]
    ranked = facts.dropna(subset=["p"])
    assert len(ranked) > 0
    assert ((ranked["p"] >= 1 / 10) & (ranked["p"] <= 1)).all()
    # A question's measure is the share of its facts that came first; subjects that were not drawn are unscored.
    first = (ranked["rank"] == 1).groupby(ranked["item"]).mean()
    scores = one.table[one.table["measure"] == "ranked_first"].set_index("item")
    assert scores["value"].dropna().to_dict() == first.astype("Float64").to_dict()
    assert scores.loc[~scores.index.isin(facts["item"]), "reason"].str.contains("--ranked").all()
    before = one.table
    again = score(run, measures="ranked_first", benchmark=hospital, allow_broken=True)
    pd.testing.assert_frame_equal(
        again.table.sort_values(["item", "measure"], ignore_index=True),
        before.sort_values(["item", "measure"], ignore_index=True),
    )


def test_default_stands_for_the_benchmarks_own_measures(hospital: Benchmark) -> None:
    own = metric_names(hospital, settings())
    assert metric_names(hospital, settings(metrics=["default"])) == own
    assert metric_names(hospital, settings(metrics=["ranked_first", "default", "em"])) == tuple(
        dict.fromkeys(("ranked_first", *own))
    )
    assert "ranked_first" in own
    with pytest.raises(UnknownNameError):
        metric_names(hospital, settings(metrics=["defaults"]))


@pytest.mark.parametrize(("backend", "shares"), [("own", 1), ("vllm", 0)])
def test_processes_share_our_engine_and_not_vllms(
    backend: str, shares: int, hospital: Benchmark, target: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Mock()
    monkeypatch.setattr(Questioning, "ask_share", asked)
    monkeypatch.setattr(evaluate_module, "evaluate_one", lambda *inputs, **how: inputs[0])
    monkeypatch.setattr(Processes, "_exchange", lambda self, value, raised=None: [value])
    settings = check(EvaluateSettings, {"split": "random_10", "backend": backend})
    assert evaluate_together(target, hospital, settings, Processes(0, 2)) is target
    assert asked.call_count == shares
