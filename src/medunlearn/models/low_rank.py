"""LoRA adapters inside deltas: only the adapter of a LoRA run is saved, with a reference to its base.

``delta.safetensors`` contains the two matrices of each adapted weight as ``NAME::A`` and ``NAME::B``, in their
training type; its metadata has their scaling factors, and the model's type at the end of the run. Loading adds them
to the base's weights in that type, like the merge at the end of the run, so the loaded model equals the merged
one::

    W' = W + scaling * (B A)                        A: [rank, in], B: [out, rank]

Source: Hu et al. 2021, arXiv 2106.09685, Section 4.1; the arithmetic is that of PEFT's ``merge``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from medunlearn.data.moved_folders import recorded_path
from medunlearn.data.storage import atomic_files, json_bytes
from medunlearn.errors import ModelError
from medunlearn.models.folders import (
    DTYPES,
    LOW_RANK,
    MANIFEST,
    TENSORS,
    Manifest,
    Weights,
    chain,
    fingerprint,
    is_adapter,
    stored_weights,
)
from medunlearn.models.four_bit import is_four_bit

A, B = (f"{LOW_RANK}{letter}" for letter in "AB")
_HEAD = "low_rank"


@dataclass(frozen=True)
class LowRank:
    """An adapter separate from its model.

    Attributes:
        tensors: ``NAME::A`` and ``NAME::B`` of each adapted weight.
        factors: name of an adapted weight -> scaling, negative if the weight is stored transposed (Conv1D).
        weights: type of the adapted weights.
    """

    tensors: Mapping[str, Tensor]
    factors: Mapping[str, float]
    weights: Weights

    @property
    def kind(self) -> torch.dtype:
        """``weights`` as a torch dtype."""
        kind: torch.dtype = getattr(torch, DTYPES[self.weights])
        return kind

    def add_to(self, name: str, weight: Tensor, rows: slice = slice(None)) -> Tensor:
        """A weight with its adapter merged in, in the type of :attr:`kind`; the weight itself is unchanged.

        Args:
            rows: rows of the whole weight that ``weight`` contains.
        """
        factor = self.factors[name]
        a, b = (self.tensors[name + end] for end in (A, B))
        product = (b @ a).T if factor < 0 else b @ a
        # On the processor, wherever the model is: the same bits on every device.
        merged = weight.detach().to("cpu", self.kind, copy=True)
        merged += product[rows] * abs(factor)
        return merged

    def save(self, base: Path, folder: Path) -> Manifest:
        """Write the adapter as a delta of its base.

        Raises:
            StorageError: the disk refused.
        """
        manifest = Manifest(recorded_path(base, folder), fingerprint(base), self.weights, [])
        tensors = {name: tensor.cpu().contiguous() for name, tensor in self.tensors.items()}
        # One entry alone: safetensors writes several in any order, and equal adapters are to be equal files.
        head = {_HEAD: json.dumps({"weights": self.weights, "factors": dict(sorted(self.factors.items()))})}
        with atomic_files(folder / TENSORS, folder / MANIFEST) as (tensors_part, manifest_part):
            save_file(tensors, tensors_part, metadata=head)
            manifest_part.write_bytes(json_bytes(manifest.facts()))
        return manifest


def low_rank_of(model: Any, base: Path) -> LowRank | None:
    """The adapter of a PEFT model loaded from a base; call it before merging.

    Returns:
        None if base and adapter would not reproduce the merged model bit for bit: an adapter with more than two
        matrices per weight, other trained parameters, a base of a wider type than the model or quantized for
        training, or a base that is itself a PEFT adapter.
    """
    if is_adapter(chain(base, check=False)[0]):
        return None
    plain = model.get_base_model()
    if any(map(is_four_bit, plain.modules())):
        return None
    adapted = {name: module for name, module in plain.named_modules() if hasattr(module, "lora_A")}
    tensors, factors, parts = dict[str, Tensor](), dict[str, float](), list[Any]()
    for name, module in adapted.items():
        if len(module.active_adapters) != 1 or module.lora_variant or any(module.lora_bias.values()):
            return None
        if hasattr(module, "parameter_name"):  # on the matrices of several experts
            return None
        (adapter,) = module.active_adapters
        if adapter not in module.lora_A:
            return None
        weight = f"{name}.weight"
        parts += [module.lora_A[adapter].weight, module.lora_B[adapter].weight]
        tensors |= {weight + A: parts[-2].detach().cpu().clone(), weight + B: parts[-1].detach().cpu().clone()}
        scaling = float(module.scaling[adapter])
        factors[weight] = -scaling if module.fan_in_fan_out else scaling
    own = {id(part) for part in parts}
    others = any(p.requires_grad and id(p) not in own for p in plain.parameters())
    kinds = {tensor.dtype for name, tensor in plain.named_parameters() if id(tensor) not in own}
    weights = next((w for w, name in DTYPES.items() if {getattr(torch, name)} == kinds), None)
    if not factors or others or weights is None or stored_weights(base) not in (weights, *_narrower(weights)):
        return None
    return LowRank(tensors, factors, weights)


def _narrower(weights: Weights) -> tuple[Weights, ...]:
    """Types whose values another type represents without rounding."""
    return ("bf16", "fp16") if weights == "fp32" else ()


def read_low_rank(folder: Path) -> LowRank | None:
    """The adapter in a delta's folder; None for a delta of whole tensors.

    Raises:
        ModelError: the file is broken.
    """
    again = "Copy it again, or repeat the run that made it."
    try:
        with safe_open(folder / TENSORS, framework="pt") as opened:
            head = (opened.metadata() or {}).get(_HEAD)
            if head is None:
                return None
            facts = json.loads(head)
            factors, weights = {str(n): float(f) for n, f in facts["factors"].items()}, facts["weights"]
            tensors = {name + end: opened.get_tensor(name + end) for name in factors for end in (A, B)}
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{folder / TENSORS} is broken ({error}). {again}") from error
    if weights not in DTYPES:
        raise ModelError(f"{folder / TENSORS} is broken: its weights are {weights!r}. {again}")
    return LowRank(tensors, factors, weights)
