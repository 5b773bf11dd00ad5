"""A model beside its reference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from medunlearn.models.reference import Reference


@pytest.fixture
def moved(exact_tiny: Callable[[], Any]) -> tuple[Any, Any, Reference]:
    """A model that has moved away from its reference, a deep copy of what it was, and the reference."""
    import torch

    from medunlearn.models.reference import Reference

    model = exact_tiny().model
    before, reference = copy.deepcopy(model).requires_grad_(False), Reference(model)
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.02 * torch.randn(tensor.shape, generator=source))
    return model, before, reference
