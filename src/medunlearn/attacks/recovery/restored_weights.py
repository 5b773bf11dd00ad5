"""Weights of a model in memory, restored after they were changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from medunlearn.models.load import LanguageModel


@contextmanager
def restored(language_model: LanguageModel, *, copied: bool = True) -> Iterator[None]:
    """Context that restores all weights bit by bit at its end.

    Args:
        copied: keep a copy of all weights in memory; False if the work inside changes only trained adapters.
    """
    model = language_model.model
    before = {name: tensor.detach().clone() if copied else None for name, tensor in model.named_parameters()}
    trained = {name: tensor.requires_grad for name, tensor in model.named_parameters()}
    training = model.training
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                if (values := before[name]) is not None:
                    tensor.copy_(values)
                tensor.grad = None
                tensor.requires_grad_(trained[name])
        model.train(training)
