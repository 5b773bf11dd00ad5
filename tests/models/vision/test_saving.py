"""Deltas, adapters and parts of each family: what is saved is what was trained, and sees the same when loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medunlearn.errors import InputError, MedunlearnError, ModelError
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.vision.seeing import sight_of
from medunlearn.training.trainable import choose_trainable, trained

IMAGE = (("one.png",), "r1")


ONE_FAMILY = pytest.mark.parametrize("model_folder", ["llava"], indirect=True)


def states(model: LanguageModel) -> torch.Tensor:
    """Output of the embedding for an image and a word."""
    assert model.pictures is not None
    with torch.no_grad():
        values: torch.Tensor = model.model.get_input_embeddings()(torch.tensor([*model.pictures.tokens(*IMAGE), 5]))
    return values


def logits(model: LanguageModel) -> torch.Tensor:
    assert model.pictures is not None
    with torch.no_grad():
        values: torch.Tensor = model.model(torch.tensor([[*model.pictures.tokens(*IMAGE), 5]])).logits
    return values


def test_a_delta_of_the_decoder(seeing: LanguageModel, model_folder: Path, pictured: Path, tmp_path: Path) -> None:
    with torch.no_grad():
        layer = decoder_layers(seeing.model)[1]
        layer.mlp.down_proj.weight.add_(0.01)
    assert seeing.save_smaller(model_folder, tmp_path / "d") == {
        "form": "delta",
        "bytes": (tmp_path / "d" / "delta.safetensors").stat().st_size,
        "changed_tensors": 1,
    }
    again = load_model(tmp_path / "d", device="cpu", images=pictured)
    assert torch.equal(logits(again), logits(seeing))


def test_an_adapter_on_the_decoder_alone(seeing: LanguageModel, pictured: Path, tmp_path: Path) -> None:
    base = seeing.model
    model = choose_trainable(base, "lora:2")
    moved = trained(model)
    assert moved
    assert len(moved) == 2 * 7 * len(decoder_layers(base)), "A and B of seven maps a layer"
    with torch.no_grad():
        for tensor in moved.values():
            tensor.add_(0.05)
    now = logits(LanguageModel(model, seeing.tokenizer, "", seeing.pictures))
    model.save_pretrained(tmp_path / "a")
    again = load_model(tmp_path / "a", device="cpu", images=pictured)
    assert torch.allclose(logits(again), now, rtol=1e-4, atol=1e-5)
    assert again.pictures is not None


def test_what_is_seen_is_kept_while_the_tower_is_frozen(seeing: LanguageModel) -> None:
    sight = sight_of(choose_trainable(seeing.model, "layers:1"))
    assert sight is not None
    first, count = states(seeing), sight.encoded
    assert torch.equal(states(seeing), first)
    assert sight.encoded == count
    with torch.no_grad():
        next(iter(sight.parts().values())).mul_(1.5)
    assert not torch.equal(states(seeing), first), "an edit of the tower must be seen"
    choose_trainable(seeing.model, "all")
    count = sight.encoded
    states(seeing)
    states(seeing)
    assert sight.encoded == count + 2


@ONE_FAMILY
def test_another_processor_is_another_model(seeing: LanguageModel, tmp_path: Path) -> None:
    assert seeing.pictures is not None
    seeing.save(tmp_path / "one")
    seeing.pictures.processor.image_mean = [0.1, 0.2, 0.3]
    seeing.save(tmp_path / "two")
    assert fingerprint(tmp_path / "one") != fingerprint(tmp_path / "two")


def test_a_model_without_its_processor(seeing: LanguageModel, tmp_path: Path) -> None:
    seeing.save(tmp_path / "m")
    for path in [*tmp_path.glob("m/preprocessor_config.json"), *tmp_path.glob("m/processor_config.json")]:
        path.unlink()
    with pytest.raises(ModelError, match="without an image processor"):
        load_model(tmp_path / "m", device="cpu")


@ONE_FAMILY
def test_images_that_cannot_be_read(seeing: LanguageModel, model_folder: Path, pictured: Path) -> None:
    assert seeing.pictures is not None
    with pytest.raises(InputError, match=r"Record 'r9'.*broken\.png cannot be read"):
        seeing.pictures.tokens(("broken.png",), "r9")
    with pytest.raises(InputError, match=r"Record 'r8'.*no image .*none\.png"):
        seeing.pictures.tokens(("none.png",), "r8")
    with pytest.raises(MedunlearnError, match="picture tokens of another model"):
        seeing.pictures.of(1)
    nowhere = load_model(model_folder, device="cpu")
    assert nowhere.pictures is not None
    with pytest.raises(InputError, match="benchmark has no folder"):
        nowhere.pictures.tokens(("one.png",), "r7")
