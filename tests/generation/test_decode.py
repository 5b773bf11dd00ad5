"""Greedy decoding in batches is decoding one at a time, and is transformers' own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from medunlearn.generation.decode import DecodedAnswer, end_tokens
from medunlearn.generation.decode import decode as decode_batches
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken

MOST = 12
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def trained(tiny_base: Any, make_sequences: Make) -> Any:
    """Knows the answers, of unequal length, to eight of the prompts."""
    language_model = copy.deepcopy(tiny_base)
    plan = Plan({"train": make_sequences(8)}, 8, 40, 0)
    train_loop(language_model.model, 2, NextToken(), plan, LoopSettings(lr=1e-2, precision="fp32"))
    return language_model


@pytest.fixture(scope="module")
def prompts(make_sequences: Make) -> list[Sequence[int]]:
    """Eight that it knows, six that it does not, and one of a single token."""
    return [s.prompt for s in make_sequences(8)] + [s.prompt for s in make_sequences(6, "other")] + [(9,)]


def decode(language_model: Any, prompts: Sequence[Sequence[int]], **settings: Any) -> list[DecodedAnswer]:
    answers = dict(
        pair
        for batch in decode_batches(language_model, prompts, **{"max_new_tokens": MOST, **settings})
        for pair in batch
    )
    return [answers[place] for place in range(len(prompts))]


def by_transformers(language_model: Any, prompt: Sequence[int], most: int = MOST) -> list[int]:
    ids = torch.tensor([list(prompt)])
    tokens = language_model.model.eval().generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=most,
        eos_token_id=language_model.tokenizer.eos_token_id,
        pad_token_id=language_model.tokenizer.pad_token_id,
    )
    answer: list[int] = tokens[0, len(prompt) :].tolist()
    return answer


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_token_for_token(trained: Any, prompts: list[Sequence[int]], batch_size: int) -> None:
    decoded = decode(trained, prompts, batch_size=batch_size)
    end = trained.tokenizer.eos_token_id
    for prompt, ours in zip(prompts, decoded, strict=True):
        theirs = by_transformers(trained, prompt)
        assert [*ours.tokens, *[end] * ours.finished] == theirs
        assert ours.finished == (theirs[-1] == end)
        assert end not in ours.tokens
    assert len({len(ours.tokens) for ours in decoded if ours.finished}) > 3


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_limit(trained: Any, prompts: list[Sequence[int]], most: int) -> None:
    whole, cut = decode(trained, prompts), decode(trained, prompts, max_new_tokens=most)
    for long, short in zip(whole, cut, strict=True):
        assert short.tokens == long.tokens[:most]
        assert short.finished == (long.finished and len(long.tokens) < most)
    assert {short.finished for short in cut} == {True, False} or most == 1


def test_order_and_progress(trained: Any, prompts: list[Sequence[int]]) -> None:
    counts: list[int] = []
    forwards = decode(trained, prompts, batch_size=4, advance=counts.append)
    assert decode(trained, prompts[::-1], batch_size=4)[::-1] == forwards
    assert sum(counts) == len(prompts)
    assert counts == [4, 4, 4, 3]
    assert decode(trained, []) == []


def test_pad_may_be_eos(trained: Any, prompts: list[Sequence[int]]) -> None:
    usual = decode(trained, prompts)
    other = copy.copy(trained)
    other.tokenizer = copy.deepcopy(trained.tokenizer)
    other.tokenizer.pad_token = other.tokenizer.eos_token
    assert decode(other, prompts) == usual


def test_a_prompt_may_hold_eos_and_pad(trained: Any, prompts: list[Sequence[int]]) -> None:
    marked = [(1, 2, *prompts[0]), (2, *prompts[1], 1), prompts[2]]
    for prompt, ours in zip(marked, decode(trained, marked), strict=True):
        assert [*ours.tokens, *[1] * ours.finished] == by_transformers(trained, prompt)


@pytest.mark.parametrize("as_list", [True, False])
def test_the_models_own_end_tokens_end_an_answer(trained: Any, prompts: list[Sequence[int]], as_list: bool) -> None:
    """A chat model ends its turn with a token that is not its tokenizer's EOS."""
    usual = decode(trained, prompts)
    answers = [answer.tokens for answer in usual]
    turn = max(range(2, 300), key=lambda token: len({tokens.index(token) for tokens in answers if token in tokens}))
    chat = copy.deepcopy(trained)
    chat.model.generation_config.eos_token_id = [turn, 299] if as_list else turn
    ends = {turn, 1} | ({299} if as_list else set())
    assert end_tokens(chat) == ends
    assert end_tokens(trained) == {1}
    ended = 0
    for before, ours in zip(usual, decode(chat, prompts), strict=True):
        stops = [place for place, token in enumerate(before.tokens) if token in ends]
        ended += bool(stops)
        assert ours.tokens == before.tokens[: stops[0] if stops else None]
        assert ours.finished == (bool(stops) or before.finished)
    assert ended > 2


def test_a_model_without_generation_settings(trained: Any, prompts: list[Sequence[int]]) -> None:
    usual = decode(trained, prompts)
    other = copy.deepcopy(trained)
    for nothing in (SimpleNamespace(), None):
        other.model.generation_config = nothing
        assert end_tokens(other) == {1}
        assert decode(other, prompts) == usual


def test_rows_that_ended_cost_nothing(trained: Any, make_sequences: Make) -> None:
    rows: list[int] = []
    handle = trained.model.register_forward_pre_hook(
        lambda module, arguments, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    sequences = make_sequences(8)
    decode(trained, [s.prompt for s in sequences])
    handle.remove()
    lengths = [s.scored for s in sequences]  # EOS included: each row is there for so many passes
    assert rows == [sum(length > step for length in lengths) for step in range(max(lengths))]


def test_dropout_is_off_and_no_gradient_is_kept(trained: Any, prompts: list[Sequence[int]]) -> None:
    usual = decode(trained, prompts)
    trained.model.train()
    for layer in trained.model.model.layers:
        layer.self_attn.attention_dropout = 0.9
    assert decode(trained, prompts) == usual
    for layer in trained.model.model.layers:
        layer.self_attn.attention_dropout = 0.0
