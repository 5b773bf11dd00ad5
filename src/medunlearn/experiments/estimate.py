"""What a stage will take before it starts: tokens, FLOPs, memory.

The stage's own sequences, plan and loss are rehearsed on a model without content (:mod:`medunlearn.models.cost`).
Tokens and FLOPs are those of every micro-batch that is still to come; memory is that of the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from medunlearn.config import LoopFields
from medunlearn.experiments.asks import Ask, AskedView
from medunlearn.models.batches import Batch
from medunlearn.models.cost import Hollow, PassCost, Shape, batch_shape, nbytes
from medunlearn.models.packing import window
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence, families
from medunlearn.training.objectives import Objective
from medunlearn.training.plan import Plan, micro_batches
from medunlearn.training.trainable import trained
from medunlearn.training.views import ModelView, Totals

Step = Mapping[str, Sequence[TokenSequence]]


@dataclass(frozen=True)
class Memory:
    """Bytes at the moment when a stage holds most.

    Attributes:
        weights: of the model.
        gradients, moments: of what is trained; moments are the optimizer's.
        reference: what is kept of the model before unlearning.
        logits: the largest micro-batch's, in fp32, once.
        activations: everything else that a pass makes.
        cache: keys and values of the answers that are decoded together.
    """

    weights: int = 0
    gradients: int = 0
    moments: int = 0
    reference: int = 0
    logits: int = 0
    activations: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Work:
    """What is left to do of a stage.

    Attributes:
        tokens: run through the model to train or to score, padding left out, shared text once a micro-batch.
        generated: tokens that are decoded at most.
        flops: of matrix products and attention, forward and backward.
        memory: None where nothing is left to do.
        steps: optimizer steps.
    """

    tokens: int = 0
    generated: int = 0
    flops: float = 0.0
    memory: Memory | None = None
    steps: int = 0

    def __add__(self, other: Work) -> Work:
        known = [memory for memory in (self.memory, other.memory) if memory is not None]
        return Work(
            self.tokens + other.tokens,
            self.generated + other.generated,
            self.flops + other.flops,
            max(known, key=lambda memory: memory.total, default=None),
            self.steps + other.steps,
        )


@dataclass
class Estimator:
    """Rehearses one model, trained in one way.

    Attributes:
        hollow: the model, with what is trained marked.
        precision: as in the settings.
    """

    hollow: Hollow
    precision: str = "fp32"
    _costs: dict[tuple[int, bool], PassCost] = field(default_factory=dict)

    def training(
        self,
        plan: Plan,
        settings: LoopFields,
        objective: Objective,
        *,
        keeps: bool = False,
        start: int = 0,
        counted: bool = True,
    ) -> Work:
        """What a plan takes from step ``start`` on.

        Args:
            objective: what is minimised.
            keeps: the run keeps the model before training as its reference.
            counted: tokens and FLOPs are wanted; memory alone is found from one epoch.
        """
        steps = range(start, plan.steps if counted else min(plan.steps, start + plan.steps_an_epoch))
        cut = [micro_batches(plan.step(number), settings.micro_batch_size) for number in steps]
        micros = [micro for step in cut for micro in step]
        if not micros:
            return Work()
        several = max(len(step) for step in cut) > 1
        shapes = [{side: self.shape(chosen) for side, chosen in micro.items() if chosen} for micro in micros]
        memory, asks = self._largest(micros, shapes, objective, keeps, several, 2 if counted else 1)
        if not counted:
            return Work(memory=memory)
        return replace(self._counted(micros, shapes, asks), memory=memory, steps=len(steps))

    def _counted(self, micros: Sequence[Step], shapes: Sequence[Mapping[str, Shape]], asks: set[Ask]) -> Work:
        """Tokens and FLOPs."""
        seen: set[str] = set()
        tokens, flops = 0, 0.0
        for micro, found in zip(micros, shapes, strict=True):
            tokens += sum(shape.tokens for side, shape in found.items() if any(a.side == side for a in asks))
            for ask in sorted(asks):
                if ask.side in found and not (ask.once and _all_seen(micro[ask.side], seen)):
                    flops += self.cost(ask.layer, gradient=not ask.before).flops(found[ask.side])
        return Work(tokens, 0, flops)

    def shape(self, sequences: Sequence[TokenSequence]) -> Shape:
        longest = max(len(sequence.ids) for sequence in sequences)
        return batch_shape(sequences, packed=longest <= window(self.hollow.model))

    def _largest(
        self,
        micros: Sequence[Step],
        shapes: Sequence[Mapping[str, Shape]],
        objective: Objective,
        keeps: bool,
        several: bool,
        tries: int,
    ) -> tuple[Memory, set[Ask]]:
        """Memory of the largest micro-batches, and what each of them asks for."""
        measures: tuple[Callable[[Shape], int], ...] = (lambda s: s.rows * s.length, lambda s: s.scored)
        places = {
            max(range(len(shapes)), key=lambda place: sum(measure(s) for s in shapes[place].values()))
            for measure in measures[:tries]
        }
        found: list[Memory] = []
        asks: set[Ask] = set()
        for place in sorted(places):
            found.append(self._micro(micros[place], shapes[place], objective, keeps, several, asks))
        return max(found, key=lambda memory: memory.total), asks

    def _micro(
        self,
        micro: Step,
        shapes: Mapping[str, Shape],
        objective: Objective,
        keeps: bool,
        several: bool,
        asks: set[Ask],
    ) -> Memory:
        model = self.hollow.model
        model.zero_grad(set_to_none=True)
        with self.hollow.open():
            reference = Reference(model) if keeps else None
        views = {}
        for side, chosen in micro.items():
            batch = self.hollow.batch(chosen, packed=shapes[side].packed)
            views[side] = AskedView(model, batch, side, asks, reference)

        def work() -> None:
            terms = objective.terms(views)
            torch.autograd.backward(torch.stack(list(terms.values())).sum())

        model.train()
        peak = self.hollow.rehearse(work, precision=self.precision, counted=False).peak_bytes
        gradients = nbytes(model, trained=True)
        moments, update = self._update()
        held = (gradients if several else 0) + moments + peak
        most = max(held, gradients + moments + update)
        model.zero_grad(set_to_none=True)
        logits = (
            4
            * model.config.get_text_config().vocab_size
            * sum(shapes[ask.side].scored for ask in asks if ask.layer < 0 and not ask.before)
        )
        rest = max(0, most - gradients - moments)
        return Memory(
            weights=nbytes(model),
            gradients=gradients,
            moments=moments,
            reference=reference.held_bytes() if reference else 0,
            logits=min(logits, rest),
            activations=max(0, rest - logits),
        )

    def _update(self) -> tuple[int, int]:
        """Bytes of the optimizer's moments, and of what its step makes for itself."""
        tensors = list(trained(self.hollow.model).values())
        kept: list[torch.optim.Optimizer] = []

        def work() -> None:
            torch.nn.utils.clip_grad_norm_(tensors, 1.0)
            kept.append(torch.optim.AdamW(tensors))
            kept[0].step()

        peak = self.hollow.rehearse(work, counted=False).peak_bytes
        state = kept[0].state.values()
        moments = sum(value.nbytes for values in state for value in values.values())
        return moments, max(0, peak - moments)

    def cost(self, layer: int = -1, *, gradient: bool) -> PassCost:
        """FLOPs of one pass over one side."""
        if (layer, gradient) not in self._costs:
            model = self.hollow.model

            # A pass without gradient is the reference's: with LoRA, the adapter is off.
            off = nullcontext if gradient else getattr(model, "disable_adapter", nullcontext)

            def work(batch: Batch) -> None:
                with torch.set_grad_enabled(gradient), off():
                    view = ModelView(model, batch, Totals(1, 1), None)
                    value = view.token_log_probs() if layer < 0 else view.hidden(layer)
                if gradient:
                    torch.autograd.backward(value.sum())

            self._costs[layer, gradient] = self.hollow.pass_cost(work)
        return self._costs[layer, gradient]

    def asking(
        self, sequences: Sequence[TokenSequence], most: int, batch_size: int, *, counted: bool = True
    ) -> Work:
        """What decoding an answer of at most ``most`` tokens to each prompt takes, and scoring the right one."""
        if not sequences:
            return Work()
        order = sorted(sequences, key=lambda sequence: len(sequence.ids))
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        memory = self._asking_memory(batches, most)
        if not counted:
            return Work(memory=memory)
        cost = self.cost(gradient=False)
        scored = [self.shape(batch) for batch in batches]
        begun = [_begun(batch) for batch in batches]
        flops = sum(cost.flops(shape) for shape in (*scored, *begun))
        flops += sum(cost.decoding(sequence.scored_from, most) for sequence in sequences)
        return Work(
            sum(shape.tokens for shape in (*scored, *begun)),
            most * len(sequences),
            flops,
            memory,
        )

    def _asking_memory(self, batches: Iterable[Sequence[TokenSequence]], most: int) -> Memory:
        """Of the batch with the longest prompts: scoring, or beginning its answers, with the answers' cache."""
        model = self.hollow.model
        weights = nbytes(model)
        batch = max(batches, key=lambda sequences: len(sequences) * max(s.scored_from for s in sequences))
        cache = len(batch) * (max(s.scored_from for s in batch) + most) * _cache_bytes(model)
        prompts = [replace(s, ids=s.prompt, scored_from=s.scored_from - 1) for s in batch if s.scored_from > 1]
        peaks = {"scoring": self._silent(batch), "answers": self._silent(prompts) if prompts else 0}
        logits = 4 * model.config.get_text_config().vocab_size * sum(s.scored for s in batch)
        if peaks["scoring"] >= peaks["answers"] + cache:
            return Memory(weights=weights, logits=logits, activations=max(0, peaks["scoring"] - logits))
        return Memory(weights=weights, activations=peaks["answers"], cache=cache)

    def _silent(self, sequences: Sequence[TokenSequence]) -> int:
        """Peak bytes of a pass without gradients."""
        model = self.hollow.model.eval()
        batch = self.hollow.batch(sequences, packed=self.shape(sequences).packed)

        def work() -> None:
            with torch.no_grad():
                ModelView(model, batch, Totals(1, 1), None).token_log_probs()

        return self.hollow.rehearse(work, counted=False).peak_bytes


def _all_seen(sequences: Sequence[TokenSequence], seen: set[str]) -> bool:
    keys = {sequence.key for sequence in sequences}
    known = keys <= seen
    seen |= keys
    return known


def _begun(batch: Sequence[TokenSequence]) -> Shape:
    """The pass over the prompts of a batch; text that they share is run once."""
    tokens, longest = 0, 1
    for family in families(batch):
        members = [batch[place] for place in family]
        shared = min(members[0].shared, *(sequence.scored_from - 1 for sequence in members))
        own = [sequence.scored_from - shared for sequence in members]
        tokens += shared + sum(own)
        longest = max(longest, shared + max(own))
    return Shape(max(1, round(tokens / longest)), longest, len(batch), tokens, True)


def _cache_bytes(model: Any) -> int:
    """Bytes of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    size: int = next(model.parameters()).element_size()
    return 2 * size * int(config.num_hidden_layers) * int(heads) * int(width)
