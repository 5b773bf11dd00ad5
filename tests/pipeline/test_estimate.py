"""Estimates against what runs: FLOPs of whole trainings, bytes of real tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from medunlearn.config import UnlearnSettings, check
from medunlearn.methods import LOSSES, make_method
from medunlearn.models.decoder import Ways
from medunlearn.models.feeding import decoder_of
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.pipeline.estimate.amounts import Memory, Work
from medunlearn.pipeline.estimate.asking import asking
from medunlearn.pipeline.estimate.cost import Shape, batch_shape
from medunlearn.pipeline.estimate.estimate import WHOLE, Estimator, _Stage
from medunlearn.pipeline.estimate.hollow import ATTENTION, Counts, Hollow, nbytes, on_meta
from medunlearn.training.keeping import Keeping
from medunlearn.training.loop import train_loop
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.plan import Plan
from medunlearn.training.settings import LoopSettings
from medunlearn.training.trainable import choose_trainable

BATCH, MICRO = 8, 4
SETTINGS = check(UnlearnSettings, {"method": "ga", "split": "-", "batch_size": BATCH, "micro_batch_size": MICRO})


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


def empty(tiny_base: Any, trainable: str) -> Any:
    with on_meta():
        model = type(tiny_base.model)(copy.deepcopy(tiny_base.model.config))
    return choose_trainable(model, trainable)


@pytest.fixture
def estimator(tiny_base: Any) -> Callable[[str], Estimator]:
    def make(trainable: str) -> Estimator:
        return Estimator.of(lambda: empty(tiny_base, trainable), torch.device("cpu"), "fp32")

    return make


@pytest.mark.parametrize("budget", [0, 10**9])
@pytest.mark.parametrize(
    ("trainable", "name"),
    [
        *product(["layers:1"], sorted(LOSSES)),
        *product(["all"], ["kl_min", "ngdiff", "npo", "rmu"]),
        *product(["lora:2"], ["kl_min", "rmu"]),
    ],
)
def test_flops_of_a_whole_run(
    tiny: Callable[[], Any], estimator: Callable[[str], Estimator], name: str, trainable: str, budget: int
) -> None:
    # A second epoch is no other for another loss.
    steps = plan(epochs=2 if trainable == "lora:2" else 1)
    # What lies above RMU's layer cannot be trained by it.
    if name == "rmu":
        trainable = {"all": "layers:0-1", "lora:2": "layers:0"}.get(trainable, trainable)
    model, chosen = choose_trainable(tiny().model, trainable), objective(name)
    # Trying a model's ways is no part of a run's work.
    assert decoder_of(model).ways == Ways("branches", head=True, layers=True, mlp=True)
    settings = LoopSettings(1e-3, micro_batch_size=MICRO, precision="fp32", clip=1.0)
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        keeping = Keeping(model, 0, chosen, steps, MICRO, budget)
        reference = Reference(model, keeping.run(None, "fp32"), complete=keeping.complete)
        history = train_loop(model, 0, chosen, steps, settings, reference=reference)
    work = estimator(trainable).training(steps, SETTINGS, objective(name), budget=budget)
    assert work.flops == pytest.approx(counter.get_total_flops(), rel=1e-6)
    assert (work.steps, work.kept) == (len(history), keeping.bytes)
    assert (keeping.bytes > 0) == bool(keeping.wanted)


def test_bytes_of_what_is_trained(estimator: Callable[[str], Estimator]) -> None:
    stage = estimator("layers:1")
    memory = stage.training(plan(), SETTINGS, objective("npo"), budget=0).memory
    assert memory is not None
    trained = nbytes(stage.hollow.model, trained=True)
    tensors = sum(tensor.requires_grad for tensor in stage.hollow.model.parameters())
    assert memory.weights == nbytes(stage.hollow.model)
    assert memory.gradients == memory.reference == trained
    assert memory.moments == 2 * trained + 4 * tensors  # and a counter of steps a tensor
    assert memory.total == sum(vars(memory).values())
    lora = estimator("lora:2").training(plan(), SETTINGS, objective("npo"), budget=0).memory
    assert lora is not None
    assert lora.reference == 0


@pytest.mark.parametrize("trainable", ["all", "layers:1"])
def test_a_process_of_several_holds_its_share_of_the_layers(
    estimator: Callable[[str], Estimator], trainable: str
) -> None:
    stage, sharded = estimator(trainable), SETTINGS.model_copy(update={"sharding": "fsdp2"})
    one, four = (
        stage.training(plan(), settings, objective("npo"), budget=0, counted=False, processes=4).memory
        for settings in (SETTINGS, sharded)
    )
    assert one is not None
    assert four is not None
    model = stage.hollow.model
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
    tiny: Callable[[], Any], estimator: Callable[[str], Estimator], trainable: str
) -> None:
    """The same count of storages over a real run of two steps."""
    model = choose_trainable(tiny().model, trainable)
    one = Plan({"train": on_notes("t", 2)}, BATCH, 2, 0)
    settings = LoopSettings(1e-3, micro_batch_size=BATCH, precision="fp32")
    decoder_of(model)
    with Counts(iter(model.parameters())) as held:
        train_loop(model, 0, NextToken(), one, settings)
    guess = estimator(trainable).training(one, SETTINGS.model_copy(update={"micro_batch_size": BATCH}), NextToken())
    assert guess.memory is not None
    # A checksum of the weights takes as many integers of 8 bytes as the largest tensor has entries, twice.
    assert guess.memory.total - guess.memory.weights == pytest.approx(held.peak, rel=0.1)


def test_only_what_is_left_is_counted(estimator: Callable[[str], Estimator]) -> None:
    stage = estimator("layers:1")
    whole = stage.training(plan(), SETTINGS, objective("graddiff"))
    rest = stage.training(plan(), SETTINGS, objective("graddiff"), start=3)
    assert (whole.steps, rest.steps) == (plan().steps, plan().steps - 3)
    assert 0 < rest.flops < whole.flops
    assert stage.training(plan(), SETTINGS, objective("graddiff"), start=plan().steps) == Work()
    quick = stage.training(plan(), SETTINGS, objective("graddiff"), counted=False)
    assert (quick.memory, quick.flops, quick.tokens) == (whole.memory, 0, 0)


def test_shared_text_is_counted_once_a_micro_batch(estimator: Callable[[str], Estimator]) -> None:
    sequences = on_notes("t", notes=1, each=4)
    work = estimator("layers:1").training(Plan({"train": sequences}, BATCH, 3, 0), SETTINGS, NextToken())
    assert work.tokens == 3 * (40 + sum(len(sequence.ids) - 40 for sequence in sequences))


def test_asking(estimator: Callable[[str], Estimator]) -> None:
    stage, sequences = estimator("all"), on_notes("q")
    few, many = (asking(stage, sequences, most, 4) for most in (5, 50))
    assert (few.generated, many.generated) == (5 * 12, 50 * 12)
    assert few.tokens == many.tokens
    assert few.flops < many.flops
    # Keys and values of 3 layers of 2 heads, 16 wide, in fp32: of the longest note once, and of 4 questions of 4
    # tokens and their answers.
    assert many.memory is not None
    assert many.memory.cache == (42 + 4 * (4 + 50)) * 2 * 4 * 3 * 2 * 16
    assert asking(stage, [], 5, 4) == Work()


def test_work_adds_up() -> None:
    small, large = Memory(weights=1), Memory(weights=2)
    assert Work(1, 2, 3.0, small, 4) + Work(10, 20, 30.0, large, 40) == Work(11, 22, 33.0, large, 44)
    assert (Work() + Work(memory=small)).memory == small


@pytest.mark.parametrize("name", ["graddiff", "kl_min"])
def test_recomputing_costs_work_and_spares_memory(
    tiny: Callable[[], Any], estimator: Callable[[str], Estimator], name: str
) -> None:
    model = choose_trainable(tiny().model, "all")
    decoder_of(model)
    loop = LoopSettings(1e-3, micro_batch_size=MICRO, precision="fp32", gradient_checkpointing=True)
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        keeping = Keeping(model, 0, objective(name), plan(), MICRO, 0)
        train_loop(model, 0, objective(name), plan(), loop, reference=Reference(model, complete=keeping.complete))
    again = SETTINGS.model_copy(update={"gradient_checkpointing": True})
    plain, spared = (estimator("all").training(plan(), s, objective(name), budget=0) for s in (SETTINGS, again))
    assert spared.flops == pytest.approx(counter.get_total_flops(), rel=1e-6)
    assert spared.flops > plain.flops
    assert spared.memory
    assert plain.memory
    assert spared.memory.activations < plain.memory.activations


def test_moments_by_optimizer(estimator: Callable[[str], Estimator]) -> None:
    def moments(device: str = "cpu", **changed: Any) -> int:
        stage = estimator("layers:1")
        stage.hollow.device = torch.device(device)
        settings = SETTINGS.model_copy(update=changed)
        return _Stage(stage, stage.hollow, plan(), settings, NextToken(), None, several=False).moments()

    tensors = [tensor for tensor in estimator("layers:1").hollow.model.parameters() if tensor.requires_grad]
    large = sum(tensor.numel() for tensor in tensors if tensor.numel() >= WHOLE)
    small = sum(tensor.numel() for tensor in tensors if tensor.numel() < WHOLE)
    assert moments() == moments(offload="optimizer") == 2 * 4 * (large + small) + 4 * len(tensors)
    assert moments(optimizer="adamw_8bit") == 2 * large + 2 * 4 * small
    assert moments("cuda", offload="optimizer") == 0


def test_what_is_kept_spares_the_steps(estimator: Callable[[str], Estimator]) -> None:
    none, some = (
        estimator("layers:1").training(plan(), SETTINGS, objective("npo"), budget=budget) for budget in (0, 10**9)
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
    rest = estimator("layers:1").training(plan(), SETTINGS, objective("npo"), budget=10**9, start=plan().steps - 1)
    assert 0 < rest.flops < some.flops / (plan().steps - 1)


def test_a_content_changes_no_count(tiny_base: Any) -> None:
    model, cpu = (lambda: empty(tiny_base, "layers:1")), torch.device("cpu")
    said, made = Estimator(Hollow(model(), cpu)), Estimator.of(model, cpu, "fp32")
    assert made.filled is not None
    sequences = on_notes("q")
    assert made.rehearsed([[batch_shape(made.hollow.model, sequences)]]) is made.filled
    trained = [e.training(plan(epochs=1), SETTINGS, objective("npo"), budget=10**5) for e in (said, made)]
    asked = [asking(e, sequences, 5, 4) for e in (said, made)]
    for one, other in (trained, asked):
        assert replace(one, memory=None) == replace(other, memory=None)
        assert one.memory
        assert other.memory
        # What is said of an operation may be in smaller steps than what a kernel does, with tensors between.
        assert one.memory.total == pytest.approx(other.memory.total, rel=2e-3)


def test_what_takes_long_to_compute_is_said(tiny_base: Any) -> None:
    stage = Estimator.of(lambda: empty(tiny_base, "all"), torch.device("cpu"), "fp32")
    assert stage.rehearsed([[Shape(10**9, 0, 0, 0, 0)]]) is stage.hollow
    on_gpu = Estimator.of(lambda: empty(tiny_base, "all"), torch.device("cuda"), "fp32")
    assert on_gpu.filled is None
