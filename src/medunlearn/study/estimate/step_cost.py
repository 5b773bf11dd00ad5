"""FLOPs and peak memory of a run, from rehearsing a few passes of the engine on fake tensors.

Only a few equal layers are run (:mod:`.counts`), so an 8B model is rehearsed in seconds, as if on a CPU. Memory is
that of the largest batch. FLOPs are those of the batch nearest to the average size, scaled by tokens to all
batches. Only matrix products and attention count, with two FLOPs per multiply-add; the optimizer is ignored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from medunlearn.config import LoopFields, UnlearnSettings
from medunlearn.errors import InputError
from medunlearn.models.activation_cache import ActivationCache
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import assume_layouts, decoder_of, make_batch
from medunlearn.models.precision import Precision, autocast, settled
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence, families_by_length, tokens_once
from medunlearn.study.estimate.counts import CPU, FEW, MORE, Cost, Counts, Depth, make_fake
from medunlearn.study.estimate.work import Memory, Work, cache_bytes, moments, nbytes, per_rank_memory
from medunlearn.training.batch_plan import Plan, micro_batches
from medunlearn.training.objectives import Objective, Unlearning, stepping, weighing
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import gradient_checkpointing
from medunlearn.training.views import HIDDEN, ModelView, Totals

T = TypeVar("T")
Sequences = Sequence[TokenSequence]
Micro = Mapping[str, Sequences]
PAD = 0
SMALL = 4 * 2**20
"""Bytes of the largest model that runs on real tensors, which is faster."""


class Rehearsal:
    """A model of fake tensors, or a small one with random weights, to measure the cost of work on it.

    ``make`` builds the model from its configuration, with trained parameters marked; ``precision`` is that of
    training.
    """

    def __init__(self, make: Callable[[], Any], precision: Precision = "fp32") -> None:
        self.precision: Precision = precision
        self.mode: AbstractContextManager[Any] = nullcontext()
        with torch.device("meta"):
            self.model: Any = make()
        if nbytes(self.model) > SMALL:
            self.mode = make_fake(self.model)
        else:
            with torch.random.fork_rng(devices=[]):
                self.model = make()
        assume_layouts(self.model)
        self.depth = Depth(self.model)

    def measure(
        self, work: Callable[[], object], *, precision: Precision = "fp32", standing: Iterable[Tensor] = ()
    ) -> Counts:
        """Counts of some work; memory of the model and of ``standing`` tensors is excluded."""
        counts = Counts([*self.model.parameters(), *self.model.buffers(), *standing])
        with self.mode, counts, autocast(CPU, precision), counts.few_head_pieces(), self.depth.counting(counts):
            work()
        torch.clear_autocast_cache()
        return counts

    def training(
        self,
        plan: Plan,
        settings: LoopFields,
        objective: Objective,
        *,
        start: int = 0,
        processes: int = 1,
        on_gpu: bool = False,
    ) -> Work:
        """Work of a plan from step ``start`` on, by processes that train together; memory is per process."""
        limits = settings.micro_batch_size, processes, plan.row, settings.micro_batch_tokens, plan.partners
        steps = {number: micro_batches(plan.step(number), *limits) for number in range(start, plan.steps)}
        if not steps:
            return Work()
        micros = [micro for step in steps.values() for micro in step]
        passes = _TrainingPasses(self, objective, plan, settings)
        flops, peak = _extrapolate(micros, _tokens, passes.step, passes.depth)
        method, reference = stepping(objective), passes.reference
        if probed := [micro for number in steps if method and method.looks(number) for micro in steps[number]]:
            # Ahead and behind.
            flops += 2 * _extrapolate(probed, _tokens, partial(passes.step, probe=True), passes.depth)[0]
        if start == 0:
            flops += passes.before()
        trained = nbytes(self.model, trained=True)
        # From the second micro-batch of a step on, the first one's gradients are there.
        accumulated = trained if max(map(len, steps.values())) > processes else 0
        memory = Memory(
            weights=nbytes(self.model),
            # A method that weighs its terms' gradients holds each of them.
            gradients=trained * (passes.terms if weighing(objective) else 1),
            moments=0 if on_gpu and settings.offload == "optimizer" else moments(self.model, settings.optimizer),
            reference=reference.held_bytes() if reference else 0,
            activations=max(peak + accumulated - trained, 0),
        )
        if settings.sharding != "none":
            halved = settled(self.precision, CPU) == "bf16"
            memory = per_rank_memory(memory, self.model, processes, halved=halved)
        cache_size = passes.cache_plan.bytes if passes.cache_plan else 0
        return Work(sum(map(_tokens, micros)), 0, flops, memory, len(steps), cache_size)

    def reading(self, sequences: Sequences, batch_size: int, layers: int | None = None) -> Work:
        """Work of a forward pass to the probabilities of scored tokens, or through some layers only."""

        @torch.no_grad()
        def read(batch: Sequences) -> None:
            decoder, inputs = decoder_of(self.model), make_batch(self.model, batch, PAD, CPU)
            if layers is None:
                _ = ForwardOutputs(decoder, inputs).log_probs
            else:
                decoder.trunk(inputs, min(layers, len(decoder.layers)))

        if not sequences:
            return Work()
        self.model.eval()
        batches = _batches(sequences, batch_size)
        depth = self.depth if layers in (None, self.depth.whole) else None
        measure = lambda batch: self.measure(lambda: read(batch))  # noqa: E731
        flops, peak = _extrapolate(batches, tokens_once, measure, depth, backward=False)
        return Work(sum(map(tokens_once, batches)), 0, flops, Memory(nbytes(self.model), activations=peak))

    def answering(self, sequences: Sequences, limit: int, batch_size: int) -> Work:
        """Work of decoding at most ``limit`` tokens per prompt, and of scoring the reference answers.

        Shared prefixes are run once per batch, and their keys and values stored once.
        """
        # A prompt's own pass predicts its last token alone.
        prompts = [
            replace(s, ids=s.prompt, shared=min(s.shared, s.scored_from - 1), scored_from=s.scored_from - 1)
            for s in sequences
            if s.scored_from > 1
        ]
        prompting = self.reading(prompts, batch_size)
        if prompting.memory is not None:
            cached_tokens = max(tokens_once(batch) + len(batch) * limit for batch in _batches(prompts, batch_size))
            memory = replace(prompting.memory, cache=cached_tokens * cache_bytes(self.model))
            prompting = replace(prompting, memory=memory)
        flops = sum(limit * self._decoded(sequence.scored_from + limit / 2) for sequence in sequences)
        decoding = Work(generated=limit * len(sequences), flops=flops)
        return prompting + decoding + self.reading(sequences, batch_size)

    def _decoded(self, cached_tokens: float) -> float:
        """FLOPs per decoded token: two per weight, plus attention to the cached tokens."""
        model, config = self.model, self.model.config.get_text_config()
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        weights = sum(tensor.numel() for tensor in model.parameters() if tensor is head or tensor is not embedding)
        return float(2 * weights + 4 * int(config.num_hidden_layers) * int(config.hidden_size) * cached_tokens)


class _TrainingPasses:
    """Passes of a training run as in the engine; unlearning has a reference and its cache."""

    def __init__(self, rehearsal: Rehearsal, objective: Objective, plan: Plan, settings: LoopFields) -> None:
        # A copy: a method may count its calls.
        self.rehearsal, self.objective, self.settings = rehearsal, copy.deepcopy(objective), settings
        self.cache_plan: CachePlan | None = None
        self.reference: Reference | None = None
        self.choosing, self.terms = 0, 1
        self.depth: Depth | None = rehearsal.depth
        if isinstance(settings, UnlearnSettings) and isinstance(objective, Unlearning):
            self.choosing, self.cache_plan = self._choose(plan, settings)
            with rehearsal.mode:
                self.reference = Reference(rehearsal.model, complete=self.cache_plan.complete)

    def _choose(self, plan: Plan, settings: UnlearnSettings) -> tuple[int, CachePlan]:
        """Choose what to cache, with the FLOPs of choosing; for a method with a numbered layer everything is
        cached.
        """
        rehearsal, budget = self.rehearsal, int(settings.keep_gb * 1e9)
        arguments = rehearsal.model.eval(), PAD, self.objective, plan, settings.micro_batch_size, budget
        choices = list[CachePlan]()

        def choose() -> Counts:
            make = lambda: choices.append(CachePlan(*arguments, tokens=settings.micro_batch_tokens))  # noqa: E731
            return rehearsal.measure(make)

        with suppress(InputError):  # There is no such layer in the cut model.
            flops = rehearsal.depth.cost(choose, FEW, backward=False).flops
            needs = choices[-1].needs
            if not any(name.startswith(HIDDEN[:6]) for name in {*needs.model}.union(*needs.reference.values())):
                return flops, choices[-1]
        self.depth = None
        return choose().flops, choices[-1]

    def step(self, micro: Micro, *, probe: bool = False) -> Counts:
        """Counts of a micro-batch's loss and gradients, or of a method's probe."""
        model, reference, objective = self.rehearsal.model, self.reference, self.objective
        if reference is not None:
            reference.cache = self._cache_bytes(micro)

        def run() -> None:
            views = {
                side: ModelView(model, make_batch(model, sequences, PAD, CPU), Totals(1, 1), reference)
                for side, sequences in micro.items()
            }
            if probe:
                assert isinstance(objective, Unlearning)
                objective.probe(views)
                return
            terms = objective.terms(views)
            self.terms = len(terms)
            torch.autograd.backward(torch.stack(list(terms.values())).sum())

        model.train()
        standing = reference.tensors() if reference else ()
        with gradient_checkpointing(model, self.settings.gradient_checkpointing), torch.set_grad_enabled(not probe):
            counts = self.rehearsal.measure(run, precision=self.rehearsal.precision, standing=standing)
        model.zero_grad(set_to_none=True)
        return counts

    def before(self) -> float:
        """FLOPs before the first step: choosing what to cache, and computing it."""
        flops, plan = float(self.choosing), self.cache_plan
        for side in plan.sides if plan else ():
            pieces = [{side: piece} for piece in plan.pieces(side)] if plan else []
            measure = lambda piece: self.rehearsal.measure(lambda: self._cache_bytes(piece))  # noqa: E731
            flops += _extrapolate(pieces, _tokens, measure, self.depth, backward=False)[0]
        return flops

    @torch.no_grad()
    def _cache_bytes(self, micro: Micro) -> ActivationCache:
        """Bytes of a micro-batch's part of the cache."""
        cache, plan = ActivationCache(), self.cache_plan
        self.rehearsal.model.eval()
        if plan is not None:
            plan.frozen = plan.decoder.first_trained()  # Of a model that is cut.
        with self.rehearsal.mode:
            for side in micro.keys() & plan.sides.keys() if plan else ():
                assert plan is not None
                plan.store(cache, micro[side], plan.sides[side].names)
        return cache


def _extrapolate(
    batches: Sequence[T],
    tokens: Callable[[T], int],
    measure: Callable[[T], Counts],
    depth: Depth | None,
    *,
    backward: bool = True,
) -> tuple[float, int]:
    """FLOPs of all batches, scaled by tokens from the batch nearest to the average; and the peak of the largest
    batch.

    Args:
        depth: reduction of layers; None: all are run.
        backward: as in :meth:`.counts.Depth.cost`.
    """

    def cost(batch: T, few: int) -> Cost | Counts:
        if depth is None:
            return measure(batch)
        return depth.cost(lambda: measure(batch), few, backward=backward)

    sizes = [tokens(batch) for batch in batches]
    mean = sum(sizes) / len(sizes)
    typical = min(range(len(sizes)), key=lambda place: abs(sizes[place] - mean))
    largest = sizes.index(max(sizes))
    highest = cost(batches[largest], MORE)
    usual = highest if typical == largest else cost(batches[typical], FEW)
    return usual.flops * (sum(sizes) / sizes[typical]), highest.peak


def _tokens(micro: Micro) -> int:
    return sum(map(tokens_once, micro.values()))


def _batches(sequences: Sequences, size: int) -> list[list[TokenSequence]]:
    order = [sequences[place] for places in families_by_length(sequences) for place in places]
    return [order[start : start + size] for start in range(0, len(order), size)]
