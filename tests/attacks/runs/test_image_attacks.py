"""Attacks on a model that is shown images: other images, documents behind theirs, and models without any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xrays import SPLIT

from medunlearn.attacks import attack_class
from medunlearn.attacks.attack_run import AttackBattery, attack
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.attacks.membership.passes import (
    document_moments,
    document_sequences,
    gradient_norms,
    shown_pictures,
)
from medunlearn.attacks.recovery.image_changes_attack import IMAGES, ImageChanges
from medunlearn.attacks.recovery.measuring import StateMeasurer
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.image_controls import EDITS, with_edited_images
from medunlearn.data.images import read_image
from medunlearn.data.responses import Response
from medunlearn.errors import NotApplicableError
from medunlearn.models.load import load_model
from medunlearn.results.runs import Run

FEW: dict[str, Any] = {
    "image_changes.subjects": 1,
    "image_changes.max_new_tokens": 2,
    "image_changes.kinds": ("cloze",),
}


def settings(**more: Any) -> Any:
    given = {"split": SPLIT, "attacks": "image_changes", "replicates": 20, "allow_broken": True}
    return attack_settings({**given, **FEW, **more})


def test_edited_images_are_of_the_records_alone(xrays: Benchmark, tmp_path: Path) -> None:
    first, second = xrays.records[:2]
    assert xrays.folder is not None
    own = read_image(xrays.folder / str(first.image))
    for edit in EDITS:
        changed = with_edited_images(xrays, edit, [first.record_id], tmp_path, 0)
        assert changed.records[1] == second
        pixels = read_image(Path(str(changed.records[0].image)))
        assert pixels.shape == own.shape
        assert not np.array_equal(pixels, own), edit
        again = with_edited_images(xrays, edit, [first.record_id], tmp_path / "again", 0)
        assert np.array_equal(read_image(Path(str(again.records[0].image))), pixels)
        if edit == "turned":
            assert np.array_equal(np.rot90(pixels, 2), own)


def test_another_image_is_another_probability(xrays: Benchmark, seen_target: Run) -> None:
    attacks = attack(seen_target, xrays, settings(), device="cpu", quiet=True)
    (model,) = attacks.of("image_changes").models
    logs = model.scores[model.scores["measure"] == "answer_probability"]
    by_state = logs.pivot(index="item", columns="strength", values="value")
    assert {*by_state} == {ImageChanges.before, *ImageChanges().changes}
    assert by_state.notna().all().all()
    states = list(by_state)
    for place, state in enumerate(states):
        for other in states[place + 1 :]:
            assert not by_state[state].equals(by_state[other]), (state, other)
    # The patients' images do not stay.
    assert not [*seen_target.folder.rglob(IMAGES)]


def test_what_one_image_brings_back_is_on_the_page(
    xrays: Benchmark, seen_target: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(self: Any, questions: Any, wording: str, *args: Any, **more: Any) -> dict[str, Response]:
        texts = {q.question_id: q.answer if wording == "turned" else "nothing" for q in questions}
        return {name: Response(name, wording, 0, text, (1,), True) for name, text in texts.items()}

    monkeypatch.setattr(StateMeasurer, "ask", ask)
    changes = settings(**{"image_changes.changes": ("blank", "turned"), "replicates": 21})
    (row,) = BroughtBack.of(attack(seen_target, xrays, changes, device="cpu", quiet=True)).table.to_dict("records")
    assert (row["measure"], row["states"], row["before"], row["value"]) == ("findings_said", 2, 0.0, 1.0)


def test_where_no_image_is_shown_the_cell_says_so(xrays: Benchmark, seen_target: Run) -> None:
    blind = replace(xrays, records=tuple(replace(record, image=None) for record in xrays.records))
    with pytest.raises(NotApplicableError):
        AttackBattery(blind, settings()).check()
    assert attack_class("image_changes").sets["battery"] == {}
    info = replace(seen_target.info, results={**seen_target.info.results})
    info.results["rendering"] = {**info.results["rendering"], "images": "ignore"}
    with pytest.raises(NotApplicableError):
        ImageChanges().check_run(Run(seen_target.folder, info))


def test_documents_are_tested_behind_their_images_as_in_training(xrays: Benchmark, seen_target: Run) -> None:
    model = load_model(seen_target.model, device="cpu", images=xrays.folder)
    records = xrays.records[:2]
    documents = document_sequences(records, model.tokenizer, 512, shown_pictures(model, seen_target))
    assert documents == [
        model.record_sequences(record, seen_target.rendering(max_length=512)) for record in records
    ]
    other = replace(records[0], image=records[1].image)
    (swapped,) = document_sequences([other], model.tokenizer, 512, model.pictures)
    (own, _), (theirs,) = document_moments(model, documents), document_moments(model, [swapped])
    assert own.log_probs.shape == theirs.log_probs.shape
    assert not np.array_equal(own.log_probs, theirs.log_probs)
    (norm,) = gradient_norms(model, documents[:1])
    assert norm > 0
