"""One base in memory for several models that stand on it: each delta or adapter in turn, and off again.

A model of 8 billion parameters takes minutes to read and seconds to change. Inside :func:`shared_base`, loading a
second model on the same base reads its delta alone; the model loaded before must no longer be used then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medunlearn.models.delta import apply_delta


@dataclass
class SharedBase:
    """The base in memory, and its tensors that deltas overwrote.

    Attributes:
        loads: how many times a base was read from disk.
    """

    loads: int = 0
    _key: Any = None
    _loaded: Any = None
    _originals: dict[str, Tensor] = field(default_factory=dict)

    def with_deltas(self, key: Any, load: Callable[[], Any], deltas: Sequence[Path]) -> Any:
        """What ``load`` gives for this key, with these deltas on its model and none of earlier ones."""
        if key != self._key or self._loaded is None:
            self._key, self._loaded, self._originals = key, None, {}
            self._loaded = load()
            self.loads += 1
        else:
            self._restore()
        try:
            for delta in deltas:
                apply_delta(self._loaded.model, delta, self._originals)
        except BaseException:
            self._restore()
            raise
        return self._loaded

    @torch.no_grad()
    def _restore(self) -> None:
        state = self._loaded.model.state_dict()
        for name, tensor in self._originals.items():
            state[name].copy_(tensor)


_ACTIVE: ContextVar[SharedBase | None] = ContextVar("shared_base", default=None)


@contextmanager
def shared_base() -> Iterator[SharedBase]:
    """Inside, models that stand on one base share it. Nested calls share the outermost one's."""
    if (outer := _ACTIVE.get()) is not None:
        yield outer
        return
    shared = SharedBase()
    token = _ACTIVE.set(shared)
    try:
        yield shared
    finally:
        _ACTIVE.reset(token)


def active_base() -> SharedBase | None:
    """The base that is shared here; None outside :func:`shared_base`."""
    return _ACTIVE.get()
