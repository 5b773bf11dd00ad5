"""Base and delta together are the full model, bit for bit; anything else than that base is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from medunlearn.errors import ModelError
from medunlearn.models.delta import changed_tensors, save_delta
from medunlearn.models.folders import chain, fingerprint, stored_weights
from medunlearn.models.load import load_model
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.tiny import build_tiny

LAYER = "model.layers.1."


def state(source: Path, weights: Any = "fp32") -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = load_model(source, device="cpu", weights=weights).model.state_dict()
    return tensors


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return list(first) == list(second) and all(
        torch.equal(first[n].view(torch.uint8), second[n].view(torch.uint8)) for n in first
    )


def nudge(model: Any, part: str, by: float = 1e-3) -> Any:
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if part in name:
                tensor.add_(by)
    return model


@pytest.fixture
def delta(base: Path, tmp_path: Path) -> Path:
    """One layer of three changed."""
    save_delta(nudge(load_model(base, device="cpu").model, LAYER), base, tmp_path / "delta")
    return tmp_path / "delta"


def test_base_and_delta_are_the_full_model(base: Path, delta: Path, tmp_path: Path) -> None:
    changed = load_model(base, device="cpu")
    nudge(changed.model, LAYER)
    full = changed.save(tmp_path / "full")
    for weights in ("fp32", "bf16"):
        assert equal(state(delta, weights), state(full, weights))
        assert not equal(state(delta, weights), state(base, weights))
    text = "Ana Silva, 61"
    assert load_model(delta).tokenizer(text)["input_ids"] == load_tokenizer(base)(text)["input_ids"]
    assert sorted(file.name for file in delta.iterdir()) == ["delta.json", "delta.safetensors"]
    manifest = json.loads((delta / "delta.json").read_text())
    assert manifest["base"] == "../base"
    assert manifest["base_fingerprint"] == fingerprint(base)
    assert manifest["changed"] == sorted(name for name in state(base) if LAYER in name)
    assert delta.stat().st_mode & 0o077 == 0
    # An adapter made of it must not be taken for one of the root.
    assert load_model(delta, device="cpu").model.name_or_path == str(delta)


def test_one_layer_of_32_is_at_most_4_percent_of_the_model(tmp_path: Path) -> None:
    language_model = build_tiny(["Ana Silva"], vocabulary=280, width=96, layers=32)
    base = language_model.save(tmp_path / "base")
    language_model.save_smaller(base, tmp_path / "same")
    nudge(language_model.model, "layers.7.")
    saved = language_model.save_smaller(base, tmp_path / "delta")
    on_disk, full = (sum(f.stat().st_size for f in folder.iterdir()) for folder in (tmp_path / "delta", base))
    assert saved == {
        "form": "delta",
        "bytes": (tmp_path / "delta" / "delta.safetensors").stat().st_size,
        "changed_tensors": 9,
    }
    assert on_disk <= 0.04 * (base / "model.safetensors").stat().st_size < full
    assert equal(state(tmp_path / "delta"), language_model.model.state_dict())
    assert equal(state(tmp_path / "same"), state(base))


def test_half_of_the_model_is_saved_whole(base: Path, tmp_path: Path) -> None:
    language_model = load_model(base, device="cpu")
    nudge(language_model.model, "layers.")
    save_delta(language_model.model, base, tmp_path / "out")
    saved = language_model.save_smaller(base, tmp_path / "out")
    assert saved == {"form": "full", "bytes": (tmp_path / "out" / "model.safetensors").stat().st_size}
    assert not (tmp_path / "out" / "delta.json").exists()
    assert not (tmp_path / "out" / "delta.safetensors").exists()
    assert equal(state(tmp_path / "out"), language_model.model.state_dict())


def test_tied_weights_are_saved_once(base: Path, tmp_path: Path) -> None:
    model = nudge(load_model(base, device="cpu").model, "embed_tokens")
    manifest = save_delta(model, base, tmp_path / "delta")
    assert manifest is not None
    assert manifest.changed == ["model.embed_tokens.weight"]
    loaded = load_model(tmp_path / "delta", device="cpu").model
    assert loaded.lm_head.weight.data_ptr() == loaded.model.embed_tokens.weight.data_ptr()
    assert equal(loaded.state_dict(), model.state_dict())


def test_bits_count_not_values(base: Path) -> None:
    model = load_model(base, device="cpu").model
    with torch.no_grad():
        model.model.norm.weight[0] = 0.0
    tensors = load_file(base / "model.safetensors")
    tensors["model.norm.weight"][0] = -0.0
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    assert set(changed_tensors(model, base) or ()) == {"model.norm.weight"}


def test_types_of_weights(base: Path, tmp_path: Path) -> None:
    """bf16 widened to fp32 has not changed; fp32 rounded to bf16 has, wherever that moved anything."""
    narrow = load_model(base, device="cpu", weights="bf16")
    assert len(changed_tensors(narrow.model, base) or ()) >= len(narrow.model.state_dict()) - 10
    assert narrow.save_smaller(base, tmp_path / "rounded")["form"] == "full"
    half = narrow.save(tmp_path / "half")
    wide = load_model(half, device="cpu", weights="fp32")
    assert changed_tensors(wide.model, half) == {}
    nudge(wide.model, LAYER, 1e-6)
    manifest = save_delta(wide.model, half, tmp_path / "delta")
    assert manifest is not None
    assert (manifest.weights, stored_weights(half), stored_weights(base)) == ("fp32", "bf16", "fp32")
    assert equal(state(tmp_path / "delta"), wide.model.state_dict())


def test_a_chain(base: Path, delta: Path, tmp_path: Path) -> None:
    model = nudge(nudge(load_model(delta, device="cpu").model, LAYER), "layers.2.self_attn")
    manifest = save_delta(model, delta, tmp_path / "second")
    assert manifest is not None
    assert len(manifest.changed) == 9 + 4
    assert manifest.base_fingerprint == fingerprint(delta)
    assert equal(state(tmp_path / "second"), model.state_dict())
    shutil.rmtree(base)
    with pytest.raises(ModelError, match=r"delta contains only changed tensors, and its base is not at .*base"):
        load_model(tmp_path / "second")


def test_a_base_in_several_files(base: Path, tmp_path: Path) -> None:
    sharded = tmp_path / "sharded"
    shutil.copytree(base, sharded)
    (sharded / "model.safetensors").unlink()
    load_model(base, device="cpu").model.save_pretrained(sharded, max_shard_size="40KB")
    assert len(list(sharded.glob("*.safetensors"))) > 1
    model = nudge(load_model(sharded, device="cpu").model, LAYER)
    save_delta(model, sharded, tmp_path / "out")
    assert equal(state(tmp_path / "out"), model.state_dict())


def test_other_names_or_shapes_than_the_base_has_no_delta(base: Path, tiny_base: Any, tmp_path: Path) -> None:
    tensors = load_file(base / "model.safetensors")
    tensors["other"] = tensors.pop("model.norm.weight")
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    assert save_delta(tiny_base.model, base, tmp_path / "out") is None
    narrower = build_tiny(["Ana"], vocabulary=300, width=16, layers=3, heads=2)
    assert save_delta(narrower.model, tiny_base.save(tmp_path / "again"), tmp_path / "out") is None
    assert not (tmp_path / "out").exists()


class TestFingerprint:
    def test_it_needs_no_base_and_survives_a_move(self, base: Path, delta: Path, tmp_path: Path) -> None:
        before = fingerprint(delta)
        base.rename(tmp_path / "moved")
        manifest = json.loads((delta / "delta.json").read_text())
        (delta / "delta.json").write_text(json.dumps({**manifest, "base": str(tmp_path / "moved")}))
        assert fingerprint(delta) == before != fingerprint(tmp_path / "moved")
        assert len(state(delta)) > 0

    def test_it_tells_tensors_and_bases_apart(self, base: Path, delta: Path, tmp_path: Path) -> None:
        model = nudge(load_model(base, device="cpu").model, LAYER, 2e-3)
        save_delta(model, base, tmp_path / "more")
        assert fingerprint(tmp_path / "more") != fingerprint(delta)
        manifest = json.loads((delta / "delta.json").read_text())
        before = fingerprint(delta)
        (delta / "delta.json").write_text(json.dumps({**manifest, "base_fingerprint": "0" * 64}))
        assert fingerprint(delta) != before

    def test_a_file_that_came_to_the_base_is_seen(self, base: Path, delta: Path) -> None:
        (base / "added_tokens.json").write_text("{}")
        with pytest.raises(ModelError, match="another model, or was changed"):
            chain(delta)
        manifest = json.loads((delta / "delta.json").read_text())
        assert manifest.pop("base_rule") == 2
        # A delta of an older version says nothing about it, but what was recorded later may.
        (delta / "delta.json").write_text(json.dumps(manifest))
        assert chain(delta) == [delta / manifest["base"], delta]
        with pytest.raises(ModelError, match="another model, or was changed"):
            chain(delta, oldest_rule=2)


def test_a_moved_base_is_found_beside_the_delta(base: Path, delta: Path, tmp_path: Path) -> None:
    """The recorded place is absolute and empty; a nearer folder of the same name is another model."""
    manifest = json.loads((delta / "delta.json").read_text())
    place = tmp_path / "copy"
    shutil.copytree(delta, place / "runs" / "npo" / "model")
    (place / "runs/npo/model/delta.json").write_text(json.dumps(manifest | {"base": "/gone/models/hf"}))
    other = build_tiny(["Ana"], vocabulary=300, width=16, layers=3, heads=2)
    other.save(place / "runs" / "hf")
    with pytest.raises(ModelError, match="base is not at"):
        chain(place / "runs" / "npo" / "model")
    shutil.copytree(base, place / "models" / "hf")
    moved = place / "runs" / "npo" / "model"
    assert chain(moved) == [place / "models" / "hf", moved]
    assert equal(state(moved), state(delta))
    shutil.rmtree(place / "models" / "hf")
    other.save(place / "models" / "hf")
    with pytest.raises(ModelError, match="fingerprint"):
        chain(moved)
