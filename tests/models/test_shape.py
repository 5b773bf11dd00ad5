"""Shapes from configurations: parameter counts are those of transformers' models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from medunlearn.errors import ModelError
from medunlearn.models.shape import shape_of, tiny_shape
from medunlearn.models.tiny import build_tiny
from medunlearn.models.vision.tiny_vision import build_tiny_vision

SIZES = {"hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 4}
GROUPED = {**SIZES, "num_key_value_heads": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**GROUPED, "vocab_size": 300},
    "llama with biases": {**SIZES, "model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "mistral": {**GROUPED, "tie_word_embeddings": True},
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "qwen2": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 16},
    "smollm3": {**GROUPED, "vocab_size": 300, "pad_token_id": 0},
    "gemma": {**GROUPED, "head_dim": 16},
    "gemma2": {**GROUPED, "head_dim": 16},
    "gemma3_text": {**GROUPED, "head_dim": 16},
    "gpt2": {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 300},
    "gpt_neox": SIZES,
    "opt": {"hidden_size": 48, "ffn_dim": 112, "num_hidden_layers": 3, "num_attention_heads": 4,
            "word_embed_proj_dim": 48, "vocab_size": 300},
    "phi": SIZES,
    "phi3": {**GROUPED, "vocab_size": 300, "pad_token_id": 0},
}  # fmt: skip


def _config(name: str) -> Any:
    values = {"model_type": name.partition(" ")[0], **CONFIGS[name]}
    return AutoConfig.for_model(**values)


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_exact_by_arithmetic_alone(name: str) -> None:
    config = _config(name)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert shape_of(config.to_dict()).parameters == sum(tensor.numel() for tensor in model.parameters())


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox"])
def test_a_folder_is_counted_by_its_weights_headers(name: str, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_config(_config(name))
    model.save_pretrained(tmp_path)
    count = sum(tensor.numel() for tensor in model.parameters())
    assert shape_of(tmp_path).parameters == count
    # Of a family that is not known, or with parameters that its configuration does not name.
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "other"}))
    assert shape_of(tmp_path).parameters == count


def test_the_tiny_models() -> None:
    text = build_tiny(["Patient 4711 has a cough.", "Question: why? Answer: because."], width=64, layers=2)
    vocabulary = text.model.config.vocab_size
    assert tiny_shape(64, 2, vocabulary).parameters == sum(tensor.numel() for tensor in text.model.parameters())
    sizes = {"pixels": 64, "patch": 16}
    seeing = build_tiny_vision(text, [], folder=None, seed=0, **sizes)
    shape = tiny_shape(64, 2, vocabulary, **sizes)
    assert shape.parameters == sum(tensor.numel() for tensor in seeing.model.parameters())
    assert shape.tower is not None
    assert shape.tower.tokens == 16


def test_a_vision_language_folder(tmp_path: Path) -> None:
    text = build_tiny(["a b c"], width=64, layers=2)
    model = build_tiny_vision(text, [], folder=None, seed=0, pixels=32, patch=16).model
    model.save_pretrained(tmp_path)
    shape = shape_of(tmp_path)
    assert shape.parameters == sum(tensor.numel() for tensor in model.parameters())
    assert (shape.layers, shape.hidden) == (2, 64)


def test_a_hub_id_gets_a_stand_in_of_its_size_and_says_so() -> None:
    shape = shape_of("org/Great-3B-Instruct")
    assert (shape.layers, shape.hidden) == (28, 3072)
    assert "org/Great-3B-Instruct is not on this machine" in shape.doubt
    assert 7.5e9 < shape_of("org/great").parameters < 8.5e9


@pytest.mark.parametrize(
    "config",
    ["[]", "{}", '{"n_layer": "x", "n_embd": 1, "n_head": 1}', '{"n_layer": 1, "n_embd": 8, "n_head": 0}'],
)
def test_a_broken_folder_is_refused(config: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError, match="no decoder's"):
        shape_of(tmp_path)


def test_broken_weights_and_missing_folders_are_refused(tmp_path: Path) -> None:
    _config("llama").save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(ModelError, match=r"model\.safetensors is broken"):
        shape_of(tmp_path)
    with pytest.raises(ModelError, match="There is no model folder"):
        shape_of("./nowhere")
