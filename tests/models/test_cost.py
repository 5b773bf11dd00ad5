"""Rehearsed passes: FLOPs as torch counts them on the real model, and as worked out by hand; bytes likewise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

from medunlearn.models.decoder import Ways
from medunlearn.models.feeding import decoder_of, make_batch
from medunlearn.models.seen import Seen
from medunlearn.models.sequences import TokenSequence
from medunlearn.pipeline.estimate.cost import PassCost, Shape, batch_shape, costs
from medunlearn.pipeline.estimate.hollow import ATTENTION, Hollow, nbytes, on_meta
from medunlearn.training.trainable import choose_trainable
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
WIDTH, INNER, LAYERS, HEADS, GROUPS, VOCABULARY = 32, 48, 3, 4, 2, 100
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
# Entries of a layer's matrices: queries, keys and values of fewer heads, outputs, three of the MLP.
ATTENDING = 2 * WIDTH * WIDTH + 2 * WIDTH * (WIDTH * GROUPS // HEADS)
MLP = 3 * WIDTH * INNER
MATRICES = ATTENDING + MLP
PATTERN = r"pattern:\.(0|1)\.mlp\.down_proj\.weight$"
TRAINABLE = ["all", "layers:1", "layers:2", PATTERN, "lora:2"]


def llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def gemma() -> Any:
    """Its attention has a cap, so that it takes a mask; so has its head."""
    return Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=WIDTH // HEADS, sliding_window=256))


def hollow(trainable: str = "all", make: Callable[[], Any] = llama, *, filled: bool = False) -> Hollow:
    with on_meta():
        model = choose_trainable(make(), trainable)
    return Hollow(model, CPU, filled=filled)


def quick(trainable: str = "all", make: Callable[[], Any] = llama) -> Hollow:
    """With a content: counted alike, in a tenth of the time."""
    return hollow(trainable, make, filled=True)


def questions(notes: int = 2, each: int = 3) -> list[TokenSequence]:
    """Questions on notes of unequal length, of unequal length."""
    return [
        TokenSequence(f"{note}-{q}", (*(7 + note,) * (30 + note), *range(10, 20 + q)), 30 + note, 33 + note)
        for note in range(notes)
        for q in range(each)
    ]


def train(model: Any, sequences: Sequence[TokenSequence], layer: int = -1) -> None:
    view = ModelView(model, make_batch(model, sequences, 0, CPU), Totals(1, 1), None)
    value = view.token_log_probs() if layer < 0 else view.hidden(layer)
    torch.autograd.backward(value.sum())


def score(model: Any, sequences: Sequence[TokenSequence]) -> None:
    with torch.no_grad():
        _ = Seen(decoder_of(model), make_batch(model, sequences, 0, CPU)).log_probs


def cost(stage: Hollow, work: Callable[..., None], *more: Any) -> PassCost:
    return costs(stage, lambda given: lambda: work(stage.model, given["one"], *more), ["one"])["one"]


def counted(work: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        work()
    return int(counter.get_total_flops())


def test_a_pass_without_gradients_by_hand() -> None:
    found = cost(quick(), score)
    # The last layer's MLP, like the head, sees scored positions alone.
    whole = LAYERS * MATRICES - MLP
    assert found.linear == pytest.approx(2 * whole, rel=1e-2)  # and the rotations' small product
    assert found.linear >= 2 * whole
    assert found.quadratic == pytest.approx(4 * WIDTH * LAYERS, rel=1e-6)
    assert found.head == pytest.approx(2 * (WIDTH * VOCABULARY + MLP), rel=1e-6)


def test_the_numbers_of_a_pass_make_its_flops() -> None:
    found = PassCost(linear=3, quadratic=5, shared=2, head=7)
    assert found.flops(Shape(8, 32, 16, 6, 8)) == 3 * 8 + 5 * 32 + 2 * 16 + 7 * 6
    # Two new tokens behind ten: the first sees eleven, the second twelve.
    assert found.decoding(10, 2) == 2 * (3 + 7) + 5 * (11 + 12)


@pytest.mark.parametrize("make", [llama, gemma])
@pytest.mark.parametrize("trainable", TRAINABLE)
def test_a_training_pass_is_counted_as_on_the_real_model(trainable: str, make: Callable[[], Any]) -> None:
    # What is said of operations and what is counted while they run: both, of both models.
    said = (make, trainable) in ((llama, "layers:1"), (gemma, "lora:2"))
    stage, model = hollow(trainable, make, filled=not said), choose_trainable(make(), trainable)
    ways = Ways("branches", head=True, layers=True, mlp=True)
    ways = ways if make is llama else replace(ways, attention="masks", longest=256)
    assert decoder_of(model).ways == decoder_of(stage.model).ways == ways
    truth = counted(lambda: train(model, questions()))
    assert stage.rehearse(lambda: train(stage.model, questions())).flops == truth
    shape = batch_shape(stage.model, questions())
    assert cost(stage, train).flops(shape) == pytest.approx(truth, rel=1e-6)


def test_what_is_frozen_below_the_first_trained_layer_costs_no_gradient() -> None:
    found = {trainable: cost(quick(trainable), train) for trainable in ("all", "layers:1", "layers:2")}
    # Forward three layers, the last MLP elsewhere; gradients of inputs and weights in all three, or in the trained
    # one (whose norms are trained too), and of inputs behind it.
    whole, last = 2 * MATRICES, 2 * ATTENDING
    assert found["all"].linear == pytest.approx(3 * (2 * whole + last), rel=2e-2)
    assert found["layers:1"].linear == pytest.approx(2 * whole + last + 2 * whole + last, rel=2e-2)
    assert found["layers:2"].linear == pytest.approx(2 * whole + last + 2 * last, rel=2e-2)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_pass_that_ends_behind_a_layer(layer: int) -> None:
    stage, model = quick(), llama()
    decoder_of(model)
    truth = counted(lambda: train(model, questions(), layer))
    found = cost(stage, train, layer)
    assert found.flops(batch_shape(stage.model, questions())) == pytest.approx(truth, rel=1e-6)
    assert found.linear == pytest.approx(3 * 2 * (layer * MATRICES + ATTENDING), rel=3e-2)
    assert found.head == pytest.approx(3 * 2 * MLP, rel=1e-6)


def test_costs_of_several_sides_are_told_apart() -> None:
    stage = quick()

    def prepare(given: Mapping[str, Sequence[TokenSequence]]) -> Callable[[], None]:
        def work() -> None:
            train(stage.model, given["first"])
            score(stage.model, given["second"])

        return work

    found = costs(stage, prepare, ["first", "second"])
    for side, alone in (("first", cost(stage, train)), ("second", cost(stage, score))):
        for part in ("linear", "quadratic", "head"):
            assert getattr(found[side], part) == pytest.approx(getattr(alone, part), rel=1e-6)


@pytest.mark.parametrize("make", [llama, gemma])
def test_shapes_are_those_of_the_engines_batches(
    make: Callable[[], Any], make_sequences: Callable[..., list[TokenSequence]]
) -> None:
    model = make()
    short = make_sequences(9, vocabulary=VOCABULARY)
    for sequences in (questions(), questions(1, 1), questions(3, 2) + short, short, short[:1]):
        batch, shape = make_batch(model, sequences, 0, CPU), batch_shape(model, sequences)
        assert shape.positions == batch.input_ids.numel()
        assert shape.scored == len(batch.targets)
        if batch.layout is None:
            assert shape.pairs == batch.input_ids.numel() * batch.input_ids.shape[1]


def test_pairs_and_tokens_by_hand() -> None:
    # Two notes of 30 and 31 tokens, each once, and 10 + 11 + 12 tokens behind either; 127 in all, and one to fill.
    shape = batch_shape(llama(), questions())
    assert (shape.positions, shape.tokens) == (128, 127)
    assert shape.pairs == 3 * 12 * (30 + 12) + 3 * 12 * (31 + 12) + 1
    # The notes among themselves, which the last layer leaves out unless an answer begins right behind a note.
    assert shape.shared_pairs == 30**2 + 31**2
    early = [replace(sequence, scored_from=sequence.shared) for sequence in questions()]
    read = batch_shape(llama(), early)
    assert (read.pairs, read.shared_pairs) == (shape.pairs + shape.shared_pairs, 0)


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


def test_a_hollow_model_is_the_model_without_its_content() -> None:
    model = choose_trainable(llama(), "layers:1")
    stage = hollow("layers:1")
    assert nbytes(stage.model) == nbytes(model) == 4 * model.num_parameters()
    assert nbytes(stage.model, trained=True) == nbytes(model, trained=True) == 4 * (MATRICES + 2 * WIDTH)
    assert stage.model.lm_head.weight is stage.model.model.embed_tokens.weight


def test_autocast_halves_what_a_pass_keeps() -> None:
    stage = hollow("layers:0")
    peaks = [
        stage.rehearse(lambda: train(stage.model, questions(4, 4)), precision=precision).peak_bytes
        for precision in ("fp32", "bf16")
    ]
    assert 0.4 < peaks[1] / peaks[0] < 0.95


def test_a_batch_of_a_hollow_model_has_the_shapes_of_a_real_one() -> None:
    full, empty = make_batch(llama(), questions(), 0, CPU), make_batch(hollow().model, questions(), 0, CPU)
    for name in ("input_ids", "position_ids", "sequence", "row", "column", "targets"):
        assert getattr(empty, name).shape == getattr(full, name).shape
    assert (empty.keys, empty.spans) == (full.keys, full.spans)
    assert full.layout
    assert empty.layout
    assert empty.layout.sizes == full.layout.sizes
    with pytest.raises(RuntimeError):
        empty.input_ids.sum().item()
    assert int(full.input_ids.sum()) > 0
    # What a batch's positions hold decides how many of them predict; it is known of an empty one too.
    assert empty.predicting[0].shape == full.predicting[0].shape


def test_what_stands_already_is_not_counted() -> None:
    stage = hollow()
    with stage.open():
        beside = torch.empty(10, 10)

    def work() -> None:
        beside.t().add(1)

    assert stage.rehearse(work).peak_bytes == 4 * (100 + 100)
    assert stage.rehearse(work, beside=[beside]).peak_bytes == 4 * 100
