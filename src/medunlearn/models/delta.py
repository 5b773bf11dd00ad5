"""Deltas: a changed model saved as its changed tensors, bit-identical when loaded again.

The base is read tensor by tensor and is never in memory as a whole. Tensors are compared bitwise. If the model's
type is wider than its base's (bf16 on disk, trained in fp32), an exactly widened tensor counts as unchanged; if it
is narrower, every rounded tensor counts as changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers.core_model_loading import revert_weight_conversion

from medunlearn.data.moved_folders import recorded_path
from medunlearn.data.storage import atomic_files, json_bytes
from medunlearn.errors import ModelError
from medunlearn.models.folders import (
    MANIFEST,
    TENSORS,
    FileFacts,
    Manifest,
    Weights,
    chain,
    fingerprint,
    is_delta,
    read_manifest,
    stored_weights,
    where,
)
from medunlearn.models.low_rank import LowRank, read_low_rank
from medunlearn.models.model_files import RULE

LARGEST_SHARE = 0.5  # of the model's bytes; from there on a full folder is saved
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_NARROW: dict[torch.dtype, Weights] = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def changed_tensors(model: Any, base: Path) -> dict[str, Tensor] | None:
    """Names of tensors whose bits differ from the base's; tied ones once.

    Returns:
        None if the base has no tensor of that name and shape for some tensor of the model (transformers splits some
        architectures' tensors differently on disk): such a model has no delta.
    """
    before, stored = StoredTensors(base), stored_names(model, model.state_dict())
    files = before.files
    changed: dict[str, Tensor] = {}
    for names, tensor in _groups(model):
        # Deltas hold a model's own names, full folders of some architectures other ones.
        stored_name = {name: name if name in files else stored.get(name, "") for name in names}
        names_in_base = [name for name in names if stored_name[name] in files]
        if not names_in_base:
            return None
        for name in names_in_base:
            value = before.read(stored_name[name], name)
            if value.shape != tensor.shape:
                return None
            if not is_same(value, tensor.detach().cpu()):
                changed[names_in_base[0]] = tensor.detach()
    return changed


class StoredTensors:
    """Tensors of a model's folder after applying its chain of deltas, read one at a time.

    Attributes:
        files: tensor name -> the file with its value, before adapters.
        adapters: tensor name -> adapters to add to that value, in order.
    """

    def __init__(self, folder: Path) -> None:
        self.files, self.adapters = where(folder), dict[str, list[LowRank]]()
        for part in filter(is_delta, chain(folder, check=False)):
            for name in read_manifest(part).changed:
                self.adapters.pop(name, None)
            if (low_rank := read_low_rank(part)) is not None:
                for name in low_rank.factors:
                    self.adapters.setdefault(name, []).append(low_rank)

    def read(self, stored: str, name: str, rows: slice = slice(None)) -> Tensor:
        """The tensor called ``stored`` in files and ``name`` in the model; ``rows``: read only these rows."""
        with safe_open(self.files[stored], framework="pt") as opened:
            whole = rows == slice(None)
            value: Tensor = opened.get_tensor(stored) if whole else opened.get_slice(stored)[rows]
        for low_rank in self.adapters.get(name, ()):
            value = low_rank.add_to(name, value, rows)
        return value


def stored_values(model: Any, folder: Path) -> Iterator[tuple[Tensor, Tensor]] | None:
    """Each tensor of a model with its value in a folder, read one at a time; tied ones once.

    Returns:
        None if the folder has no tensor of that name for some tensor of the model.
    """
    values, stored = StoredTensors(folder), stored_names(model, model.state_dict())
    places = []
    for names, tensor in _groups(model):
        pairs = ((own, name) for name in names for own in (name, stored.get(name, "")) if own in values.files)
        if (place := next(pairs, None)) is None:
            return None
        places.append((tensor, *place))
    return ((tensor, values.read(stored_name, name)) for tensor, stored_name, name in places)


def stored_names(model: Any, state: Mapping[str, Tensor]) -> dict[str, str]:
    """Model tensor name -> its name in a full folder, for tensors whose names differ there."""
    if not getattr(model, "_weight_conversions", None):
        return {}
    names = {id(tensor): name for name, tensor in state.items()}
    stored = revert_weight_conversion(model, dict(state))
    return {names[id(tensor)]: name for name, tensor in stored.items() if id(tensor) in names}


def _groups(model: Any) -> Iterator[tuple[list[str], Tensor]]:
    """(names, tensor) pairs: tied weights are one tensor with several names."""
    groups: dict[Any, tuple[list[str], Tensor]] = {}
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        groups.setdefault(key if tensor.numel() else name, ([], tensor))[0].append(name)
    yield from groups.values()


def is_same(before: Tensor, now: Tensor) -> bool:
    """True if no bit of a tensor has changed, apart from an exact widening of its type."""
    widened = before.to(now.dtype)
    lossless = before.dtype == now.dtype or torch.equal(_bits(widened.to(before.dtype)), _bits(before))
    return lossless and torch.equal(_bits(widened), _bits(now))


def _bits(tensor: Tensor) -> Tensor:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(_BITS[flat.element_size()]) if flat.element_size() in _BITS else flat


def size(model: Any) -> int:
    """Bytes of a model's tensors, tied ones once."""
    return sum(tensor.nbytes for _, tensor in _groups(model))


def save_delta(model: Any, base: Path, folder: Path, *, largest_share: float = 1.0) -> Manifest | None:
    """Write the difference from the base. The tokenizer stays the base's.

    Args:
        model: loaded from ``base`` (full or a delta) and changed since; a LoRA adapter must have been merged.
        largest_share: a delta must be smaller than this share of the model to be written.

    Returns:
        The content of ``delta.json``; None if the model has no delta, or one that is too large.

    Raises:
        StorageError: the disk refused.
    """
    changed = changed_tensors(model, base)
    if changed is None or sum(tensor.nbytes for tensor in changed.values()) >= largest_share * size(model):
        return None
    manifest = delta_manifest(base, folder, (tensor for _, tensor in _groups(model)), changed)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in changed.items()}
    with atomic_files(folder / TENSORS, folder / MANIFEST) as (tensors_part, manifest_part):
        save_file(tensors, tensors_part, metadata={"format": "pt"})
        manifest_part.write_bytes(json_bytes(manifest.facts()))
    return manifest


def delta_manifest(base: Path, folder: Path, tensors: Iterable[Tensor], changed: Iterable[str]) -> Manifest:
    """The ``delta.json`` of a model with these tensors, of which ``changed`` differ from the base."""
    kinds = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    weights = _NARROW.get(next(iter(kinds)), "fp32") if len(kinds) == 1 else "fp32"
    return Manifest(recorded_path(base, folder), fingerprint(base), weights, sorted(changed), base_rule=RULE)


def save_reference(base: Path, folder: Path, files: FileFacts, *, at: Path | None = None) -> Manifest:
    """Write a delta without tensors: the folder then refers to the model in ``base``, which is not copied.

    Args:
        base: a full folder, or a delta.
        files: :func:`medunlearn.models.folders.file_facts` of ``base``.
        at: path of ``base`` to write, relative to the folder; None: its absolute path.

    Raises:
        StorageError: the disk refused.
    """
    pointer = str(base.resolve() if at is None else at)
    identity, weights = fingerprint(base, files), stored_weights(base)
    manifest = Manifest(pointer, identity, weights, [], base_files=files, base_rule=RULE)
    with atomic_files(folder / TENSORS, folder / MANIFEST) as (tensors_part, manifest_part):
        save_file({}, tensors_part, metadata={"format": "pt"})
        manifest_part.write_bytes(json_bytes(manifest.facts()))
    return manifest


def apply_delta(
    model: Any, folder: Path, keep: dict[str, Tensor] | None = None, *, skip: Collection[str] = ()
) -> None:
    """Overwrite tensors of a model, loaded from the delta's base, with the delta's, and add its adapter.

    Args:
        keep: receives overwritten tensors that it does not contain yet, by name, on the CPU.
        skip: tensors that stay unchanged.

    Raises:
        ModelError: the delta is broken, or its tensors are not this model's.
    """
    names, state = read_manifest(folder).changed, model.state_dict()
    again = "Copy it again, or repeat the run that made it."
    low_rank = read_low_rank(folder)
    adapted = [] if low_rank is None else sorted(low_rank.factors)

    def put(name: str, tensor: Tensor) -> None:
        if name not in state or state[name].shape != tensor.shape:
            raise ModelError(f"{folder}: tensor {name} has no place in its base's model. {again}")
        if keep is not None:
            keep.setdefault(name, state[name].detach().to("cpu", copy=True))
        with torch.no_grad():
            state[name].copy_(tensor)

    try:
        with safe_open(folder / TENSORS, framework="pt") as opened:
            expected = [*names, *(low_rank.tensors if low_rank else ())]
            if sorted(opened.keys()) != sorted(expected):
                raise ModelError(f"{folder / TENSORS} lacks tensors listed in {MANIFEST}. {again}")
            for name in names:
                if name not in skip:
                    put(name, opened.get_tensor(name))
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{folder / TENSORS} is broken ({error}). {again}") from error
    for name in adapted:
        if name in skip:
            continue
        if low_rank is None or name not in state:
            raise ModelError(f"{folder}: tensor {name} has no place in its base's model. {again}")
        try:
            merged = low_rank.add_to(name, state[name])
        except RuntimeError as error:
            raise ModelError(f"{folder}: the adapter of {name} does not fit its base's model. {again}") from error
        put(name, merged)
