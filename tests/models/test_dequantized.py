"""A folder with FP8 weights: its dequantized values, also once it is saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from family_roads import small_tokenizer
from model_families import build_family
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from medunlearn.models.load import load_model

BLOCK, LARGEST = 128, 448
IDS = torch.tensor([[5, 60, 7, 80, 9, 3]])


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    """A Qwen3 with linear layers in blocks of e4m3, and what its weights are worth."""
    tokenizer = small_tokenizer()
    sizes = {"hidden_size": BLOCK, "intermediate_size": BLOCK, "head_dim": 32}
    build_family("Qwen3", vocab_size=len(tokenizer) + 8, **sizes).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    tensors, meant, file = {}, {}, tmp_path / "model/model.safetensors"
    for name, weight in load_file(file).items():
        meant[name] = tensors[name] = weight
        if weight.dim() == 2 and "proj" in name:
            scale = torch.tensor([[float(block.abs().max()) / LARGEST] for block in weight.split(BLOCK)])
            rows = scale.repeat_interleave(BLOCK, 0)[: len(weight)]
            tensors[name] = (weight / rows).to(torch.float8_e4m3fn)
            tensors[f"{name}_scale_inv"] = scale
            meant[name] = tensors[name].float() * rows
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((tmp_path / "model/config.json").read_text())
    block = {"weight_block_size": [BLOCK, BLOCK], "activation_scheme": "dynamic", "fmt": "e4m3"}
    config["quantization_config"] = {"quant_method": "fp8", **block}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    return tmp_path / "model", meant


def test_fp8_weights_are_dequantized_and_stay_so(
    folder: tuple[Path, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    path, meant = folder
    live = load_model(path, device="cpu")
    for name, tensor in live.model.state_dict().items():
        torch.testing.assert_close(tensor, meant[name], rtol=1e-5, atol=1e-6)
    saved = live.save(tmp_path / "saved")
    assert "quantization_config" not in json.loads((saved / "config.json").read_text())
    assert load_file(saved / "model.safetensors").keys() == meant.keys()
    plain = AutoModelForCausalLM.from_pretrained(saved).eval()
    with torch.inference_mode():
        assert torch.equal(plain(input_ids=IDS).logits, live.model.eval()(input_ids=IDS).logits)
