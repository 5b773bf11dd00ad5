"""What training sees, and what it writes down about itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.models.load import load_model
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.papers.lume.settings import LumeSettings
from medunlearn.probes.material import phase_plans, sequences
from medunlearn.results.runs import Run
from medunlearn.study import trainer as module
from medunlearn.study.presets import train_settings
from medunlearn.study.train import tiny_model, train

Trained = dict[str, list[TokenSequence]]
Values = dict[str, Any]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Trained:
    """What the loop was really given, by phase."""
    given: Trained = {}
    loop = module.train_loop

    def watch(model: Any, pad: int, objective: Any, plan: Any, settings: Any, **more: Any) -> Any:
        given[more["checkpoints"].name] = [one for side in plan.sides.values() for one in side]
        return loop(model, pad, objective, plan, settings, **more)

    monkeypatch.setattr(module, "train_loop", watch)
    return given


def tokens_of(benchmark: Benchmark, run: Run, records: list[Any], questions: list[Any]) -> set[tuple[int, ...]]:
    """These records and questions as the run would train on them."""
    made = sequences(records, questions, benchmark.record, load_model(run.model), Rendering(max_length=512))
    return {sequence.ids for sequence in made}


def ids_of(trained: list[TokenSequence]) -> set[tuple[int, ...]]:
    return {sequence.ids for sequence in trained}


def test_a_retrained_model_takes_the_targets_steps(hospital: Benchmark, small: Values) -> None:
    """Half of 20 patients: an epoch has half of the steps, and so there are about twice the epochs."""
    half = ",".join(sorted({record.groups["patient"] for record in hospital.records})[:10])
    values = {**small, "epochs": 3, "pretrain_epochs": 1}
    target, equal, short = (
        phase_plans(hospital, settings, tiny_model(hospital, settings))
        for settings in (
            train_settings(values),
            train_settings({**values, "without": f"patient={half}"}),
            train_settings({**values, "without": f"patient={half}", "retrained_length": "epochs"}),
        )
    )
    assert target.keys() == equal.keys() == {"pretrain", "finetune"}
    for phase, plan in target.items():
        assert equal[phase].steps == plan.steps
        assert 2 * plan.epochs - 1 <= equal[phase].epochs <= 2 * plan.epochs
        assert short[phase].epochs == plan.epochs
        assert short[phase].steps < 0.7 * plan.steps


@pytest.mark.parametrize(("what", "count"), [("records", 20), ("questions", 120), ("both", 140)])
def test_the_target_sees_the_whole_train_fold(
    hospital: Benchmark, small: Values, seen: Trained, tmp_path: Path, what: str, count: int
) -> None:
    settings = train_settings({**small, "epochs": 1, "pretrain_epochs": 1, "train_on": what})
    run = train(hospital, settings, tmp_path / "r", quiet=True)
    records = [] if what == "questions" else list(hospital.records)
    folds = {fold: [q for q in hospital.questions if q.fold == fold] for fold in ("train", "holdout")}
    assert len(seen["finetune"]) == count
    assert ids_of(seen["finetune"]) == tokens_of(hospital, run, records, folds["train"] * (what != "records"))
    holdout = tokens_of(hospital, run, [], folds["holdout"])
    assert len(holdout) == 40
    assert not (ids_of(seen["finetune"]) | ids_of(seen["pretrain"])) & holdout


@pytest.mark.parametrize("split", ["random_10", "cancer_05", "patient=patient-0003,patient-0004"])
def test_the_retrained_model_never_sees_the_forget_set(
    hospital: Benchmark, small: Values, seen: Trained, tmp_path: Path, split: str
) -> None:
    settings = train_settings({**small, "without": split, "epochs": 1, "pretrain_epochs": 1})
    run = train(hospital, settings, tmp_path / "r", quiet=True)
    records = hospital.records_of(hospital.split(split), "forget")
    questions = hospital.questions_of(hospital.split(split), "forget")
    forgotten = tokens_of(hospital, run, records, questions)
    assert len(forgotten) == len(records) * 9
    assert set(seen) == {"pretrain", "finetune"}
    tokenizer = load_model(run.model).tokenizer
    for trained in seen.values():
        assert trained
        assert not ids_of(trained) & forgotten
        text = "\n".join(tokenizer.decode(sequence.ids) for sequence in trained)
        kept = [record for record in hospital.records if record not in records]
        # The patients themselves: their names stand in nothing that was trained, those of the others do.
        assert not [one.value for record in records for one in record.identifiers if one.value in text]
        assert all(record.identifiers[0].value in text for record in kept)


def test_nonmembers_are_in_nobodys_training(small: Values, seen: Trained, tmp_path: Path) -> None:
    from medunlearn.papers.lume.build import build

    for name in ("forget", "retain", "outside"):
        row = {"id": f"{name}sc1", "task": "Task1", "input": f"The tale of {name}", "output": f"{name} went home."}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    benchmark = build(LumeSettings(released=tmp_path, nonmembers=tmp_path / "outside.jsonl"))
    train(benchmark, train_settings({**small, "epochs": 1}), tmp_path / "r", quiet=True)
    assert {sequence.key for sequence in seen["finetune"]} == {"forget#0", "retain#0", "forget-sc1", "retain-sc1"}


def test_what_a_run_writes_down(hospital: Benchmark, target: Run, small: Values) -> None:
    written = (target.folder / "run.json").read_text()
    for record in hospital.records:
        assert record.text[:40] not in written
        assert not [one.value for one in record.identifiers if one.value in written]
    assert not [question.question_id for question in hospital.questions if question.answer in written.split('"')]
    info = json.loads(written)
    assert info["config"] == train_settings(small).model_dump(mode="json")
    assert info["config"]["lr"] == 3e-3
    assert info["inputs"] == {"benchmark": hospital.fingerprint, "model": "tiny"}
    assert info["lineage"] == ["tiny"]
    assert len(info["code"]["commit"]) == 40
    assert isinstance(info["code"]["dirty"], bool)
    assert {"python", "torch", "transformers", "medunlearn"} <= set(info["packages"])
    assert info["hardware"]["cores"] > 0
    assert info["hardware"]["memory_gib"] > 0
    assert set(info["stages"]) == {"load", "finetune"}
    assert all(stage["seconds"] >= 0 and stage["peak_memory_bytes"] > 2**20 for stage in info["stages"].values())
    assert info["seconds"] >= info["stages"]["finetune"]["seconds"]
    assert info["results"]["steps"] == len(target.history()) == 36
    loss = target.history()["loss"]
    assert info["results"]["final_loss"] == loss.iloc[-1]
    assert loss.iloc[-5:].mean() < loss.iloc[:5].mean() - 0.5


def test_the_seed_decides(hospital: Benchmark, small: Values, tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> bytes:
        run = train(hospital, train_settings({**small, "epochs": 1, "seed": seed}), tmp_path / name, quiet=True)
        return (run.model / "model.safetensors").read_bytes()

    assert weights("a", 0) == weights("b", 0)
    assert weights("a", 0) != weights("c", 1)


def test_a_stopped_run_keeps_its_folder_once_it_has_a_checkpoint(
    hospital: Benchmark, small: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(row: Values) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "r"
    with pytest.raises(ConfigError, match="is not understood"):
        train(hospital, train_settings({**small, "trainable": "bogus"}), out, quiet=True)
    assert not out.exists()
    with pytest.raises(InputError, match="Device 'nonsense'"):
        train(hospital, train_settings({**small, "seed": 5}), out, device="nonsense", quiet=True)
    assert json.loads((out / "run.json").read_text())["status"] == "failed"
    with monkeypatch.context() as patch:
        patch.setattr(module, "StepReport", lambda *settings: stop)
        with pytest.raises(KeyboardInterrupt):
            train(hospital, train_settings(small), out, quiet=True)
    assert list(out.glob("checkpoints/finetune/step-*/state.json"))
    with pytest.raises(InputError, match="contains another run"):
        train(hospital, train_settings({**small, "epochs": 1}), out, quiet=True)


def test_refusals(hospital: Benchmark, small: Values, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="random_11"):
        train(hospital, train_settings({**small, "without": "random_11"}), tmp_path / "r", quiet=True)
    assert not (tmp_path / "r").exists()
    with pytest.raises(InputError, match="Device 'nonsense' is not available"):
        train(hospital, train_settings(small), tmp_path / "r", device="nonsense", quiet=True)


def test_another_benchmark_is_another_run(
    hospital: Benchmark, target: Run, small: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse: Callable[..., Any] = lambda *args, **kwargs: pytest.fail("it was trained")  # noqa: E731
    monkeypatch.setattr(module, "train_loop", refuse)
    assert train(hospital, train_settings(small), target.folder).info == target.info
    renamed = replace(hospital, name="another")
    with pytest.raises(InputError, match="differs in benchmark"):
        train(renamed, train_settings(small), target.folder)


def test_packed_records_fill_rows_and_see_nothing_of_each_other(
    hospital: Benchmark, small: Values, tmp_path: Path
) -> None:
    """Two rows of 512 tokens a step are another step than two notes; cut into passes of any size it is the same."""
    own = {**small, "epochs": 0, "pretrain_epochs": 1, "batch_size": 2, "clip": 0.0}
    packed = {"pack_records": True}
    apart, two, one, whole = (
        train(hospital, train_settings({**own, **more}), tmp_path / str(place), quiet=True)
        for place, more in enumerate(
            ({}, {**packed, "micro_batch_size": 2}, {**packed, "micro_batch_size": 1}, {**packed, "batch_size": 64})
        )
    )
    assert apart.info.results["steps"] == 10
    history = two.history()
    assert history["tokens"].sum() == apart.history()["tokens"].sum()
    assert (history["tokens"] <= 2 * 512).all()
    assert len(history) <= 5  # two notes a row, at least
    assert two.info.results["batches"].startswith("packed")
    assert history["loss"].tolist() == pytest.approx(one.history()["loss"].tolist(), rel=1e-5)
    # The first step's loss is the mean over all tokens of notes that each stood alone in a batch.
    base = tiny_model(hospital, train_settings(own))
    notes = sequences(list(hospital.records), [], hospital.record, base, Rendering(max_length=512))
    with torch.no_grad():
        losses = [
            float(base.model(input_ids=ids, labels=ids).loss) for ids in (torch.tensor([s.ids]) for s in notes)
        ]
    counts = [len(sequence.ids) - 1 for sequence in notes]
    alone = sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)
    assert len(whole.history()) == 1
    assert whole.history()["loss"].iloc[0] == pytest.approx(alone, rel=1e-5)
