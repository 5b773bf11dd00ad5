"""Activation cache: tensors of sequences computed once per run, in memory or in memory-mapped files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import atomic_file

SHARD = 64 << 20
"""Bytes in one file, about."""


class ActivationCache:
    """Cache of named tensors; :func:`name_of` builds a name from a kind of tensor and a sequence or shared text."""

    def __init__(self, folder: Path | None = None, writer: int = 0) -> None:
        """Open or create a cache.

        Args:
        """
        self.folder, self.writer = folder, writer
        self.bytes = 0
        self._waiting: dict[str, Tensor] = {}
        self._waiting_bytes = 0
        self._where: dict[str, Any] = {}
        for path in sorted(folder.glob("kept-*.safetensors")) if folder else []:
            self._open(path)

    def __contains__(self, name: str) -> bool:
        return name in self._where or name in self._waiting

    def __getitem__(self, name: str) -> Tensor:
        if name in self._waiting:
            return self._waiting[name]
        tensor: Tensor = self._where[name].get_tensor(name)
        return tensor

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a tensor; an existing one of the same name stays.

        Raises:
            StorageError: the disk refused.
        """
        if name in self:
            return
        # Not a view: a row of a batch would keep the whole batch.
        tensor = tensor.detach().to("cpu", copy=True).contiguous()
        size = tensor.numel() * tensor.element_size()
        self._waiting[name] = tensor
        self._waiting_bytes += size
        self.bytes += size
        if self.folder and self._waiting_bytes >= SHARD:
            self.write()

    def write(self) -> None:
        """Write tensors that are only in memory to a file, if there is a folder.

        Raises:
            StorageError: the disk refused.
        """
        if not self.folder or not self._waiting:
            return
        numbers = [int(path.stem.split("-")[2]) for path in self.folder.glob(f"kept-{self.writer}-*.safetensors")]
        number = max(numbers, default=-1) + 1
        path = self.folder / f"kept-{self.writer}-{number:05d}.safetensors"
        with atomic_file(path) as part:
            save_file(self._waiting, part)
        self.bytes -= self._waiting_bytes
        self._waiting, self._waiting_bytes = {}, 0
        self._open(path)

    def _open(self, path: Path) -> None:
        file = read_whole(path, partial(safe_open, framework="pt"))
        if file is None:
            return
        self.bytes += path.stat().st_size
        self._where |= dict.fromkeys(file.keys(), file)  # type: ignore[no-untyped-call]


def cache_key(kind: str, of: str) -> str:
    return f"{kind}|{of}"
