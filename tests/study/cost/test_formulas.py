"""Costs by formula beside what torch counts, what autograd saves, and sums by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count
from transformers import AutoConfig, AutoModelForCausalLM

from medunlearn.models.batches import Batch
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.precision import autocast
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.shape import Shape, shape_of, tiny_shape
from medunlearn.study.cost.formulas import Cost, Load, decoding, forward, image_flops, training
from medunlearn.study.cost.memory import (
    ADAPTERS,
    KERNELS,
    LIBRARIES,
    RETAINED,
    Memory,
    Precision,
    saved_bytes,
    trained_part,
    transient_bytes,
)
from medunlearn.training.trainable import choose_trainable, gradient_checkpointing

# PEFT says that it knows GPT-2's transposed matrices.
pytestmark = pytest.mark.filterwarnings("ignore:fan_in_fan_out")

CPU = torch.device("cpu")
SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 512}
CONFIGS: dict[str, dict[str, Any]] = {
    "tiny": {"model_type": "llama", **SIZES, "intermediate_size": 170, "tie_word_embeddings": True},
    "llama": {"model_type": "llama", **SIZES, "intermediate_size": 192},
    "qwen2": {"model_type": "qwen2", **SIZES, "num_key_value_heads": 2, "intermediate_size": 160,
              "tie_word_embeddings": True},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 512, "n_positions": 128},
    "gpt_neox": {"model_type": "gpt_neox", **SIZES, "intermediate_size": 256},
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "checkpointing": {"checkpointing": True},
    "lora": {"trainable": "lora:8"},
    "top layer": {"trainable": "layers:2"},
    "middle layer": {"trainable": "layers:1"},
    "lower layers": {"trainable": "through:1"},
}
LENGTHS = (64, 64, 48, 48)
_KERNEL = "_scaled_dot_product_flash_attention_for_cpu"


def _counter() -> FlopCounterMode:
    """Counter that knows the kernel of attention on a CPU."""
    mapping = {
        getattr(torch.ops.aten, _KERNEL): lambda q, k, v, *rest, **named: sdpa_flop_count(q, k, v),
        getattr(torch.ops.aten, f"{_KERNEL}_backward"): lambda g, q, k, v, *rest, **named: sdpa_backward_flop_count(
            g, q, k, v
        ),
    }
    return FlopCounterMode(display=False, custom_mapping=mapping)


def _model(config: Mapping[str, Any], trainable: str = "all") -> tuple[Any, Batch]:
    with torch.random.fork_rng(devices=[]):
        model = choose_trainable(AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)), trainable)
    sequences = [TokenSequence(str(n), tuple(range(3, 3 + length)), 0, 1) for n, length in enumerate(LENGTHS)]
    decoder_of(model)
    return model.train(), make_batch(model, sequences, 0, CPU)


def _load(read: int | None = None) -> Load:
    return Load.of(LENGTHS, sum(LENGTHS) - len(LENGTHS) if read is None else read)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CONFIGS)
def test_flops_of_training_are_those_that_torch_counts(name: str, way: str) -> None:
    options = WAYS[way]
    model, batch = _model(CONFIGS[name], options.get("trainable", "all"))
    decoder = decoder_of(model)
    frozen = decoder.first_trained()
    with gradient_checkpointing(model, "checkpointing" in options), _counter() as counter:
        trunk = None
        if frozen:
            from medunlearn.models.decoder import Trunk

            trunk = Trunk(frozen, decoder.trunk(batch, frozen))
        ForwardOutputs(decoder, batch, trunk).log_probs.sum().backward()
    load = _load()
    assert training(shape_of(CONFIGS[name]), load, load, **options).flops == pytest.approx(
        counter.get_total_flops(), rel=0.1
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_flops_of_scoring_are_those_that_torch_counts(name: str) -> None:
    model, batch = _model(CONFIGS[name])
    with torch.no_grad(), _counter() as counter:
        _ = ForwardOutputs(decoder_of(model.eval()), batch).log_probs
    assert forward(shape_of(CONFIGS[name]), _load(), _load()).flops == pytest.approx(
        counter.get_total_flops(), rel=0.05
    )


def _saved(
    config: Mapping[str, Any], trainable: str, precision: str, *, checkpointing: bool = False, depth: int = 0
) -> int:
    """Bytes of distinct tensors that autograd saves in a pass to the likelihoods, or to the output of a layer,
    without the model's own.
    """
    model, batch = _model(config, trainable)
    own = {tensor.untyped_storage().data_ptr() for tensor in model.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage
        return tensor

    hooks = saved_tensors_hooks(keep, lambda tensor: tensor)
    with gradient_checkpointing(model, checkpointing), autocast(CPU, precision), hooks:  # type: ignore[arg-type]
        outputs = ForwardOutputs(decoder_of(model), batch)
        _ = outputs.decoder.hidden(batch, depth - 1) if depth else outputs.log_probs
    return sum(storage.nbytes() for storage in storages.values())


@pytest.mark.parametrize("way", ["all", "lora"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_layer_saves_the_bytes_that_autograd_saves(name: str, precision: str, way: str) -> None:
    trainable = WAYS[way].get("trainable", "all")
    layers = "n_layer" if name == "gpt2" else "num_hidden_layers"
    counted, formula = [], []
    for depth in (2, 3):
        config = {**CONFIGS[name], layers: depth}
        counted.append(_saved(config, trainable, precision, checkpointing=False))
        shape = shape_of(config)
        part = trained_part(shape, trainable)
        formula.append(saved_bytes(shape, _load(), part, "fp32", precision, checkpointing=False))  # type: ignore[arg-type]
    assert formula[1] - formula[0] == pytest.approx(counted[1] - counted[0], rel=0.12)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_pass_to_a_layer_saves_the_layers_below_it_alone(name: str, precision: Precision) -> None:
    shape = shape_of(CONFIGS[name])
    counted, formula = [], []
    for depth in (1, 2, 3):
        counted.append(_saved(CONFIGS[name], f"through:{depth - 1}", precision, depth=depth))
        memory = training(
            shape,
            load := _load(),
            load,
            trainable=f"through:{depth - 1}",
            precision=precision,
            depth=depth,
            passes=2,
        ).memory
        formula.append(memory.activations)
    assert np.diff(formula) == pytest.approx(np.diff(counted), rel=0.12)
    # Nothing of the layers above, nor of a head that is not run.
    whole = training(shape, _load(), _load(), precision=precision, passes=2).memory.activations
    assert formula[0] < whole / 2


def test_with_checkpointing_a_layer_saves_its_input() -> None:
    counted = [
        _saved({**CONFIGS["llama"], "num_hidden_layers": depth}, "all", "fp32", checkpointing=True)
        for depth in (2, 3)
    ]
    shapes = [shape_of({**CONFIGS["llama"], "num_hidden_layers": depth}) for depth in (2, 3)]
    formula = [
        saved_bytes(shape, _load(), trained_part(shape, "all"), "fp32", "fp32", checkpointing=True)
        for shape in shapes
    ]
    assert formula[1] - formula[0] == counted[1] - counted[0] == 4 * 64 * sum(LENGTHS)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("trainable", ["all", "lora:8", "layers:0,2", "layers:1-2"])
def test_the_trained_part_is_counted_exactly(name: str, trainable: str) -> None:
    model, _ = _model(CONFIGS[name], trainable)
    count = sum(tensor.numel() for tensor in model.parameters() if tensor.requires_grad)
    assert trained_part(shape_of(CONFIGS[name]), trainable).parameters == count


def _memory(**options: Any) -> Memory:
    return training(tiny_shape(64, 2, 512), _load(), _load(), **options).memory


def test_memory_by_hand() -> None:
    # Embedding; per layer four projections, three matrices of 170, two norms; the last norm.
    parameters = 512 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 170 + 2 * 64) + 64
    memory = _memory()
    assert (memory.weights, memory.gradients, memory.moments) == (4 * parameters, 4 * parameters, 8 * parameters)
    assert memory.reference == 0
    assert _memory(weights="bf16").moments == 4 * parameters
    assert _memory(optimizer="adamw_8bit").moments == 2 * parameters
    assert _memory(optimizer="sgd").moments == _memory(offload=True).moments == 0
    assert _memory(terms=2).gradients == 8 * parameters
    # A reference whose outputs are cached has its head alone, which is the tied embedding.
    assert _memory(reference="cached").reference == 4 * 512 * 64
    assert _memory(reference="pass").reference == 4 * parameters
    adapters = 2 * 8 * (8 * 64 + 3 * (64 + 170))
    lora = _memory(trainable="lora:8", reference="pass")
    assert (lora.gradients, lora.moments, lora.reference) == (4 * adapters, 8 * adapters, 0)
    assert lora.weights == 4 * (parameters + adapters)


def test_gradients_and_activations_share_their_peak_in_a_single_pass() -> None:
    single, several = _memory(), _memory(passes=2)
    assert several.activations - single.activations == single.gradients
    assert _memory(checkpointing=True).total < single.total
    # At the end all gradients are there, and the tied embedding's second one.
    short = training(tiny_shape(64, 2, 512), Load.of([1]), Load.of([1])).memory
    assert short.activations == 4 * 512 * 64


def test_a_process_has_libraries_and_what_its_allocator_retains() -> None:
    memory = _memory()
    shape = tiny_shape(64, 2, 512)
    saved = saved_bytes(shape, _load(), trained_part(shape, "all"), "fp32", "fp32", checkpointing=False)
    assert memory.process == LIBRARIES + memory.total + memory.retained
    assert memory.retained == RETAINED[4, False] * saved
    assert memory.total == sum((memory.weights, memory.gradients, memory.moments, memory.activations))
    assert _memory(trainable="lora").process > LIBRARIES + ADAPTERS
    assert _memory(precision="bf16").retained > KERNELS


def test_processes_divide_the_layers() -> None:
    whole, divided = _memory(), _memory(sharded=True, processes=4)
    layers = 2 * (4 * 64 * 64 + 3 * 64 * 170 + 2 * 64)
    assert divided.gradients == pytest.approx(whole.gradients - 4 * layers * 3 / 4)
    assert divided.moments == pytest.approx(whole.moments - 8 * layers * 3 / 4)


def test_transient_tensors_are_those_of_one_layer() -> None:
    shape = tiny_shape(64, 2, 512)
    more, less = (transient_bytes(shape, Load.of([length], read=0), 4) for length in (20, 10))
    assert more - less == 10 * 4 * (2 * 64 + 3 * 170)
    scoring = forward(shape, _load(), _load(), weights="bf16").memory
    assert scoring.weights == 2 * shape.parameters
    assert scoring.gradients == scoring.moments == 0


def test_branches_have_keys_and_values_of_shared_text_while_they_attend() -> None:
    """A hundred values of a fact, two tokens each, on a note of 500 tokens; two query heads share a key head."""
    shape = Shape(2, 64, 128, 4, 2, 16, 512)
    load = Load(100, 500 + 200, 0, 0, 100 * 502, 100 * 502)
    attention = (4 * 64 + 2 * 32) * 700 + 2 * 64 * 100 * 502
    assert transient_bytes(shape, load, 2) == 2 * (2 * 64 * 700 + attention)
    # Without branches the MLP is the largest.
    assert transient_bytes(shape, replace(load, branched=0), 2) == 2 * (2 * 64 + 3 * 128) * 700


def test_decoding_caches_keys_and_values() -> None:
    shape = Shape(2, 64, 128, 4, 2, 16, 512)
    prompts = Load.of([10] * 6)
    cost = decoding(shape, prompts, Load.of([10] * 4), 5)
    assert cost.generated == 30
    assert cost.memory.cache == 4 * (10 + 5) * 2 * 2 * 2 * 16 * 4
    step = 2 * (2 * (64 * (4 + 2) * 16 * 2 + 3 * 64 * 128) + 512 * 64) + 4 * 2 * 64 * 12.5
    reading = forward(shape, Load.of([10] * 6, read=6), Load()).flops
    assert cost.flops == pytest.approx(reading + 30 * step)


def test_loads_add_up() -> None:
    load = Load.of([10, 20, 30])
    assert load == Load(3, 60, 1400, 60, 60)
    assert load + load == load.times(2) == Load.of([10, 20, 30] * 2)
    assert Load.of([10, 20], read=3).read == 3


def test_branches_of_shared_text_have_its_keys_and_values_each() -> None:
    """Four questions on a note of 100 tokens, with 20 tokens of their own."""
    shape = tiny_shape(64, 2, 512)
    apart = Load(4, 100 + 4 * 20, 100**2 + 4 * 20 * 120, 40, 4 * 120)
    shared, alone = (training(shape, load, load).memory for load in (apart, replace(apart, whole=apart.tokens)))
    assert shared.activations - alone.activations == 2 * 2 * 64 * 4 * (4 * 120 - 180)


def test_costs_add_up_and_memory_is_the_largest() -> None:
    small, large = Cost(2, Memory(weights=5), 1, 10), Cost(3, Memory(weights=4, activations=9), 1, 20, 1, 7)
    total = small + large.times(2)
    assert (total.flops, total.disk, total.tokens, total.steps) == (8, 3, 50, 14)
    assert total.memory == large.memory
    assert sum([small, large], Cost()).memory.total == 13


def test_what_is_cached_is_not_computed_in_the_steps() -> None:
    shape, load = tiny_shape(64, 4, 512), _load()
    options: dict[str, Any] = {"trainable": "layers:3"}
    plain = training(shape, load, load, **options).flops
    cached = training(shape, load, load, reference="cached", **options).flops
    frozen = forward(Shape(3, 64, 170, 4, 4, 16, 0), Load.of(LENGTHS), load).flops
    assert plain - cached == pytest.approx(frozen)
    passed = training(shape, load, load, reference="cached", reference_load=load, **options).flops
    assert passed - cached == forward(shape, load, load).flops


def test_flops_of_an_image() -> None:
    tower = tiny_shape(64, 2, 512, pixels=64).tower
    assert tower is not None
    assert image_flops(tower, 16) == 2 * tower.parameters * 16 + 4 * 2 * 32 * 16**2


def test_formulas_import_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, medunlearn.study.cost.throughput, medunlearn.study.cost.formulas; "
        "print({'torch', 'transformers', 'pandas'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
