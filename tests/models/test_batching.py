"""Batches that do not fit are done in smaller ones; nothing is done twice, nothing is lost."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.errors import MedunlearnError
from medunlearn.generation.decode import DecodedAnswer, decode
from medunlearn.models.batching import Batching, is_out_of_memory

ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    MemoryError(),
]


class Memory:
    """Work that fits up to ``room`` items; ``tried`` are the sizes of all batches."""

    def __init__(self, room: int, error: BaseException = ERRORS[0]) -> None:
        self.room, self.error = room, error
        self.tried: list[int] = []

    def __call__(self, batch: list[int]) -> list[int]:
        self.tried.append(len(batch))
        if len(batch) > self.room:
            raise self.error
        return batch


@pytest.fixture(autouse=True, scope="module")
def collected() -> Iterator[list[int]]:
    """A number for each garbage collection, which takes a third of a second with all modules loaded."""
    times: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda: times.append(0))
        yield times


@pytest.mark.parametrize("error", ERRORS)
def test_halved_until_it_fits_and_doubled_after_two(error: BaseException, collected: list[int]) -> None:
    memory, before = Memory(2, error), len(collected)
    items = []
    for batch in Batching(8).over(range(24), memory):
        items += batch
        if len(items) == 4:
            memory.room = 8
    assert items == list(range(24))
    assert memory.tried == [8, 4, 2, 2, 4, 4, 8, 4]
    # What failed is let go each time.
    assert len(collected) - before == 2


def test_what_fails_again_and_again_is_tried_ever_more_seldom() -> None:
    memory = Memory(40)
    list(Batching(64).over(range(32 * 62), memory))
    failed = [place for place, size in enumerate(memory.tried) if size > 40]
    assert [after - before - 1 for before, after in pairwise(failed)] == [2, 4, 8, 16]


def test_once_it_fits_its_failures_count_anew() -> None:
    memory, batching = Memory(40), Batching(64)
    list(batching.over(range(32 * 6), memory))
    assert memory.tried == [64, 32, 32, 64, 32, 32, 32, 32]
    memory.room, memory.tried = 64, []
    list(batching.over(range(128), memory))
    assert memory.tried == [64, 64]
    memory.room, memory.tried = 40, []
    list(batching.over(range(32 * 4), memory))
    assert memory.tried == [64, 32, 32, 64, 32, 32]


@given(room=st.integers(1, 9), largest=st.integers(1, 9), count=st.integers(0, 40))
def test_each_item_once_in_order(room: int, largest: int, count: int) -> None:
    memory = Memory(room)
    batches = list(Batching(largest).over(range(count), memory))
    assert [item for batch in batches for item in batch] == list(range(count))
    assert max(memory.tried, default=0) <= largest


def test_one_that_does_not_fit_is_an_error_that_says_what_to_do() -> None:
    memory = Memory(0)
    with pytest.raises(MedunlearnError, match=r"single sequence.*--weights bf16") as caught:
        list(Batching(4).over(range(4), memory))
    assert memory.tried == [4, 2, 1]
    assert caught.value.__cause__ is memory.error


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), ValueError("out of memory")])
def test_other_errors_pass(error: Exception) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error), match=str(error)):
        list(Batching(4).over(range(4), Memory(2, error)))


def test_an_error_of_whoever_reads_is_not_taken_for_the_works() -> None:
    memory = Memory(4)
    reading = Batching(4).over(range(8), memory)
    next(reading)
    with pytest.raises(MemoryError):
        reading.throw(MemoryError())
    assert memory.tried == [4]


@pytest.mark.parametrize("shared", [0, 6])
@pytest.mark.parametrize("at", [0, 2])
def test_decoding_that_runs_out_of_memory(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any], shared: int, at: int
) -> None:
    """At the first pass or while answers grow: the same answers, each once."""
    language_model = tiny()
    attention = language_model.model.config._attn_implementation
    head = (9, 8, 7, 6, 5, 4)
    prompts = [(*head, *s.prompt[:4]) for s in make_sequences(9)]

    def decoded() -> list[tuple[int, DecodedAnswer]]:
        marks = [shared] * len(prompts) if shared else []
        batches = decode(language_model, prompts, shared=marks, max_new_tokens=6, batch_size=8)
        return [pair for batch in batches for pair in batch]

    usual = decoded()
    rows: list[int] = []

    def little(module: Any, arguments: Any, named: Any) -> None:
        rows.append(len(named["input_ids"]))
        if len(named["input_ids"]) > 3 and named["attention_mask"].shape[1] >= len(prompts[0]) + at:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    handle = language_model.model.register_forward_pre_hook(little, with_kwargs=True)
    assert sorted(decoded(), key=itemgetter(0)) == sorted(usual, key=itemgetter(0))
    handle.remove()
    assert language_model.model.config._attn_implementation == attention
    assert max(rows) == 8
    assert sorted(place for place, _ in usual) == list(range(9))


def test_a_batch_ends_between_two_groups_where_it_can() -> None:
    items = [*"aab", *"bccccccd"]
    batches = list(Batching(4).over(items, "".join, lambda item: item))
    assert batches == ["aabb", "cccc", "ccd"]
    assert list(Batching(3).over(items, "".join, lambda item: item)) == ["aa", "bb", "ccc", "ccc", "d"]
    assert list(Batching(1).over("aab", "".join, lambda item: item)) == ["a", "a", "b"]
