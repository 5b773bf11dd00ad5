"""A model loaded without its decoder layers, whose tensors stay in safetensors files until needed.

Transformers maps the stored tensors to parameters itself. For a layer's tensor it gets a placeholder: one number
expanded to the tensor's shape, which takes no memory and is recognised afterwards by its storage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from torch import Tensor, nn
from transformers import GenerationConfig
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter

from medunlearn.data.storage import read_json
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.delta import StoredTensors
from medunlearn.models.loading import from_pretrained

_IN_LAYERS = re.compile(r"\.\d+\.")
INDEX = "model.safetensors.index.json"
ONE_FILE = "model.safetensors"
GENERATION = "generation_config.json"


@dataclass(frozen=True)
class StoredLayers:
    """Tensors of a model's decoder layers, on disk.

    Attributes:
        names: parameter name in the model -> its name in the files.
    """

    tensors: StoredTensors
    names: Mapping[str, str]

    def read(self, name: str, start: int, stop: int) -> Tensor:
        """Rows ``start`` to ``stop`` of a parameter, as stored, on the CPU."""
        stored = name if name in self.tensors.files else self.names[name]
        return self.tensors.read(stored, name, slice(start, stop))


def load_without_layers(
    auto_class: Any,
    root: str | Path,
    deltas: Sequence[Path],
    config: Any,
    dtype: torch.dtype,
    trust_remote_code: bool,
) -> tuple[Any, list[str], StoredLayers] | None:
    """A model with placeholders in its decoder layers, the names of missing weights, and its stored layers.

    Args:
        auto_class: transformers class, such as AutoModelForCausalLM.
        root: full folder or hub id of the configuration.
        deltas: folders of deltas on it, applied when layers are read from disk.

    Returns:
        None if transformers merges, splits or converts stored tensors of this architecture (experts).
    """
    folder = Path(root)
    if not folder.is_dir():
        folder = Path(snapshot_download(str(root), allow_patterns=["*.safetensors", "*.json"]))
    files = _files(folder)
    with torch.device("meta"):
        outline = auto_class.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code)
    converters = [
        conversion
        for conversion in get_model_conversion_mapping(outline)
        if isinstance(conversion, WeightConverter)
    ]
    if any(converter.rename_source_key(name)[1] is not None for converter in converters for name in files):
        return None
    state, stored = _placeholders(files, dtype)
    placeholders = list(state.values())  # A storage that is let go might come back as another tensor's.
    how = {"config": config, "state_dict": state, "dtype": dtype, "output_loading_info": True}
    model, info = from_pretrained(type(outline), None, **how)
    model.name_or_path = model.config.name_or_path = str(root)
    if (folder / GENERATION).exists():
        model.generation_config = from_pretrained(GenerationConfig, folder)
    inside = {id(tensor) for tensor in decoder_layers(model).parameters()}
    names: dict[str, str] = {}
    plain = StoredTensors(folder)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if (stored_name := stored.get(tensor.untyped_storage().data_ptr())) is None:
            continue
        if id(tensor) in inside:
            names[name] = stored_name
        else:
            tensor.data = plain.read(stored_name, name).to(tensor.dtype)
    del placeholders, state
    if len(names) < len(inside):  # kept in another type, for example
        return None
    return model, info["missing_keys"], StoredLayers(StoredTensors(deltas[-1]) if deltas else plain, names)


def is_placeholder(tensor: Tensor) -> bool:
    return bool(tensor.dim()) and not any(tensor.stride())


def converted(tensor: Tensor, *, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on a device or in a type; a placeholder as another placeholder."""
    if is_placeholder(tensor):
        return torch.zeros((), dtype=dtype or tensor.dtype, device=device or tensor.device).expand(tensor.shape)
    return tensor.to(device=device, dtype=dtype)


def to_meta(module: nn.Module) -> None:
    """Move the placeholders of a module to the meta device."""
    for part in module.modules():
        for name, tensor in list(part.named_parameters(recurse=False)):
            if is_placeholder(tensor):
                empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
                part._parameters[name] = nn.Parameter(empty, requires_grad=tensor.requires_grad)


def plain_name(name: str) -> str:
    """Name of a parameter without PEFT's additions."""
    return name.replace(".base_layer.", ".")


def _files(folder: Path) -> dict[str, Path]:
    """Stored tensor name -> its safetensors file, among those that transformers selects in a folder."""
    if (folder / INDEX).exists() and not (folder / ONE_FILE).exists():
        return {name: folder / file for name, file in read_json(folder / INDEX)["weight_map"].items()}
    whole = [folder / ONE_FILE] if (folder / ONE_FILE).exists() else sorted(folder.glob("*.safetensors"))
    files = dict[str, Path]()
    for file in whole:
        with safe_open(file, framework="pt") as opened:
            files |= dict.fromkeys(opened.keys(), file)
    return files


def _placeholders(files: Mapping[str, Path], dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[int, str]]:
    """Tensors to load, and placeholder storage -> name in the files."""
    state, stored = dict[str, Tensor](), dict[int, str]()
    for file in sorted(set(files.values())):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                if files.get(name) != file:
                    continue
                if _IN_LAYERS.search(name) is None:
                    state[name] = opened.get_tensor(name)
                    continue
                part = opened.get_slice(name)
                kind = dtype if part.get_dtype() in ("F64", "F32", "F16", "BF16") else None
                # Not a number, so that one that is left in its place is found.
                number = torch.full((), torch.nan, dtype=kind) if kind else opened.get_tensor(name)
                state[name] = number.expand(part.get_shape()) if kind else number
                if kind:
                    stored[number.untyped_storage().data_ptr()] = name
    return state, stored
