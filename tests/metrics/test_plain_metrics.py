"""Metrics that need no model: numbers worked out by hand or by an independent library."""

from __future__ import annotations

from collections import Counter
from math import exp, inf, log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, gmean

from medunlearn.metrics import METRICS, Item, Measure, Tools, get_metric
from medunlearn.metrics.likelihood import answer_probability, exact_memorization
from medunlearn.metrics.text import exact_match, f1_tokens, token_entropy, token_f1


def value_of(metric: str, **given: object) -> float | None:
    item = Item("q1", "forget", "?", **{"reference": "ref", **given})  # type: ignore[arg-type]
    (found,) = get_metric(metric).score([item], Tools())
    assert (found.value is None) == (found.reason is not None)
    return found.value


# Token entropy


def test_entropy_by_hand() -> None:
    # Shares 1/2, 1/4, 1/4 of four tokens: 1.5 bits of at most 2.
    assert token_entropy([7, 7, 8, 9]) == pytest.approx(0.75, abs=1e-12)
    assert token_entropy([1, 2, 1, 2]) == pytest.approx(0.5, abs=1e-12)


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


# Exact memorization


def test_memorization_leaves_the_end_of_sequence_out() -> None:
    # Two of four right; the EOS after them, right or wrong, changes nothing.
    assert exact_memorization([True, False, True, False, True]) == 0.5
    assert exact_memorization([True, False, True, False, False]) == 0.5
    assert value_of("em", answer_hits=[True, True, False]) == 1.0


@pytest.mark.parametrize("hits", [[], [True]])
def test_memorization_of_no_answer_is_unscored(hits: list[bool]) -> None:
    assert value_of("em", answer_hits=hits) is None


# Token F1


def test_f1_by_hand() -> None:
    # Response 4 tokens, reference 3, shared fever twice: P = 2/4, R = 2/3, F1 = 4/7.
    assert token_f1("fever, Fever, fever cough", "FEVER fever pain") == pytest.approx(4 / 7)
    assert pytest.approx(4 / 7) == 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3)


def test_f1_normalisation() -> None:
    assert f1_tokens("The X-ray of José_2: STRASSE 心臓!") == [
        "the",
        "x",
        "ray",
        "of",
        "josé",
        "2",
        "strasse",
        "心臓",
    ]
    assert token_f1("a", "the a") == pytest.approx(2 / 3)
    assert token_f1("patients", "patient") == 0.0


def test_f1_edges() -> None:
    assert value_of("token_f1", response="", reference="a") == 0.0
    assert value_of("token_f1", response="a b", reference="b a") == 1.0
    assert value_of("token_f1", response="...", reference="...") is None


# Exact match


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


# Answer probability


def test_answer_probability_is_the_geometric_mean_with_end_of_sequence() -> None:
    shares = [0.5, 0.25, 0.9]
    assert answer_probability([log(share) for share in shares]) == pytest.approx(gmean(shares), abs=1e-12)
    assert value_of("answer_probability", answer_log_probs=[log(0.5), log(0.5)]) == pytest.approx(0.5)


def test_answer_probability_edges() -> None:
    assert value_of("answer_probability", answer_log_probs=[-inf, -1.0]) == 0.0
    # Half precision may give 0.001 for a certain token; 0.5 is no log-probability.
    assert value_of("answer_probability", answer_log_probs=[0.001]) == 1.0
    assert value_of("answer_probability", answer_log_probs=[0.5, -3.0]) is None
    assert value_of("answer_probability", answer_log_probs=[]) is None
    assert value_of("answer_probability", answer_log_probs=np.array([-1.0, -3.0])) == pytest.approx(exp(-2))
    with pytest.raises(ValueError, match="no token"):
        answer_probability([])


def test_answer_probability_lets_nan_through_for_the_runner_to_refuse() -> None:
    assert np.isnan(answer_probability([nan, -1.0]))
    assert np.isnan(answer_probability([-1.0, nan]))
    assert value_of("answer_probability", answer_log_probs=[nan, inf, -inf]) is None


# All of them


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_is_named_as_its_key_and_says_what_it_is(name: str) -> None:
    metric = get_metric(name)
    assert isinstance(metric, Measure)
    assert metric.name == name
    assert metric.needs
    assert metric.title
    assert metric.source
    assert metric.meaning.startswith(("0", "-1 to 1", "at most 0"))
    every = dict.fromkeys(("encoder", "nli", "bert", "bart"), object())
    assert metric.score([], Tools(**every)) == []  # type: ignore[arg-type]
