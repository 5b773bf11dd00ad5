"""Each family gives, through the engine, what transformers gives of the same image and text by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from medunlearn.errors import InputError
from medunlearn.generation.decode import decode
from medunlearn.generation.sharing import way_of
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence
from medunlearn.models.vision.pictures import FIRST, PLACES, SEVERAL
from medunlearn.models.vision.seeing import sight_of
from medunlearn.training.trainable import choose_trainable, trained

MOST = 6
Shown = Callable[..., list[TokenSequence]]


@pytest.fixture(scope="session")
def sequences_of(about: Any) -> Shown:
    """Two questions on one image and one on another, as a model is shown them."""
    pairs = [about("one", 0, "an effusion"), about("one", 1, "no pneumothorax"), about("two", 0, "small")]

    def make(model: LanguageModel, template: Any = "plain") -> list[TokenSequence]:
        return [question_sequence(*pair, model.tokenizer, Rendering(template), model.pictures) for pair in pairs]

    return make


def alone(model: LanguageModel, ids: tuple[int, ...]) -> dict[str, Any]:
    """Inputs of transformers for one sequence: its own image token, and the images beside it."""
    assert model.pictures is not None
    tokens = torch.tensor([ids])
    pictured = tokens >= FIRST
    starts = [token for token in tokens[pictured].tolist() if (token - FIRST) % PLACES == 0]
    images = [model.pictures.of((token - FIRST) // PLACES).inputs for token in starts]
    tiled = images[0]["pixel_values"].dim() == 5
    inputs = {
        "input_ids": tokens.masked_fill(pictured, model.model.config.image_token_id),
        "attention_mask": torch.ones_like(tokens),
        **{name: torch.cat([image[name] for image in images], dim=int(tiled)) for name in images[0]},
    }
    return inputs | ({"mm_token_type_ids": pictured.int()} if "image_grid_thw" in inputs else {})


def losses_alone(model: LanguageModel, sequences: list[TokenSequence]) -> list[torch.Tensor]:
    log_probs = []
    for sequence in sequences:
        logits = model.model(**alone(model, sequence.ids)).logits[0].log_softmax(-1)
        targets = torch.tensor(sequence.ids[sequence.scored_from :])
        log_probs.append(logits[sequence.scored_from - 1 : -1].gather(1, targets[:, None]).squeeze(1))
    return log_probs


@pytest.mark.parametrize("template", ["plain", "clinical", "chat"])
def test_scores_are_those_of_transformers(seeing: LanguageModel, sequences_of: Shown, template: Any) -> None:
    sequences = sequences_of(seeing, template)
    assert sequences[0].ids[: sequences[0].shared] == sequences[1].ids[: sequences[1].shared]
    assert decoder_of(seeing.model).support.attention == "branches"
    ours = score_answers(seeing, sequences)
    with torch.no_grad():
        expected = losses_alone(seeing, sequences)
    for score, log_probs in zip(ours, expected, strict=True):
        assert torch.tensor(score.log_probs) == pytest.approx(log_probs, rel=1e-4, abs=1e-5)


def test_several_images_are_those_of_transformers(seeing: LanguageModel, about: Any) -> None:
    """One of them twice, as in a control with blank images; a family that takes one says what to do."""
    question, record = about("one", 0, "an effusion")
    several = replace(record, further_images=("two.png", "one.png"))
    assert seeing.pictures is not None
    if not seeing.pictures.several:
        with pytest.raises(InputError, match=r"shows 3 images, and LLaVA takes one.*--images-per-study 1"):
            question_sequence(question, several, seeing.tokenizer, Rendering("plain"), seeing.pictures)
        setattr(seeing.pictures.config, SEVERAL, True)
    templates: tuple[Any, ...] = ("plain", "chat")
    sequences = [
        question_sequence(named, pictured_record, seeing.tokenizer, Rendering(template), seeing.pictures)
        for pictured_record, template in product((several, record), templates)
        for named in [replace(question, question_id=f"{len(pictured_record.images)} {template}")]
    ]
    pictured = [sum(token >= FIRST for token in sequence.ids) for sequence in sequences]
    assert pictured == [3 * pictured[-1]] * 2 + pictured[-2:]
    with torch.no_grad():
        expected = losses_alone(seeing, sequences)
    for score, log_probs in zip(score_answers(seeing, sequences), expected, strict=True):
        assert torch.tensor(score.log_probs) == pytest.approx(log_probs, rel=1e-4, abs=1e-5)


def test_gradients_are_those_of_transformers(seeing: LanguageModel, sequences_of: Shown) -> None:
    """Of the tower's too, where two questions on one image meet."""
    sequences, model = sequences_of(seeing), choose_trainable(seeing.model, "all")
    pad = seeing.tokenizer.pad_token_id
    batch = make_batch(model, sequences, pad, seeing.device)
    sight = sight_of(model)
    assert sight is not None
    before = sight.encoded
    ForwardOutputs(decoder_of(model), batch).log_probs.sum().backward()
    assert sight.encoded - before == 2, "an image is encoded once, though two questions are about it"
    ours = {name: tensor.grad.clone() for name, tensor in trained(model).items()}
    model.zero_grad()
    torch.cat(losses_alone(seeing, sequences)).sum().backward()
    assert any("vis" in name for name in ours)
    for name, tensor in trained(model).items():
        scale = tensor.grad.abs().max()
        assert (tensor.grad - ours[name]).abs().max() <= 1e-5 * scale + 1e-6, name


def test_answers_are_those_of_transformers(seeing: LanguageModel, sequences_of: Shown) -> None:
    sequences = sequences_of(seeing)
    assert way_of(seeing.model) != "whole"
    ours = {}
    prompts, shared = [sequence.prompt for sequence in sequences], [sequence.shared for sequence in sequences]
    for batch in decode(seeing, prompts, shared=shared, max_new_tokens=MOST):
        ours |= {place: decoded.tokens for place, decoded in batch}
    for place, prompt in enumerate(prompts):
        inputs = alone(seeing, prompt)
        tokens = seeing.model.generate(**inputs, max_new_tokens=MOST, do_sample=False)[0, len(prompt) :].tolist()
        assert ours[place] == tuple(tokens[: tokens.index(1)] if 1 in tokens else tokens)


def test_saved_and_loaded_it_sees_the_same(
    seeing: LanguageModel, sequences_of: Shown, pictured: Path, tmp_path: Path
) -> None:
    before = score_answers(seeing, sequences_of(seeing))
    seeing.save(tmp_path / "saved")
    again = load_model(tmp_path / "saved", device="cpu", images=pictured)
    assert score_answers(again, sequences_of(again)) == before
