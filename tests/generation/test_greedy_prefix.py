"""Responses begun with what a pass over the reference answers tells: equal to decoding, in fewer passes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.generation import respond as module
from medunlearn.generation.decode import DecodedAnswer, greedy_prefix
from medunlearn.generation.decode import decode as decode_batches
from medunlearn.generation.respond import respond
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken

MOST, KNOWN, END = 24, 5, 1
RENDERING = Rendering("plain", "closed_book")
QUESTIONS = [
    Question(f"q{n}", "r", "train", "factual", "patient", f"{'Which ' * n}drug?", f"{'ab' * (n % 3)}c{n}")
    for n in range(8)
]
RECORDS = {"r": Record("r", "Ana Silva was given aspirin.", {"patient": "p"})}


@pytest.mark.parametrize(
    ("answer", "choices", "prefix"),
    [
        ([5, 6, END], [5, 6, END], (5, 6, END)),
        ([5, 6, END], [5, 7, 9], (5, 7)),
        ([5, 6, END], [4, 6, END], (4,)),
        ([5, 6, END], [5, 6, 8], (5, 6, 8)),
        ([5], [END], (END,)),
        ([], [], ()),
    ],
)
def test_up_to_the_first_choice_that_differs(
    answer: list[int], choices: list[int], prefix: tuple[int, ...]
) -> None:
    assert greedy_prefix(answer, choices) == prefix


@pytest.fixture(scope="module")
def trained(tiny_base: Any) -> Any:
    """Knows the answers to the first few questions."""
    language_model = copy.deepcopy(tiny_base)
    sequences = [question_sequence(q, RECORDS["r"], language_model.tokenizer, RENDERING) for q in QUESTIONS[:KNOWN]]
    plan = Plan({"train": sequences}, KNOWN, 80, 0)
    train_loop(language_model.model, 2, NextToken(), plan, LoopSettings(lr=1e-2, precision="fp32"))
    return language_model


@pytest.fixture
def passes(trained: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each pass that a decoding makes."""
    from medunlearn.generation.sharing import Pass

    rows: list[int] = []
    run = Pass.run

    def counting(self: Pass, model: Any) -> Any:
        rows.append(len(self.ids))
        return run(self, model)

    monkeypatch.setattr(Pass, "run", counting)
    return rows


def decode(model: Any, prompts: Sequence[Sequence[int]], **settings: Any) -> list[DecodedAnswer]:
    answers = dict(
        pair
        for batch in decode_batches(model, prompts, **{"max_new_tokens": MOST, "batch_size": 3, **settings})
        for pair in batch
    )
    return [answers[place] for place in range(len(prompts))]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_answer_goes_on_from_what_is_known(trained: Any, passes: list[int], share: float) -> None:
    sequences = [question_sequence(q, RECORDS["r"], trained.tokenizer, RENDERING) for q in QUESTIONS]
    prompts = [sequence.prompt for sequence in sequences]
    whole = decode(trained, prompts, max_new_tokens=4)
    assert {answer.finished for answer in whole} == {True, False}
    answers = [[*answer.tokens, *[END] * answer.finished] for answer in whole]
    passes.clear()
    counts: list[int] = []
    begun = [tokens[: round(share * len(tokens))] for tokens in answers]
    assert decode(trained, prompts, begun=begun, max_new_tokens=4, advance=counts.append) == whole
    assert sum(counts) == len(prompts)
    assert sum(passes) == sum(len(tokens) - len(first) for tokens, first in zip(answers, begun, strict=True))


def test_nothing_stands_behind_the_end_or_beyond_the_limit(trained: Any, passes: list[int]) -> None:
    begun = [[7, END, 8], [7] * (MOST + 3), [END]]
    assert decode(trained, [[5, 6]] * 3, begun=begun) == [
        DecodedAnswer((7,), finished=True),
        DecodedAnswer((7,) * MOST, finished=False),
        DecodedAnswer((), finished=True),
    ]
    assert passes == []


class _Kept(ResponseStore):
    """Keeps nothing on disk."""

    def __init__(self) -> None:
        pass

    def read(self) -> dict[tuple[str, str, int], Response]:
        return {}

    def add(self, responses: Any) -> None:
        pass


def test_responses_are_those_of_plain_decoding(
    trained: Any, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(**patched: Callable[..., Any]) -> dict[str, Response]:
        passes.clear()
        for name, value in patched.items():
            monkeypatch.setattr(module, name, value)
        return respond(trained, QUESTIONS, RECORDS, _Kept(), RENDERING, max_new_tokens=MOST, batch_size=3)

    with_prefix, spared = ask(), sum(passes)
    plain, plain_passes = ask(greedy_prefix=lambda answer, choices: ()), sum(passes)
    assert with_prefix == plain
    responses = [plain[q.question_id] for q in QUESTIONS[:KNOWN]]
    assert all(all(response.answer_hits or ()) and response.finished for response in responses)
    assert spared <= plain_passes - sum(len(response.response_tokens) + 1 for response in responses)
