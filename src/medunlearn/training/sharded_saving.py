"""Saving of a sharded model: rank 0 writes one tensor at a time into a preallocated file.

No process has more than one whole tensor in addition to its shards. If stored tensors differ from the model's
(experts), rank 0 has one whole layer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.core_model_loading import revert_weight_conversion

from medunlearn.data.storage import atomic_file, atomic_files, json_bytes
from medunlearn.errors import NonFiniteLossError
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.delta import LARGEST_SHARE, StoredTensors, delta_manifest, is_same, stored_names
from medunlearn.models.folders import MANIFEST, TENSORS
from medunlearn.models.load import LanguageModel
from medunlearn.models.low_rank import low_rank_of
from medunlearn.models.stored_layers import plain_name
from medunlearn.training.merging import MergeSums
from medunlearn.training.processes import Processes
from medunlearn.training.saving import save_adapter
from medunlearn.training.sharding import whole, whole_adapters

_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
          torch.bool: "BOOL"}  # fmt: skip
WEIGHTS = "model.safetensors"


class TensorFile:
    """A safetensors file whose tensors can be written in any order, in safetensors' own layout.

    Args:
        shapes: tensors on the meta device, by name.
    """

    def __init__(self, path: Path, shapes: Mapping[str, Tensor]) -> None:
        names = sorted(shapes, key=lambda name: (-shapes[name].element_size(), name))
        head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        self._start, end = dict[str, int](), 0
        for name in names:
            tensor = shapes[name]
            self._start[name] = end
            end += tensor.numel() * tensor.element_size()
            offsets = [self._start[name], end]
            head[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._file = path.open("wb")
        self._file.write(struct.pack("<Q", len(text)) + text)
        self._data, self._missing = self._file.tell(), set(names)
        self._file.truncate(self._data + end)

    def write(self, name: str, tensor: Tensor) -> None:
        self._file.seek(self._data + self._start[name])
        self._file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        self._missing.discard(name)

    def close(self) -> None:
        self._file.close()
        assert not self._missing, self._missing


@dataclass
class WholeTensors:
    """The whole tensors of a sharded model for saving: with merged adapter, and names without it.

    Attributes:
        sums: merge statistics of the latest pass over all tensors.
    """

    model: Any
    main: bool
    sums: MergeSums = field(default_factory=MergeSums)

    def __post_init__(self) -> None:
        peft = hasattr(self.model, "get_base_model")
        self.plain = self.model.get_base_model() if peft else self.model
        saved = set(self.plain.state_dict())
        self.tensors = {
            plain_name(name): tensor
            for name, tensor in (*self.plain.named_parameters(), *self.plain.named_buffers())
            if ".lora_" not in name and name in saved
        }
        self._modules = {
            plain_name(f"{name}.weight"): module
            for name, module in self.plain.named_modules()
            if hasattr(module, "lora_A")
        }

    def shapes(self) -> dict[str, Tensor]:
        """The tensors on the meta device."""
        return {name: torch.empty(t.shape, dtype=t.dtype, device="meta") for name, t in self.tensors.items()}

    def groups(self) -> list[list[str]]:
        """Names of tensors in groups: everything outside of decoder layers first, then each decoder layer."""
        owner = {
            id(tensor): place
            for place, layer in enumerate(decoder_layers(self.plain), 1)
            for tensor in (*layer.parameters(), *layer.buffers())
        }
        groups: dict[int, list[str]] = {}
        for name, tensor in self.tensors.items():
            groups.setdefault(owner.get(id(tensor), 0), []).append(name)
        return [groups[place] for place in sorted(groups)]

    def gather(self, use: Callable[[str, Tensor], None], names: list[str] | None = None) -> None:
        """Gather tensors one by one; rank 0 passes each to ``use``. Called by every process.

        Errors in ``use`` are raised after all are gathered, so that no process waits for another.
        """
        failure: BaseException | None = None
        for name in self.tensors if names is None else names:
            tensor = self._merged(name)
            if self.main and failure is None:
                try:
                    use(name, tensor)
                except Exception as error:
                    failure = error
            del tensor
        if failure is not None:
            raise failure

    def _merged(self, name: str) -> Tensor:
        tensor, module = whole(self.tensors[name]), self._modules.get(name)
        if module is None or not self.main:
            return tensor
        share = module.base_layer._parameters["weight"]
        module.base_layer._parameters["weight"] = nn.Parameter(tensor, requires_grad=False)
        try:
            self.sums.merge(name.removesuffix(".weight"), module)
            merged: Tensor = module.base_layer.weight.detach()
        finally:
            module.merged_adapters.clear()
            module.base_layer._parameters["weight"] = share
        return merged


def save_sharded(
    live: LanguageModel, processes: Processes, folder: Path, *, base: Path | None, stand: Path | None
) -> dict[str, Any]:
    """Save a sharded model like :func:`medunlearn.training.saving.save`; called by every process.

    The model is unchanged. Returns facts for ``run.json`` in every process.

    Raises:
        FrozenParametersError: rounding removed an adapter's whole update.
        NonFiniteLossError: a weight is NaN or infinite.
        StorageError: the disk refused.
    """
    adapted = hasattr(live.model, "get_base_model")
    with torch.no_grad(), whole_adapters(live.model):
        tensors = WholeTensors(live.model, processes.main)
        adapter = processes.on_main(lambda: low_rank_of(live.model, stand) if adapted and stand else None)
        with processes.barrier():
            changes = _Changes(tensors, None if adapter else base)
        with processes.barrier():
            tensors.gather(changes.see)
        rounding = {"merge_rounding": processes.on_main(tensors.sums.rounding)} if adapted else {}
        if adapter is not None and stand is not None:
            return processes.on_main(lambda: save_adapter(adapter, stand, folder)) | rounding
        names = processes.on_main(changes.smaller)
        writing = _Writing(live, tensors, folder, base, names)
        with processes.barrier():
            writing.write() if processes.main else writing.gather()
        return processes.on_main(writing.facts) | rounding


@dataclass
class _Changes:
    """Collects names of tensors that differ from those of a base, and checks that all are finite."""

    tensors: WholeTensors
    base: Path | None
    bytes: int = 0
    names: list[str] | None = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.tensors.main and self.base is not None:
            self.before = StoredTensors(self.base)
            self.stored = stored_names(self.tensors.plain, self.tensors.shapes())

    def see(self, name: str, tensor: Tensor) -> None:
        if tensor.is_floating_point() and not all(edge.isfinite().item() for edge in tensor.aminmax()):
            raise NonFiniteLossError(
                f"This model is not saved: {name} holds NaN or infinity. Lower --lr, or use fp32."
            )
        if self.base is None or self.names is None:
            return
        stored = name if name in self.before.files else self.stored.get(name, "")
        value = self.before.read(stored, name) if stored in self.before.files else None
        if value is None or value.shape != tensor.shape:
            self.names = None  # such a model has no delta
        elif not is_same(value, tensor.cpu()):
            self.names.append(name)
            self.bytes += tensor.nbytes

    def smaller(self) -> list[str] | None:
        """The names of a delta's tensors; None if the full model should be saved."""
        if self.base is None or self.names is None:
            return None
        size = sum(tensor.nbytes for tensor in self.tensors.shapes().values())
        return self.names if self.bytes < LARGEST_SHARE * size else None


@dataclass
class _Writing:
    """Writer of a full folder, or of a delta of the named tensors."""

    live: LanguageModel
    tensors: WholeTensors
    folder: Path
    base: Path | None
    names: list[str] | None
    _gathered: bool = False

    def gather(self, write: Callable[[str, Tensor], None] = lambda name, tensor: None) -> None:
        """Gather the tensors to save; rank 0 writes each."""
        self._gathered = True
        self.tensors.gather(write, self.names)

    def write(self) -> None:
        """Write the files; rank 0 only. The others gather in the meantime, which an error here must not abort."""
        try:
            if self.names is None:
                self.live.save_around_weights(self.folder)
                shapes = revert_weight_conversion(self.tensors.plain, self.tensors.shapes())
                with atomic_file(self.folder / WEIGHTS) as part:
                    self._write_tensors(part, shapes)
                return
            assert self.base is not None
            every = self.tensors.shapes()
            manifest = delta_manifest(self.base, self.folder, every.values(), self.names)
            changed = {name: every[name] for name in self.names}
            with atomic_files(self.folder / TENSORS, self.folder / MANIFEST) as (tensors_part, manifest_part):
                self._write_tensors(tensors_part, changed)
                manifest_part.write_bytes(json_bytes(manifest.facts()))
        finally:
            if not self._gathered:
                self.gather()

    def _write_tensors(self, path: Path, shapes: Mapping[str, Tensor]) -> None:
        out = TensorFile(path, shapes)
        if self.names is not None or shapes.keys() == self.tensors.tensors.keys():
            self.gather(out.write)
        else:
            self.gather(_Groups(self.tensors, out).write)
        out.close()

    def facts(self) -> dict[str, Any]:
        """Form and size of the saved model, for ``run.json``."""
        full = self.names is None
        size = (self.folder / (WEIGHTS if full else TENSORS)).stat().st_size
        changed = {} if self.names is None else {"changed_tensors": len(self.names)}
        return {"form": "full" if full else "delta", "bytes": size, **changed}


class _Groups:
    """Buffer for a file whose tensors differ from the model's: written after each complete decoder layer."""

    def __init__(self, tensors: WholeTensors, out: TensorFile) -> None:
        self._plain, self._out = tensors.plain, out
        groups = tensors.groups()
        self._group = {name: place for place, names in enumerate(groups) for name in names}
        self._pending = [len(names) for names in groups]
        self._buffers: list[dict[str, Tensor]] = [{} for _ in groups]

    def write(self, name: str, tensor: Tensor) -> None:
        place = self._group[name]
        self._buffers[place][name] = tensor.cpu()
        self._pending[place] -= 1
        if not self._pending[place]:
            layer, self._buffers[place] = self._buffers[place], {}
            for stored, value in revert_weight_conversion(self._plain, layer).items():
                self._out.write(stored, value)
