"""Numbers and contrasts of a sweep: those of the models' summaries, by disease, over seeds, in several contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_folders import relabelled, write_evaluation

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, SweepResults
from medunlearn.papers.sweeps.models import SweepModels
from medunlearn.results.evaluated import Evaluated, summarize_evaluation
from medunlearn.results.runs import Run
from medunlearn.results.scores import write_scores

KLM, RMU, T, R = ("unlearned", "KL-Min"), ("unlearned", "RMU"), ("target", ""), ("retrained", "")
CB = "closed_book"


def value(
    results: SweepResults, split: str, who: tuple[str, str], place: tuple[str, str, str], metric: str
) -> float:
    found = results.number(CB, split, who, place, metric)
    assert found is not None
    assert found.value is not None
    return found.value


def test_numbers_are_those_of_the_summaries(results: SweepResults, models: list[Evaluated]) -> None:
    compared = 0
    for model in models:
        config = model.run.info["config"]
        who = ("unlearned", model.run.label) if "method" in config else (model.run.label, "")
        split = model.record.info["config"]["split"]
        for row in model.summary.to_dict("records"):
            found = results.number(CB, split, who, (row["side"], row["fold"], row["kind"]), row["metric"])
            assert found is not None
            assert (found.value, found.low, found.high) == (row["value"], row["low"], row["high"])
            compared += 1
    everybody = results.numbers[results.numbers["group"] == "all"]
    assert compared == len(everybody) > 500


def test_scopes_sizes_and_diseases_come_from_the_splits(results: SweepResults, clinic: Benchmark) -> None:
    steps = {step.split: step for step in results.steps}
    assert list(steps) == ["random_05", "random_25", "cancer_05", "cancer_20"]
    assert [(step.scope, step.percent, step.disease) for step in steps.values()] == [
        ("random", 5, None),
        ("random", 25, None),
        ("cancer", 5, "Cancer"),
        ("cancer", 20, "Cancer"),
    ]
    with_cancer = len({r.groups["patient"] for r in clinic.records if r.groups["disease"] == "Cancer"})
    assert (steps["cancer_20"].forget, steps["cancer_20"].same) == (24, with_cancer - 24)
    assert results.methods == ("KL-Min", "RMU")


def test_groups_are_summaries_of_the_retained_with_and_without_the_disease(
    results: SweepResults, models: list[Evaluated], clinic: Benchmark
) -> None:
    model = next(m for m in models if m.run.folder.name == "unlearned-rmu-cancer_20-0")
    with_cancer = {r.groups["patient"] for r in clinic.records if r.groups["disease"] == "Cancer"}
    for group, is_in in ((SAME, True), (OTHER, False)):
        asked = model.questions[
            (model.questions["side"] == "retain") & (model.questions["subject"].isin(with_cancer) == is_in)
        ]
        inside = model.table[model.table["item"].isin(asked["question_id"])]
        summary = summarize_evaluation(inside, replicates=100, seed=0)
        expected = summary.set_index(["fold", "kind", "measure"])
        for kind in ("factual", "reasoning"):
            found = results.number(CB, "cancer_20", RMU, ("retain", "train", kind), "MU", group)
            row = expected.loc[("train", kind, "MU")]
            assert found is not None
            assert (found.value, found.low, found.high) == (row["value"], row["low"], row["high"])
        mean = results.number(CB, "cancer_20", RMU, ("retain", "train", MEAN_OF_KINDS), "MU", group)
        both = expected.loc[[("train", kind, "MU") for kind in ("factual", "reasoning")], "value"]
        assert mean is not None
        assert mean.value == pytest.approx(float(both.mean()))
        low, high = mean.low, mean.high
        assert low is not None
        assert high is not None
        assert low < float(both.mean()) < high


def test_contrasts_are_differences_of_the_shown_numbers(results: SweepResults) -> None:
    train, held_out = ("forget", "train", "all"), ("forget", "holdout", "all")

    def afe(who: tuple[str, str], split: str = "random_25", place: tuple[str, str, str] = train) -> float:
        return value(results, split, who, place, "AFE")

    def of(name: str, fold: str, split: str = "random_25", method: str = "RMU") -> float:
        found = results.contrast(name, CB, split, method, fold, "all").value
        assert found is not None
        return found

    assert of("forgetting gained", "train") == pytest.approx(afe(RMU) - afe(T))
    assert of("forgetting past half-way", "train") == pytest.approx(afe(RMU) - afe(T) / 2 - afe(R) / 2)
    behind = (afe(RMU) - afe(T)) / 2 - (afe(RMU, place=held_out) - afe(T, place=held_out))
    assert of("holdout gain below half of train gain", "") == pytest.approx(behind)
    grown = afe(RMU, "cancer_20") - afe(T, "cancer_20") - afe(RMU, "cancer_05") + afe(T, "cancer_05")
    assert of("growth of forgetting", "train", "cancer_20") == pytest.approx(grown)
    utility = [value(results, "random_25", who, ("retain", "train", "all"), "MU") for who in (RMU, T)]
    assert of("utility above 0.8 of target", "train") == pytest.approx(utility[0] - 0.8 * utility[1])
    leaked = [value(results, "random_25", who, train, "ls") for who in (T, KLM)]
    below = of("leakage below a tenth of target", "train", method="KL-Min")
    assert below == pytest.approx(leaked[0] / 10 - leaked[1])
    collapsed = value(results, "random_25", KLM, train, "DS")
    assert of("degradation above half", "train", method="KL-Min") == pytest.approx(collapsed - 0.5)


def test_each_contrast_has_an_interval_around_it(results: SweepResults) -> None:
    made = results.contrasts[results.contrasts["low"].notna()]
    assert len(made) == len(results.contrasts)
    assert (made["low"] <= made["value"] + 0.02).all()
    assert (made["high"] >= made["value"] - 0.02).all()
    varied = made[made["contrast"] != "degradation above half"]
    assert (varied["low"] < varied["high"]).all()


def test_too_few_subjects_leave_a_difference_without_interval(
    make_sweep: Callable[..., Any], gather: Callable[..., SweepResults], clinic: Benchmark
) -> None:
    split = f"patient={','.join(sorted(clinic.hierarchy.nodes('patient'))[:3])}"
    results = gather(make_sweep().all([split], ["rmu"]), replicates=50)
    found = results.contrast("forgetting gained", CB, results.steps[0].split, "RMU", "train", "all")
    assert found.value is not None
    assert found.low is None
    assert "fewer than 5 subjects" in found.reason


def test_a_request_is_shown_without_the_patients_it_names(
    make_sweep: Callable[..., Any], gather: Callable[..., SweepResults], clinic: Benchmark
) -> None:
    patients = sorted(clinic.hierarchy.nodes("patient"))[:2]
    models = make_sweep().all([f"patient={patient}" for patient in patients], ["rmu"])
    results = gather(models, replicates=20)
    assert [step.split for step in results.steps] == ["request by patient", "request by patient (2)"]
    assert [step.scope for step in results.steps] == ["request by patient", "request by patient (2)"]
    assert results.steps[0].percent is None
    shown = results.numbers.to_json() + results.contrasts.to_json() + repr(results.steps)
    assert not any(patient in shown for patient in patients)


def test_without_a_retrained_model_what_needs_one_says_so(
    make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]
) -> None:
    models = make_sweep().all(["random_25"], ["rmu"], retrained=False)
    results = gather(models, replicates=50)
    found = results.contrast("forgetting past half-way", CB, "random_25", "RMU", "train", "all")
    assert found.value is None
    assert "no retrained model" in found.reason
    assert results.contrast("forgetting gained", CB, "random_25", "RMU", "train", "all").value is not None
    assert any("no retrained model" in caveat for caveat in results.facts.caveats)


def test_seeds_are_averaged_with_each_kept(
    make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]
) -> None:
    models = make_sweep().all(["random_25"], ["rmu"], seeds=(0, 1, 2), retrained=False)
    results = gather(models, replicates=400)
    place = ("forget", "train", "all")
    own = [
        float(m.summary.set_index(["side", "fold", "kind", "metric"]).loc[(*place, "AFE"), "value"])
        for m in models
        if m.run.label == "RMU"
    ]
    found = results.number(CB, "random_25", RMU, place, "AFE")
    assert found is not None
    assert results.facts.seeds == (0, 1, 2)
    assert found.by_seed == pytest.approx(own)
    assert len(set(own)) == 3
    assert found.value == pytest.approx(np.mean(own))
    low, high = found.low, found.high
    assert low is not None
    assert high is not None
    assert low < np.mean(own) < high
    gained = results.contrast("forgetting gained", CB, "random_25", "RMU", "train", "all").value
    target = results.number(CB, "random_25", T, place, "AFE")
    assert target is not None
    assert target.value is not None
    assert gained == pytest.approx(np.mean(own) - target.value)
    assert not any("one seed" in caveat for caveat in results.facts.caveats)


def test_contexts_are_kept_apart(make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]) -> None:
    models = make_sweep().all(["random_25"], ["rmu"], contexts=("closed_book", "note"), retrained=False)
    results = gather(models, replicates=50)
    assert results.contexts == ("closed_book", "note")
    place = ("forget", "train", "all")
    both = [results.number(context, "random_25", RMU, place, "AFE") for context in results.contexts]
    own = [
        float(m.summary.set_index(["side", "fold", "kind", "metric"]).loc[(*place, "AFE"), "value"])
        for m in models
        if m.run.label == "RMU"
    ]
    assert [one.value for one in both if one is not None] == own


def test_a_part_that_is_missing_is_in_the_name(
    models: list[Evaluated], gather: Callable[..., SweepResults], tmp_path: Any
) -> None:
    cut = []
    for place, model in enumerate(models):
        if model.record.info["config"]["split"] == "random_25":
            folder = tmp_path / str(place)
            folder.mkdir()
            scores = model.scores[model.scores["metric"] != "cs"]
            write_evaluation(folder, scores, model.questions, 20)
            cut.append(Evaluated(model.run, Run(folder, model.record.info)))
    results = gather(cut, replicates=20)
    assert results.composites["retain"] == "H(rouge_l, em, te, es)"
    assert results.composites["forget"] == "H(1-rouge_l, 1-em, 1-es)"
    named = set(results.contrasts["measure"])
    assert "MU" not in named
    assert "AFE" not in named
    assert "H(rouge_l, em, te, es)" in named


def test_mistakes_are_named(models: list[Evaluated], clinic: Benchmark) -> None:
    with pytest.raises(InputError, match="nothing to report"):
        SweepModels([], clinic)
    again = next(model for model in models if model.run.label == "RMU")
    with pytest.raises(InputError, match=r"both the RMU of split 'random_05' with seed 0"):
        SweepModels([again, again], clinic)
    record = relabelled(models[0].record, inputs={"benchmark": "else"})
    with pytest.raises(InputError, match="another benchmark"):
        SweepModels([replace(models[0], record=record)], clinic)
    retrained = next(model for model in models if model.run.label == "retrained")
    run = relabelled(retrained.run, config={"seed": 0, "without": "random_10"})
    with pytest.raises(InputError, match="is the retrained model of split 'random_10'"):
        SweepModels([replace(retrained, run=run)], clinic)


def test_models_asked_different_questions_are_refused(
    models: list[Evaluated], clinic: Benchmark, tmp_path: Any
) -> None:
    first, second = [m for m in models if m.record.info["config"]["split"] == "random_05"][:2]
    kept: pd.DataFrame = second.questions.iloc[1:]
    write_scores(tmp_path, second.table[second.table["item"].isin(kept["question_id"])])
    other = replace(second, record=Run(tmp_path, second.record.info))
    with pytest.raises(InputError, match="asked different questions"):
        SweepModels([first, other], clinic)
