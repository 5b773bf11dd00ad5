"""Drawn responses to questions: asked once, each its own, with the likelihood of the answer under the decoding."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.records import Question, Record
from medunlearn.data.responses import ResponseStore
from medunlearn.generation import respond as module
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.respond import sample_responses
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, question_sequence

RECORDS = {f"r{n}": Record(f"r{n}", f"Ana Silva {n} was given aspirin.", {"patient": f"p{n}"}) for n in range(2)}
QUESTIONS = [
    Question(f"q{n}", f"r{n % 2}", "train", "factual", "patient", f"Drug {n}?", answer)
    for n, answer in enumerate(["Aspirin.", "Heparin 12 units, from day 3 on.", "None."])
]
RENDERING = Rendering("plain", "closed_book")


PLAIN = Decoding(1.0)


def drawn(model: Any, folder: Path, samples: int, decoding: Decoding = PLAIN, batch: int = 4) -> Any:
    store = ResponseStore(folder, {"decoding": decoding.name})
    how = {"samples": samples, "seed": 0, "max_new_tokens": 5, "batch_size": batch}
    return sample_responses(model, QUESTIONS, RECORDS, store, RENDERING, decoding, **how)


def test_samples_are_each_their_own_and_fewer_are_the_first_of_more(
    exact_tiny: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = exact_tiny()
    few, many = drawn(model, tmp_path / "few", 2), drawn(model, tmp_path / "many", 6, batch=64)
    texts = {name: [response.response_tokens for response in responses] for name, responses in many.items()}
    assert {name: [response.response_tokens for response in responses] for name, responses in few.items()} == {
        name: each[:2] for name, each in texts.items()
    }
    assert all(len(set(each)) > 1 for each in texts.values())
    assert texts["q0"] != texts["q1"]
    # Cut off: what is stored is not drawn again, what is missing is.
    assert [response.response_tokens for response in drawn(model, tmp_path / "few", 6)["q2"]] == texts["q2"]
    monkeypatch.setattr(module, "decode", lambda *args, **more: pytest.fail("drawn again"))
    assert [response.response_tokens for response in drawn(model, tmp_path / "few", 6)["q2"]] == texts["q2"]


def test_the_answers_likelihood_at_temperature_1_is_that_of_scoring(
    exact_tiny: Callable[[], Any], tmp_path: Path
) -> None:
    model = exact_tiny()
    responses = drawn(model, tmp_path / "plain", 2)
    sequences = [question_sequence(q, RECORDS[q.record_id], model.tokenizer, RENDERING) for q in QUESTIONS]
    for question, score in zip(QUESTIONS, score_answers(model, sequences), strict=True):
        first, second = responses[question.question_id]
        assert first.answer_log_probs == pytest.approx(score.log_probs, abs=1e-5)
        assert second.answer_log_probs is None
    # Where one token alone is left, it is said surely or never.
    for response in (each[0] for each in drawn(model, tmp_path / "one", 1, Decoding(1.0, 1)).values()):
        assert set(response.answer_log_probs) <= {0.0, -math.inf}
