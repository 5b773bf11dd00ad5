"""The plan of an experiment: what is left, that nothing is touched, and what it says of room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ModelError, UnknownNameError
from medunlearn.results.runs import Run
from medunlearn.study.cost.memory import Memory
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.experiment import plan, run_experiment
from medunlearn.study.plans.capacity import Capacity
from medunlearn.study.plans.forecast import Forecast
from medunlearn.study.presets import train_settings
from medunlearn.terminal import size
from medunlearn.training.processes import Processes

Values = dict[str, Any]
GIB = 2**30


@pytest.fixture
def values(experiment_values: Values, tmp_path: Path) -> Values:
    return {**experiment_values, "out": tmp_path / "out"}


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
        results, cost = run.info["results"], stages[name].cost
        assert cost.steps == results["steps"]
        # In closed_book context no text is shared, so that every token is run; a sample of texts was tokenized.
        assert cost.tokens == pytest.approx(results["tokens"], rel=0.05)
        assert results["saved"]["bytes"] == pytest.approx(cost.disk, rel=0.05)
    split = hospital.split("random_10")
    questions = [
        q for side in ("forget", "retain") for q in hospital.questions_of(split, side, ("train", "holdout"))
    ]
    assert 0 < stages["evaluate target"].cost.generated < 4 * len(questions)
    again = mu.plan(values)
    assert {stage.name: stage.state for stage in again.stages if stage.state != "done"} == {"report": "to do"}
    assert (again.total.flops, again.total.tokens, again.total.memory.total) == (0, 0, 0)
    assert again.facts()["left"]["memory"] is None


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
    assert (now.state, now.note) == ("resumes", f"finetune at step 3 of {before.cost.steps}")
    assert now.cost.steps == before.cost.steps - 3
    assert 0 < now.cost.flops < before.cost.flops


def test_a_method_that_looks_into_its_tensors_has_a_price(
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
    own, ga = (by_name(mu.plan(values, **{"unlearn.methods": [method]})) for method in (f"{name}:Looking", "ga"))
    assert own[f"{name}:Looking"].cost.flops == ga["ga"].cost.flops > 0


def test_a_model_that_is_not_here_is_a_stand_in(hospital: Benchmark) -> None:
    pricing = Pricing.of(hospital, train_settings({"model": "nobody/nowhere-1B"}))
    assert any("is not on this machine" in doubt for doubt in pricing.doubts)
    # A billion, and an output of its own for each token.
    assert pricing.shape.parameters == pytest.approx(1.5e9, rel=0.1)
    assert pricing.sizes.tokenizer.count(["sixteen letters."]) == [4]
    for wrong in ("tinny", "./nobody/nowhere", "/nobody/nowhere"):
        with pytest.raises(ModelError, match="no model folder"):
            Pricing.of(hospital, train_settings({"model": wrong}))


def test_a_folder_is_read_without_its_weights(
    hospital: Benchmark, target: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import safetensors.torch

    monkeypatch.setattr(safetensors.torch, "load_file", lambda *args, **more: pytest.fail("weights were read"))
    pricing = Pricing.of_run(target, hospital)
    assert not pricing.doubts
    assert pricing.shape.parameters == target.info["results"]["parameters"]


def test_what_is_missing_ends_no_plan(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package, a key, a benchmark that a server would write: lines of the plan."""
    from medunlearn.study.plans import missing, run_forecast

    for module in (missing, run_forecast):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    server = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key_env": "NO_SUCH_KEY"}
    found = mu.plan({**values, "utility": {"tasks": ["mmlu"]}, "judge": {"llm": [server], "label": {}}})
    assert any("lm-evaluation-harness is not installed" in line for line in found.missing)
    assert any("(api_key_env) is not set" in line for line in found.missing)
    assert by_name(found)["target"].cost.flops > 0
    unbuilt = {"builder": "amnesia", "notes": "hub:nobody/notes", "llm": "http://127.0.0.1:9/v1", "llm.model": "m"}
    found = mu.plan({**values, "benchmark": unbuilt})
    assert any("not built yet" in line for line in found.missing)
    assert found.total.flops == 0
    assert "target" in by_name(found)


@pytest.mark.parametrize(
    ("memory", "disk", "parts"),
    [
        (Memory(weights=GIB), 1, []),
        (Memory(weights=9 * GIB, activations=GIB), 1, ["Stage x will not fit", "10.4 GiB", "--weights bf16"]),
        (Memory(moments=9 * GIB), 1, ["Stage x will not fit", "Change --trainable lora"]),
        (Memory(gradients=GIB, activations=8 * GIB), 1, ["Change --micro-batch-size 1", "--trainable lora"]),
        (Memory(cache=9 * GIB), 1, ["--evaluate.batch-size"]),
        (Memory(weights=5 * GIB, retained=GIB), 1, ["Stage x may not fit", "Close other programs"]),
        (Memory(), 3 * GIB, ["The disk is too small", "3.0 GiB"]),
    ],
)
def test_advice(memory: Memory, disk: int, parts: list[str]) -> None:
    room = Capacity("memory", 9 * GIB, 6 * GIB, 2 * GIB)
    text = " ".join(room.advice(memory, disk, "Stage x"))
    assert all(part in text for part in parts), text
    assert bool(text) == bool(parts)


def test_a_gpu_is_not_charged_for_libraries() -> None:
    room = Capacity("GPU memory", 9 * GIB, 9 * GIB, GIB)
    assert not list(room.advice(Memory(weights=int(8.5 * GIB)), 0))
    assert "of GPU memory" in " ".join(room.advice(Memory(weights=10 * GIB), 0))
    assert [size(count) for count in (2048, 3 << 20, GIB * 3 / 2)] == ["2 KiB", "3 MiB", "1.5 GiB"]


def test_of_several_processes_the_main_one_speaks(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.study.plans import forecast as module
    from medunlearn.study.plans.run_forecast import forecast

    lines = {}
    for rank in (0, 1):
        monkeypatch.setattr(module, "join", lambda rank=rank: Processes(rank, 2))
        experiment = plan({**values, "retrain": False})
        lines[rank] = list[str]()
        module.announce(lines[rank].append, lambda: forecast(experiment, device="cpu"), None)  # noqa: B023
    assert lines[0][0].startswith("memory: about")
    assert lines[1] == []


def test_the_plan_of_a_sharded_run_is_that_of_one_of_its_processes(
    values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.study.plans import run_forecast

    values = {**values, "retrain": False, "train": {**values["train"], "sharding": "fsdp2"}}
    memory = {}
    for world in (1, 2):
        monkeypatch.setattr(run_forecast, "join", lambda world=world: Processes(0, world))
        forecast = mu.plan(values, device="cpu")
        memory[world] = by_name(forecast)["target"].cost.memory
        assert any("torchrun" in doubt for doubt in forecast.doubts) == (world == 1)
    assert memory[2].moments < 0.9 * memory[1].moments
    assert memory[2].total < memory[1].total
