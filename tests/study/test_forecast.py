"""The plan of an experiment: what is left, that nothing is touched, and what it says of room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ModelError, UnknownNameError
from medunlearn.results.runs import Run
from medunlearn.study.estimate.blueprint import Blueprint, blueprint_of
from medunlearn.study.estimate.capacity import GIB, LIBRARIES, Capacity, advice, shown_bytes
from medunlearn.study.estimate.forecast import Forecast
from medunlearn.study.estimate.work import Memory
from medunlearn.study.experiment import plan, run_experiment
from medunlearn.training.processes import Processes

Values = dict[str, Any]


@pytest.fixture
def values(experiment_values: Values, tmp_path: Path) -> Values:
    return {**experiment_values, "out": tmp_path / "out"}


def on_meta(drawn: Blueprint) -> Any:
    with torch.device("meta"):
        return drawn.make(torch.bfloat16)


def by_name(forecast: Forecast) -> dict[str, Any]:
    return {stage.name: stage for stage in forecast.stages}


def test_a_plan_touches_nothing_and_is_what_then_runs(values: Values, hospital: Benchmark) -> None:
    found = mu.plan(values)
    assert not values["out"].exists()
    stages = by_name(found)
    models = ["target", "retrained", "graddiff"]
    assert list(stages) == ["benchmark", *models, *(f"evaluate {name}" for name in models), "report"]
    table = found.table().set_index("stage")
    assert table.loc["target", "flops"] > table.loc["graddiff", "flops"] > 0
    parts = [column for column in table if column.startswith("memory/")]
    assert table.loc["graddiff", parts].sum() == table.loc["graddiff", "memory"]
    with pytest.raises(UnknownNameError, match="random_10"):
        mu.plan({**values, "split": "randm_10"})
    assert {stage.state for stage in found.stages} == {"to do"}
    run_experiment(plan(values), quiet=True)
    runs = {path.parent.name.split("-")[0]: Run.open(path.parent) for path in values["out"].glob("*/run.json")}
    for name, run in runs.items():
        results, work = run.info["results"], stages[name].work
        # In closed_book context no text is shared, so that every token is run.
        assert (work.steps, work.tokens) == (results["steps"], results["tokens"])
        assert results["saved"]["bytes"] == pytest.approx(stages[name].disk, rel=0.05)
    split = hospital.split("random_10")
    questions = [
        q for side in ("forget", "retain") for q in hospital.questions_of(split, side, ("train", "holdout"))
    ]
    assert 0 < stages["evaluate target"].work.generated < 4 * len(questions)
    again = mu.plan(values)
    assert {stage.name: stage.state for stage in again.stages if stage.state != "done"} == {"report": "to do"}
    assert (again.total.flops, again.total.tokens, again.total.memory) == (0, 0, None)


def test_a_stage_that_was_cut_off(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.training import loop

    whole = mu.plan(values)
    step = loop._step

    def stop(training: Any, number: int, rate: float | None) -> Any:
        if number == 3:
            raise KeyboardInterrupt
        return step(training, number, rate)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_step", stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(plan(values), quiet=True)
    before, now = by_name(whole)["target"], by_name(mu.plan(values))["target"]
    assert (now.state, now.note) == ("resumes", f"finetune at step 3 of {before.work.steps}")
    assert now.work.steps == before.work.steps - 3
    assert 0 < now.work.flops < before.work.flops


def test_a_method_that_looks_into_its_tensors(
    values: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"looking_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Looking:\n"
        "    weight: float = 1.0\n"
        "    def loss(self, forget, retain):\n"
        "        return {'up': forget.nll() * (1.0 if float(forget.nll()) > 0 else 2.0)}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("medunlearn.study.estimate.step_cost.SMALL", 0)
    found = mu.plan(values, **{"unlearn.methods": [f"{name}:Looking"]})
    stage = by_name(found)[f"{name}:Looking"]
    assert "cannot be estimated" in stage.note
    assert stage.work.memory is None
    assert by_name(found)["target"].work.memory is not None


def test_a_model_that_is_not_here_is_a_stand_in() -> None:
    drawn = blueprint_of("nobody/nowhere-1B")
    assert "is not on this machine" in drawn.doubt
    size = sum(tensor.numel() for tensor in on_meta(drawn).parameters())
    assert size == pytest.approx(1.5e9, rel=0.1)  # a billion, and an output of its own for each token
    assert len(drawn.tokenizer("sixteen letters.")["input_ids"]) == 4
    for wrong in ("tinny", "./nobody/nowhere", "/nobody/nowhere"):
        with pytest.raises(ModelError, match="no model folder"):
            blueprint_of(wrong)


def test_a_folder_is_read_without_its_weights(target: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    monkeypatch.setattr(safetensors.torch, "load_file", lambda *args, **more: pytest.fail("weights were read"))
    drawn = blueprint_of(str(target.model))
    assert not drawn.doubt
    assert sum(tensor.numel() for tensor in on_meta(drawn).parameters()) == target.info["results"]["parameters"]


@pytest.mark.parametrize(
    ("memory", "disk", "parts"),
    [
        (Memory(weights=GIB), 1, []),
        (Memory(weights=9 * GIB, activations=GIB), 1, ["Stage x will not fit", "11.0 GiB", "--weights bf16"]),
        (Memory(moments=9 * GIB), 1, ["Stage x will not fit", "Change --trainable lora"]),
        (Memory(gradients=GIB, activations=8 * GIB), 1, ["Change --micro-batch-size 1", "--trainable lora"]),
        (Memory(cache=9 * GIB), 1, ["--evaluate.batch-size"]),
        (Memory(weights=4 * GIB), 1, ["Stage x may not fit", "Close other programs"]),
        (None, 3 * GIB, ["The disk is too small", "3.0 GiB"]),
    ],
)
def test_advice(memory: Memory | None, disk: int, parts: list[str]) -> None:
    room = Capacity("memory", 9 * GIB, 6 * GIB, 2 * GIB)
    text = " ".join(advice(memory, disk, room, "Stage x"))
    assert all(part in text for part in parts), text
    assert bool(text) == bool(parts)
    assert LIBRARIES == GIB


def test_a_gpu_is_not_charged_for_libraries() -> None:
    room = Capacity("GPU memory", 9 * GIB, 9 * GIB, GIB)
    assert not list(advice(Memory(weights=int(8.5 * GIB)), 0, room))
    assert "of GPU memory" in " ".join(advice(Memory(weights=10 * GIB), 0, room))
    assert [shown_bytes(size) for size in (2048, 3 << 20, GIB * 3 / 2)] == ["2 KiB", "3 MiB", "1.5 GiB"]


def test_of_several_processes_the_main_one_speaks(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.study.estimate import forecast as module

    lines = {}
    for rank in (0, 1):
        monkeypatch.setattr(module, "join", lambda rank=rank: Processes(rank, 2))
        experiment = plan({**values, "retrain": False})
        lines[rank] = list[str]()
        module.announce(lines[rank].append, lambda: module.forecast(experiment, device="cpu"), None, "cpu")  # noqa: B023
    assert lines[0][0].startswith("memory: about")
    assert lines[1] == []


def test_the_plan_of_a_sharded_run_is_that_of_one_of_its_processes(
    values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.study.estimate import stage_cost

    values = {**values, "retrain": False, "train": {**values["train"], "sharding": "fsdp2"}}
    memory = {}
    for world in (1, 2):
        monkeypatch.setattr(stage_cost, "join", lambda world=world: Processes(0, world))
        forecast = mu.plan(values, device="cpu")
        memory[world] = by_name(forecast)["target"].work.memory
        assert any("torchrun" in doubt for doubt in forecast.doubts) == (world == 1)
    assert memory[2].moments < 0.9 * memory[1].moments
    assert memory[2].total < memory[1].total
