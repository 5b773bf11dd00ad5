"""An adapter that is kept beside its base is the merged model, bit for bit; one base serves many of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from medunlearn.errors import ModelError
from medunlearn.models.delta import changed_tensors, save_delta
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.models.low_rank import low_rank_of
from medunlearn.models.shared_base import SharedBase
from medunlearn.training.merging import merge
from medunlearn.training.trainable import choose_trainable


def learned(base: Path, weights: Any = "fp32", seed: int = 0) -> Any:
    """The base with an adapter that has learned something."""
    live = load_model(base, device="cpu", weights=weights)
    live.model = choose_trainable(live.model, "lora:4:12")
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in live.model.named_parameters():
            if "lora_B" in name:
                tensor.copy_(0.1 * torch.randn(tensor.shape, generator=source))
    return live


def state(source: Path, weights: Any = "fp32", shared: SharedBase | None = None) -> dict[str, Tensor]:
    tensors = load_model(source, device="cpu", weights=weights, shared=shared).model.state_dict()
    return {name: tensor.clone() for name, tensor in tensors.items()}


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return list(first) == list(second) and all(torch.equal(first[name], second[name]) for name in first)


def save_both(base: Path, out: Path, weights: Any = "fp32", seed: int = 0) -> tuple[Path, Path]:
    """The adapter on its base, and the merged model as a full folder."""
    live = learned(base, weights, seed)
    adapter = low_rank_of(live.model, base)
    assert adapter is not None
    adapter.save(base, out / "adapter")
    live.model, _ = merge(live.model)
    return out / "adapter", live.save(out / "full")


@pytest.fixture
def half(base: Path, tmp_path: Path) -> Path:
    return load_model(base, device="cpu", weights="bf16").save(tmp_path / "half")


@pytest.mark.parametrize("trained", ["fp32", "bf16"])
def test_it_is_the_merged_model(base: Path, half: Path, trained: Any, tmp_path: Path) -> None:
    adapter, full = save_both(base if trained == "fp32" else half, tmp_path, trained)
    for weights in ("fp32", "bf16"):
        assert equal(state(adapter, weights), state(full, weights))
    assert not equal(state(adapter), state(base))
    sizes = [sum(file.stat().st_size for file in folder.glob("*.safetensors")) for folder in (adapter, full)]
    assert sizes[0] < sizes[1] / 2


def test_equal_adapters_are_equal_files(base: Path, tmp_path: Path) -> None:
    assert len({fingerprint(save_both(base, tmp_path / str(time))[0]) for time in range(4)}) == 1


def test_the_base_s_type_is_lost_where_it_is_wider(base: Path) -> None:
    assert low_rank_of(learned(base, "bf16").model, base) is None


def test_other_trained_parameters_are_no_adapter(base: Path) -> None:
    live = learned(base)
    live.model.get_base_model().get_output_embeddings().weight.requires_grad_(True)
    assert low_rank_of(live.model, base) is None


def test_what_stands_on_an_adapter_is_compared_with_the_merged_weights(base: Path, tmp_path: Path) -> None:
    adapter, full = save_both(base, tmp_path)
    live = load_model(adapter, device="cpu")
    assert changed_tensors(live.model, adapter) == {}
    with torch.no_grad():
        # Back to the base's own value: other than the adapted model's, and so a change.
        name = next(name for name in live.model.state_dict() if name.endswith("layers.1.mlp.up_proj.weight"))
        live.model.state_dict()[name].copy_(state(base)[name])
    manifest = save_delta(live.model, adapter, tmp_path / "second")
    assert manifest is not None
    assert manifest.changed == [name]
    assert equal(state(tmp_path / "second"), {**state(full), name: state(base)[name]})


def test_its_factors_are_in_its_fingerprint_and_a_broken_one_is_refused(base: Path, tmp_path: Path) -> None:
    adapter, _ = save_both(base, tmp_path)
    before, file = fingerprint(adapter), adapter / "delta.safetensors"
    content = file.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    head = json.loads(content[8 : 8 + size])
    facts = json.loads(head["__metadata__"]["low_rank"])

    def write(change: Callable[[dict[str, Any]], None]) -> None:
        changed = json.loads(json.dumps(facts))
        change(changed)
        head["__metadata__"]["low_rank"] = json.dumps(changed)
        new = json.dumps(head).encode()
        file.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + size :])

    write(lambda facts: facts["factors"].update(dict.fromkeys(facts["factors"], 2.0)))
    assert fingerprint(adapter) != before
    for change in (
        lambda facts: facts.update(weights="int3"),
        lambda facts: facts["factors"].update(none=1.0),
        lambda facts: facts["factors"].popitem(),
    ):
        write(change)
        with pytest.raises(ModelError, match="Copy it again, or repeat the run"):
            load_model(adapter, device="cpu")


def test_one_base_serves_many_and_is_itself_again(base: Path, tmp_path: Path) -> None:
    first, _ = save_both(base, tmp_path / "one")
    second, full = save_both(base, tmp_path / "other", seed=1)
    expected = {folder: state(folder) for folder in (base, first, second, full)}
    shared = SharedBase()
    for folder in (first, base, second, full, first, second, full):
        assert equal(state(folder, shared=shared), expected[folder]), folder
    assert shared.loads == 1
    shared.set_trained()
    assert equal(state(first, shared=shared), expected[first])
    assert equal(state(first), expected[first])
