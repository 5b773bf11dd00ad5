"""Asking a benchmark's questions: nothing is asked twice, and no response leaves its question."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.errors import InputError
from medunlearn.generation import respond as module
from medunlearn.generation.respond import respond
from medunlearn.generation.response_stores import open_store
from medunlearn.models.memo import TextMemo
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, question_sequence

COUNT, BATCH, MOST = 10, 3, 5
RECORDS = {
    f"r{n}": Record(f"r{n}", "Ana Silva was given aspirin. " * (n % 3), {"patient": f"p{n}"}) for n in range(4)
}
QUESTIONS = [
    Question(f"q{n}", f"r{n % 4}", "train", "factual", "patient", f"{'Which ' * (n % 4)}drug {n}?", f"aspirin {n}")
    for n in range(COUNT)
]
CLOSED, NOTED = Rendering("plain", "closed_book"), Rendering("plain", "note")


@pytest.fixture
def language_model(tiny: Callable[[], Any]) -> Any:
    return tiny()


def ask(model: Any, folder: Path, questions: list[Question] = QUESTIONS, **settings: Any) -> dict[str, Response]:
    rendering = settings.pop("rendering", CLOSED)
    store = open_store(
        folder,
        model_fingerprint="abc",
        benchmark_fingerprint="def",
        weights="fp32",
        rendering=rendering,
        max_new_tokens=MOST,
        data_use="open",
    )
    options = {"max_new_tokens": MOST, "batch_size": BATCH, **settings}
    return respond(model, questions, RECORDS, store, rendering, **options)


@pytest.fixture
def prompt_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of prompts given to the model, a call."""
    counts: list[int] = []
    decode = module.decode

    def counting(language_model: Any, prompts: Any, **settings: Any) -> Any:
        counts.append(len(prompts))
        return decode(language_model, prompts, **settings)

    monkeypatch.setattr(module, "decode", counting)
    return counts


@pytest.mark.parametrize("rendering", [CLOSED, NOTED])
def test_each_question_has_its_own_response(language_model: Any, tmp_path: Path, rendering: Rendering) -> None:
    alone = {}
    for question in QUESTIONS:
        alone |= ask(language_model, tmp_path / question.question_id, [question], rendering=rendering)
    assert len({response.response_tokens for response in alone.values()}) > 3
    shuffled = random.Random(0).sample(QUESTIONS, COUNT)
    together = ask(language_model, tmp_path / "together", shuffled, rendering=rendering)
    assert list(together) == [question.question_id for question in shuffled]
    for question_id, response in together.items():
        assert response.question_id == question_id
        assert response.variant == rendering.context
        assert replace(response, answer_log_probs=None) == replace(alone[question_id], answer_log_probs=None)
        assert response.answer_log_probs == pytest.approx(alone[question_id].answer_log_probs, rel=1e-4, abs=1e-5)


def test_a_response_is_text_tokens_and_scores(language_model: Any, tmp_path: Path) -> None:
    tokenizer = language_model.tokenizer
    for question_id, response in ask(language_model, tmp_path).items():
        question = QUESTIONS[int(question_id[1:])]
        sequence = question_sequence(question, RECORDS[question.record_id], tokenizer, CLOSED)
        (score,) = score_answers(language_model, [sequence])
        assert response.response == tokenizer.decode(response.response_tokens, skip_special_tokens=True).strip()
        assert response.answer_hits == score.hits
        assert response.answer_log_probs == pytest.approx(score.log_probs, rel=1e-4, abs=1e-5)
        assert len(score.hits) == sequence.scored


@pytest.mark.parametrize("crash_at", [1, 2, 4])
def test_a_crash_loses_nothing_that_was_stored(
    language_model: Any, tmp_path: Path, prompt_counts: list[int], crash_at: int
) -> None:
    calls: list[int] = []

    def crash(count: int) -> None:
        calls.append(count)
        if len(calls) == crash_at + 1:  # the first call counts what is stored already
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        ask(language_model, tmp_path, advance=crash)
    stored = min(COUNT, crash_at * BATCH)
    counts: list[int] = []
    resumed = ask(language_model, tmp_path, advance=counts.append)
    assert prompt_counts == [count for count in (COUNT, COUNT - stored) if count]
    assert counts[0] == stored
    assert sum(counts) == COUNT
    whole = ask(language_model, tmp_path / "other")
    assert list(resumed) == list(whole)
    for question_id, response in whole.items():
        assert resumed[question_id].response_tokens == response.response_tokens


def test_a_second_time_asks_nothing(language_model: Any, tmp_path: Path, prompt_counts: list[int]) -> None:
    first = ask(language_model, tmp_path)
    assert ask(language_model, tmp_path) == first
    assert ask(language_model, tmp_path, QUESTIONS[3:5]) == {f"q{n}": first[f"q{n}"] for n in (3, 4)}
    assert prompt_counts == [COUNT]


def test_contexts_models_and_limits_are_stored_apart(tmp_path: Path) -> None:
    usual: dict[str, Any] = {
        "model_fingerprint": "abc",
        "benchmark_fingerprint": "def",
        "weights": "fp32",
        "rendering": CLOSED,
        "max_new_tokens": 5,
        "data_use": "open",
    }
    changes: list[dict[str, Any]] = [
        {},
        {"model_fingerprint": "abd"},
        {"benchmark_fingerprint": "deg"},
        {"weights": "bf16"},
        {"rendering": NOTED},
        {"rendering": Rendering("clinical", "closed_book")},
        {"max_new_tokens": 6},
    ]
    folders = [open_store(tmp_path, **{**usual, **change}).folder for change in changes]
    assert len(set(folders)) == len(changes)
    assert folders[0].name.startswith("closed_book-")
    for use in ("credentialed", None):  # it is recorded, and not in the name
        assert open_store(tmp_path, **{**usual, "data_use": use}).folder == folders[0]
    assert ResponseStore(folders[0], {"decoding": "greedy"}).folder == folders[0]


def test_a_question_that_does_not_fit_is_named_before_anything_is_asked(
    language_model: Any, tmp_path: Path, prompt_counts: list[int]
) -> None:
    fits = len(question_sequence(QUESTIONS[0], RECORDS["r0"], language_model.tokenizer, NOTED).ids)
    with pytest.raises(InputError, match="Question 'q1'"):
        ask(language_model, tmp_path, rendering=Rendering("plain", "note", max_length=fits))
    assert prompt_counts == []
    assert not any(tmp_path.iterdir())


def test_guesses_change_no_response(language_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of earlier models spare decoding where they are right, wholly or in part, and nothing where not."""
    expected = ask(language_model, tmp_path / "alone", rendering=NOTED)
    language_model.memo = TextMemo()
    for place, question in enumerate(QUESTIONS):
        prompt = language_model.question_sequence(question, RECORDS[question.record_id], NOTED).prompt
        tokens = expected[question.question_id].response_tokens
        guess = (*tokens[:3], tokens[3] + 1, 7) if place % 2 and len(tokens) > 3 else tokens
        language_model.memo.add_answer(prompt, guess)
    begun_lengths = list[int]()
    decode = module.decode

    def counting(model: Any, prompts: Any, *, begun: Any, **settings: Any) -> Any:
        begun_lengths.extend(map(len, begun))
        return decode(model, prompts, begun=begun, **settings)

    monkeypatch.setattr(module, "decode", counting)
    assert ask(language_model, tmp_path / "guessed", rendering=NOTED) == expected
    assert max(begun_lengths) == MOST
    assert sum(length >= 4 for length in begun_lengths) >= COUNT - 2
    # Narrower logits are often equal: guesses are for fp32 alone.
    begun_lengths.clear()
    language_model.model.to(torch.bfloat16)
    ask(language_model, tmp_path / "narrow", rendering=NOTED)
    with_memo = begun_lengths.copy()
    begun_lengths.clear()
    language_model.memo = None
    ask(language_model, tmp_path / "no memo", rendering=NOTED)
    assert begun_lengths == with_memo
