"""What a pass takes, found out without running it: it is rehearsed on tensors that have a shape and no content.

Nothing is loaded and next to nothing is computed, so that a model of 8 billion parameters is rehearsed in a few
seconds on any machine. What is rehearsed is the engine's own code, so that an estimate follows whatever the engine
does: which layers a method runs, where the graph begins, logits at scored positions alone, LoRA, autocast.

Notation: a batch of R rows of T positions with N scored tokens (:class:`Shape`); a pass takes

    FLOPs(R, T, N) = linear R T + quadratic R T^2 + head N

A multiplication with an addition counts as two. For a plain decoder of which nothing is trained, ``linear`` is
twice the entries of all weight matrices in the layers that are run, ``quadratic`` is 4 x heads x head width in each
layer (the masked half of the attention is computed too), and ``head`` is 2 x width x vocabulary. Training adds what
gradients take from the first trained parameter on. FLOPs are those of matrix products and attention, as
``torch.utils.flop_counter`` counts them, attention on CPUs too; element-wise work and the optimizer are left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from medunlearn.models.batches import ROUNDING, Batch, collate, rounded_up
from medunlearn.models.packing import pack
from medunlearn.models.sequences import TokenSequence, families


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **named: Any) -> int:
    count: int = sdpa_flop_count(query, key, value)  # type: ignore[no-untyped-call]
    return count


def _attention_backward(grad: Any, query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> int:
    count: int = sdpa_backward_flop_count(grad, query, key, value)  # type: ignore[no-untyped-call]
    return count


# torch counts the attention kernels of GPUs but not that of CPUs.
ATTENTION: dict[Any, Any] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}

PROBES = ((2 * ROUNDING, 4), (4 * ROUNDING, 4), (4 * ROUNDING, 12))
"""(T, N) of the batches from which the three numbers are found."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A batch as the engine lays it out.

    Attributes:
        rows: R.
        length: T, padding included.
        scored: N.
        tokens: tokens without padding, in a packed batch those that sequences share counted once.
        packed: sequences share rows; otherwise each has a row.
    """

    rows: int
    length: int
    scored: int
    tokens: int
    packed: bool

    @property
    def positions(self) -> int:
        """What matrices are multiplied with, padding included."""
        return self.rows * self.length

    @property
    def pairs(self) -> int:
        """Queries times the keys that each meets: all of its row, for a mask spares no work."""
        return self.rows * self.length**2


def batch_shape(sequences: Sequence[TokenSequence], *, packed: bool = True) -> Shape:
    """The shape of the batch that ``packing.make_batch`` makes, without making it.

    Args:
        packed: the model takes packed batches.
    """
    scored = sum(sequence.scored for sequence in sequences)
    longest = max(len(sequence.ids) for sequence in sequences)
    lengths = [_family_length([sequences[place] for place in family]) for family in families(sequences)]
    rows = _first_fit(lengths)
    if packed and rows * max(lengths) < len(sequences) * longest:
        return Shape(rows, rounded_up(max(lengths)), scored, sum(lengths), True)
    return Shape(len(sequences), rounded_up(longest), scored, sum(len(s.ids) for s in sequences), False)


def _family_length(family: Sequence[TokenSequence]) -> int:
    shared = family[0].shared
    return shared + sum(len(sequence.ids) - shared for sequence in family)


def _first_fit(lengths: Sequence[int]) -> int:
    """Rows as long as the longest that hold all, filled longest first."""
    left: list[int] = []
    for length in sorted(lengths, reverse=True):
        place = next((place for place, room in enumerate(left) if room >= length), None)
        if place is None:
            left.append(max(lengths) - length)
        else:
            left[place] -= length
    return len(left)


@dataclass(frozen=True, slots=True)
class PassCost:
    """FLOPs of a pass by its shape; see the notation above."""

    linear: float = 0.0
    quadratic: float = 0.0
    head: float = 0.0

    def flops(self, shape: Shape) -> float:
        return self.linear * shape.positions + self.quadratic * shape.pairs + self.head * shape.scored

    def decoding(self, cached: int, new: int) -> float:
        """FLOPs of decoding ``new`` tokens of one answer behind ``cached`` ones, whose keys and values are kept."""
        seen = sum(range(cached + 1, cached + new + 1))
        return new * (self.linear + self.head) + self.quadratic * seen


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What one rehearsal took.

    Attributes:
        flops: of matrix products and attention.
        peak_bytes: the most that stood in memory at once of what the work itself made, gradients included.
    """

    flops: int
    peak_bytes: int


class Hollow:
    """A model whose tensors have a shape, a type and a device, but no content.

    Args:
        model: a model on the meta device, as built from its configuration; it is changed in place.
        device: where its tensors pretend to be; kernels are chosen as there.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.model: Any = model
        self.device = device
        self._mode = FakeTensorMode()
        # By the old tensor's id, so that tied weights stay tied; the old one is kept, lest another gets its id.
        made: dict[int, tuple[Tensor, Tensor]] = {}
        for module in model.modules():
            for kind in (module._parameters, module._buffers):
                for name, tensor in kind.items():
                    if tensor is not None:
                        made.setdefault(id(tensor), (tensor, self._emptied(tensor)))
                        kind[name] = made[id(tensor)][1]  # type: ignore[assignment]

    def _emptied(self, tensor: Tensor) -> Tensor:
        empty = self._standin(tensor.detach())
        return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty

    def batch(self, sequences: Sequence[TokenSequence], *, packed: bool = True) -> Batch:
        """The batch that the engine makes of these sequences, without its content."""
        make = pack if batch_shape(sequences, packed=packed).packed else collate
        full = make(sequences, 0, torch.device("cpu"))
        tensors = {name: value for name, value in vars(full).items() if isinstance(value, Tensor)}
        empty: dict[str, Any] = {name: self._standin(tensor.to("meta")) for name, tensor in tensors.items()}
        return replace(full, **empty)

    def _standin(self, tensor: Tensor) -> Tensor:
        empty: Tensor = self._mode.fake_tensor_converter.from_meta_and_device(self._mode, tensor, self.device)
        return empty

    def rehearse(self, work: Callable[[], None], *, precision: str = "fp32", counted: bool = True) -> Rehearsed:
        """Go through the motions of some work on this model.

        Args:
            work: is called once; a pass of the model with or without gradients.
            precision: ``bf16`` rehearses under autocast, as the loop trains.
            counted: FLOPs are wanted; without them it is faster, and they are 0.
        """
        held = _Held(self._standing())
        autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16")
        counter = FlopCounterMode(display=False, custom_mapping=ATTENTION)
        with self._mode, counter if counted else nullcontext(), held, autocast:
            work()
        torch.clear_autocast_cache()
        return Rehearsed(counter.get_total_flops() if counted else 0, held.peak)

    def pass_cost(self, work: Callable[[Batch], None]) -> PassCost:
        """The three numbers of a pass, from three rehearsals.

        Args:
            work: one pass over the batch that it is given.
        """
        taken = []
        for length, scored in PROBES:
            batch = self.batch([TokenSequence("", (0,) * length, 0, length - scored)])
            taken.append(self.rehearse(lambda batch=batch: work(batch)).flops)  # type: ignore[misc]
            self.model.zero_grad(set_to_none=True)
        sides = [[length, length**2, scored] for length, scored in PROBES]
        linear, quadratic, head = np.linalg.solve(np.array(sides, dtype=float), np.array(taken, dtype=float))
        return PassCost(float(linear), float(quadratic), float(head))

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, tensors that are made have no content."""
        with self._mode:
            yield

    def _standing(self) -> Iterator[Tensor]:
        yield from self.model.parameters()
        yield from self.model.buffers()
        yield from (tensor.grad for tensor in self.model.parameters() if tensor.grad is not None)


class _Held(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class is untyped
    """Counts the bytes of storages that come to be and go again while it is open."""

    def __init__(self, standing: Iterator[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._standing = {tensor.untyped_storage()._cdata for tensor in standing}
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._see, made)
        return made

    def _see(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes and key not in self._standing:
            self._sizes[key] = storage.nbytes()
            self.now += self._sizes[key]
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, key)
        return tensor

    def _gone(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


@contextmanager
def on_meta() -> Iterator[None]:
    """Inside, what is built has shapes alone."""
    with torch.device("meta"):
        yield


def nbytes(model: Any, *, trained: bool = False) -> int:
    """Bytes of a model's parameters, tied ones once.

    Args:
        trained: only of those that are trained.
    """
    return sum(tensor.nbytes for tensor in model.parameters() if tensor.requires_grad or not trained)
