"""The reference: the model as it was before unlearning, without a second copy of it.

What is not trained is the same in both, so only the trained tensors are kept, and swapped in for the pass.
With LoRA not even these: the reference is the model with its adapter switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class Reference:
    """What the model said before training changed it.

    Make it before the first step. Memory: one copy of the trained tensors, nothing for LoRA.

    Attributes:
        kind: ``adapter off`` or ``swapped tensors``; runs record it.
        sequence_nll: sequence key -> NLL of that sequence under the reference, filled as it is asked for, so
            that each is computed once.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.sequence_nll: dict[str, float] = {}
        self._adapter = hasattr(model, "disable_adapter")
        self.kind = "adapter off" if self._adapter else "swapped tensors"
        self._saved: dict[str, Tensor] = {}
        if not self._adapter:
            self._saved = {
                name: tensor.detach().clone() for name, tensor in model.named_parameters() if tensor.requires_grad
            }

    def held_bytes(self) -> int:
        """Memory that the reference costs."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._saved.values())

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside, the model is the reference: no gradients, no dropout. Don't step an optimizer inside."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad(), self._switched():
                yield
        finally:
            self.model.train(training)

    @contextmanager
    def _switched(self) -> Iterator[None]:
        if self._adapter:
            with self.model.disable_adapter():
                yield
            return
        current = {name: tensor.data for name, tensor in self.model.named_parameters() if name in self._saved}
        self._put(self._saved)
        try:
            yield
        finally:
            self._put(current)

    def _put(self, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self.model.named_parameters():
            if name in tensors:
                tensor.data = tensors[name]
        # Autocast keeps a bfloat16 copy of each weight by the identity of the parameter, which has not changed.
        torch.clear_autocast_cache()
