"""Cost of a sweep before it starts: in proportion to what its cells do, on a named device, with what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import AttackSettings, ExpectedSettings, check
from medunlearn.errors import ConfigError, UnknownNameError
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import Memory
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.cost.throughput import DECODING, DEVICES, PASSES, device_named
from medunlearn.study.plans.capacity import Capacity
from medunlearn.study.sweep.expected_benchmark import expected_benchmark, lengthen
from medunlearn.study.sweep.survey import foresee
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan

Values = dict[str, Any]
GIB = 2**30
ATTACKS = ["reconstruction", "relearning", "quantization"]


@pytest.fixture(scope="module")
def planned(sweep_values: Values, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("planned")  # others train in the folder of the values
    values = {
        **sweep_values,
        "out": out,
        "device_name": "h100",
        "evaluate": {**sweep_values["evaluate"], "metrics": ["cs"]},
        "attack": {"attacks": ATTACKS, "relearning.steps": 4, "relearning.subjects": 2, "quantization.subjects": 2},
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
        "attack": 14,
    }
    assert not any(kind.note for kind in cost.kinds)
    assert all(kind.cost.flops > 0 and kind.cost.disk > 0 and kind.cost.memory.total > 0 for kind in cost.kinds)
    pricing = Pricing.of(sweep.opened, sweep.training(0))
    cells = [cell for cell in sweep_graph(sweep).cells if cell.kind == "unlearn" and cell.method == "graddiff"]
    each = [cell.price(pricing).cost for cell in cells]
    assert kinds["unlearn graddiff"].cost.flops == pytest.approx(sum(own.flops for own in each))
    assert kinds["unlearn graddiff"].cost.memory.weights == each[0].memory.weights
    assert cost.hours == pytest.approx(sum(kind.hours for kind in cost.kinds))
    assert any("Hours of one h100" in line for line in cost.lines())
    assert "hours of one h100" in cost.summary()


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
    passes = Cost(flops=PASSES * device.products * 3600)
    assert device.hours(passes, 64) == pytest.approx(1.0)
    steps = DECODING * device.bandwidth * 3600 / 16e9
    decoding = Cost(generated=round(steps * 64), memory=Memory(weights=16 * 10**9))
    assert device.hours(decoding, 64) == pytest.approx(1.0, rel=1e-6)
    assert all(device.memory < device.bandwidth < device.products for device in DEVICES.values())
    with pytest.raises(UnknownNameError, match="H100"):
        device_named("H10")


def test_advice_says_which_remedies_make_another_experiment() -> None:
    memory = Memory(weights=9 * GIB, gradients=GIB, moments=2 * GIB, activations=GIB)
    (said,) = Capacity("GPU memory", 8 * GIB, 8 * GIB, GIB).advice(memory, 0, "Stage x")
    same, _, other = said.partition("which makes it another experiment")
    for word in ("--micro-batch-size", "--gradient-checkpointing", "--offload optimizer", "--sharding fsdp2"):
        assert word in same
        assert word not in other
    for word in ("--trainable", "adamw_8bit", "closed_book", "--weights bf16"):
        assert word in other
        assert word not in same


def test_attacks_are_counted_by_what_they_run(sweep_values: Values, tmp_path: Path) -> None:
    benchmark = {**sweep_values["benchmark"], "nonmember_patients": 4}
    unlearn = {"methods": ["ga"], "epochs": 1}
    sweep = plan({**sweep_values, "out": tmp_path, "benchmark": benchmark, "unlearn": unlearn})
    assert sweep.opened is not None
    pricing = Pricing.of(sweep.opened, sweep.training(0))

    def price(name: str, **own: Any) -> Cost:
        given = {"split": "random_25", "attacks": (name,), "arguments": {name: own} if own else {}}
        return pricing.attacking(check(AttackSettings, given)).cost

    loss, norm = price("loss"), price("gradient_norm")
    assert norm.flops == pytest.approx(4 * loss.flops)  # its pass too, with one of three times the work
    few = {"subjects": 2, "max_new_tokens": 4}
    rounded = [price("quantization", types=types, **few) for types in ("int8", "all")]
    assert rounded[1].flops == pytest.approx(2 * rounded[0].flops)  # two states of the weights, or four
    steps = [price("relearning", data="retain", steps=number, measured="end", **few) for number in (2, 4)]
    assert [own.steps for own in steps] == [2, 4]
    assert 0 < steps[0].flops < steps[1].flops
    assert steps[0].memory.reference >= steps[0].memory.weights  # a copy
    assert price("cumulative").flops > 0
    assert price("sampling", samples=3, **few).generated % (3 * 4) == 0


def test_a_benchmark_that_is_not_built_is_planned_at_its_expected_size(
    sweep_values: Values, tiny_base: Any, tmp_path: Path
) -> None:
    """Another number of invented patients, notes as long and a size as large: about the same cost."""
    benchmark = {
        "builder": "amnesia",
        "notes": "hub:nobody/notes",
        "llm": "http://127.0.0.1:9/v1",
        "llm.model": "m",
    }
    train = {"model": "nobody/model-0.5B", "epochs": 1, "context": "note", "precision": "fp32"}
    values = {**sweep_values, "benchmark": benchmark, "train": train, "unlearn": {"methods": ["ga"]}}
    values |= {"retrain": False, "splits": ["random_25"], "seeds": [0]}
    values["evaluate"] = {"metrics": ["rouge_l"], "max_new_tokens": 4}
    cost = foresee(plan(values)).cost
    assert not cost.kinds
    assert any("not built yet" in line for line in cost.lines())
    assert any("nobody/model-0.5B and its tokenizer" in line for line in cost.missing)
    values["train"] = {**train, "model": str(tiny_base.save(tmp_path / "model"))}
    each, tokenizer = [], LightTokenizer.of_folder(tmp_path / "model")
    for patients, tokens in ((400, 60), (800, 60), (400, 120)):
        expected = {"patients": patients, "note_tokens": tokens, "longest_note": 200, "synthetic": 30}
        sweep = plan({**values, "expected": expected})
        with expected_benchmark(sweep.settings) as (small, growth):
            pass
        assert growth == pytest.approx(patients / 30)
        made = lengthen(small, check(ExpectedSettings, expected), tokenizer.count)
        lengths = tokenizer.count([record.text for record in made.records])
        assert sum(lengths) / len(lengths) == pytest.approx(tokens, rel=0.1)
        assert max(lengths) == pytest.approx(200, rel=0.1)
        if tokens == 60:
            each.append(foresee(sweep).cost)
    once, twice = ({kind.label: kind for kind in cost.kinds} for cost in each)
    for label in ("train", "unlearn ga", "evaluate"):
        assert twice[label].cost.flops == pytest.approx(2 * once[label].cost.flops, rel=1e-6)
    with pytest.raises(ConfigError, match="patient"):
        plan({**values, "expected": {"patient": 3}})
