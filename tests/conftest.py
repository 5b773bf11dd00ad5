"""One tiny model for all tests that need one; torch is imported only where it is asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

TEXTS = [
    "Patient Ana Silva, 61, was admitted to the Northern Clinic with chest pain on 3 May and left on 9 May.",
    "Question: Which drug was Ana Silva given? Answer: aspirin and heparin, for five days.",
]
SPECIAL = 3  # tokens 0 to 2 are begin, end and pad


@pytest.fixture(scope="session")
def tiny_base() -> Any:
    """Do not change it: :func:`tiny` gives copies. Its weights are large, so that nothing is near uniform."""
    import torch

    from medunlearn.models.tiny import build_tiny

    torch.set_num_threads(1)
    language_model = build_tiny(TEXTS, vocabulary=300, width=32, layers=3, heads=2)
    with torch.no_grad():
        for tensor in language_model.model.parameters():
            if tensor.dim() == 2:
                tensor.mul_(5)
    return language_model


@pytest.fixture
def tiny(tiny_base: Any) -> Callable[[], Any]:
    """A fresh copy of one Llama, 32 wide and 3 layers deep, each time it is called."""
    return lambda: copy.deepcopy(tiny_base)


@pytest.fixture(scope="session")
def make_sequences() -> Callable[..., list[Any]]:
    """``make_sequences(count, name)``: random tokens, unequal prompts and answers, the last one EOS."""
    from medunlearn.models.sequences import TokenSequence
    from medunlearn.seeds import generator

    def make(count: int, name: str = "s", vocabulary: int = 300) -> list[TokenSequence]:
        made = []
        for place in range(count):
            draw: np.random.Generator = generator("sequence", name, place)
            prompt, answer = (int(n) for n in draw.integers((3, 1), (14, 8)))
            ids = [*draw.integers(SPECIAL, vocabulary, prompt + answer).tolist(), 1]
            made.append(TokenSequence(f"{name}{place}", tuple(ids), 0, prompt))
        return made

    return make
