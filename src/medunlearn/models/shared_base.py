"""One model in memory for several of the same shape, with their weights swapped in.

A model of 8 billion parameters takes minutes to build and seconds to change. A second model with the same
configuration and tokenizer overwrites the first one's weights; for a delta or an adapter on the same base, only its
own are read. The model loaded before must no longer be used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medunlearn.data.storage import read_json, sha256_of, sha256_of_json
from medunlearn.models.delta import apply_delta, stored_values
from medunlearn.models.folders import telling_files
from medunlearn.models.layouts import BatchCounts, LayoutProbe
from medunlearn.models.memo import BATCH_TOKENS, Memo, TextMemo

_CONFIGURATIONS = ("config.json", "tokenizer_config.json")
_NOTES = ("_name_or_path", "name_or_path", "is_local", "local_files_only", "transformers_version")
Weighed = tuple[str, tuple[tuple[str, int, int], ...]]


@dataclass
class SharedBase:
    """The model in memory, and its tensors overwritten by deltas.

    Attributes:
        loads: number of models built from disk.
    """

    loads: int = 0
    _key: Any = None
    _loaded: Any = None
    _root: Weighed | None = None
    _originals: dict[str, Tensor] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """True if no model is in memory."""
        return self._loaded is None

    def drop(self) -> None:
        """Release the model; the next one is built from disk."""
        self._key, self._loaded, self._root, self._originals = None, None, None, {}

    def set_trained(self) -> None:
        """Note that the weights in memory no longer equal those of a folder."""
        self._root, self._originals = None, {}

    def with_deltas(self, root: Path, key: Hashable, load: Callable[[], Any], deltas: Sequence[Path]) -> Any:
        """The model of a full folder, from ``load`` or memory, with exactly these deltas applied.

        Args:
            key: further settings that determine the model: type of the weights, device.
        """
        key, weights = (key, shape_of(root)), _weights_of(root)
        if key != self._key or not self._takes(root, weights):
            self.drop()
            self._loaded = load()
            # What an image becomes depends on more than its name.
            if self._loaded.pictures is None:
                self._loaded.memo = TextMemo()
                LayoutProbe.of(self._loaded.model).batches = Memo(BATCH_TOKENS)
            self._key, self._root = key, weights
            self.loads += 1
        self._as_loaded()
        try:
            for delta in deltas:
                apply_delta(self._loaded.model, delta, self._originals)
        except BaseException:
            self._restore()
            raise
        return self._loaded

    def _takes(self, root: Path, weights: Weighed) -> bool:
        """Copy a folder's weights into the model; False if the names or shapes differ."""
        if self._loaded is None:
            return False
        if self._root == weights:
            self._restore()
            return True
        if self._loaded.pictures is not None:
            return False
        self.set_trained()
        values = stored_values(self._loaded.model, root)
        if values is None:
            return False
        with torch.no_grad():
            for tensor, value in values:
                if tensor.shape != value.shape:
                    return False
                tensor.copy_(value)
        self._root, self._originals = weights, {}
        return True

    def _as_loaded(self) -> None:
        """Reset all state from an earlier run except the probed properties of the shape."""
        model = self._loaded.model
        model.requires_grad_(True)
        model.zero_grad(set_to_none=True)
        model.eval()
        LayoutProbe.of(model).counts = BatchCounts()

    @torch.no_grad()
    def _restore(self) -> None:
        state = self._loaded.model.state_dict()
        for name, tensor in self._originals.items():
            state[name].copy_(tensor)
        self._originals = {}


def shape_of(root: Path) -> tuple[tuple[str, str], ...]:
    """Configuration and tokenizer of a full folder: everything besides weights that affects its answers."""
    files = [path for path in telling_files(root) if path.suffix != ".safetensors"]
    return tuple((path.name, _content(path)) for path in files)


def _content(path: Path) -> str:
    """Hash of a file; of a configuration without its notes on its origin."""
    if path.name not in _CONFIGURATIONS:
        return sha256_of(path)
    values = read_json(path)
    if not isinstance(values, dict):
        return sha256_of(path)
    return sha256_of_json({key: value for key, value in values.items() if key not in _NOTES})


def _weights_of(root: Path) -> Weighed:
    """The weight files of a folder, with their current state."""
    files = [path for path in telling_files(root) if path.suffix == ".safetensors"]
    states = [(path.name, path.stat()) for path in files]
    return str(root.resolve()), tuple((name, state.st_size, state.st_mtime_ns) for name, state in states)
