"""MANU and CHIP on a model of every family: what they read of images, and what they write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from medunlearn.methods.chip import CHIP
from medunlearn.methods.editing import EditedModel
from medunlearn.methods.manu import MANU
from medunlearn.methods.sibling_projection import project
from medunlearn.models.activations import SequenceReader, Side, Site
from medunlearn.models.load import LanguageModel
from medunlearn.models.mlps import Matrix, merger, mlps
from medunlearn.models.sequences import Rendering, TokenSequence, image_tokens, question_sequence
from medunlearn.models.vision.pictures import FIRST, PLACES
from medunlearn.models.vision.seeing import sight_of
from medunlearn.study.edit import without_image

Sides = Callable[[LanguageModel], tuple[Side, Side]]


@pytest.fixture(scope="session")
def sides_of(about: Any) -> Sides:
    """The questions on one image to forget, one on the other to retain."""

    def make(model: LanguageModel) -> tuple[Side, Side]:
        sides = []
        for pairs in ([about("one", 0, "an effusion"), about("one", 1, "none")], [about("two", 0, "small")]):
            pictured, bare = [], []
            for question, record in pairs:
                sequence = question_sequence(question, record, model.tokenizer, Rendering(), model.pictures)
                pictured.append(sequence)
                bare.append(without_image(sequence, image_tokens(record, Rendering(), model.pictures)))
            groups = tuple(record.groups for _, record in pairs)
            sides.append(Side(SequenceReader(model, pictured, 1, bare), groups, 2))
        return sides[0], sides[1]

    return make


def test_a_sequence_without_its_image_is_the_rest_of_it() -> None:
    sequence = TokenSequence("q", (7, 90, 91, 8, 9, 1), 4, 5)
    assert without_image(sequence, (90, 91)) == TokenSequence("q", (7, 8, 9, 1), 2, 3)
    assert without_image(sequence, ()) is sequence
    assert without_image(sequence, (91, 90)) is sequence


def test_tokens_of_image_and_text_are_told_apart(seeing: LanguageModel, sides_of: Sides) -> None:
    forget, _ = sides_of(seeing)
    assert isinstance(forget.reader, SequenceReader)
    site = Site("m", mlps(seeing.model, "0")[0].reads.module, "in")

    def counted(values: Any, tokens: Any) -> list[tuple[float, float]]:
        ones = torch.ones(len(values), 1)
        parts = [tokens.means(ones, modality).isnan().logical_not() for modality in ("text", "vision")]
        of = {kind: [part for part in tokens.stretches if part.modality == kind] for kind in ("text", "vision")}
        lengths = [
            sum((part.stop - part.start) * part.samples.get(sample, 0) for part in of[kind])
            for sample in tokens.samples
            for kind in ("text", "vision")
        ]
        assert all(bool(part.all()) for part in parts)
        return list(zip(lengths[::2], lengths[1::2], strict=True))

    counts = [pair for batch in forget.each(lambda look: look.see([site], counted)["m"]) for pair in batch]
    ids = [sequence.ids for sequence in forget.reader.sequences]
    expected = [(sum(token < FIRST for token in own), sum(token >= FIRST for token in own)) for own in ids]
    assert [(round(text, 6), round(vision, 6)) for text, vision in counts] == expected
    bare = list(forget.each(lambda look: look.see([site], lambda v, t: len(v), images=False)["m"]))
    assert sum(bare) <= sum(text for text, _ in expected)


def test_manu_goes_by_deviations_and_leaves_the_tower(seeing: LanguageModel, sides_of: Sides) -> None:
    forget, retain = sides_of(seeing)
    before = {name: tensor.clone() for name, tensor in seeing.model.state_dict().items()}
    report = MANU(alpha=10.0).edit(EditedModel(seeing.model), forget, retain)
    assert report["importance_of"] == "deviations"
    assert report["zeroed"] == int(0.1 * report["neurons"] + 0.5)
    changed = {name for name, tensor in seeing.model.state_dict().items() if not tensor.equal(before[name])}
    assert changed
    assert all(".mlp." in name and "vis" not in name for name in changed)


def test_chip_edits_the_merger_too(seeing: LanguageModel, sides_of: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.methods import sibling_projection as module

    removed: dict[str, Any] = {}

    def watch(matrix: Matrix, units: Any, basis: Any) -> None:
        removed[matrix.name] = matrix, units, basis
        project(matrix, units, basis)

    monkeypatch.setattr(module, "project", watch)
    forget, retain = sides_of(seeing)
    sight = sight_of(seeing.model)
    assert sight is not None
    assert isinstance(forget.reader, SequenceReader)
    number = next((token - FIRST) // PLACES for token in forget.reader.sequences[0].ids if token >= FIRST)
    features = sight.features([number])[0].clone()
    joining = [matrix.name for matrix in merger(seeing.model)]
    report = CHIP(top=50.0, layers="1").edit(EditedModel(seeing.model, ("patient",), "patient"), forget, retain)
    assert set(joining) < set(report["matrices"]) == set(removed)
    for matrix, units, basis in removed.values():
        assert basis.shape[1] == 1
        assert (basis.T @ matrix.rows[units].double()).norm() < 1e-5 * matrix.rows.norm().double()
    assert not torch.allclose(sight.features([number])[0], features)


@pytest.mark.parametrize("model_folder", ["llava"], indirect=True)
def test_the_merger_may_be_left_alone(seeing: LanguageModel, sides_of: Sides) -> None:
    before = [matrix.rows.clone() for matrix in merger(seeing.model)]
    report = CHIP(layers="1", merger=False).edit(
        EditedModel(seeing.model, ("patient",), "patient"), *sides_of(seeing)
    )
    assert len(report["matrices"]) == 3
    assert all(old.equal(new.rows) for old, new in zip(before, merger(seeing.model), strict=True))
