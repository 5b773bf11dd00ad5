"""Cost of a sweep before it starts: in proportion to what its cells do, on a named device, with what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from medunlearn.errors import UnknownNameError
from medunlearn.pipeline.estimate.blueprint import blueprint
from medunlearn.pipeline.estimate.capacity import GIB, Capacity, advice
from medunlearn.pipeline.estimate.devices import DECODING, DEVICES, PASSES, device_named
from medunlearn.pipeline.estimate.stage_cost import Planner
from medunlearn.pipeline.estimate.work import Memory, Work
from medunlearn.pipeline.material import rendering_for
from medunlearn.pipeline.sweep.survey import foresee
from medunlearn.pipeline.sweep.sweep_plan import plan

Values = dict[str, Any]


@pytest.fixture(scope="module")
def planned(sweep_values: Values, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("planned")  # others train in the folder of the values
    values = {
        **sweep_values,
        "out": out,
        "device_name": "h100",
        "evaluate": {**sweep_values["evaluate"], "metrics": ["cs"]},
    }
    sweep = plan({**values, "unlearn": {"methods": ["graddiff", "ga"], "epochs": 1}, "seeds": [0, 1]})
    return sweep, foresee(sweep).cost


def test_every_kind_of_cell_has_a_cost(planned: Any) -> None:
    sweep, cost = planned
    kinds = {kind.label: kind for kind in cost.kinds}
    assert {label: kind.cells for label, kind in kinds.items()} == {
        "train": 4,  # a target and one retrained model a seed
        "unlearn graddiff": 4,
        "unlearn ga": 4,
        "evaluate": 14,
    }
    assert all(kind.work.flops > 0 and kind.disk > 0 and kind.work.memory.total > 0 for kind in cost.kinds)
    # One cell of a kind is rehearsed: the sum is near that of all, each planned by itself.
    target = sweep.training(0)
    planner = Planner(sweep.opened, blueprint(sweep.opened, target), rendering_for(target), "cpu")
    cells = [cell for cell in sweep.cells if cell.kind == "unlearn" and cell.method == "graddiff"]
    each = [planner.unlearning(sweep.unlearning(cell)).work for cell in cells]
    assert kinds["unlearn graddiff"].work.flops == pytest.approx(sum(work.flops for work in each), rel=0.1)
    assert kinds["unlearn graddiff"].work.memory.weights == each[0].memory.weights
    assert cost.hours == pytest.approx(sum(kind.hours for kind in cost.kinds))
    assert any("hours of one h100" in line for line in cost.lines())


def test_what_is_missing_is_said_before_anything_trains(planned: Any, sweep_values: Values) -> None:
    _, cost = planned
    assert any("evaluate.encoder: none is named, and cs is left unscored" in line for line in cost.missing)
    elsewhere = {"metrics": ["cs"], "encoder": "nobody/no-such-encoder", "extractor": "scispacy"}
    values = {**sweep_values, "evaluate": {**sweep_values["evaluate"], **elsewhere}}
    said = "\n".join(foresee(plan(values)).cost.lines())
    assert "nobody/no-such-encoder is not on this machine" in said
    assert "scispaCy is not installed" in said


def test_hours_of_a_device() -> None:
    device = device_named("H100")
    passes = Work(flops=PASSES * device.products * 3600)
    assert device.hours(passes, 64) == pytest.approx(1.0)
    steps = DECODING * device.bandwidth * 3600 / 16e9
    decoding = Work(generated=round(steps * 64), memory=Memory(weights=16 * 10**9))
    assert device.hours(decoding, 64) == pytest.approx(1.0, rel=1e-6)
    assert all(device.memory < device.bandwidth < device.products for device in DEVICES.values())
    with pytest.raises(UnknownNameError, match="H100"):
        device_named("H10")


def test_advice_says_which_remedies_make_another_experiment() -> None:
    memory = Memory(weights=9 * GIB, gradients=GIB, moments=2 * GIB, activations=GIB)
    (said,) = advice(memory, 0, Capacity("GPU memory", 8 * GIB, 8 * GIB, GIB), "Stage x")
    same, _, other = said.partition("which makes it another experiment")
    for word in ("--micro-batch-size", "--gradient-checkpointing", "--offload optimizer", "--sharding fsdp2"):
        assert word in same
        assert word not in other
    for word in ("--trainable", "adamw_8bit", "closed_book", "--weights bf16"):
        assert word in other
        assert word not in same
