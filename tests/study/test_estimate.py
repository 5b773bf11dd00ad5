"""Estimates against what runs: FLOPs of whole trainings, bytes of real tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

from medunlearn.config import UnlearnSettings, check
from medunlearn.methods import make_method
from medunlearn.models.decoder import LayoutSupport
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.study.estimate import step_cost as module
from medunlearn.study.estimate.counts import ATTENTION, Counts
from medunlearn.study.estimate.step_cost import Rehearsal
from medunlearn.study.estimate.work import UNQUANTIZED, Memory, Work, moments, nbytes
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable
from medunlearn.training.views import ModelView, Totals

BATCH, MICRO = 8, 4
SETTINGS = check(
    UnlearnSettings, {"method": "ga", "split": "-", "batch_size": BATCH, "micro_batch_size": MICRO, "keep_gb": 0}
)


def caching(budget: int) -> UnlearnSettings:
    """Settings with a budget in bytes for what is cached."""
    return SETTINGS.model_copy(update={"keep_gb": budget / 1e9})


def on_notes(side: str, notes: int = 3, each: int = 4) -> list[TokenSequence]:
    made = []
    for note in range(notes):
        shared = tuple(range(3 + note, 43 + 2 * note))
        made += [
            TokenSequence(f"{side}{note}-{q}", (*shared, *range(50, 60 + q), 1), len(shared), len(shared) + 4)
            for q in range(each)
        ]
    return made


def plan(epochs: int = 2) -> Plan:
    return Plan({side: on_notes(side) for side in ("forget", "retain")}, BATCH, epochs, 0)


def objective(name: str) -> Unlearning:
    return Unlearning(make_method(name, {"layer": 1} if name == "rmu" else {}))


@pytest.fixture
def rehearsal(tiny_base: Any) -> Callable[[str], Rehearsal]:
    def make(trainable: str) -> Rehearsal:
        config = copy.deepcopy(tiny_base.model.config)
        return Rehearsal(lambda: choose_trainable(type(tiny_base.model)(config), trainable))

    return make


def real_flops(model: Any, name: str, steps: Plan, budget: int, **loop: Any) -> tuple[int, CachePlan, int]:
    """FLOPs of a run, what it kept, and its steps."""
    # Trying a model's ways is no part of a run's work.
    assert decoder_of(model).support == LayoutSupport("branches", head=True, layers=True, mlp=True)
    chosen = objective(name)
    settings = LoopSettings(1e-3, micro_batch_size=MICRO, precision="fp32", clip=1.0, **loop)
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        cache_plan = CachePlan(model, 0, chosen, steps, MICRO, budget)
        reference = Reference(model, cache_plan.fill(None, "fp32"), complete=cache_plan.complete)
        history = train_loop(model, 0, chosen, steps, settings, reference=reference)
    return counter.get_total_flops(), cache_plan, len(history)


@pytest.mark.parametrize("budget", [0, 10**9])
@pytest.mark.parametrize(
    ("name", "trainable"),
    [
        *((name, "layers:1") for name in ("graddiff", "kl_min", "ngdiff", "npo", "rmu")),
        *(("kl_min", trainable) for trainable in ("all", "lora:2")),
        ("rmu", "layers:0-1"),
    ],
)
def test_flops_of_a_whole_run(
    tiny: Callable[[], Any], rehearsal: Callable[[str], Rehearsal], name: str, trainable: str, budget: int
) -> None:
    steps = plan(epochs=2 if trainable == "lora:2" else 1)
    flops, cache_plan, count = real_flops(choose_trainable(tiny().model, trainable), name, steps, budget)
    work = rehearsal(trainable).training(steps, caching(budget), objective(name))
    # Scaled by tokens from the batch nearest to the average.
    assert work.flops == pytest.approx(flops, rel=0.02)
    assert (work.steps, work.kept) == (count, cache_plan.bytes)
    assert (cache_plan.bytes > 0) == bool(cache_plan.sides)


@pytest.mark.parametrize("name", ["graddiff", "kl_min"])
def test_recomputing_costs_work_and_spares_memory(
    tiny: Callable[[], Any], rehearsal: Callable[[str], Rehearsal], name: str
) -> None:
    model = choose_trainable(tiny().model, "all")
    flops, _, _ = real_flops(model, name, plan(), 0, gradient_checkpointing=True)
    again = SETTINGS.model_copy(update={"gradient_checkpointing": True})
    plain, spared = (rehearsal("all").training(plan(), s, objective(name)) for s in (SETTINGS, again))
    assert plain.flops < spared.flops == pytest.approx(flops, rel=0.02)
    assert spared.memory
    assert plain.memory
    assert spared.memory.activations < plain.memory.activations


def test_bytes_of_what_is_trained(rehearsal: Callable[[str], Rehearsal]) -> None:
    stage = rehearsal("layers:1")
    memory = stage.training(plan(), SETTINGS, objective("npo")).memory
    assert memory is not None
    trained = nbytes(stage.model, trained=True)
    tensors = sum(tensor.requires_grad for tensor in stage.model.parameters())
    assert memory.weights == nbytes(stage.model)
    assert memory.gradients == memory.reference == trained
    assert memory.moments == 2 * trained + 4 * tensors  # and a counter of steps a tensor
    assert memory.total == sum(vars(memory).values())
    lora = rehearsal("lora:2").training(plan(), SETTINGS, objective("npo")).memory
    assert lora is not None
    assert lora.reference == 0


@pytest.mark.parametrize("trainable", ["all", "layers:1"])
def test_a_process_of_several_holds_its_share_of_the_layers(
    rehearsal: Callable[[str], Rehearsal], trainable: str
) -> None:
    stage, sharded = rehearsal(trainable), SETTINGS.model_copy(update={"sharding": "fsdp2"})
    one, four = (
        stage.training(plan(), settings, objective("npo"), processes=4).memory for settings in (SETTINGS, sharded)
    )
    assert one is not None
    assert four is not None
    model = stage.model
    layers = [nbytes(layer) for layer in model.model.layers]
    inside = nbytes(model.model.layers, trained=True)
    ends = nbytes(model, trained=True) - inside
    together = max(nbytes(layer) + nbytes(layer, trained=True) for layer in model.model.layers)
    # Only one of the equal layers is trained in the second case, and it is the one that takes most.
    assert together == 2 * layers[0]
    assert four.weights == nbytes(model) - sum(layers) + sum(layers) // 4 + together
    assert four.gradients == four.reference == ends + inside // 4
    counters = 4 * len(list(model.parameters()))
    assert four.moments == pytest.approx(one.moments - 2 * inside * 3 / 4, abs=counters)
    assert four.activations == one.activations


@pytest.mark.parametrize("trainable", ["all", "layers:1", "lora:2"])
def test_the_peak_is_that_of_real_tensors(
    tiny: Callable[[], Any], rehearsal: Callable[[str], Rehearsal], trainable: str
) -> None:
    """The same count of storages over a real run of two steps."""
    model = choose_trainable(tiny().model, trainable)
    one = Plan({"train": on_notes("t", 2)}, BATCH, 2, 0)
    settings = LoopSettings(1e-3, micro_batch_size=BATCH, precision="fp32")
    decoder_of(model)
    with Counts(iter(model.parameters())) as held:
        train_loop(model, 0, NextToken(), one, settings)
    guess = rehearsal(trainable).training(one, SETTINGS.model_copy(update={"micro_batch_size": BATCH}), NextToken())
    assert guess.memory is not None
    # A checksum of the weights takes as many integers of 8 bytes as the largest tensor has entries, twice.
    assert guess.memory.total - guess.memory.weights == pytest.approx(held.peak, rel=0.1)


def test_only_what_is_left_is_counted(rehearsal: Callable[[str], Rehearsal]) -> None:
    stage = rehearsal("layers:1")
    whole = stage.training(plan(), SETTINGS, objective("graddiff"))
    rest = stage.training(plan(), SETTINGS, objective("graddiff"), start=3)
    assert (whole.steps, rest.steps) == (plan().steps, plan().steps - 3)
    assert 0 < rest.flops < whole.flops
    assert stage.training(plan(), SETTINGS, objective("graddiff"), start=plan().steps) == Work()
    small, large = Memory(weights=1), Memory(weights=2)
    assert Work(1, 2, 3.0, small, 4) + Work(10, 20, 30.0, large, 40) == Work(11, 22, 33.0, large, 44)


def test_asking_and_shared_text(rehearsal: Callable[[str], Rehearsal]) -> None:
    stage, sequences = rehearsal("all"), on_notes("q")
    few, many = (stage.answering(sequences, most, 4) for most in (5, 50))
    assert (few.generated, many.generated) == (5 * 12, 50 * 12)
    assert few.tokens == many.tokens
    assert few.flops < many.flops
    # Keys and values of 3 layers of 2 heads, 16 wide, in fp32: of the longest note once, and of 4 questions of 4
    # tokens and their answers.
    assert many.memory is not None
    assert many.memory.cache == (42 + 4 * (4 + 50)) * 2 * 4 * 3 * 2 * 16
    assert stage.answering([], 5, 4) == Work()
    sequences = on_notes("t", notes=1, each=4)
    work = rehearsal("layers:1").training(Plan({"train": sequences}, BATCH, 3, 0), SETTINGS, NextToken())
    # Once a micro-batch.
    assert work.tokens == 3 * (40 + sum(len(sequence.ids) - 40 for sequence in sequences))


def test_moments_by_optimizer(rehearsal: Callable[[str], Rehearsal]) -> None:
    model = rehearsal("layers:1").model
    tensors = [tensor for tensor in model.parameters() if tensor.requires_grad]
    large = sum(tensor.numel() for tensor in tensors if tensor.numel() >= UNQUANTIZED)
    small = sum(tensor.numel() for tensor in tensors if tensor.numel() < UNQUANTIZED)
    assert moments(model, "adamw") == 2 * 4 * (large + small) + 4 * len(tensors)
    assert moments(model, "adamw_8bit") == 2 * large + 2 * 4 * small
    assert moments(model, "sgd") == 0
    offload = SETTINGS.model_copy(update={"offload": "optimizer"})
    offloaded = rehearsal("layers:1").training(plan(), offload, NextToken(), on_gpu=True)
    assert offloaded.memory is not None
    assert offloaded.memory.moments == 0


def test_what_is_kept_spares_the_steps(rehearsal: Callable[[str], Rehearsal]) -> None:
    none, some = (
        rehearsal("layers:1").training(plan(), caching(budget), objective("npo")) for budget in (0, 10**9)
    )
    assert none.kept == 0
    # Both sides' states behind layer 0, 32 wide in fp32, of shared text once; the reference's log-probabilities.
    sequences = on_notes("forget")
    tokens = sum(
        40 + note + sum(len(s.ids) - s.shared for s in sequences[4 * note : 4 * note + 4]) for note in range(3)
    )
    assert some.kept == 2 * tokens * 32 * 4 + 4 * sum(sequence.scored for sequence in sequences)
    assert some.flops < none.flops
    # A run that is gone on with has kept it already.
    assert none.memory
    assert some.memory
    rest = rehearsal("layers:1").training(plan(), caching(10**9), objective("npo"), start=plan().steps - 1)
    assert 0 < rest.flops < some.flops / (plan().steps - 1)


@pytest.mark.parametrize("trainable", ["layers:1", "lora:2"])
def test_fake_tensors_count_as_real_ones(
    rehearsal: Callable[[str], Rehearsal], monkeypatch: pytest.MonkeyPatch, trainable: str
) -> None:
    real = rehearsal(trainable)
    monkeypatch.setattr(module, "SMALL", 0)
    fake = rehearsal(trainable)
    assert type(next(fake.model.parameters()).detach()) is not torch.Tensor
    trained = [r.training(plan(epochs=1), caching(10**5), objective("npo")) for r in (real, fake)]
    asked = [r.answering(on_notes("q"), 5, 4) for r in (real, fake)]
    for one, other in (trained, asked):
        assert (one.flops, one.tokens, one.steps, one.kept) == (other.flops, other.tokens, other.steps, other.kept)
        assert one.memory
        assert other.memory
        # A fake operation may be in smaller steps than a kernel, with tensors between.
        assert one.memory.total == pytest.approx(other.memory.total, rel=2e-3)


SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}


def llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def gemma() -> Any:
    """Its attention has a cap, so that it takes a mask; so has its head."""
    return Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=8, sliding_window=256))


@pytest.mark.parametrize("small", [0, 2**22])
@pytest.mark.parametrize("make", [llama, gemma])
@pytest.mark.parametrize("trainable", ["all", "layers:1", r"pattern:\.(0|1)\.mlp\.down_proj\.weight$", "lora:2"])
def test_a_pass_is_counted_as_on_the_real_model(
    trainable: str, make: Callable[[], Any], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", small)
    monkeypatch.setattr(
        "medunlearn.models.head.PIECE", 700
    )  # 48 scored tokens in seven pieces, of which four are run

    def train(model: Any) -> None:
        batch = make_batch(model, on_notes("q", 2, 3), 0, torch.device("cpu"))
        torch.autograd.backward(ModelView(model, batch, Totals(1, 1), None).token_log_probs().sum())

    rehearsed = Rehearsal(lambda: choose_trainable(make(), trainable))
    model = choose_trainable(make(), trainable)
    assert decoder_of(model).support == decoder_of(rehearsed.model).support
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        train(model)
    assert rehearsed.measure(lambda: train(rehearsed.model)).flops == counter.get_total_flops()


def test_a_decoded_token_by_hand() -> None:
    matrices = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48
    norms = 7 * 32
    weights = 3 * matrices + norms + 32 * 100
    assert Rehearsal(llama)._decoded(10) == 2 * weights + 4 * 3 * 32 * 10


def deep(**sizes: Any) -> Any:
    return LlamaForCausalLM(LlamaConfig(**{**SIZES, "num_hidden_layers": 12, **sizes}))


@pytest.mark.parametrize(
    ("name", "trainable", "checkpointing"),
    [
        ("graddiff", "all", False),
        ("npo", "layers:4", False),
        ("kl_min", "lora:2", True),
        ("rmu", "layers:1", False),
    ],
)
def test_a_few_layers_stand_for_all(name: str, trainable: str, checkpointing: bool) -> None:
    settings = caching(10**5).model_copy(update={"gradient_checkpointing": checkpointing})
    few, every = (Rehearsal(lambda: choose_trainable(deep(), trainable)) for _ in range(2))
    assert few.depth.top > 2
    every.depth.top = every.depth.prefix = 0  # Nothing is left out.
    for work, whole in zip(
        (few.training(plan(1), settings, objective(name)), few.answering(on_notes("q"), 5, 4)),
        (every.training(plan(1), settings, objective(name)), every.answering(on_notes("q"), 5, 4)),
        strict=True,
    ):
        assert (work.flops, work.steps, work.kept) == (whole.flops, whole.steps, whole.kept)
        assert work.memory is not None
        assert whole.memory is not None
        assert work.memory.total == pytest.approx(whole.memory.total, rel=0.01)
    assert len(few.depth.layers) == few.model.config.num_hidden_layers == 12


def test_layers_that_differ_are_all_run() -> None:
    hybrid = Rehearsal(lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES | {"num_hidden_layers": 6}, head_dim=8)))
    assert (hybrid.depth.prefix, hybrid.depth.top) == (0, 1)
    frozen = Rehearsal(lambda: choose_trainable(deep(), "layers:4")).depth
    assert (frozen.prefix, frozen.top) == (4, 7)
    assert Rehearsal(lambda: choose_trainable(deep(), "all")).depth.top == 12
