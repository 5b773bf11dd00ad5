"""Numbers and contrasts of a sweep: those of the models' summaries, by disease, over seeds, in several contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from run_folders import relabelled, write_evaluation
from sweep_folders import REPLICATES, number_of, who

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, SizeResults
from medunlearn.papers.sweeps.models import RETRAINED_MODEL as R
from medunlearn.papers.sweeps.models import TARGET_MODEL as T
from medunlearn.papers.sweeps.models import SweepModels
from medunlearn.results.evaluated import Evaluated, summarize_evaluation
from medunlearn.results.runs import Run
from medunlearn.results.scores import write_scores

from .conftest import SEEDS

KLM, RMU = who("KL-Min"), who("RMU")
CB = "closed_book"
TRAIN, HOLDOUT = ("forget", "train", "all"), ("forget", "holdout", "all")
Gather = Callable[..., SizeResults]


def summaries_of(models: list[Evaluated], label: str, measure: str = "AFE") -> list[float]:
    """The number of each model's own summary, train fold, all kinds."""
    key = ["side", "fold", "kind", "measure"]
    return [float(m.summary.set_index(key).loc[(*TRAIN, measure), "value"]) for m in models if m.run.label == label]


def test_numbers_are_those_of_the_summaries(results: SizeResults, models: list[Evaluated]) -> None:
    compared = 0
    for model in models:
        config = model.run.info["config"]
        name = ("unlearned", model.run.label) if "method" in config else (model.run.label, "")
        split = model.record.info["config"]["split"]
        for row in model.summary.to_dict("records"):
            number = number_of(results, CB, split, name, (row["side"], row["fold"], row["kind"]), row["measure"])
            assert (number.value, number.low, number.high) == (row["value"], row["low"], row["high"])
            compared += 1
    assert compared == len(results.numbers[results.numbers["group"] == "all"]) > 500


def test_scopes_sizes_and_diseases_come_from_the_splits(results: SizeResults, clinic: Benchmark) -> None:
    assert [(step.split, step.scope, step.percent, step.disease) for step in results.splits] == [
        ("random_10", "random", 10, None),
        ("random_25", "random", 25, None),
        ("cancer_10", "cancer", 10, "Cancer"),
        ("cancer_20", "cancer", 20, "Cancer"),
    ]
    with_cancer = len({r.groups["patient"] for r in clinic.records if r.groups["disease"] == "Cancer"})
    assert (results.splits[3].forget, results.splits[3].same) == (12, with_cancer - 12)
    assert results.methods == ("KL-Min", "RMU")


@pytest.mark.parametrize(("group", "is_in"), [(SAME, True), (OTHER, False)])
def test_groups_are_summaries_of_the_retained_with_and_without_the_disease(
    results: SizeResults, models: list[Evaluated], clinic: Benchmark, group: str, is_in: bool
) -> None:
    model = next(m for m in models if m.run.folder.name == "unlearned-rmu-cancer_20-0")
    with_cancer = {r.groups["patient"] for r in clinic.records if r.groups["disease"] == "Cancer"}
    inside = model.table[(model.table["side"] == "retain") & (model.table["subject"].isin(with_cancer) == is_in)]
    expected = summarize_evaluation(inside, replicates=REPLICATES, seed=0).set_index(["fold", "kind", "measure"])
    for kind in ("factual", "reasoning"):
        number = results.number(CB, "cancer_20", RMU, ("retain", "train", kind), "MU", group)
        row = expected.loc[("train", kind, "MU")]
        assert number is not None
        assert (number.value, number.low, number.high) == (row["value"], row["low"], row["high"])
    mean = results.number(CB, "cancer_20", RMU, ("retain", "train", MEAN_OF_KINDS), "MU", group)
    both = float(expected.loc[[("train", kind, "MU") for kind in ("factual", "reasoning")], "value"].mean())
    assert mean is not None
    assert mean.value == pytest.approx(both)
    assert (mean.low or 1.0) < both < (mean.high or 0.0)


def test_contrasts_are_differences_of_the_shown_numbers(results: SizeResults) -> None:
    def value(name: Any, measure: str, split: str = "random_25", place: tuple[str, str, str] = TRAIN) -> float:
        number = results.valued(CB, split, name, place, measure)
        assert number is not None
        assert number.value is not None
        return number.value

    def gain(place: tuple[str, str, str] = TRAIN) -> float:
        return value(RMU, "AFE", place=place) - value(T, "AFE", place=place)

    utility = [value(name, "MU", place=("retain", "train", "all")) for name in (RMU, T)]
    afe = {name: value(name, "AFE") for name in (RMU, T, R)}
    for (name, fold, split, method), expected in {
        ("forgetting gained", "train", "random_25", "RMU"): gain(),
        ("forgetting past half-way", "train", "random_25", "RMU"): afe[RMU] - afe[T] / 2 - afe[R] / 2,
        ("forgetting gained", "holdout", "random_25", "RMU"): gain(place=HOLDOUT),
        ("utility above 0.8 of target", "train", "random_25", "RMU"): utility[0] - 0.8 * utility[1],
        ("leakage below a tenth of target", "train", "random_25", "KL-Min"): value(T, "ls") / 10 - value(KLM, "ls"),
        ("degradation above half", "train", "random_25", "KL-Min"): value(KLM, "degenerate") - 0.5,
    }.items():
        assert results.contrast(name, CB, split, method, fold, "all").value == pytest.approx(expected), name
    table = results.contrasts
    assert table["low"].notna().all()
    assert (table["low"] <= table["value"] + 0.02).all()
    assert (table["high"] >= table["value"] - 0.02).all()
    varied = table[table["contrast"] != "degradation above half"]
    assert (varied["low"] < varied["high"]).all()


def test_growth_compares_two_models_on_the_patients_of_the_smallest_set(
    results: SizeResults, models: list[Evaluated], clinic: Benchmark
) -> None:
    small = set(clinic.splits["cancer_10"].forget)
    afe = {}
    for role in ("unlearned-rmu", "retrained"):
        for split in ("cancer_10", "cancer_20"):
            model = next(m for m in models if m.run.folder.name == f"{role}-{split}-0")
            inside = model.table[(model.table["side"] == "forget") & model.table["subject"].isin(small)]
            rows = summarize_evaluation(inside, replicates=2, seed=0).set_index(["fold", "kind", "measure"])
            afe[role, split] = float(rows.loc[("train", "all", "AFE"), "value"])
    own, other = (afe[role, "cancer_20"] - afe[role, "cancer_10"] for role in ("unlearned-rmu", "retrained"))
    for name, expected in (("growth of forgetting", own), ("growth beyond retrained", own - other)):
        grown = results.contrast(name, CB, "cancer_20", "RMU", "train", "all")
        assert (grown.value, grown.n_subjects) == (pytest.approx(expected), len(small)), name


def test_requests_hide_patients_and_too_few_of_them_have_no_interval(
    make_sweep: Callable[..., Any], gather: Gather, clinic: Benchmark
) -> None:
    patients = sorted(clinic.hierarchy.nodes("patient"))[:4]
    splits = [f"patient={patients[0]}", f"patient={','.join(patients[1:])}"]
    results = gather(make_sweep().all(splits, ["rmu"]), replicates=20)
    assert [(step.split, step.scope, step.percent) for step in results.splits] == [
        ("request by patient", "request by patient", None),
        ("request by patient (2)", "request by patient (2)", None),
    ]
    tables = results.numbers.to_json() + results.contrasts.to_json() + repr(results.splits)
    assert not any(patient in tables for patient in patients)
    gained = results.contrast("forgetting gained", CB, "request by patient (2)", "RMU", "train", "all")
    assert gained.value is not None
    assert gained.low is None
    assert "fewer than 5 subjects" in gained.reason


def test_seeds_and_contexts(make_sweep: Callable[..., Any], gather: Gather) -> None:
    """Seeds are averaged with each kept, contexts kept apart; what needs a retrained model says so."""
    contexts = ("closed_book", "note")
    models = make_sweep().all(["random_25"], ["rmu"], seeds=SEEDS, contexts=contexts, retrained=False)
    results = gather(models)
    assert (results.seeds, results.contexts) == (SEEDS, contexts)
    for context in contexts:
        own = summaries_of([model for model in models if model.context == context], "RMU")
        number, target = (number_of(results, context, "random_25", name, TRAIN, "AFE") for name in (RMU, T))
        assert number.by_seed == pytest.approx(own)
        assert len(set(own)) == 2
        assert number.value == pytest.approx(np.mean(own))
        assert (number.low or 1.0) < np.mean(own) < (number.high or 0.0)
        at = (context, "random_25", "RMU", "train", "all")
        assert results.contrast("forgetting gained", *at).value == pytest.approx(np.mean(own) - (target.value or 0))
        half_way = results.contrast("forgetting past half-way", *at)
        assert half_way.value is None
        assert "no retrained model" in half_way.reason
    assert any("no retrained model" in caveat for caveat in results.caveats)
    assert not any("one seed" in caveat for caveat in results.caveats)


def test_a_part_that_is_missing_is_in_the_name(models: list[Evaluated], gather: Gather, tmp_path: Any) -> None:
    cut = []
    for place, model in enumerate(models):
        if model.record.info["config"]["split"] == "random_25":
            folder = tmp_path / str(place)
            folder.mkdir()
            write_evaluation(folder, model.scores[model.scores["measure"] != "cs"], model.questions, 20)
            cut.append(Evaluated(model.run, Run(folder, model.record.info)))
    results = gather(cut, replicates=20)
    assert results.composites == {"retain": "H(rouge_l, em, te, es)", "forget": "H(1-rouge_l, 1-em, 1-es)"}
    named = set(results.contrasts["measure"])
    assert "H(rouge_l, em, te, es)" in named
    assert not named & {"MU", "AFE"}


def test_what_does_not_belong_is_refused(models: list[Evaluated], clinic: Benchmark, tmp_path: Any) -> None:
    again = next(model for model in models if model.run.label == "RMU")
    record = relabelled(models[0].record, inputs={"benchmark": "else"})
    retrained = next(model for model in models if model.run.label == "retrained")
    run = relabelled(retrained.run, config={"seed": 0, "without": "random_15"})
    first, second = [m for m in models if m.record.info["config"]["split"] == "random_10"][:2]
    fewer = second.questions["question_id"].iloc[1:]
    write_scores(tmp_path, second.table[second.table["item"].isin(fewer)])
    for swept, message in (
        ([], "nothing to report"),
        ([again, again], "both the RMU of split 'random_10' with seed 0"),
        ([replace(models[0], record=record)], "another benchmark"),
        ([replace(retrained, run=run)], "is the retrained model of split 'random_15'"),
        ([first, replace(second, record=Run(tmp_path, second.record.info))], "have different questions"),
    ):
        with pytest.raises(InputError, match=message):
            SweepModels(swept, clinic)
