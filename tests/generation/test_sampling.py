"""Draws follow the probabilities, belong to a prompt and a step, and no batch has a say in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from medunlearn.errors import ConfigError
from medunlearn.generation.decode import DecodedAnswer, decode
from medunlearn.generation.decodings import Decoding, parse_decodings
from medunlearn.generation.sampling import TokenSampler, decoded_log_probs, draw, greedy_choice

PROBABILITIES = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
LOGITS = PROBABILITIES.log()[None]
EVEN = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000


def shares(decoding: Decoding) -> list[float]:
    tokens = draw(LOGITS.float().expand(len(EVEN), -1), EVEN, decoding)
    return (torch.bincount(tokens, minlength=4) / len(EVEN)).tolist()


def test_evenly_spread_numbers_give_the_probabilities() -> None:
    assert shares(Decoding(1.0)) == pytest.approx(PROBABILITIES.tolist(), abs=2e-4)


@pytest.mark.parametrize("temperature", [0.1, 0.7, 2.0])
def test_temperature_is_the_power_of_the_probabilities(temperature: float) -> None:
    expected = PROBABILITIES ** (1 / temperature)
    assert shares(Decoding(temperature)) == pytest.approx((expected / expected.sum()).tolist(), abs=2e-4)


def test_top_k_leaves_the_likeliest() -> None:
    assert shares(Decoding(1.0, 2)) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-4)
    assert shares(Decoding(1.0, 1)) == [0, 1, 0, 0]
    assert shares(Decoding(1.0, 99)) == pytest.approx(PROBABILITIES.tolist(), abs=2e-4)


def test_top_p_leaves_the_fewest_that_reach_it() -> None:
    assert shares(Decoding(1.0, None, 0.39)) == [0, 1, 0, 0]
    assert shares(Decoding(1.0, None, 0.41)) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-4)
    assert shares(Decoding(1.0, None, 0.9)) == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9], abs=2e-4)
    assert shares(Decoding(1.0, None, 1.0)) == pytest.approx(PROBABILITIES.tolist(), abs=2e-4)
    # Among the three likeliest, two have 7/9.
    assert shares(Decoding(1.0, 3, 0.7)) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-4)


@pytest.mark.parametrize(
    "decoding", [Decoding(1.0), Decoding(0.5), Decoding(1.0, 2), Decoding(1.0, None, 0.75), Decoding(2.0, 3, 0.7)]
)
def test_the_likelihood_of_a_token_is_how_often_it_is_drawn(decoding: Decoding) -> None:
    probabilities = decoded_log_probs(LOGITS.float().expand(4, -1), torch.arange(4), decoding).exp()
    assert probabilities.tolist() == pytest.approx(shares(decoding), abs=2e-4)
    assert float(probabilities.sum()) == pytest.approx(1.0)


def test_the_edges_of_the_uniform_numbers() -> None:
    edges = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    certain = torch.tensor([[-torch.inf, 0.0, -torch.inf]]).expand(2, -1)
    assert draw(certain, edges, Decoding(1.0)).tolist() == [1, 1]


def decoded(tiny_base: Any, prompts: Sequence[Sequence[int]], choose: Any, batch_size: int) -> list[DecodedAnswer]:
    batches = decode(tiny_base, prompts, max_new_tokens=8, batch_size=batch_size, choose=choose)
    answers = dict(pair for batch in batches for pair in batch)
    return [answers[place] for place in range(len(prompts))]


def test_an_answer_does_not_depend_on_the_batch(tiny_base: Any, make_sequences: Callable[..., list[Any]]) -> None:
    prompts = [sequence.prompt for sequence in make_sequences(7)]
    purposes = [("test", place) for place in range(7)]
    decoding = Decoding(0.9, 20)
    together = decoded(tiny_base, prompts, TokenSampler(decoding, purposes, 8), 64)
    alone = decoded(tiny_base, prompts, TokenSampler(decoding, purposes, 8), 1)
    turned = decoded(tiny_base, prompts[::-1], TokenSampler(decoding, purposes[::-1], 8), 3)[::-1]
    assert together == alone == turned
    other = decoded(tiny_base, prompts, TokenSampler(decoding, [("other", place) for place in range(7)], 8), 64)
    assert other != together
    assert decoded(tiny_base, prompts, greedy_choice, 64) != together


def test_names() -> None:
    words = ("greedy", "temperature=0.7", "top_k=10", "temperature=0.70 + top_k=50")
    decodings = parse_decodings(words)
    assert [decoding.name for decoding in decodings] == [
        "greedy",
        "temperature_0.7",
        "top_k_10",
        "temperature_0.7_top_k_50",
    ]
    assert [decoding.draws for decoding in decodings] == [False, True, True, True]
    assert parse_decodings(["temperature=0"]) == (Decoding(),)
    (nucleus,) = parse_decodings(["temperature=0.7+top_p=0.9"])
    assert (nucleus, nucleus.name) == (Decoding(0.7, None, 0.9), "temperature_0.7_top_p_0.9")
    with pytest.raises(ConfigError) as wrong:
        parse_decodings(
            ["hot", "top_k=0", "top_k=2.5", "greedy", "greedy", "temperature=-1", "top_p=0", "top_p=1.1"]
        )
    assert len(wrong.value.problems) == 7


def test_ratings_of_all_cuts_are_those_of_each(tiny_base: Any, tmp_path: Any) -> None:
    """One pass over a text rates the suffixes behind all of its prefixes."""
    from medunlearn.data.responses import ResponseStore
    from medunlearn.generation.continuations import Opening, continue_openings
    from medunlearn.generation.decodings import GREEDY
    from medunlearn.models.scoring import score_answers
    from medunlearn.models.sequences import TokenSequence

    text = tuple(np.random.default_rng(0).integers(3, 300, 40).tolist())
    openings = [Opening(f"r@{cut}", "r", text[:cut], text[cut : cut + 12]) for cut in (1, 5, 20)]
    store = ResponseStore(tmp_path, {})
    continue_openings(tiny_base, openings, GREEDY, store, max_new_tokens=6)
    stored = store.read()
    for opening in openings:
        (alone,) = score_answers(
            tiny_base, [TokenSequence("x", (*opening.prefix, *opening.suffix), 0, len(opening.prefix))]
        )
        response = stored[opening.key, "greedy", 0]
        assert response.answer_hits == alone.hits
        np.testing.assert_allclose(response.answer_log_probs, alone.log_probs, rtol=1e-5, atol=1e-5)
        (plain,) = decoded(tiny_base, [opening.prefix], greedy_choice, 1)
        assert response.response_tokens == plain.tokens[:6]
