"""Exact deletion gives the weights of a training that never knew the patients, or is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forgetting_world import EXACT_TRAINING

import medunlearn as mu
from medunlearn.config import AdoptSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import forget_records
from medunlearn.errors import InputError
from medunlearn.models.load import load_model
from medunlearn.request.case.evidence import Battery, ExactDeletion
from medunlearn.request.case.verdicts import decide
from medunlearn.request.exact_deletion import AGAIN, delete_exactly, training_benchmark, united
from medunlearn.results.runs import Run
from medunlearn.study.adopt import adopt
from medunlearn.study.export import export
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

LORA = {"trainable": "lora:4", "lora_dropout": 0.1, "lr": 1e-2}
COHORT = "Cardiovascular"


def without(benchmark: Benchmark, records: Collection[str]) -> Benchmark:
    """The benchmark of a hospital that never had some records."""
    return replace(
        benchmark,
        records=tuple(record for record in benchmark.records if record.record_id not in records),
        questions=tuple(question for question in benchmark.questions if question.record_id not in records),
        splits={},
        folder=None,
    )


def others(benchmark: Benchmark, level: str, *nodes: str) -> str:
    """The request of all other nodes of a level."""
    return f"{level}={','.join(node for node in benchmark.hierarchy.nodes(level) if node not in nodes)}"


def cohort_of(benchmark: Benchmark) -> list[str]:
    return sorted({record.groups["patient"] for record in benchmark.records if record.groups["disease"] == COHORT})


def verdict(before: Run, after: Run, exact: ExactDeletion) -> str:
    battery = Battery(name="none", version="1")
    return decide(battery, exact=exact, models=(before.fingerprint, after.fingerprint)).verdict


@pytest.fixture(scope="module")
def base(make: Callable[..., Run]) -> Run:
    """A model that never saw the cohort."""
    return make("base", without=f"disease={COHORT}")


@pytest.fixture(scope="module")
def adapter(make: Callable[..., Run], bench: Benchmark, base: Run) -> Run:
    """A LoRA adapter over it that saw the cohort alone."""
    cohort = others(bench, "disease", COHORT)
    return make("adapter", model=str(base.folder), without=cohort, retrained_length="epochs", **LORA)


@pytest.mark.parametrize("values", [{}, LORA], ids=["full", "lora"])
def test_a_retrained_model_is_that_of_a_hospital_that_never_knew_them(
    values: dict[str, Any], make: Callable[..., Run], bench: Benchmark, tmp_path: Path
) -> None:
    run = make(f"target-{len(values)}", epochs=2, **values)
    after, facts = delete_exactly(run, bench, "patient=patient-0007", tmp_path / "out", quiet=True)
    assert facts.road == "retrained without her"
    assert facts.base == "made in memory"
    assert facts.reproduced == after.fingerprint != run.fingerprint
    assert verdict(run, after, facts) == "deleted"
    assert after.info.config["retrained_length"] == "epochs"
    assert {**after.info.config, "without": None} == {**run.info.config, "retrained_length": "epochs"}
    assert not (tmp_path / f"out{AGAIN}").exists()
    never = without(bench, bench.hierarchy.closure("patient", ["patient-0007"]))
    settings = train_settings({**EXACT_TRAINING, "epochs": 2, **values})
    assert train(never, settings, tmp_path / "never", quiet=True).fingerprint == after.fingerprint


def test_another_model_the_second_time_is_not_called_deleted(
    full: Run, bench: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unsteady(benchmark: Benchmark, settings: Any, out: Path, **how: Any) -> Run:
        changes = {"seed": 1} if out.name.endswith(AGAIN) else {}
        return train(benchmark, settings.model_copy(update=changes), out, **how)

    monkeypatch.setattr("medunlearn.study.train.train", unsteady)
    after, facts = delete_exactly(full, bench, "random_10", tmp_path / "out")
    assert facts.reproduced != after.fingerprint
    assert verdict(full, after, facts) != "deleted"
    assert "no exact deletion" in " ".join(capsys.readouterr().err.split())
    # The other model stays, for a look at what differs.
    assert Run.open(tmp_path / f"out{AGAIN}").fingerprint == facts.reproduced


def test_a_complete_deletion_is_returned_and_a_cut_off_one_goes_on(
    full: Run, bench: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(benchmark: Benchmark, settings: Any, out: Path, **how: Any) -> Run:
        calls.append(out.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(benchmark, settings, out, **how)

    monkeypatch.setattr("medunlearn.study.train.train", counted)
    with pytest.raises(KeyboardInterrupt):
        delete_exactly(full, bench, "random_10", tmp_path / "out", quiet=True)
    written_at = (tmp_path / "out" / "model" / "model.safetensors").stat().st_mtime_ns
    first = delete_exactly(full, bench, "random_10", tmp_path / "out", quiet=True)
    assert (tmp_path / "out" / "model" / "model.safetensors").stat().st_mtime_ns == written_at
    again = delete_exactly(full, bench, "random_10", tmp_path / "out", quiet=True)
    assert calls == ["out", f"out{AGAIN}", "out", f"out{AGAIN}", "out"]
    assert first[1] == again[1]
    assert verdict(full, *again) == "deleted"


def test_requests_add_up(full: Run, bench: Benchmark, tmp_path: Path) -> None:
    first, _ = delete_exactly(full, bench, "patient=patient-0007", tmp_path / "first", quiet=True)
    second, facts = delete_exactly(first, bench, "patient=patient-0002", tmp_path / "second", quiet=True)
    assert second.info.config["without"] == "patient=patient-0002,patient-0007"
    assert verdict(first, second, facts) == "deleted"
    with pytest.raises(InputError, match="never trained on"):
        delete_exactly(second, bench, "patient=patient-0007", tmp_path / "third", quiet=True)


def test_an_adapter_is_trained_again_over_its_base(
    adapter: Run, base: Run, bench: Benchmark, tmp_path: Path
) -> None:
    patients = cohort_of(bench)
    after, facts = delete_exactly(adapter, bench, f"patient={patients[0]}", tmp_path / "out", quiet=True)
    assert (facts.road, facts.base) == ("retrained without her", "recorded")
    assert verdict(adapter, after, facts) == "deleted"
    assert after.fingerprint != base.fingerprint
    trained_on = bench.records_of(bench.split(after.info.config["without"]), "retain")
    assert {record.groups["patient"] for record in trained_on} == set(patients[1:])


def test_an_adapter_of_the_requested_cohort_alone_is_dropped(
    adapter: Run, base: Run, bench: Benchmark, tmp_path: Path
) -> None:
    after, facts = delete_exactly(adapter, bench, f"disease={COHORT}", tmp_path / "out", quiet=True)
    assert (facts.road, facts.base) == ("adapter dropped", "recorded")
    assert verdict(adapter, after, facts) == "deleted"
    assert after.info.made_for == f"disease={COHORT}"
    assert after.rendering() == replace(adapter.rendering(), max_length=after.rendering().max_length)
    weights, base_weights = (load_model(run.model).model.state_dict() for run in (after, base))
    assert all((weights[name] == base_weights[name]).all() for name in base_weights)


def test_the_case_of_a_dropped_adapter_says_deleted_and_who_states_the_base(
    make: Callable[..., Run], bench: Benchmark, base: Run, folder: Path, tmp_path: Path
) -> None:
    export(base.folder, tmp_path / "plain")
    cohort = others(bench, "disease", COHORT)
    run = make("cohort", model=str(tmp_path / "plain"), without=cohort, retrained_length="epochs", **LORA)
    patients = cohort_of(bench)
    mu.case_key(out=tmp_path / "owner" / "signing.key")
    how: dict[str, Any] = {"others": 3, "facts": 2, "battery": [], "anyway": True, "quiet": True}
    how |= {"evaluate": {"max_new_tokens": 4, "alternatives": 9}}
    how |= {"method": "exact", "patient": ",".join(patients), "key": tmp_path / "owner" / "signing.key"}
    with pytest.raises(InputError, match="The training data of the base"):
        mu.forget(run, folder / "bench", out=tmp_path / "case", **how)
    result = mu.forget(run, folder / "bench", out=tmp_path / "case", base_unseen=True, **how)
    evidence = result.case.evidence
    assert evidence.decision.verdict == "deleted"
    assert evidence.exact is not None
    assert (evidence.exact.road, evidence.exact.base) == ("adapter dropped", "stated")
    assert "the model's owner states" in " ".join(evidence.decision.reasons)
    assert evidence.model_out.fingerprint == evidence.exact.reproduced
    assert evidence.model_out.base is not None
    assert not any(who in (tmp_path / "case" / "evidence.json").read_text() for who in patients)


def test_the_base_of_an_adapter_must_be_known_not_to_have_seen_them(
    base: Run, full: Run, make: Callable[..., Run], bench: Benchmark, folder: Path, tmp_path: Path
) -> None:
    request = f"disease={COHORT}"
    # A statement does not stand against a record.
    over = make("over", model=str(folder / "full"), **LORA)
    for unseen in (False, True):
        with pytest.raises(InputError, match=r"base .* was itself trained on the patients"):
            delete_exactly(over, bench, request, tmp_path / "a", base_unseen=unseen)
    # A folder without a record: only its owner can know.
    export(base.folder, folder / "plain")
    over = make("over-plain", model=str(folder / "plain"), **LORA)
    with pytest.raises(InputError, match="The training data of the base"):
        delete_exactly(over, bench, request, tmp_path / "b", quiet=True)
    after, facts = delete_exactly(over, bench, request, tmp_path / "b", base_unseen=True, quiet=True)
    assert facts.base == "stated"
    assert verdict(over, after, facts) == "deleted"
    # Nor against the record of a model further down.
    elsewhere = without(bench, bench.hierarchy.closure("patient", ["patient-0001"]))
    settings = train_settings({**EXACT_TRAINING, "model": str(folder / "full")})
    train(elsewhere, settings, folder / "elsewhere", quiet=True)
    over = make("over-elsewhere", model=str(folder / "elsewhere"), **LORA)
    with pytest.raises(InputError, match=r"full was itself trained"):
        delete_exactly(over, bench, request, tmp_path / "a", base_unseen=True)
    # Adopted as retrained without them, it is recorded.
    adopted = adopt(
        folder / "plain", bench, AdoptSettings(role="retrained", without=request), folder / "adopted", quiet=True
    )
    over = make("over-adopted", model=str(adopted.folder), **LORA)
    assert delete_exactly(over, bench, request, tmp_path / "c", quiet=True)[1].base == "recorded"


def test_a_base_that_changed_or_is_gone(adapter: Run, bench: Benchmark, folder: Path, base: Run) -> None:
    request, away = f"disease={COHORT}", folder / "away"
    shutil.move(base.folder, away)
    try:
        with pytest.raises(InputError, match=r"base of .* is not at .*Move it back"):
            delete_exactly(adapter, bench, request, folder / "none")
        shutil.copytree(folder / "full", base.folder)
        with pytest.raises(InputError, match="has changed since"):
            delete_exactly(adapter, bench, request, folder / "none")
    finally:
        shutil.rmtree(base.folder, ignore_errors=True)
        shutil.move(away, base.folder)
    assert not (folder / "none").exists()


@pytest.mark.parametrize("kind", ["shared", "common"])
def test_a_tokenizer_that_knows_their_strings_is_refused(
    kind: str, make: Callable[..., Run], bench: Benchmark, tmp_path: Path
) -> None:
    run = make(kind, epochs=0, pretrain_epochs=1, tiny_tokenizer=kind)
    with pytest.raises(InputError, match=f"tiny_tokenizer: {kind}.*--tiny-tokenizer own"):
        delete_exactly(run, bench, "random_10", tmp_path / "out")
    over = make(f"over-{kind}", model=str(run.folder), without="patient=patient-0001", **LORA)
    with pytest.raises(InputError, match="was itself trained"):
        delete_exactly(over, bench, "random_10", tmp_path / "out")


def test_what_is_no_training_of_ours_is_refused(
    full: Run, base: Run, make: Callable[..., Run], bench: Benchmark, folder: Path, tmp_path: Path
) -> None:
    def refused(run: Run, match: str, request: str = "random_10", benchmark: Benchmark = bench) -> None:
        with pytest.raises(InputError, match=match):
            delete_exactly(run, benchmark, request, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    adopted = adopt(
        export(full.folder, tmp_path / "hf"), bench, AdoptSettings(allow_broken=True), tmp_path / "ours"
    )
    refused(adopted, "was adopted: its training is not recorded")
    settings = UnlearnSettings(method="graddiff", split="random_10", epochs=1, precision="fp32")
    unlearned = unlearn(full, bench, settings, tmp_path / "unlearned", quiet=True)
    refused(unlearned, f"is an unlearned model.*Name the training run .{full.folder}")
    other = without(bench, bench.hierarchy.closure("patient", ["patient-0001"]))
    refused(full, "trained on other texts", "patient=patient-0002", other)
    alone = others(bench, "disease", COHORT)
    refused(make("whole", without=alone), "not as an adapter", f"disease={COHORT}")
    refused(make("in-memory", without=alone, **LORA), "base was made in memory", f"disease={COHORT}")
    # The split's own name says nothing on another benchmark of these texts.
    fewer = replace(bench, splits={"random_05": bench.splits["random_05"]})
    refused(make("named", without="random_10"), "another benchmark of these texts", "random_05", fewer)


def test_the_passes_are_those_that_the_training_made(
    make: Callable[..., Run], bench: Benchmark, tmp_path: Path
) -> None:
    """Of a training that took as many steps as one on everybody."""
    run = make("long", without="random_25", retrained_length="steps", epochs=3, batch_size=4)
    trained = run.info.results["trained_epochs"]
    assert trained["finetune"] > 3
    patient = bench.records_of(bench.split("random_25"), "retain")[0].groups["patient"]
    after, _ = delete_exactly(run, bench, f"patient={patient}", tmp_path / "out", quiet=True)
    assert after.info.results["trained_epochs"] == trained
    assert after.info.config["retrained_length"] == "epochs"


def test_an_epoch_chosen_by_their_own_records_is_refused(full: Run, bench: Benchmark, tmp_path: Path) -> None:
    values = {"fold": "holdout", "question_id": "q", "question": "Which?", "answer": "That."}
    question = replace(bench.questions[0], **values)
    watched = replace(bench, questions=(*bench.questions, question), folder=None)
    config = {**full.info.config, "validation": "holdout", "select": "best", "evaluate_every": 1}
    run = Run(full.folder, replace(full.info, config=config))
    request = f"patient={bench.subject(question.record_id)}"
    with pytest.raises(
        InputError, match="chosen by its loss on a validation set that holds records of the patients"
    ):
        delete_exactly(run, watched, request, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_records_of_two_levels_are_left_out_by_nodes_of_one(bench: Benchmark) -> None:
    institution = bench.records[0].groups["institution"]
    there = bench.hierarchy.closure("institution", [institution])
    patient = next(bench.subject(record.record_id) for record in bench.records if record.record_id not in there)
    records = there | bench.hierarchy.closure("patient", [patient])
    assert united(bench, "x", records, None) == "x"
    both = united(bench, f"patient={patient}", records, f"institution={institution}")
    assert forget_records(bench, both) == records
    assert united(bench, "x", there, "y") == f"institution={institution}"


def test_the_benchmark_of_a_training_is_found_where_it_was(full: Run, bench: Benchmark, folder: Path) -> None:
    assert training_benchmark(full).fingerprint == bench.fingerprint
    shutil.move(folder / "bench", folder / "moved")
    try:
        with pytest.raises(InputError, match=r"trained on is not at .*Move it back"):
            training_benchmark(full)
    finally:
        shutil.move(folder / "moved", folder / "bench")
