"""FLOPs and peak memory of passes through a model, on fake tensors and with few of its equal layers.

A fake tensor has a shape and no content. Equal layers cost the same, and so do equal chunks of the output head: one
is run and counts for the others.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

from medunlearn.models.decoder import decoder_layers
from medunlearn.models.head import Head

CPU = torch.device("cpu")
_TORCH: Any = flop_counter  # torch's formulas are untyped
_KERNEL = "_scaled_dot_product_flash_attention_for_cpu"
ATTENTION: dict[Any, Any] = {
    getattr(torch.ops.aten, _KERNEL): lambda *args, **_: _TORCH.sdpa_flop_count(*args[:3]),
    getattr(torch.ops.aten, f"{_KERNEL}_backward"): lambda *args, **_: _TORCH.sdpa_backward_flop_count(*args[:4]),
}
"""FLOP formulas of the attention kernel of CPUs, which torch's registry lacks."""
_FORMULAS: dict[Any, Any] = {
    **_TORCH.flop_registry,
    **{op: _TORCH.shape_wrapper(count) for op, count in ATTENTION.items()},
}
FEW, MORE = 1, 3
"""Equal layers at the top, from which on FLOPs, and memory too, are linear in their number."""


class Counts(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class is untyped
    """FLOPs by torch's formulas, and peak bytes of live storages except those of ``standing`` tensors.

    torch's ``FlopCounterMode`` does not measure memory, and its tracking of modules doubles the time of a
    rehearsal.

    Attributes:
        times: factor for the FLOPs of the next operations.
    """

    def __init__(self, standing: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.live = self.peak = 0
        self.times = 1
        self._sizes = {tensor.untyped_storage()._cdata: 0 for tensor in standing}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Nothing is compiled here, and to skip it takes time at each operation.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if (formula := _FORMULAS.get(func._overloadpacket)) is not None:
            self.flops += self.times * formula(*args, **(kwargs or {}), out_val=output)
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, Tensor) and (key := tensor.untyped_storage()._cdata) not in self._sizes:
                storage = tensor.untyped_storage()
                self._sizes[key] = storage.nbytes()
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._release, key)
        return output

    def _release(self, key: int) -> None:
        self.live -= self._sizes.pop(key)

    def few_head_pieces(self) -> AbstractContextManager[object]:
        """Context in which the output head runs only two chunks, one standing for all equal ones, and the last."""
        pieces = Head.pieces

        def few(head: Head, count: int) -> Iterator[slice]:
            places = list(pieces(head, count))
            yield from places[:2]
            if equal := places[2:-1]:
                self.times = len(equal)
                yield equal[0]
                self.times = 1
            yield from places[2:][-1:]

        return mock.patch.object(Head, "pieces", few)


@dataclass(frozen=True)
class _Recipe:
    """Output of an operation: an input, a view of one, or a new tensor."""

    source: int | None
    layout: tuple[Any, ...] | None = None


class _CpuFakes(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Fake tensor mode on the CPU with its own cache by shapes; torch's own cache is three times slower."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self._recipes: dict[Any, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return CPU
        kwargs = kwargs or {}
        inputs = _flat([*args, *kwargs.values()])
        # A view of a tensor with content has a storage of its own, which torch makes.
        aliases = func.is_view or func._schema.is_mutable
        try:
            key = func, *kwargs, *(_key(value, aliases) for value in (*args, *kwargs.values()))
            recipe = self._recipes.get(key)
        except (LookupError, TypeError):  # TypeError: an input without a hash.
            return super().__torch_dispatch__(func, types, args, kwargs)
        if recipe:
            return _each(recipe, lambda part: self._make_tensor(part, inputs))
        output = super().__torch_dispatch__(func, types, args, kwargs)
        if recipe is None:
            with suppress(LookupError):
                recipe = _each(output, lambda part: _recipe(part, inputs))
            self._recipes[key] = recipe or False
        return output

    def _make_tensor(self, recipe: _Recipe, inputs: list[Any]) -> Any:
        if recipe.layout is None:
            return None if recipe.source is None else inputs[recipe.source]
        dtype, *layout, offset = recipe.layout
        if recipe.source is None:
            return FakeTensor(self, torch.empty_strided(*layout, dtype=dtype, device="meta"), CPU)
        with in_kernel_invocation_manager(self):
            view = torch.ops.aten.as_strided.default(inputs[recipe.source], *layout, offset)
        return FakeTensor(self, view, CPU)


def _flat(values: Sequence[Any]) -> list[Any]:
    return [part for value in values for part in (value if isinstance(value, (list, tuple)) else (value,))]


def _each(output: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(output, list):
        return [function(part) for part in output]
    return tuple(map(function, output)) if isinstance(output, tuple) else function(output)


def _key(value: Any, aliases: bool) -> Any:
    """Cache key, equal for inputs whose outputs have the same shape. Raises LookupError if shapes may not
    suffice.
    """
    if isinstance(value, (list, tuple)):
        return tuple(_key(part, aliases) for part in value)
    if not isinstance(value, Tensor):
        return type(value), value
    is_real = type(value) is Tensor
    if is_real and aliases:
        raise LookupError
    return is_real, *_layout(value)


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    if getattr(tensor, "constant", None) is not None:
        raise LookupError
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


def _recipe(output: Any, inputs: list[Any]) -> _Recipe:
    """Recipe of an output. Raises LookupError if the output is not a tensor, or has content."""
    if output is None:
        return _Recipe(None)
    if not isinstance(output, Tensor):
        raise LookupError
    layout, storage = _layout(output), output.untyped_storage()._cdata
    for place, value in enumerate(inputs):
        if value is output:
            return _Recipe(place)
        if isinstance(value, Tensor) and value.untyped_storage()._cdata == storage:
            if value.dtype != output.dtype:
                raise LookupError
            return _Recipe(place, layout)
    return _Recipe(None, layout)


def make_fake(model: nn.Module) -> FakeTensorMode:
    """Replace meta tensors by fake CPU tensors; tied weights stay tied."""
    mode, originals, fakes = _CpuFakes(), list[Tensor](), dict[int, Tensor]()
    convert = mode.fake_tensor_converter.from_meta_and_device
    for tensor in (*model.parameters(), *model.buffers()):
        originals.append(tensor)  # Alive, so that no other tensor gets its id.
        fake = convert(mode, tensor.detach().to("meta"), CPU)
        fakes[id(tensor)] = nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake
    for module in model.modules():
        tables: list[Any] = [module._parameters, module._buffers]
        for tensors in tables:
            tensors.update({name: fakes[id(tensor)] for name, tensor in tensors.items() if tensor is not None})
    return mode


class Cost(NamedTuple):
    """FLOPs and peak bytes of some work."""

    flops: int
    peak: int


class Depth:
    """A model's decoder layers, of which equal ones at the top and frozen ones at the front may be skipped.

    FLOPs are exactly linear in the number of equal layers; memory is from about three on. Layers that differ in
    kind (hybrid attention, experts) or in their trained parameters are never skipped.
    """

    def __init__(self, model: Any) -> None:
        self.layers = decoder_layers(model)
        self.config = model.config.get_text_config()
        self._all = list(self.layers)
        types = getattr(self.config, "layer_types", None) or [""] * len(self._all)
        kinds = [_kind(layer, types[place]) for place, layer in enumerate(self._all)]
        self.top = _equal(kinds[::-1])
        embedding = model.get_input_embeddings().parameters()
        frozen = not any(tensor.requires_grad for part in (embedding, self._all[0].parameters()) for tensor in part)
        # A layer's type goes by its place, so layers below others are left out only where all types are one.
        apart = frozen and self.top < len(self._all) and len(set(types)) == 1
        self.prefix = _equal(kinds) if apart else 0
        self._stand_ins: dict[nn.Module, int] = {}

    @property
    def whole(self) -> int:
        return len(self._all)

    def cost(self, measure: Callable[[], Counts], few: int, *, backward: bool = True) -> Cost:
        """Cost at full depth of ``measure``, which counts at the reduced depth.

        Args:
            few: number of equal top layers to run, :data:`FEW` for FLOPs only or :data:`MORE` for memory too; and
                one more.
            backward: False without gradients: each layer's tensors then reuse the memory of the previous ones, and
                one layer counts for all.
        """
        with self._cut(few + 1, backward):
            high = measure()
        if self.top <= few + 1 or not backward:
            return Cost(high.flops, high.peak)
        with self._cut(few, backward):
            low = measure()
        rest = self.top - few - 1
        return Cost(high.flops + (high.flops - low.flops) * rest, high.peak + (high.peak - low.peak) * rest)

    @contextmanager
    def counting(self, counts: Counts) -> Iterator[None]:
        """Context in which a layer that stands for others counts for all of them."""

        def multiplying(times: int) -> Callable[..., None]:
            return lambda *_: setattr(counts, "times", times)

        hooks = []
        for layer, times in self._stand_ins.items():
            hooks.append(layer.register_forward_pre_hook(multiplying(times)))
            hooks.append(layer.register_forward_hook(multiplying(1)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def _cut(self, top: int, backward: bool) -> Iterator[None]:
        """Context in which the model has one frozen layer at its front, and at most ``top`` equal layers."""
        end = self.whole - self.top
        front, middle, equal = self._all[: min(self.prefix, 1)], self._all[self.prefix : end], self._all[end:][:top]
        self._put([*front, *middle, *equal])
        # Frozen layers at the front have no backward pass. The last of all layers may do less than the others.
        self._stand_ins = dict.fromkeys(front, self.prefix)
        if not backward and top < self.top:
            self._stand_ins[equal[0]] = self.top - top + 1
        try:
            yield
        finally:
            self._put(self._all)
            self._stand_ins = {}

    def _put(self, layers: list[Any]) -> None:
        modules = self.layers._modules
        modules.clear()
        modules.update({str(place): layer for place, layer in enumerate(layers)})
        self.config.num_hidden_layers = len(layers)


def _kind(layer: Any, attention: str) -> tuple[Any, ...]:
    """Key of a layer, equal for layers of equal cost."""
    tensors = [(name, tuple(tensor.shape), tensor.requires_grad) for name, tensor in layer.named_parameters()]
    return attention, repr(layer), *tensors


def _equal(kinds: list[Any]) -> int:
    """Number of equal layers at the front."""
    return next((place for place, kind in enumerate(kinds) if kind != kinds[0]), len(kinds))
