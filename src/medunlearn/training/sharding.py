"""Sharding of a model too large for one device: each process has a shard of every decoder layer (PyTorch's FSDP2).

A layer's weights are gathered for its pass and released after it; its gradients are reduced and scattered in the
backward pass. The optimizer, clipping, checksums and checkpoints work on this process's shard, as plain tensors.
Everything outside of decoder layers (embedding, head, last norm) is unsharded, since :mod:`medunlearn.models`
accesses it directly.

Every process must run the same passes in the same order, since each pass communicates. If processes run different
passes, :func:`medunlearn.training.turns.in_turns` synchronises their gathers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from medunlearn.errors import ConfigError
from medunlearn.models.decoder import base_model, decoder_layers
from medunlearn.models.health import bad_logits, non_finite, refuse_broken
from medunlearn.models.layouts import LayoutProbe, decoder_of
from medunlearn.models.load import LanguageModel
from medunlearn.models.precision import Precision, settled
from medunlearn.models.reference import Reference
from medunlearn.models.stored_layers import StoredLayers, plain_name, to_meta
from medunlearn.training.processes import Processes
from medunlearn.training.turns import in_turns, take_turns


def check_sharding(setting: str, processes: Processes) -> None:
    """Refuse sharding in a single process before anything is loaded.

    Raises:
        ConfigError: there is only one process.
    """
    if setting != "none" and processes.world == 1:
        raise ConfigError(
            [
                f"--sharding {setting} divides a model among processes: start them with torchrun, or give "
                "--sharding none."
            ]
        )


def shard(language_model: LanguageModel, processes: Processes, precision: Precision) -> None:
    """Shard each decoder layer, keeping this process's part; called by every process, with equal weights.

    For layers on disk, only this process's rows of each tensor are read.

    Args:
        precision: ``bf16`` gathers layers in bfloat16, which halves communication and memory; gradient sums and
            shards keep their type.

    Raises:
        ModelError: weights or logits that are not finite.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model, stored = language_model.model, language_model.layers
    device = language_model.device
    mesh = init_device_mesh(device.type, (processes.world,))
    halved = settled(precision, device) == "bf16"
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if halved else MixedPrecisionPolicy()
    layers = decoder_layers(model)
    for layer in layers:
        if stored is not None:
            to_meta(layer)
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    take_turns(model)
    if stored is not None:
        with processes.barrier():
            _read_shares(model, stored, device)
        language_model.layers = None
    LayoutProbe.of(model).rounded = halved
    # Tried now, on a few tokens: later not every process might come to do it.
    with processes.barrier(), in_turns(model):
        decoder_of(model)
    if stored is not None:
        with processes.barrier():
            own_problem = non_finite(model)
        problem = next(filter(None, processes.gather(own_problem)), "")
        with processes.barrier(), in_turns(model):
            logits = bad_logits(model, language_model.tokenizer)
        language_model.problems = tuple(filter(None, [problem or logits]))
        refuse_broken({language_model.source: language_model.problems})


@torch.no_grad()
def _read_shares(model: Any, stored: StoredLayers, device: torch.device) -> None:
    """Replace each tensor on the meta device by this process's rows of it, one by one."""
    plain = base_model(model)
    for path, module in plain.named_modules():
        for name, tensor in list(module.named_parameters(recurse=False)):
            if not tensor.is_meta:
                continue
            assert isinstance(tensor, DTensor)
            rows = rows_of(tensor)
            part = stored.read(plain_name(f"{path}.{name}"), rows.start, rows.stop)
            share = DTensor.from_local(
                part.to(device, tensor.dtype, copy=True),
                tensor.device_mesh,
                tensor.placements,
                run_check=False,
                shape=tensor.shape,
                stride=tensor.stride(),
            )
            module._parameters[name] = nn.Parameter(share, requires_grad=tensor.requires_grad)


def is_sharded(tensor: Tensor) -> bool:
    return isinstance(tensor, DTensor)


def own_parts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """This process's part of each parameter: its shard of a sharded one, without empty shards.

    Shards are views: writing to them changes the parameter.
    """
    parts = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, DTensor):
            part = tensor.to_local().detach().requires_grad_(tensor.requires_grad)
            if part.numel():
                parts[name] = part
        else:
            parts[name] = tensor
    return parts


def hand_over_gradients(tensors: Mapping[str, Tensor], parts: Mapping[str, Tensor], world: int) -> None:
    """Set the gradients of the shards: FSDP2's mean over processes times their number, since a step uses the
    sum.
    """
    for name, part in parts.items():
        tensor = tensors[name]
        if isinstance(tensor, DTensor):
            gradient = tensor.grad
            part.grad = gradient.to_local().mul_(world) if isinstance(gradient, DTensor) else None
            tensor.grad = None


def rows_of(tensor: DTensor) -> slice:
    """Range of rows of a sharded tensor in this process."""
    mesh = tensor.device_mesh
    rows = -(-len(tensor) // mesh.size())
    start, stop = (min(place * rows, len(tensor)) for place in (mesh.get_local_rank(), mesh.get_local_rank() + 1))
    return slice(start, stop)


def whole(tensor: Tensor) -> Tensor:
    """Gather a whole tensor; called by every process."""
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor.detach()


@contextmanager
def whole_adapters(model: Any) -> Iterator[list[Any]]:
    """Context in which the matrices of a sharded model's LoRA adapters are whole; yields the adapted modules.

    Entered by every process; no pass may run inside.
    """
    modules = [module for module in model.modules() if hasattr(module, "lora_A")]  # none without an adapter
    parts = [part for module in modules for part in (*module.lora_A.values(), *module.lora_B.values())]
    shares = [part._parameters["weight"] for part in parts]
    for part, share in zip(parts, shares, strict=True):
        part._parameters["weight"] = nn.Parameter(whole(share), requires_grad=share.requires_grad)
    try:
        yield modules
    finally:
        for part, share in zip(parts, shares, strict=True):
            part._parameters["weight"] = share


@contextmanager
def merged_shares(model: Any) -> Iterator[None]:
    """Context in which a LoRA adapter is merged into a sharded model; afterwards weights are restored bit by
    bit.
    """
    before: list[tuple[Tensor, Tensor]] = []
    modules: list[Any] = []
    with torch.no_grad(), whole_adapters(model) as adapted:
        for module in adapted:
            (adapter,) = module.active_adapters
            weight = module.base_layer.weight
            share = weight.to_local()
            before.append((share, share.clone()))
            share += module.get_delta_weight(adapter)[rows_of(weight)]
            module.merged_adapters.append(adapter)
            modules.append(module)
    try:
        yield
    finally:
        with torch.no_grad():
            for share, value in before:
                share.copy_(value)
        for module in modules:
            module.merged_adapters.clear()


class ShardedReference(Reference):
    """The model before training with sharded layers, by copying its values into the shards.

    FSDP2 gathers a layer from its own storage, so replacing the parameter's tensor would have no effect.
    """

    @contextmanager
    def _switched(self) -> Iterator[None]:
        shares = {name: tensor for name, tensor in self.model.named_parameters() if is_sharded(tensor)}
        unsharded = {name: tensor for name, tensor in self._saved.items() if name not in shares}
        current = {name: shares[name].detach().clone() for name in self._saved if name in shares}
        saved, self._saved = self._saved, unsharded
        _write(shares, {name: saved[name] for name in current})
        try:
            with super()._switched():
                yield
        finally:
            self._saved = saved
            _write(shares, current)


@torch.no_grad()
def _write(shares: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    for name, value in values.items():
        share = shares[name]
        assert isinstance(share, DTensor)
        assert isinstance(value, DTensor)
        share.to_local().copy_(value.to_local())
