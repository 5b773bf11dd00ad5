"""Rehearsed passes: FLOPs as torch counts them on the real model, and as worked out by hand; bytes likewise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from medunlearn.models.batches import Batch, scored_hidden, scored_logits
from medunlearn.models.cost import ATTENTION, Hollow, PassCost, Shape, batch_shape, nbytes, on_meta
from medunlearn.models.packing import make_batch
from medunlearn.models.sequences import TokenSequence
from medunlearn.training.trainable import choose_trainable

CPU = torch.device("cpu")
WIDTH, INNER, LAYERS, HEADS, GROUPS, VOCABULARY = 32, 48, 3, 4, 2, 100
CONFIG = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=WIDTH,
    intermediate_size=INNER,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    num_key_value_heads=GROUPS,
    max_position_embeddings=256,
    tie_word_embeddings=True,
)
# Entries of a layer's matrices: queries, keys and values of fewer heads, outputs, three of the MLP.
MATRICES = 2 * WIDTH * WIDTH + 2 * WIDTH * (WIDTH * GROUPS // HEADS) + 3 * WIDTH * INNER
PATTERN = r"pattern:\.(0|1)\.mlp\.down_proj\.weight$"
TRAINABLE = ["all", "layers:1", "layers:2", PATTERN, "lora:2"]


def hollow(trainable: str = "all") -> Hollow:
    with on_meta():
        return Hollow(choose_trainable(LlamaForCausalLM(CONFIG), trainable), CPU)


def real(trainable: str = "all") -> Any:
    return choose_trainable(LlamaForCausalLM(CONFIG), trainable)


def questions(notes: int = 2, each: int = 3) -> list[TokenSequence]:
    """Questions on notes of unequal length, of unequal length."""
    return [
        TokenSequence(f"{note}-{q}", (*(7 + note,) * (30 + note), *range(10, 20 + q)), 30 + note, 33 + note)
        for note in range(notes)
        for q in range(each)
    ]


def train(model: Any, layer: int = -1) -> Callable[[Batch], None]:
    def work(batch: Batch) -> None:
        value = scored_logits(model, batch) if layer < 0 else scored_hidden(model, batch, layer)
        torch.autograd.backward(value.sum())

    return work


def counted(work: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        work()
    return int(counter.get_total_flops())


def test_a_pass_without_gradients_by_hand() -> None:
    stage = hollow()

    def work(batch: Batch) -> None:
        with torch.no_grad():
            scored_logits(stage.model, batch)

    cost = stage.pass_cost(work)
    assert cost.linear == pytest.approx(2 * MATRICES * LAYERS, rel=1e-2)  # and the rotations' small product
    assert cost.linear >= 2 * MATRICES * LAYERS
    assert cost.quadratic == pytest.approx(4 * WIDTH * LAYERS, rel=1e-6)
    assert cost.head == pytest.approx(2 * WIDTH * VOCABULARY, rel=1e-6)


def test_the_numbers_of_a_pass_make_its_flops() -> None:
    cost = PassCost(linear=3, quadratic=5, head=7)
    assert cost.flops(Shape(2, 4, 6, 8, False)) == 3 * 2 * 4 + 5 * 2 * 4**2 + 7 * 6
    # Two new tokens behind ten: the first sees eleven, the second twelve.
    assert cost.decoding(10, 2) == 2 * (3 + 7) + 5 * (11 + 12)


@pytest.mark.parametrize("trainable", TRAINABLE)
def test_a_training_pass_is_counted_as_on_the_real_model(trainable: str) -> None:
    stage, model = hollow(trainable), real(trainable)
    batch = make_batch(model, questions(), 0, CPU)
    truth = counted(lambda: train(model)(batch))
    shape = batch_shape(questions())
    assert stage.pass_cost(train(stage.model)).flops(shape) == pytest.approx(truth, rel=1e-6)
    empty = stage.batch(questions())
    assert stage.rehearse(lambda: train(stage.model)(empty)).flops == truth


def test_what_is_frozen_below_the_first_trained_layer_costs_no_gradient() -> None:
    costs = {}
    for trainable in ("all", "layers:1", "layers:2"):
        stage = hollow(trainable)
        costs[trainable] = stage.pass_cost(train(stage.model)).linear / (2 * MATRICES)
    # Forward three layers; gradients of inputs and weights in all three, or of weights in one.
    assert costs["all"] == pytest.approx(LAYERS * 3, rel=2e-2)
    assert costs["layers:1"] == pytest.approx(LAYERS + 2 + 1, rel=2e-2)
    assert costs["layers:2"] == pytest.approx(LAYERS + 2, rel=2e-2)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_pass_that_ends_behind_a_layer(layer: int) -> None:
    stage, model = hollow(), real()
    batch = make_batch(model, questions(), 0, CPU)
    truth = counted(lambda: train(model, layer)(batch))
    cost = stage.pass_cost(train(stage.model, layer))
    assert cost.flops(batch_shape(questions())) == pytest.approx(truth, rel=1e-6)
    assert cost.linear == pytest.approx((layer + 1) * 3 * 2 * MATRICES, rel=3e-2)
    assert cost.head == pytest.approx(0, abs=1e-6)


def test_shapes_are_those_of_the_engines_batches(make_sequences: Callable[..., list[TokenSequence]]) -> None:
    model = real()
    short = make_sequences(9, vocabulary=VOCABULARY)
    for sequences in (questions(), questions(1, 1), questions(3, 2) + short, short, short[:1]):
        batch, shape = make_batch(model, sequences, 0, CPU), batch_shape(sequences)
        assert (shape.rows, shape.length) == batch.input_ids.shape
        assert shape.scored == len(batch.targets)
        assert shape.packed == (batch.position_ids is not None)
    # Two notes of 30 and 31 tokens, each once, and 10 + 11 + 12 tokens behind either.
    assert batch_shape(questions()).tokens == 30 + 31 + 2 * (10 + 11 + 12)
    assert batch_shape(questions(), packed=False).tokens == 3 * (30 + 31) + 2 * (10 + 11 + 12)
    assert not batch_shape(questions(), packed=False).packed


def test_bytes_are_those_that_stand_at_once() -> None:
    stage = hollow()
    head = stage.model.lm_head.weight

    def work() -> None:
        made = head @ head.T.contiguous()  # 100 x 32 and 100 x 100
        del made
        torch.ones(10, 10, dtype=torch.int64)

    taken = stage.rehearse(work)
    assert taken.peak_bytes == 4 * (VOCABULARY * WIDTH + VOCABULARY * VOCABULARY)
    assert taken.flops == 2 * VOCABULARY * WIDTH * VOCABULARY
    quick = stage.rehearse(work, counted=False)
    assert (quick.flops, quick.peak_bytes) == (0, taken.peak_bytes)


def test_a_hollow_model_is_the_model_without_its_content() -> None:
    model = real("layers:1")
    stage = hollow("layers:1")
    assert nbytes(stage.model) == nbytes(model) == 4 * model.num_parameters()
    assert nbytes(stage.model, trained=True) == nbytes(model, trained=True) == 4 * (MATRICES + 2 * WIDTH)
    assert stage.model.lm_head.weight is stage.model.model.embed_tokens.weight


def test_autocast_halves_what_a_pass_keeps() -> None:
    stage = hollow("layers:0")
    batch = stage.batch(questions(4, 4))
    peaks = [
        stage.rehearse(lambda: train(stage.model)(batch), precision=precision).peak_bytes
        for precision in ("fp32", "bf16")
    ]
    assert 0.4 < peaks[1] / peaks[0] < 0.95
