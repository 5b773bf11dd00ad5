"""A LoRA adapter as PEFT saves it: loaded with its base under it, and exported as one model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medunlearn.errors import ModelError
from medunlearn.models.folders import ADAPTER, ADAPTER_TENSORS, fingerprint
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.study.export import export
from medunlearn.training.trainable import choose_trainable

IDS = torch.tensor([[5, 60, 7, 80, 9]])


def loaded(folder: Path) -> LanguageModel:
    return load_model(folder, device="cpu")


def exported(folder: Path) -> LanguageModel:
    return load_model(export(folder, folder.parent / "hf"), device="cpu")


READERS = pytest.mark.parametrize("read", [loaded, exported])
Read = Callable[[Path], LanguageModel]


@pytest.fixture
def adapter(tiny: Callable[[], Any], tmp_path: Path) -> tuple[Path, torch.Tensor]:
    """Its folder, whose base stands beside it, and the logits of the model that was saved."""
    whole = tiny()
    whole.save(tmp_path / "base")
    model = choose_trainable(whole.model, "lora:4")
    torch.manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "lora_B" in name:
                tensor.normal_(std=0.1)
    model.eval()
    with torch.inference_mode():
        meant = model(input_ids=IDS).logits
    model.save_pretrained(tmp_path / "adapter")
    _name_base(tmp_path / "adapter", "../base")
    return tmp_path / "adapter", meant


def _name_base(folder: Path, base: str | None) -> None:
    settings = json.loads((folder / ADAPTER).read_text())
    (folder / ADAPTER).write_text(json.dumps({**settings, "base_model_name_or_path": base}))


@READERS
def test_an_adapter_gives_the_logits_that_it_was_saved_with(adapter: tuple[Path, torch.Tensor], read: Read) -> None:
    folder, meant = adapter
    loaded_model = read(folder)
    with torch.inference_mode():
        torch.testing.assert_close(loaded_model.model.eval()(input_ids=IDS).logits, meant, rtol=1e-5, atol=1e-5)
        base = load_model(folder.parent / "base", device="cpu").model.eval()(input_ids=IDS).logits
    assert (base - meant).abs().max() > 1e-2
    assert load_tokenizer(folder)("aspirin")["input_ids"] == loaded_model.tokenizer("aspirin")["input_ids"]


@READERS
def test_its_own_tokenizer_goes_with_it(adapter: tuple[Path, torch.Tensor], read: Read) -> None:
    folder, _ = adapter
    own = load_tokenizer(folder)
    own.eos_token = own.pad_token
    assert read(folder).tokenizer.eos_token != own.eos_token
    shutil.rmtree(folder.parent / "hf", ignore_errors=True)
    own.save_pretrained(folder)
    assert read(folder).tokenizer.eos_token == own.eos_token


def test_its_fingerprint_is_of_both(adapter: tuple[Path, torch.Tensor], tiny: Callable[[], Any]) -> None:
    folder, _ = adapter
    before = fingerprint(folder)
    assert before != fingerprint(folder.parent / "base")
    other = tiny()
    with torch.no_grad():
        next(other.model.parameters()).add_(1.0)
    other.save(folder.parent / "base")
    assert fingerprint(folder) != before


@READERS
@pytest.mark.parametrize("wrong", ["names", "shapes", "settings"])
def test_an_adapter_that_does_not_fit_is_refused(
    adapter: tuple[Path, torch.Tensor], read: Read, wrong: str
) -> None:
    """With matrices of other names than the base's, the bare base would load."""
    folder, _ = adapter
    tensors = load_file(folder / ADAPTER_TENSORS)
    if wrong == "names":
        tensors = {name.replace("layers.", "blocks."): tensor for name, tensor in tensors.items()}
    if wrong == "shapes":
        tensors = {name: tensor[:, :1].contiguous() for name, tensor in tensors.items()}
    save_file(tensors, folder / ADAPTER_TENSORS)
    if wrong == "settings":
        settings = json.loads((folder / ADAPTER).read_text())
        (folder / ADAPTER).write_text(json.dumps({**settings, "r": "four"}))
    with pytest.raises(ModelError, match="does not fit its base"):
        read(folder)
    assert not (folder.parent / "hf").exists()


@READERS
def test_what_is_missing_is_told(adapter: tuple[Path, torch.Tensor], read: Read) -> None:
    folder, _ = adapter
    _name_base(folder, None)
    with pytest.raises(ModelError, match="names no base"):
        read(folder)
    _name_base(folder, "/nowhere/base")
    with pytest.raises(ModelError, match="no model folder /nowhere/base"):
        read(folder)
    (folder / ADAPTER_TENSORS).unlink()
    with pytest.raises(ModelError, match=ADAPTER_TENSORS):
        read(folder)
