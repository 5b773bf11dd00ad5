"""Prices of stages by hand, and a plan that loads no model library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.methods import make_method
from medunlearn.study.cost.formulas import Cost, forward
from medunlearn.study.cost.method_outputs import MethodOutputs
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.plans.run_forecast import forecast_training

HERE = Path(__file__).parents[3]
SMALL = {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "pretrain_epochs": 0, "precision": "fp32"}


@pytest.fixture(scope="module")
def trained() -> TrainSettings:
    return check(TrainSettings, {**SMALL, "epochs": 2, "batch_size": 8, "context": "closed_book"})


@pytest.fixture(scope="module")
def pricing(hospital: Benchmark, trained: TrainSettings) -> Pricing:
    return Pricing.of(hospital, trained)


def unlearning(method: str, **values: Any) -> UnlearnSettings:
    given = {"method": method, "split": "random_10", "epochs": 3, "batch_size": 8, "precision": "fp32"}
    return check(UnlearnSettings, {**given, **values})


def test_steps_and_epochs(pricing: Pricing, hospital: Benchmark, trained: TrainSettings) -> None:
    """20 notes and 120 questions of the train fold: 18 steps of eight an epoch."""
    items = len([r for r in hospital.records if r.fold == "train"])
    items += len([q for q in hospital.questions if q.fold == "train"])
    once, twice = (pricing.training(trained.model_copy(update={"epochs": epochs})) for epochs in (1, 2))
    assert (once.steps, twice.steps) == (-(-items // 8), 2 * -(-items // 8))
    assert twice.flops == pytest.approx(2 * once.flops)
    assert twice.memory == once.memory
    retrained = trained.model_copy(update={"without": "random_10"})
    assert pricing.training(retrained).steps == twice.steps
    shorter = pricing.training(retrained.model_copy(update={"retrained_length": "epochs"}))
    assert shorter.steps < twice.steps
    assert shorter.tokens < twice.tokens


@pytest.mark.parametrize(
    ("method", "views", "reference", "reads", "wide"),
    [
        ("ga", ("forget",), (), True, False),
        ("graddiff", ("forget", "retain"), (), True, False),
        ("npo", ("forget", "retain"), ("forget",), True, False),
        ("kl_min", ("forget", "retain"), ("retain",), True, True),
        ("rmu", ("forget", "retain"), ("retain",), False, True),
        ("simnpo", ("forget", "retain"), (), True, False),
        ("ngdiff", ("forget", "retain"), (), True, False),
        ("counterfactual", ("forget", "retain", "alternatives"), ("retain",), True, True),
        ("altpo", ("forget", "retain", "alternatives"), ("forget", "alternatives"), True, False),
    ],
)
def test_a_method_s_outputs_are_read_from_its_loss(
    method: str, views: Any, reference: Any, reads: bool, wide: bool
) -> None:
    sets = 2 if method == "ngdiff" else 1
    assert MethodOutputs.of(make_method(method, {})) == MethodOutputs(views, reference, reads, wide, sets)


def test_parts_of_a_method_count() -> None:
    outputs = {
        name: MethodOutputs.of(make_method(name, {})) for name in ("npo_sam", "gru", "graddiff+js", "undial")
    }
    assert (outputs["npo_sam"].passes, outputs["npo_sam"].gradient_sets) == (2, 2)
    assert (outputs["gru"].passes, outputs["gru"].gradient_sets) == (1, 2)
    assert outputs["graddiff+js"].reference == ("retain",)
    assert (outputs["undial"].reference, outputs["undial"].wide) == (("forget",), True)


def test_a_plan_prices_more_retained_sequences(pricing: Pricing) -> None:
    once, more = (pricing.unlearning(unlearning("graddiff", retain_ratio=ratio)) for ratio in (1, 3))
    assert more.tokens > 1.6 * once.tokens
    assert more.flops > 1.3 * once.flops
    assert more.steps == once.steps


def test_a_reference_is_passed_once_where_it_is_cached(pricing: Pricing) -> None:
    """NPO is graddiff and the reference's likelihoods of the forget set: once cached, or once an epoch."""
    plain, cached = (pricing.unlearning(unlearning(method)) for method in ("graddiff", "npo"))
    uncached = pricing.unlearning(unlearning("npo", keep_gb=0))
    once = cached.flops - plain.flops
    assert once > 0
    assert uncached.flops - plain.flops == pytest.approx(3 * once)
    assert uncached.memory.reference > cached.memory.reference >= plain.memory.reference == 0


def test_layers_above_a_steered_one_are_not_run(hospital: Benchmark) -> None:
    deep = Pricing.of(hospital, check(TrainSettings, {**SMALL, "tiny_layers": 8}))
    low, high = (
        deep.unlearning(unlearning("rmu", arguments={"layer": layer, "variant": "wmdp"})) for layer in (1, 7)
    )
    assert low.flops < 0.4 * high.flops
    assert low.memory.weights == high.memory.weights


def test_an_evaluation_decodes_and_reads_each_answer_once(pricing: Pricing, hospital: Benchmark) -> None:
    how = {"split": "random_10", "max_new_tokens": 4, "metrics": ["rouge_l"], "folds": ["train"]}
    settings = check(EvaluateSettings, how)
    cost = pricing.evaluating(settings)
    count = len([q for q in hospital.questions if q.fold == "train"])
    assert cost.generated == 4 * count
    assert cost.disk == 600 * count
    few = pricing.evaluating(settings.model_copy(update={"limit": 1}))
    assert few.generated < cost.generated
    ranked = pricing.evaluating(settings.model_copy(update={"metrics": ("rouge_l", "rank")}))
    assert ranked.flops > cost.flops
    # Every fact has all of its alternatives: with twice as many, nearly twice as much is read.
    more = pricing.evaluating(settings.model_copy(update={"metrics": ("rouge_l", "rank"), "alternatives": 119}))
    assert 1.5 < (more.flops - cost.flops) / (ranked.flops - cost.flops) < 2


def test_reading_is_a_forward_pass(pricing: Pricing, hospital: Benchmark) -> None:
    lengths = pricing.sizes.of_records(hospital.records, None)
    load = lengths.load(4)
    assert pricing.reading(lengths, 4, "fp32") == forward(pricing.shape, load, lengths.longest(4))
    assert pricing.reading(lengths, 4, "fp32").flops == pytest.approx(forward(pricing.shape, load, load).flops)
    assert load.tokens == lengths.whole.sum()


def test_evaluations_of_epochs_are_priced(pricing: Pricing) -> None:
    evaluate = {"max_new_tokens": 4, "limit": 1, "metrics": ["rouge_l"]}
    plain = pricing.unlearning(unlearning("ga"))
    watched = pricing.unlearning(unlearning("ga", evaluate_every=1, evaluate=evaluate))
    once = pricing.evaluating(check(EvaluateSettings, {**evaluate, "split": "random_10"}))
    assert watched.flops == pytest.approx(plain.flops + 4 * once.flops)  # before, and after each of three epochs
    assert watched.steps == plain.steps


def test_layers_that_the_model_has_not_are_refused(hospital: Benchmark, trained: TrainSettings) -> None:
    for wrong in ("layers:0-99999999999", "layers:2", "through:7", "pattern:zz"):
        with pytest.raises(ConfigError, match="trainable="):
            forecast_training(hospital, trained.model_copy(update={"trainable": wrong}), None, "cpu")
    deep = Pricing.of(hospital, trained)
    all_layers, too_many = (
        deep.training(trained.model_copy(update={"trainable": f"layers:0-{last}"})) for last in (1, 99999999999)
    )
    assert too_many == all_layers


def test_costs_add_up() -> None:
    both = Cost(flops=1, tokens=2) + Cost(flops=3, tokens=4, steps=1)
    assert (both.flops, both.tokens, both.steps) == (4, 6, 1)


@pytest.mark.parametrize("example", ["hospital", "sweep-small", "tune-small", "amnesia-llama3-8b"])
def test_a_plan_loads_no_model_library(example: str, tmp_path: Path) -> None:
    """The plan of an experiment, a sweep, a tuning: neither torch nor transformers is imported."""
    file = HERE / "examples" / f"{example}.yaml"
    plans = {
        "hospital": "import medunlearn as mu; print(mu.plan(FILE, out=OUT, device='cpu').summary())",
        "tune-small": "from medunlearn.cli.calls import plan_tuning; print(plan_tuning(FILE, out=OUT).summary())",
    }
    sweep = "from medunlearn.cli.calls import plan_sweep; print(plan_sweep(FILE, out=OUT).cost.summary())"
    code = f"FILE, OUT = {str(file)!r}, {str(tmp_path / 'out')!r}\n{plans.get(example, sweep)}\nimport sys\n"
    code += "print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("set()")
    assert "FLOPs" in done.stdout
