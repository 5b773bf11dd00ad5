"""Deltas that are broken, bases that are missing or others, and disks that are full: each is said in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medunlearn.errors import ModelError, StorageError
from medunlearn.models.delta import save_delta
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.models.tiny import build_tiny


def changed(base: Path) -> Any:
    """The base's model with one layer of three changed."""
    model = load_model(base, device="cpu").model
    with torch.no_grad():
        for tensor in model.model.layers[1].parameters():
            tensor.add_(1e-3)
    return model


@pytest.fixture
def delta(base: Path, tmp_path: Path) -> Path:
    save_delta(changed(base), base, tmp_path / "delta")
    return tmp_path / "delta"


def edit(delta: Path, **values: Any) -> None:
    manifest = json.loads((delta / "delta.json").read_text())
    (delta / "delta.json").write_text(json.dumps({**manifest, **values}))


def cut_off(delta: Path) -> None:
    file = delta / "delta.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def other_shape(delta: Path) -> None:
    tensors = load_file(delta / "delta.safetensors")
    save_file({name: tensor.reshape(-1) for name, tensor in tensors.items()}, delta / "delta.safetensors")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda delta: shutil.rmtree(delta.parent / "base"), 'its base is not at .*base. Move .*"base" in .*json'),
        (lambda delta: edit(delta, base="/nowhere/at/all"), "its base is not at /nowhere/at/all"),
        (lambda delta: edit(delta, base="."), "is its own base"),
        (lambda delta: edit(delta, format=2), "format 2; this medunlearn reads format 1"),
        (lambda delta: edit(delta, weights="int3"), "weights is 'int3'"),
        (lambda delta: edit(delta, changed=5), "another type"),
        (lambda delta: edit(delta, colour="red"), "delta.json is broken"),
        (lambda delta: edit(delta, changed=["model.norm.weight"]), "lacks tensors listed in delta.json"),
        (lambda delta: (delta / "delta.json").write_text("[1"), "cannot be read as JSON"),
        (lambda delta: (delta / "delta.json").write_text("[1]"), "delta.json is broken"),
        (lambda delta: (delta / "delta.safetensors").unlink(), "delta.safetensors is missing"),
        (cut_off, "delta.safetensors is broken"),
        (other_shape, "has no place in its base"),
    ],
)
def test_broken_deltas(delta: Path, broken: Callable[[Path], object], words: str) -> None:
    broken(delta)
    with pytest.raises(ModelError, match=words):
        load_model(delta, device="cpu")


def test_another_base_is_refused(base: Path, delta: Path, tmp_path: Path) -> None:
    other = build_tiny(["Ana Silva"], seed=1, vocabulary=300, width=32, layers=3, heads=2).save(tmp_path / "other")
    edit(delta, base="../other")
    with pytest.raises(
        ModelError, match=f"{fingerprint(base)}.*{fingerprint(other)}.*another model, or was changed"
    ):
        load_model(delta)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_base_that_was_changed_is_refused(base: Path, delta: Path, name: str) -> None:
    if name.endswith(".json"):
        (base / name).write_text((base / name).read_text() + " ")
    else:
        tensors = load_file(base / name)
        tensors["model.norm.weight"][0] += 1e-3
        save_file(tensors, base / name, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="was made from a base with fingerprint"):
        load_model(delta)


def test_no_space_left(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    model = changed(base)
    monkeypatch.setattr("medunlearn.models.delta.save_file", refuse)
    with pytest.raises(StorageError, match=r"The disk is full: .*delta\.safetensors was not written"):
        save_delta(model, base, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
