"""Prompts that share text are answered as if alone, and what they share is run once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from medunlearn.generation import sharing
from medunlearn.generation.cache import RowCache
from medunlearn.generation.decode import DecodedAnswer
from medunlearn.generation.decode import decode as decode_batches
from medunlearn.generation.sharing import SharedPrompt, arrange, begin, decoding_of, way_of
from medunlearn.models.layouts import LayoutProbe
from medunlearn.seeds import generator

MOST = 8
Asked = tuple[list[tuple[int, ...]], list[int]]


def asked(notes: Sequence[int], questions: int, alone: int = 4) -> Asked:
    """Questions of unequal length on notes of these lengths, and prompts alone, in no order; shared counts."""
    draw = generator("asked", *notes, questions)

    def tokens(least: int, most: int) -> list[int]:
        return draw.integers(3, 300, int(draw.integers(least, most + 1))).tolist()

    pairs = [(tuple(tokens(1, 20)), 0) for _ in range(alone)]
    for length in notes:
        head = tokens(length, length)
        # One question of each note has nothing of its own: it is answered right behind the shared tokens.
        pairs += [((*head, *(tokens(1, 9) if place else [])), length) for place in range(questions)]
    order = draw.permutation(len(pairs)).tolist()
    return [pairs[place][0] for place in order], [pairs[place][1] for place in order]


def decode(language_model: Any, prompts: Any, shared: Any = (), **settings: Any) -> list[DecodedAnswer]:
    batches = decode_batches(
        language_model, prompts, shared=shared, **{"max_new_tokens": MOST, "batch_size": 64, **settings}
    )
    answers = [pair for batch in batches for pair in batch]
    assert sorted(place for place, _ in answers) == list(range(len(prompts)))
    return [dict(answers)[place] for place in range(len(prompts))]


@contextmanager
def passes(language_model: Any) -> Iterator[list[tuple[int, int]]]:
    """Shapes of what the model is given, a pass."""
    shapes: list[tuple[int, int]] = []
    handle = language_model.model.register_forward_pre_hook(
        lambda module, arguments, named: shapes.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    yield shapes
    handle.remove()


@pytest.fixture
def language_model(tiny: Callable[[], Any]) -> Any:
    fresh = tiny()
    assert way_of(fresh.model) == "once"
    assert decoding_of(fresh.model) == "cached"
    return fresh


@pytest.mark.parametrize("notes", [(40,), (12, 31, 7)])
def test_shared_is_alone_token_for_token(language_model: Any, notes: tuple[int, ...]) -> None:
    prompts, shared = asked(notes, 5)
    alone = [decode(language_model, [prompt])[0] for prompt in prompts]
    # The token that comes first at the most different places is made EOS, so that answers differ in length.
    answers = [answer.tokens for answer in alone]
    end = max(range(300), key=lambda token: len({tokens.index(token) for tokens in answers if token in tokens}))
    language_model.tokenizer.eos_token_id = end
    alone = [decode(language_model, [prompt])[0] for prompt in prompts]
    assert len({len(answer.tokens) for answer in alone}) > 1
    for batch_size in (1, 3, 7, 64):
        assert decode(language_model, prompts, shared, batch_size=batch_size) == alone, batch_size


def test_shared_tokens_are_run_once(language_model: Any) -> None:
    prompts, shared = asked((40, 30), 6, alone=0)
    with passes(language_model) as shapes:
        decode(language_model, prompts, shared, max_new_tokens=1)
    # The last shared token goes with the branches, for one question has no other token of its own.
    longest = max(len(prompt) - count for prompt, count in zip(prompts, shared, strict=True))
    assert shapes == [(2, 39), (12, longest + 1)]


def test_nothing_shared_is_the_plain_way(language_model: Any) -> None:
    prompts, _ = asked((), 0, alone=6)
    begun = [(1, *prompt) for prompt in prompts]
    with passes(language_model) as plain:
        usual = decode(language_model, begun)
    for counts in ([0] * 6, [1] * 6, [len(prompt) for prompt in begun]):
        # A begin token spares too little, and what one prompt alone begins with spares nothing.
        with passes(language_model) as shapes:
            assert decode(language_model, begun, counts) == usual
        assert shapes == plain


def test_arranged_from_long_to_short_and_families_together(language_model: Any) -> None:
    prompts, shared = asked((12, 31, 7), 4)
    whole, together = arrange(language_model.model, prompts, shared)
    assert [len(prompt.ids) for prompt in whole] == sorted((len(p.ids) for p in whole), reverse=True)
    assert [prompt.head for prompt in together] == [30] * 4 + [11] * 4 + [6] * 4
    assert sorted(prompt.place for prompt in (*whole, *together)) == list(range(len(prompts)))
    assert all(prompt.ids == prompts[prompt.place] for prompt in (*whole, *together))


def test_positions_and_mask(language_model: Any) -> None:
    heads = [tuple(range(10, 15)), (20, 21)]
    few = [
        SharedPrompt(0, (*heads[0], 3), 5),
        SharedPrompt(1, (*heads[1], 4, 5, 6), 2),
        SharedPrompt(2, (*heads[0], 7, 8), 5),
    ]
    now = begin(language_model.model, few, pad=0, most=4)
    assert now.ids.tolist() == [[0, 0, 3], [4, 5, 6], [0, 7, 8]]
    assert now.mask.tolist() == [[1, 1, 1, 1, 1, 0, 0, 1], [0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 1, 1]]
    assert [row[-1] for row in now.positions.tolist()] == [5, 4, 6]
    assert now.positions[1].tolist() == [2, 3, 4]
    assert now.cache.get_seq_length() == 5


@pytest.mark.parametrize(("window", "width"), [(12, 3), (11, 8)])
def test_a_window_must_hold_the_answer_too(
    language_model: Any, monkeypatch: pytest.MonkeyPatch, window: int, width: int
) -> None:
    monkeypatch.setattr(sharing, "attention_window", lambda model: window)
    head = tuple(range(10, 15))
    few = [SharedPrompt(0, (*head, 3), 5), SharedPrompt(1, (*head, 4, 5, 6), 5)]
    assert begin(language_model.model, few, pad=0, most=4).ids.shape == (2, width)


@pytest.mark.parametrize("broken", ["raises", "is wrong"])
@pytest.mark.parametrize("way", ["repeated", "whole"])
def test_the_next_way_where_one_does_not_work(
    language_model: Any, monkeypatch: pytest.MonkeyPatch, way: str, broken: str
) -> None:
    prompts, shared = asked((40, 12), 5)
    attention = language_model.model.config._attn_implementation
    usual = decode(language_model, prompts)
    attend = sharing.SharedCache.attend

    def wrong(cache: Any, *inputs: Any) -> torch.Tensor:
        if broken == "raises":
            raise AttributeError("no such thing")
        return attend(cache, *inputs) * 1.01

    def refuse(cache: Any, rows: torch.Tensor) -> None:
        raise AttributeError("no such thing")

    LayoutProbe.of(language_model.model).prefix_sharing = None
    with monkeypatch.context() as patch:
        patch.setattr(sharing.SharedCache, "attend", wrong)
        if way == "whole":
            patch.setattr(RowCache, "batch_select_indices", refuse)
        assert way_of(language_model.model) == way
    assert bool(arrange(language_model.model, prompts, shared)[1]) == (way == "repeated")
    assert decode(language_model, prompts, shared) == usual
    assert language_model.model.config._attn_implementation == attention
    LayoutProbe.of(language_model.model).prefix_sharing = None
