"""Folders that hold a model, folders that don't, and fingerprints; the model built in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medunlearn.errors import InputError, ModelError
from medunlearn.models.folders import fingerprint, has_fingerprint
from medunlearn.models.load import load_model
from medunlearn.models.pretrained import pick_device
from medunlearn.models.tiny import build_tiny

TEXTS = ["Ana Silva was given aspirin.", "Question: Which drug? Answer: aspirin"]
IDS = torch.tensor([[5, 60, 7, 80, 9]])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, tiny_base: Any) -> Path:
    folder: Path = tiny_base.save(tmp_path_factory.mktemp("model") / "tiny")
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of a good model folder, to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def logits(language_model: Any) -> torch.Tensor:
    with torch.inference_mode():
        values: torch.Tensor = language_model.model.eval()(input_ids=IDS).logits
    return values


def test_round_trip(tiny: Callable[[], Any], saved: Path) -> None:
    before, after = tiny(), load_model(saved, device="cpu")
    assert torch.equal(logits(after), logits(before))
    assert after.source == str(saved)
    assert after.device == torch.device("cpu")
    text = "Ana Silva, 61, was given heparin.\n"
    assert after.tokenizer(text)["input_ids"] == before.tokenizer(text)["input_ids"]
    assert after.tokenizer.decode(after.tokenizer(text)["input_ids"]) == text
    for name in ("eos_token_id", "bos_token_id", "pad_token_id", "chat_template"):
        assert getattr(after.tokenizer, name) == getattr(before.tokenizer, name)


def test_files_are_private_and_safetensors(tiny: Callable[[], Any], tmp_path: Path) -> None:
    folder = tiny().save(tmp_path / "new")
    assert folder.stat().st_mode & 0o077 == 0
    assert not any(folder.glob("*.bin"))
    assert any(folder.glob("*.safetensors"))


def test_pad_falls_back_to_eos(folder: Path) -> None:
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        file = folder / name
        if file.exists():
            settings = json.loads(file.read_text())
            settings.pop("pad_token", None)
            file.write_text(json.dumps(settings))
    tokenizer = load_model(folder, device="cpu").tokenizer
    assert tokenizer.pad_token_id == tokenizer.eos_token_id


def test_no_eos_is_refused(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    del settings["eos_token"]
    file.write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="no EOS token"):
        load_model(folder, device="cpu")


def cut_off(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def only_bin(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def without_a_layer(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(file).items() if "layers.1." not in name}
    save_file(tensors, file, metadata={"format": "pt"})


def wider(folder: Path) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "intermediate_size": 100}))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda folder: (folder / "config.json").unlink(), "not a model folder: it has no config.json"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json.*save_pretrained"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no weights as safetensors"),
        (only_bin, "no weights as safetensors"),
        (cut_off, "cannot be loaded"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be loaded"),
        (lambda folder: (folder / "config.json").write_text("{}"), "cannot be loaded"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "cannot be loaded"),
        (without_a_layer, r"lacks .*model\.layers\.1\."),
        (wider, "cannot be loaded"),
    ],
)
def test_broken_folders(folder: Path, broken: Callable[[Path], None], words: str) -> None:
    broken(folder)
    with pytest.raises(ModelError, match=words):
        load_model(folder, device="cpu")


@pytest.mark.parametrize("source", ["/nowhere/at/all", "./nowhere", "nowhere", "a/b/c", "~/model"])
def test_nothing_there(source: str) -> None:
    with pytest.raises(ModelError, match=r"There is no model folder .* Give a folder, a hub id"):
        load_model(source)


def test_a_device_that_is_not_there() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    for device in ("cuda:99", "abacus"):
        with pytest.raises(InputError, match=f"Device '{device}' is not available"):
            pick_device(device)


class TestFingerprint:
    def test_equal_folders(self, saved: Path, folder: Path) -> None:
        (folder / "README.md").write_text("mine")
        assert fingerprint(folder) == fingerprint(saved)

    def test_one_weight(self, saved: Path, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["model.norm.weight"][0] += 1e-3
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        assert fingerprint(folder) != fingerprint(saved)

    @pytest.mark.parametrize(
        "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
    )
    def test_everything_that_changes_what_it_says(self, saved: Path, folder: Path, name: str) -> None:
        (folder / name).write_text((folder / name).read_text() + " ")
        assert fingerprint(folder) != fingerprint(saved)

    @pytest.mark.parametrize(
        "name", ["added_tokens.json", "old/model.safetensors", "pytorch_model.bin", "modeling_own.py", "readme.py"]
    )
    def test_files_that_nobody_thought_of(self, saved: Path, folder: Path, name: str) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
        assert fingerprint(folder) != fingerprint(saved)
        assert fingerprint(folder, rule=1) == fingerprint(saved)

    def test_those_of_older_versions_hold_beside_settings_that_they_did_not_cover(
        self, saved: Path, folder: Path
    ) -> None:
        recorded = fingerprint(saved)
        assert recorded == fingerprint(saved, rule=1)
        (folder / "model.safetensors.index.json").write_text("{}")
        assert has_fingerprint(folder, recorded)
        assert not has_fingerprint(folder, "0" * 64)
        (folder / "pytorch_model.bin").write_text("old")
        assert not has_fingerprint(folder, recorded)


class TestTiny:
    def test_same_seed_same_model(self) -> None:
        torch.manual_seed(5)
        state = torch.get_rng_state()
        first, second, other = (build_tiny(TEXTS, seed=n, width=32, layers=2, vocabulary=280) for n in (3, 3, 4))
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(logits(first), logits(second))
        assert not torch.equal(logits(first), logits(other))
        assert first.tokenizer.get_vocab() == second.tokenizer.get_vocab() == other.tokenizer.get_vocab()
        assert first.source == "tiny:3"
