"""Edits as runs: recorded, done or not, saved as what changed, planned, and refused what is about training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.methods.editing import EditedModel, Kind, Side
from medunlearn.models.load import load_model
from medunlearn.probes.material import forgotten_before
from medunlearn.results.runs import Run
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.plans.stage_states import unlearning_stage
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan as plan_sweep
from medunlearn.study.unlearn import training_sides, unlearn


def settings(method: str, *, shared: bool = False, **values: Any) -> Any:
    return unlearn_settings({"method": method, "split": "gone", **values}, tiny=True, shared=shared)


def test_a_run_says_what_was_done(runs: dict[str, Run]) -> None:
    manu, chip = (runs[name].info for name in ("manu", "chip"))
    assert [info["status"] for info in (manu, chip)] == ["complete", "complete"]
    assert [info["label"] for info in (manu, chip)] == ["MANU", "CHIP"]
    neurons = 3 * 85
    assert manu["results"]["edit"]["neurons"] == neurons
    assert manu["results"]["edit"]["zeroed"] == int(0.05 * neurons + 0.5)
    assert manu["results"]["edit"]["importance_of"] == "activations"
    # A1's two sections, beside those of A2.
    edit = chip["results"]["edit"]
    assert (edit["units"], edit["unit_level"], edit["units_told_from_the_whole_level"]) == (2, "section", 0)
    assert list(edit["matrices"]) == [f"layer 2 {name}" for name in ("gate_proj", "up_proj", "down_proj")]
    # Two records and six questions a patient.
    assert chip["results"]["samples"] == {"forget": 8, "retain": 24}
    assert chip["results"]["split"] == {"name": "gone", "level": "patient", "forget": 1}
    assert {"load", "edit"} <= set(chip["stages"])
    assert runs["chip"].role == "unlearned"
    assert "A1" not in json.dumps(chip["results"])


def test_what_changed_is_saved_and_loads_again(runs: dict[str, Run]) -> None:
    saved = runs["chip"].info["results"]["saved"]
    assert (saved["form"], saved["changed_tensors"]) == ("delta", 3)
    before, after = (load_model(runs[name].model, device="cpu").model.state_dict() for name in ("target", "chip"))
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed == {f"model.layers.2.mlp.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")}


def test_done_is_not_done_again(runs: dict[str, Run], bench: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.study import edit as module

    monkeypatch.setattr(module, "edit", lambda *rest, **more: pytest.fail("edited again"))
    again = unlearn(runs["target"], bench, settings("manu", **{"manu.alpha": 5}), runs["manu"].folder, quiet=True)
    assert again.info == runs["manu"].info
    with pytest.raises(InputError, match="arguments"):
        unlearn(runs["target"], bench, settings("manu"), runs["manu"].folder, quiet=True)


@pytest.mark.parametrize(
    "given", [{"epochs": 3}, {"evaluate_every": 1}, {"lr": 1e-3}, {"manu.epochs": 3}, {"trainable": "lora"}]
)
def test_what_is_about_training_is_refused_of_a_run_of_its_own(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"edits the weights once, without training.*Leave it out"):
        settings("manu", **given)


def test_a_section_of_several_methods_may_hold_it(tmp_path: Path) -> None:
    shared = settings("manu", shared=True, epochs=3, evaluate_every=1, lr=1e-3)
    assert shared == settings("manu")
    assert (shared.epochs, shared.evaluate_every) == (0, 0)
    with pytest.raises(ConfigError, match=r"manu\.epochs"):
        settings("manu", shared=True, **{"manu.epochs": 3})
    # A sweep searches no rate for an edit.
    search = {"split": "random_05", "lr": [1e-4, 1e-3]}
    sweep = {
        "name": "Small",
        "out": tmp_path,
        "benchmark": {"builder": "amnesia", "synthetic": 20},
        "splits": ["random_10"],
        "train": {"model": "tiny"},
        "retrain": False,
        "unlearn": {"methods": ["npo", "manu"], "search": search},
    }
    cells = sweep_graph(plan_sweep(sweep)).cells
    assert {cell.method for cell in cells if cell.kind in ("search", "choose")} == {"npo"}
    needs = {cell.method: tuple(need.name for need in cell.needs) for cell in cells if cell.kind == "unlearn"}
    assert needs == {"npo": ("target", "choose npo"), "manu": ("target",)}


def test_a_plan_says_what_it_takes(runs: dict[str, Run], bench: Benchmark) -> None:
    pricing = Pricing.of_run(runs["target"], bench)
    stage = unlearning_stage("chip", pricing, settings("chip"), None)
    assert stage.state == "to do"
    assert stage.cost.steps == 0
    assert stage.cost.flops > 0
    assert stage.cost.tokens == pytest.approx(runs["chip"].info["results"]["tokens"], rel=0.05)
    memory = stage.cost.memory
    assert memory.weights > 0
    assert memory.gradients == memory.moments == 0
    assert unlearning_stage("manu", pricing, settings("manu"), runs["manu"].folder).state == "done"


@pytest.mark.parametrize("method", ["manu", "chip"])
def test_layers_that_the_model_has_not_are_refused(
    method: str, runs: dict[str, Run], bench: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="the model has 3 layers"):
        unlearn(runs["target"], bench, settings(method, **{f"{method}.layers": "9"}), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


@dataclass(frozen=True)
class Mine:
    """A method of somebody's own."""

    kind: ClassVar[Kind] = "edit"
    title: ClassVar[str] = "Mine"
    layers: str = "0"

    def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
        model.mlps(self.layers)[0].reads.rows.mul_(2)
        return {"level": model.level, "forget": len(forget.groups)}

    def passes(self, images: bool) -> int:
        return 0


def test_a_method_from_outside_the_tree(runs: dict[str, Run], bench: Benchmark, tmp_path: Path) -> None:
    run = unlearn(runs["target"], bench, settings(f"{__name__}:Mine"), tmp_path / "mine", quiet=True)
    assert run.info.results["edit"] == {"level": "patient", "forget": 8}
    assert run.info.results["saved"]["changed_tensors"] == 1


def test_what_an_earlier_request_forgot_is_nothing_to_retain(
    runs: dict[str, Run], bench: Benchmark, tmp_path: Path
) -> None:
    second = unlearn(
        runs["manu"], bench, settings("chip", split="patient=A2", **{"chip.layers": "2"}), tmp_path / "2"
    )
    assert second.info["results"]["forgotten_before"] == ["gone"]
    # Of four patients of eight samples, one is forgotten now and one was before.
    assert second.info["results"]["samples"] == {"forget": 8, "retain": 16}
    trained = settings("graddiff", split="patient=B1", epochs=1, precision="fp32", shared=True)
    third = unlearn(second, bench, trained, tmp_path / "3", quiet=True)
    assert third.info["results"]["forgotten_before"] == ["gone", "patient=A2"]
    live = load_model(second.model, device="cpu")
    sides = training_sides(
        bench, trained, live, second.rendering(), forgotten_before(second, bench, "patient=B1")[1]
    )
    assert {side: len(sequences) for side, sequences in sides.items()} == {"forget": 8, "retain": 8}
    for method in ("manu", "graddiff"):
        last = settings(method, split="patient=B2", shared=True)
        with pytest.raises(InputError, match="nothing is left to retain"):
            unlearn(third, bench, last, tmp_path / method, quiet=True)
    # The target itself, or a model of another benchmark, has no earlier requests here.
    assert forgotten_before(runs["target"], bench, "gone") == ([], frozenset())
