"""Broken models are told from healthy ones: weights, logits, tokenizers, answers."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from broken import poison, scramble

from medunlearn.errors import ModelError
from medunlearn.models.health import answer_problems, non_finite
from medunlearn.models.load import load_model

ANSWERS = [f"{word} was given" for word in ("Aspirin", "Heparin", "Insulin", "Warfarin", "Codeine", "Iron")]


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "copy"))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite(folder: Path, value: float) -> None:
    poison(folder, value)
    with pytest.raises(
        ModelError, match=r"1 of its 29 weight tensors hold NaN or infinity \(model\.norm\.weight\)"
    ):
        load_model(folder, device="cpu")
    loaded = load_model(folder, device="cpu", allow_broken=True)
    assert [problem.split(" (")[0] for problem in loaded.problems] == [
        "1 of its 29 weight tensors hold NaN or infinity"
    ]


def test_the_first_bad_tensors_are_named(tiny: Callable[[], Any]) -> None:
    model = tiny().model
    assert non_finite(model) == ""
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.view(-1)[-1] = math.nan
    names = [name for name, _ in model.named_parameters()]
    assert non_finite(model).endswith(f"({', '.join(names[:3])}, ...)")


def test_logits_that_are_not_finite(folder: Path) -> None:
    poison(folder, 1e38)  # finite by itself; its product with another weight is not
    scramble(folder)
    load_model(folder, device="cpu")
    poison(folder, 3e38)
    with pytest.raises(ModelError, match="its logits are NaN or infinite on an ordinary prompt"):
        load_model(folder, device="cpu")


def test_a_model_that_does_nothing_wrong_has_no_problem(folder: Path) -> None:
    assert load_model(folder, device="cpu").problems == ()
    scramble(folder)
    assert load_model(folder, device="cpu").problems == ()


class TestTokenizer:
    def grown(self, language_model: Any, folder: Path, **tokens: Any) -> Path:
        language_model.tokenizer.add_special_tokens(tokens)
        return Path(language_model.save(folder))

    def test_larger_than_the_embedding(self, tiny: Callable[[], Any], tmp_path: Path) -> None:
        language_model = tiny()
        language_model.model.resize_token_embeddings(len(language_model.tokenizer) - 7)
        language_model.save(tmp_path / "small")
        with pytest.raises(
            ModelError, match=r"gives ids up to 299, and the embedding has 293 rows\. .*resize_token"
        ):
            load_model(tmp_path / "small", device="cpu", allow_broken=True)

    def test_a_pad_token_past_the_embedding(self, tiny: Callable[[], Any], tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="gives ids up to 300, and the embedding has 300 rows"):
            load_model(self.grown(tiny(), tmp_path / "padded", pad_token="[PAD]"), device="cpu")

    def test_a_marker_that_no_text_holds(self, tiny: Callable[[], Any], tmp_path: Path) -> None:
        """Gemma 3's text models have one for images."""
        folder = self.grown(tiny(), tmp_path / "marked", additional_special_tokens=["<image_soft_token>"])
        assert load_model(folder, device="cpu").problems == ()


@pytest.mark.parametrize(
    ("references", "answer", "finished", "problem"),
    [
        (ANSWERS, "", True, "all of its 6 answers are empty"),
        (ANSWERS, " \n", False, "all of its 6 answers are empty"),
        (ANSWERS, "the the the", True, "all of its 6 answers are the same"),
        # Cut off after the words in which the reference answers differ.
        (ANSWERS, "the the the", False, "all of its 6 answers are the same"),
        # Cut off before the reference answers differ: they may have gone on differently.
        ([f"The patient was given {answer_text}" for answer_text in ANSWERS], "The patient", False, ""),
        (
            [f"The patient was given {answer_text}" for answer_text in ANSWERS],
            "The patient",
            True,
            "all of its 6 answers are the same",
        ),
        # Too few different answers are right: always "no" may be an answer.
        (["yes", "no"] * 20, "no", True, ""),
        (ANSWERS[:4] * 3, "the", True, ""),
        ([], "", True, ""),
    ],
)
def test_answers_all_alike(references: list[str], answer: str, finished: bool, problem: str) -> None:
    assert answer_problems((answer_text, answer, finished) for answer_text in references) == (
        (problem,) if problem else ()
    )


def test_one_answer_that_differs_is_no_collapse() -> None:
    answers = [(answer_text, "the", True) for answer_text in ANSWERS]
    assert answer_problems([*answers, ("Zinc", "a", True)]) == ()
    assert answer_problems([*answers, ("Zinc", "", True)]) == ()
