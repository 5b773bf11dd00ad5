"""The reference: the model before unlearning, without a second copy of it.

Frozen tensors are the same in both models, so at most the trained tensors are copied, and swapped in for a pass.
With LoRA nothing is copied: the reference is the model with its adapter disabled. And if the outputs that a method
needs were cached for every sequence before the first step (:mod:`medunlearn.training.precompute`), no pass is run
at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from medunlearn.models.activation_cache import ActivationCache
from medunlearn.models.decoder import Decoder
from medunlearn.models.head import Head


class Reference:
    """The model before training, by swapping its trained tensors.

    Create it before the first step. Memory: one copy of the trained tensors; nothing for LoRA; only a trained head
    if all needed outputs are cached.

    Attributes:
        kind: ``adapter off``, ``swapped tensors`` or ``kept numbers``; runs record it.
        cache: precomputed outputs of sequences.
    """

    def __init__(self, model: Any, cache: ActivationCache | None = None, *, complete: bool = False) -> None:
        """Capture the current model as reference.

        Args:
        """
        self.model, self.cache = model, cache or ActivationCache()
        self._adapter = hasattr(model, "disable_adapter")
        self.kind = "kept numbers" if complete else "adapter off" if self._adapter else "swapped tensors"
        trained = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
        if self._adapter:
            trained = {}
        elif complete:
            ends = {id(tensor) for tensor in model.get_output_embeddings().parameters()}
            trained = {name: tensor for name, tensor in trained.items() if id(tensor) in ends}
        self._saved = {name: tensor.detach().clone() for name, tensor in trained.items()}

    def held_bytes(self) -> int:
        """Memory of the reference in bytes, without :attr:`cache`, which is in mapped files."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors())

    def tensors(self) -> list[Tensor]:
        """The copied tensors."""
        return list(self._saved.values())

    def head(self, decoder: Decoder) -> Head:
        """The head before training."""
        head, names = decoder.head(), {id(tensor): name for name, tensor in self.model.named_parameters()}

        def before(tensor: Tensor) -> Tensor:
            saved: Tensor = self._saved.get(names.get(id(tensor), ""), tensor)
            return saved.detach()

        return Head(before(head.weight), None if head.bias is None else before(head.bias), head.cap)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Context in which the model is the reference: no gradients, no dropout. Do not step an optimizer inside.

        Raises:
            RuntimeError: nothing was copied, since all needed outputs were declared cached.
        """
        if self.kind == "kept numbers":
            raise RuntimeError(
                "An output of the reference was not cached before training: the method uses other outputs than "
                "in its first step. Set --keep-gb 0 to compute them when needed."
            )
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
        if not tensors:
            return
        for name, tensor in self.model.named_parameters():
            if name in tensors:
                tensor.data = tensors[name]
        # Autocast keeps a bfloat16 copy of each weight by the identity of the parameter, which has not changed.
        torch.clear_autocast_cache()
