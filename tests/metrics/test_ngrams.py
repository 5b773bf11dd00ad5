"""Counts over many texts at once against counting each text by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.errors import InputError
from medunlearn.metrics import ngrams
from medunlearn.metrics.ngrams import shared_ngrams, token_entropies
from medunlearn.metrics.text import token_entropy

# Few different tokens, so that they repeat; a large one and a huge one, so that tables and packed numbers overflow.
TEXTS = st.lists(st.sampled_from([0, 1, 2, 3, 7, 128_255, 2**40]), max_size=14)


def grams(text: Sequence[int], n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(text[start : start + n]) for start in range(len(text) - n + 1))


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=20))
def test_entropies_equal_those_of_each_text(texts: list[list[int]]) -> None:
    slow = np.array([token_entropy(text) for text in texts])
    fast = token_entropies(texts)
    assert fast.shape == slow.shape
    assert np.abs(fast - slow).max(initial=0.0) <= 1e-12
    # DS counts exact zeros.
    assert (fast == 0.0).tolist() == (slow == 0.0).tolist()
    assert [value == 1.0 for value in fast] == [len(set(text)) == len(text) > 1 for text in texts]


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=20), st.integers(1, 5))
def test_shared_ngrams_equal_those_of_each_pair(pairs: list[tuple[list[int], list[int]]], n: int) -> None:
    counts = shared_ngrams([a for a, _ in pairs], [b for _, b in pairs], n)
    assert counts.shared.tolist() == [(grams(a, n) & grams(b, n)).total() for a, b in pairs]
    assert counts.in_response.tolist() == [grams(a, n).total() for a, _ in pairs]
    assert counts.in_reference.tolist() == [grams(b, n).total() for _, b in pairs]


@pytest.mark.parametrize("limit", ["_LARGEST", "_LARGEST_TABLE"])
def test_numbers_that_do_not_fit_change_nothing(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    texts = [draw.integers(0, 9, 40).astype(np.int32) for _ in range(40)]
    before = shared_ngrams(texts, texts[::-1], 3), token_entropies(texts)
    monkeypatch.setattr(ngrams, limit, 2)
    after = shared_ngrams(texts, texts[::-1], 3), token_entropies(texts)
    assert after[0].shared.tolist() == before[0].shared.tolist()
    assert after[1].tolist() == before[1].tolist()


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(InputError, match="n is at least 1"):
        shared_ngrams([[1]], [[1]], 0)
    with pytest.raises(InputError, match="2 responses for 1 references"):
        shared_ngrams([[1], [2]], [[1]], 1)
