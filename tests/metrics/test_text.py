"""Measures of words and tokens, by hand and against SciPy; the table of all measures."""

from __future__ import annotations

from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from medunlearn.metrics import Item, Measure, Tools, get_metric, metric_targets
from medunlearn.metrics.text import exact_match, f1_tokens, token_entropy, token_f1


def value_of(metric: str, **values: object) -> float | None:
    item = Item("q1", "forget", "?", **{"reference": "ref", **values})  # type: ignore[arg-type]
    (value,) = get_metric(metric).score([item], Tools())
    assert (value.value is None) == (value.reason is not None)
    return value.value


@given(st.lists(st.integers(0, 5), min_size=2, max_size=50))
def test_entropy_equals_scipy_and_stays_in_range(tokens: list[int]) -> None:
    shares = list(Counter(tokens).values())
    assert token_entropy(tokens) == pytest.approx(entropy(shares, base=2) / np.log2(len(tokens)), abs=1e-12)
    assert 0.0 <= token_entropy(tokens) <= 1.0
    # DS counts exact zeros: only a collapsed response may be one.
    assert (token_entropy(tokens) == 0.0) == (len(shares) == 1)


@pytest.mark.parametrize("tokens", [[], [3], [3] * 500])
def test_entropy_of_collapsed_text_is_exactly_zero(tokens: list[int]) -> None:
    assert token_entropy(tokens) == 0.0
    assert value_of("te", response_tokens=np.array(tokens, dtype=np.int64).tolist()) == 0.0


def test_entropy_of_all_different_tokens_is_exactly_one_at_most() -> None:
    assert all(1.0 - 1e-12 <= token_entropy(range(n)) <= 1.0 for n in range(2, 300))


def test_f1() -> None:
    # Response 4 tokens, reference 3, shared fever twice: P = 2/4, R = 2/3, F1 = 4/7.
    assert token_f1("fever, Fever, fever cough", "FEVER fever pain") == pytest.approx(4 / 7)
    tokens = ["the", "x", "ray", "of", "josé", "2", "strasse", "心臓"]
    assert f1_tokens("The X-ray of José_2: STRASSE 心臓!") == tokens
    assert token_f1("a", "the a") == pytest.approx(2 / 3)
    assert token_f1("patients", "patient") == 0.0
    assert value_of("token_f1", response="", reference="a") == 0.0
    assert value_of("token_f1", response="a b", reference="b a") == 1.0
    assert value_of("token_f1", response="...", reference="...") is None


@pytest.mark.parametrize(
    ("response", "reference", "same"),
    [
        ("  John Smith\n", "john smith", True),
        ("GROSSE", "große", True),
        ("John Smith.", "John Smith", False),
        ("John  Smith", "John Smith", False),
        ("It is John Smith", "John Smith", False),
        ("", "John Smith", False),
    ],
)
def test_exact_match(response: str, reference: str, same: bool) -> None:
    assert exact_match(response, reference) is same
    assert value_of("exact_match", response=response, reference=reference) == float(same)


def test_silence_does_not_match_an_empty_reference() -> None:
    assert value_of("exact_match", response="", reference=" ") is None


def test_rouge_l_f_by_hand() -> None:
    """Two of three tokens said are two of four wanted: P = 2/3, R = 1/2, F = 4/7."""
    assert value_of("rouge_l_f", reference="owl bat cat dog", response="owl cat elk") == pytest.approx(4 / 7)
    assert value_of("rouge_l_f", reference="...", response="owl") is None


@pytest.mark.parametrize("name", sorted(metric_targets()))
def test_every_measure_is_named_as_its_key_and_documented(name: str) -> None:
    metric = get_metric(name)
    assert isinstance(metric, Measure)
    assert metric.name == name
    assert metric.needs
    assert metric.title
    assert metric.source
    assert metric.meaning.startswith(("0", "-1 to 1", "at most 0"))
    assert metric.score([], Tools(Mock(), Mock(), Mock(), Mock())) == []
