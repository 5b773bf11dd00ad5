"""A model that is rehearsed: its tensors have a shape and no content, and what it does is counted.

Nothing is loaded and next to nothing is computed, so that a model of 8 billion parameters is rehearsed in seconds
on any machine. What is rehearsed is the engine's own code, so that an estimate follows whatever the engine does:
frozen layers that are run once, what is kept, where the graph begins, the head in pieces, LoRA, autocast.

To say what an operation would make takes longer than to make it, where it is small. A model of a few million
parameters is therefore given a content (any), and counted while it really runs; the counts are the same.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count, shape_wrapper

from medunlearn.models.batches import Batch
from medunlearn.models.branches import Layout
from medunlearn.models.feeding import assume
from medunlearn.models.precision import Precision, autocast


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

SPREAD = 0.02
"""Standard deviation of a content that is made up: that of most models' first weights."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What one rehearsal took.

    Attributes:
        flops: of matrix products and attention.
        peak_bytes: the most that stood in memory at once of what the work itself made, gradients included.
    """

    flops: int
    peak_bytes: int


class _Filled:
    """Makes tensors with some content from those of a model without; batches have their own already."""

    def __init__(self) -> None:
        self._random = torch.Generator().manual_seed(0)

    def tensor(self, tensor: Tensor) -> Tensor:
        full = torch.zeros(tensor.shape, dtype=tensor.dtype)
        if tensor.is_floating_point():
            full.normal_(0, SPREAD, generator=self._random)
        return nn.Parameter(full, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else full

    def batch(self, full: Batch) -> Batch:
        return full

    def open(self) -> AbstractContextManager[Any]:
        return nullcontext()


class _Empty:
    """Makes tensors without content from tensors with or without."""

    def __init__(self, device: torch.device) -> None:
        self.mode, self.device = FakeTensorMode(), device

    def open(self) -> AbstractContextManager[Any]:
        return self.mode

    def tensor(self, tensor: Tensor) -> Tensor:
        empty: Tensor = self.mode.fake_tensor_converter.from_meta_and_device(
            self.mode, tensor.detach().to("meta"), self.device
        )
        return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty

    def of(self, holder: Any) -> dict[str, Any]:
        """The tensors that an object holds."""
        return {name: self.tensor(value) for name, value in vars(holder).items() if isinstance(value, Tensor)}

    def layout(self, full: Layout) -> Layout:
        empty = copy.copy(full)
        empty.folds = [copy.copy(fold) for fold in full.folds]
        for fold in empty.folds:
            vars(fold).update(self.of(fold))
        return empty

    def batch(self, full: Batch) -> Batch:
        empty = replace(full, layout=self.layout(full.layout) if full.layout else None, **self.of(full))
        row, column = full.predicting
        vars(empty)["predicting"] = self.tensor(row), self.tensor(column)
        return empty


class Hollow:
    """A model whose tensors have a shape, a type and a device, but no content.

    Args:
        model: a model on the meta device, as built from its configuration; it is changed in place, and taken to be
            fed as most models are (:func:`medunlearn.models.feeding.assume`).
        device: where its tensors pretend to be; kernels are chosen as there.
        filled: its tensors get a content on the CPU after all, so that small rehearsals are quick.
    """

    def __init__(self, model: nn.Module, device: torch.device, *, filled: bool = False) -> None:
        self.model: Any = model
        self.device = device
        self._standins: _Filled | _Empty = _Filled() if filled else _Empty(device)
        # By the old tensor's id, so that tied weights stay tied; the old one is kept, lest another gets its id.
        made: dict[int, tuple[Tensor, Tensor]] = {}
        for module in model.modules():
            for kind in (module._parameters, module._buffers):
                for name, tensor in kind.items():
                    if tensor is not None:
                        made.setdefault(id(tensor), (tensor, self._standins.tensor(tensor)))
                        kind[name] = made[id(tensor)][1]  # type: ignore[assignment]
        assume(model, self._standins.batch)

    def rehearse(
        self,
        work: Callable[[], None],
        *,
        precision: Precision = "fp32",
        beside: Iterable[Tensor] = (),
    ) -> Rehearsed:
        """Go through the motions of some work on this model.

        Args:
            work: is called once; a pass of the model with or without gradients.
            precision: under autocast as the loop trains.
            beside: tensors that stand in memory already, besides the model and its gradients.
        """
        counts = Counts([*self._standing(), *beside])
        with self.open(), counts, autocast(self.device, precision):
            work()
        torch.clear_autocast_cache()
        return Rehearsed(counts.flops, counts.peak)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, tensors that are made have no content, unless the model has."""
        with self._standins.open():
            yield

    def _standing(self) -> Iterator[Tensor]:
        yield from self.model.parameters()
        yield from self.model.buffers()
        yield from (tensor.grad for tensor in self.model.parameters() if tensor.grad is not None)


class Counts(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class is untyped
    """Counts FLOPs, and the bytes of storages that come to be and go again, while it is open.

    One mode for both, and none of ``FlopCounterMode``'s numbers by module: each takes as long as the rehearsal.
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
        made = func(*args, **named)
        formula = self._formulas.get(func._overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **named, out_val=made)
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, Tensor):
                self._see(tensor)
        return made

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes and key not in self._standing:
            self._sizes[key] = storage.nbytes()
            self.now += self._sizes[key]
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, key)

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
