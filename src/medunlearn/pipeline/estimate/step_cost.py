"""FLOPs and peak memory of passes, rehearsed by the engine's own code on fake tensors.

A fake tensor has a shape and no content, so nothing is loaded or computed and an 8B model is rehearsed in seconds.
The estimate follows the engine: frozen layers that run once, kept states, LoRA, autocast. Passes are rehearsed as
on a CPU. Memory is that of the largest batch. FLOPs are those of a batch of average size, scaled by tokens to all
batches: exact where batches are alike, and off by the share of attention and head that differs between them. FLOPs
are of matrix products and attention, a multiplication with an addition as two; the optimizer is left out.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count, shape_wrapper

from medunlearn.config import LoopFields
from medunlearn.methods.editing import EditMethod
from medunlearn.models.activation_cache import ActivationCache
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import assume_layouts, decoder_of, make_batch
from medunlearn.models.mlps import chosen_layers, mlps
from medunlearn.models.precision import Precision, autocast, settled
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence, families, families_by_length, tokens_once
from medunlearn.training.batch_plan import Plan, micro_batches
from medunlearn.training.objectives import Objective, Unlearning, rating, weighing
from medunlearn.training.optimizers import QUANTIZED
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import gradient_checkpointing
from medunlearn.training.views import ModelView, Totals

T = TypeVar("T")
Micro = Mapping[str, Sequence[TokenSequence]]
CPU, PAD = torch.device("cpu"), 0
SMALL = 4 * 2**20
"""Bytes of the largest model that is rehearsed with real tensors."""
UNQUANTIZED = 4096
"""Smaller tensors keep 32-bit moments where the others have 8 bits (bitsandbytes)."""


@dataclass(frozen=True)
class Memory:
    """Bytes at the peak of a stage, on its device, in each of its processes.

    Moments are the optimizer's (not those that ``offload=optimizer`` moves to the host), the reference is a copy of
    the model before unlearning, activations are all that a pass creates, the cache is of answers decoded together.
    """

    weights: int = 0
    gradients: int = 0
    moments: int = 0
    reference: int = 0
    activations: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Work:
    """Remaining work of a stage, by all of its processes together.

    Attributes:
        tokens: run through the model to train or to score, without padding; shared text counts once a micro-batch.
        generated: tokens decoded at most.
        memory: None where nothing is left to do.
        kept: bytes on disk of states computed once for all epochs; removed when the stage is done.
    """

    tokens: int = 0
    generated: int = 0
    flops: float = 0.0
    memory: Memory | None = None
    steps: int = 0
    kept: int = 0

    def __add__(self, other: Work) -> Work:
        known = [memory for memory in (self.memory, other.memory) if memory is not None]
        return Work(
            self.tokens + other.tokens,
            self.generated + other.generated,
            self.flops + other.flops,
            max(known, key=lambda memory: memory.total, default=None),
            self.steps + other.steps,
            max(self.kept, other.kept),
        )


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **named: Any) -> int:
    count: int = sdpa_flop_count(query, key, value)  # type: ignore[no-untyped-call]
    return count


def _attention_backward(grad: Any, query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> int:
    count: int = sdpa_backward_flop_count(grad, query, key, value)  # type: ignore[no-untyped-call]
    return count


ATTENTION: Mapping[Any, Any] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
"""FLOP formulas of the attention kernel of CPUs, which torch's registry lacks."""


class Counts(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class is untyped
    """Counts FLOPs by torch's formulas, and the bytes of live storages.

    One mode for both: ``FlopCounterMode`` also tracks modules, which takes as long as the rehearsal itself.
    """

    def __init__(self, standing: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.now = self.peak = 0
        self._standing = {tensor.untyped_storage()._cdata for tensor in standing}
        self._sizes: dict[int, int] = {}
        ours = {op: shape_wrapper(formula) for op, formula in ATTENTION.items()}  # type: ignore[no-untyped-call]
        self._formulas = {**flop_registry, **ours}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        output = func(*args, **named)
        formula = self._formulas.get(func._overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **named, out_val=output)
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, Tensor):
                self._track(tensor)
        return output

    def _track(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes and key not in self._standing:
            self._sizes[key] = storage.nbytes()
            self.now += self._sizes[key]
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._release, key)

    def _release(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


def _random(tensor: Tensor) -> Tensor:
    """A real tensor of small random numbers from one on the meta device."""
    real = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.is_floating_point():
        real.normal_(0, 0.02, generator=torch.Generator().manual_seed(0))
    return real


def nbytes(model: Any, *, trained: bool = False) -> int:
    """Bytes of a model's parameters or of those that are trained, tied ones once."""
    return sum(tensor.nbytes for tensor in model.parameters() if tensor.requires_grad or not trained)


class Rehearsal:
    """A model of fake tensors, and the cost of work on it.

    A small model gets random weights instead and really runs, which is faster than its rehearsal. ``make`` builds
    the model from its configuration, with what is trained marked; ``precision`` is that of training passes.
    """

    def __init__(self, make: Callable[[], Any], precision: Precision = "fp32") -> None:
        with torch.device("meta"):
            self.model: Any = make()
        self.precision, small = precision, nbytes(self.model) <= SMALL
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.mode: AbstractContextManager[Any] = nullcontext() if small else fake

        def new(tensor: Tensor) -> Tensor:
            meta = tensor.detach().to("meta")
            made = _random(meta) if small else fake.fake_tensor_converter.from_meta_and_device(fake, meta, CPU)
            return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made

        # By the old tensor's id, so that tied weights stay tied; the old one is kept, lest another gets its id.
        created: dict[int, tuple[Tensor, Tensor]] = {}
        for module in self.model.modules():
            for kind in (module._parameters, module._buffers):
                for name, tensor in kind.items():
                    if tensor is not None:
                        created.setdefault(id(tensor), (tensor, new(tensor)))
                        kind[name] = created[id(tensor)][1]
        assume_layouts(self.model)

    def measure(
        self, work: Callable[[], None], *, precision: Precision = "fp32", beside: Iterable[Tensor] = ()
    ) -> Counts:
        """Counts of some work; what it creates counts as memory, the model and ``beside`` do not."""
        model = self.model
        gradients = (tensor.grad for tensor in model.parameters() if tensor.grad is not None)
        counts = Counts([*model.parameters(), *model.buffers(), *gradients, *beside])
        with self.mode, counts, autocast(CPU, precision):
            work()
        torch.clear_autocast_cache()
        return counts

    def scaled(
        self, batches: Sequence[T], size: Callable[[T], int], prepare: Callable[[T], Callable[[], None]]
    ) -> float:
        """FLOPs of work on all batches, from that on the one nearest to the average size, once it is prepared."""
        sizes = [size(batch) for batch in batches]
        mean = sum(sizes) / len(sizes)
        place = min(range(len(sizes)), key=lambda place: abs(sizes[place] - mean))
        flops = self.measure(prepare(batches[place])).flops
        self.model.zero_grad(set_to_none=True)
        return flops * sum(sizes) / sizes[place]

    def training(
        self,
        plan: Plan,
        settings: LoopFields,
        objective: Objective,
        *,
        budget: int | None = None,
        start: int = 0,
        counted: bool = True,
        processes: int = 1,
        offloaded: bool = False,
    ) -> Work:
        """Work of a plan from step ``start`` on, by processes that train together; the memory is that of each.

        Args:
            budget: bytes that the run may keep of the model before training, its reference; None: it has none.
            counted: count tokens and FLOPs; memory alone is found from one epoch.
            offloaded: the optimizer's state is on the host of a GPU.
        """
        steps = range(start, plan.steps if counted else min(plan.steps, start + plan.steps_an_epoch))
        size, tokens = settings.micro_batch_size, settings.micro_batch_tokens
        cut = [micro_batches(plan.step(number), size, processes, plan.row, tokens) for number in steps]
        if not cut:
            return Work()
        micros = [micro for step in cut for micro in step]
        training = _Training(self, plan, settings, objective, budget)
        memory = training.memory(max(micros, key=_tokens), several=max(map(len, cut)) > processes)
        if offloaded:
            memory = replace(memory, moments=0)
        if settings.sharding != "none":
            halved = settled(self.precision, CPU) == "bf16"
            memory = per_rank_memory(memory, self.model, processes, halved=halved)
        kept = training.cache_plan.bytes if training.cache_plan else 0
        if not counted:
            return Work(memory=memory, kept=kept)
        with gradient_checkpointing(self.model, settings.gradient_checkpointing):
            flops = self.scaled(micros, _tokens, training.step)
        method = rating(objective)
        if method is not None:
            probed = [
                micro for number, step in zip(steps, cut, strict=True) if method.looks(number) for micro in step
            ]
            # A probe looks ahead and behind.
            flops += 2 * self.scaled(probed, _tokens, training.probe) if probed else 0
        if start == 0:
            flops += training.once()
        return Work(sum(map(_tokens, micros)), 0, flops, memory, len(steps), kept)

    def asking(
        self, sequences: Sequence[TokenSequence], limit: int, batch_size: int, *, counted: bool = True
    ) -> Work:
        """Work of decoding at most ``limit`` tokens to each prompt, and of scoring the reference answer.

        Text that prompts share is run once a batch, and its keys and values are held once.
        """
        if not sequences:
            return Work()
        self.model.eval()
        batches = _batches(sequences, batch_size)
        longest = max(batches, key=_prompt_tokens)
        # The prompts' own passes predict their last token alone.
        prompts = [replace(s, ids=s.prompt, scored_from=s.scored_from - 1) for s in longest if s.scored_from > 1]
        cache = (_prompt_tokens(longest) + len(longest) * limit) * _cache_bytes(self.model)
        scoring = self.measure(lambda: self._score(longest)).peak
        decoding = self.measure(lambda: self._score(prompts)).peak if prompts else 0
        memory = Memory(weights=nbytes(self.model), activations=decoding, cache=cache)
        if scoring >= decoding + cache:
            memory = replace(memory, activations=scoring, cache=0)
        if not counted:
            return Work(memory=memory)
        scored, begun = sum(map(tokens_once, batches)), sum(map(_prompt_tokens, batches))
        flops = self.scaled(batches, tokens_once, lambda batch: partial(self._score, batch)) * (1 + begun / scored)
        flops += limit * sum(self._decoding(sequence.scored_from + limit / 2) for sequence in sequences)
        return Work(scored + begun, limit * len(sequences), flops, memory)

    @torch.no_grad()
    def _score(self, sequences: Sequence[TokenSequence]) -> None:
        _ = ForwardOutputs(decoder_of(self.model), make_batch(self.model, sequences, PAD, CPU)).log_probs

    def _decoding(self, cached: float) -> float:
        """FLOPs of one decoded token: two a weight, and attention to the cached tokens."""
        model, config = self.model, self.model.config.get_text_config()
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        weights = sum(tensor.numel() for tensor in model.parameters())
        weights -= embedding.numel() if embedding is not head else 0
        width, layers = int(config.hidden_size), int(config.num_hidden_layers)
        return 2.0 * int(weights) + 4 * layers * width * cached

    def editing(
        self, method: EditMethod, sequences: Sequence[TokenSequence], batch_size: int, *, counted: bool = True
    ) -> Work:
        """Work of an edit: passes over both sides up to the last edited layer, without gradients.

        Raises:
            InputError: the model lacks what the method edits.
        """
        last = max(chosen_layers(method.layers, len(decoder_layers(self.model))))
        mlps(self.model, method.layers)
        batches = _batches(sequences, batch_size)

        @torch.no_grad()
        def run(batch: Sequence[TokenSequence]) -> None:
            decoder_of(self.model).trunk(make_batch(self.model, batch, PAD, CPU), last + 1)

        self.model.eval()
        peak = self.measure(lambda: run(max(batches, key=tokens_once))).peak
        memory = Memory(weights=nbytes(self.model), activations=peak)
        if not counted:
            return Work(memory=memory)
        passes = method.passes(False)
        tokens = passes * sum(map(tokens_once, batches))
        return Work(
            tokens, 0, passes * self.scaled(batches, tokens_once, lambda batch: partial(run, batch)), memory
        )


@dataclass
class _Training:
    """Training as the engine runs it, on a rehearsed model."""

    rehearsal: Rehearsal
    plan: Plan
    settings: LoopFields
    objective: Objective
    budget: int | None
    cache_plan: CachePlan | None = None
    reference: Reference | None = None
    deciding: int = 0
    terms: int = 1

    def __post_init__(self) -> None:
        # A copy: a method may count its calls.
        self.objective, model = copy.deepcopy(self.objective), self.rehearsal.model
        if self.budget is None:
            return
        size, tokens, budget = self.settings.micro_batch_size, self.settings.micro_batch_tokens, self.budget
        model.eval()

        def decide() -> None:
            self.cache_plan = CachePlan(model, PAD, self.objective, self.plan, size, budget, tokens=tokens)

        self.deciding = self.rehearsal.measure(decide).flops
        assert self.cache_plan is not None
        with self.rehearsal.mode:
            self.reference = Reference(model, complete=self.cache_plan.complete)

    def memory(self, micro: Micro, *, several: bool) -> Memory:
        """Memory of a micro-batch; ``several``: earlier ones of its step have left their gradients."""
        model, reference = self.rehearsal.model, self.reference
        trained, weights = nbytes(model, trained=True), nbytes(model)
        model.zero_grad(set_to_none=True)
        kept = self.kept(micro)
        tensors = reference.tensors() if reference else ()
        with gradient_checkpointing(model, self.settings.gradient_checkpointing):
            counts = self.rehearsal.measure(
                lambda: self._step(micro, kept), precision=self.rehearsal.precision, beside=tensors
            )
        model.zero_grad(set_to_none=True)
        peak = max(counts.peak + (trained if several else 0), trained)
        return Memory(
            weights=weights,
            # A method that weighs its terms' gradients holds each of them.
            gradients=trained * (self.terms if weighing(self.objective) else 1),
            moments=moments(model, self.settings.optimizer),
            reference=reference.held_bytes() if reference else 0,
            activations=peak - trained,
        )

    def once(self) -> float:
        """FLOPs of deciding what is kept, and of computing it."""
        cache_plan, flops = self.cache_plan, float(self.deciding)
        if cache_plan is None:
            return flops
        self.rehearsal.model.eval()
        store = torch.no_grad()(cache_plan.store)
        for side, side_cache in cache_plan.sides.items():

            def keep(piece: Any, names: frozenset[str] = side_cache.names) -> Callable[[], None]:
                return partial(store, ActivationCache(), piece, names)

            flops += self.rehearsal.scaled(cache_plan.pieces(side), tokens_once, keep)
        return flops

    def kept(self, micro: Micro) -> ActivationCache:
        """The kept states of these sequences, computed by the passes that keep them."""
        kept, cache_plan = ActivationCache(), self.cache_plan
        if cache_plan is not None:
            self.rehearsal.model.eval()
            with self.rehearsal.mode, torch.no_grad():
                for side, side_cache in cache_plan.sides.items():
                    cache_plan.store(kept, micro[side], side_cache.names)
        return kept

    def step(self, micro: Micro) -> Callable[[], None]:
        return partial(self._step, micro, self.kept(micro))

    def _step(self, micro: Micro, kept: ActivationCache) -> None:
        """Loss and gradients of a micro-batch."""
        self.rehearsal.model.train()
        terms: Mapping[str, Tensor] = self.objective.terms(self._views(micro, kept))
        self.terms = len(terms)
        torch.autograd.backward(torch.stack(list(terms.values())).sum())

    def probe(self, micro: Micro) -> Callable[[], None]:
        """A pass by which a method looks for its learning rate."""
        return partial(self._probe, micro, self.kept(micro))

    @torch.no_grad()
    def _probe(self, micro: Micro, kept: ActivationCache) -> None:
        assert isinstance(self.objective, Unlearning)
        self.rehearsal.model.train()
        self.objective.probe(self._views(micro, kept))

    def _views(self, micro: Micro, kept: ActivationCache) -> dict[str, ModelView]:
        model, totals = self.rehearsal.model, Totals(1, 1)
        if self.reference:
            self.reference.cache = kept
        return {
            side: ModelView(model, make_batch(model, sequences, PAD, CPU), totals, self.reference)
            for side, sequences in micro.items()
        }


def moments(model: Any, optimizer: str) -> int:
    """Bytes of the optimizer's moments."""
    tensors = [tensor for tensor in model.parameters() if tensor.requires_grad]
    if optimizer == "sgd":
        return 0
    if optimizer in QUANTIZED:
        return sum(2 * tensor.numel() * (1 if tensor.numel() >= UNQUANTIZED else 4) for tensor in tensors)
    return sum(2 * tensor.nbytes + 4 for tensor in tensors)  # and a counter of steps


def per_rank_memory(memory: Memory, model: Any, processes: int, *, halved: bool) -> Memory:
    """Memory per FSDP rank, from that of one process with the whole model.

    Weights, gradients, moments and reference of the decoder layers are sharded. Embedding, head and last norm are
    whole on every rank, and so is the one gathered layer of a pass (``halved``: in bfloat16), with its gradient.
    """
    layers = list(decoder_layers(model))
    weights, trained = nbytes(model), nbytes(model, trained=True)
    inside = sum(map(nbytes, layers)) / weights
    inside_trained = sum(nbytes(layer, trained=True) for layer in layers) / max(trained, 1)
    gathered = max(nbytes(layer) + nbytes(layer, trained=True) for layer in layers)
    if halved and weights == 4 * sum(tensor.numel() for tensor in model.parameters()):
        gathered //= 2

    def share(size: int, part: float) -> int:
        return round(size * (1 - part + part / processes))

    return replace(
        memory,
        weights=share(memory.weights, inside) + gathered,
        gradients=share(memory.gradients, inside_trained),
        moments=share(memory.moments, inside_trained),
        # Where all reference outputs are kept, only the head was copied.
        reference=share(memory.reference, inside_trained) if memory.reference == trained else memory.reference,
    )


def _tokens(micro: Micro) -> int:
    return sum(map(tokens_once, micro.values()))


def _batches(sequences: Sequence[TokenSequence], size: int) -> list[list[TokenSequence]]:
    order = [sequences[place] for places in families_by_length(sequences) for place in places]
    return [order[start : start + size] for start in range(0, len(order), size)]


def _prompt_tokens(batch: Sequence[TokenSequence]) -> int:
    """Tokens of a batch's prompts, shared ones once."""
    tokens = 0
    for family in families(batch):
        members = [batch[place] for place in family]
        shared = min(members[0].shared, *(sequence.scored_from - 1 for sequence in members))
        tokens += shared + sum(sequence.scored_from - shared for sequence in members)
    return tokens


def _cache_bytes(model: Any) -> int:
    """Bytes of one token's keys and values."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    size: int = next(model.parameters()).element_size()
    return 2 * size * int(config.num_hidden_layers) * int(heads) * int(width)
