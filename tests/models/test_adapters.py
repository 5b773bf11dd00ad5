"""Adapters from elsewhere are the same model once merged, or refused with the way out."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from model_families import build_family
from peft import LoraConfig, PromptTuningConfig, TaskType, get_peft_model
from real_tokenizers import byte_level
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from medunlearn.errors import ModelError
from medunlearn.models.adapters import refuse_other_model, sample_logits
from medunlearn.models.load import load_model
from medunlearn.study.export import export

WORDS = ["Ana Silva was given aspirin and heparin.", "Question: Which drug? Answer: aspirin"]
IDS = torch.tensor([[5, 60, 7, 80, 9, 3, 3, 4]])
LAYERS = {
    "embedding": {"target_modules": ["embed_tokens", "q_proj"]},
    "head": {"target_modules": ["lm_head", "q_proj"]},
    "whole embedding": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    "whole head": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    "tokens": {"target_modules": ["q_proj"], "trainable_token_indices": [5, 60]},
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A Llama whose embedding and head share their weights."""
    tokenizer = byte_level(WORDS, 300)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def save_adapter(base: Path, folder: Path, *, rows: int | None = None, **settings: Any) -> torch.Tensor:
    """An adapter saved by PEFT; returns the logits that it was saved with."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(base)
        if rows is not None:
            model.resize_token_embeddings(rows, mean_resizing=False)
        adapted = get_peft_model(model, LoraConfig(r=4, **settings)).eval()
        with torch.no_grad():
            for tensor in adapted.parameters():
                if tensor.requires_grad:
                    tensor.add_(0.1 * torch.randn_like(tensor))
        adapted.save_pretrained(folder)
    with torch.inference_mode():
        logits: torch.Tensor = adapted(input_ids=IDS).logits
    return logits


def logits(folder: Path) -> torch.Tensor:
    with torch.inference_mode():
        values: torch.Tensor = load_model(folder, device="cpu").model.eval()(input_ids=IDS).logits
    return values


@pytest.mark.parametrize("name", LAYERS)
def test_an_adapter_on_tied_weights_is_the_model_that_was_saved(base: Path, tmp_path: Path, name: str) -> None:
    meant = save_adapter(base, tmp_path / "adapter", **LAYERS[name])
    torch.testing.assert_close(logits(tmp_path / "adapter"), meant, rtol=1e-4, atol=1e-4)
    exported = export(tmp_path / "adapter", tmp_path / "hf")
    torch.testing.assert_close(logits(exported), meant, rtol=1e-4, atol=1e-4)
    plain = AutoModelForCausalLM.from_pretrained(exported).eval()
    with torch.inference_mode():
        torch.testing.assert_close(plain(input_ids=IDS).logits, meant, rtol=1e-4, atol=1e-4)


def test_a_larger_vocabulary_of_an_adapter_is_its_bases(base: Path, tmp_path: Path) -> None:
    rows = len(byte_level(WORDS, 300)) + 2
    settings = {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}
    meant = save_adapter(base, tmp_path / "adapter", rows=rows, **settings)
    with pytest.raises(ModelError, match=rf"vocabulary of {rows} tokens.*tokenizer\.save_pretrained"):
        load_model(tmp_path / "adapter", device="cpu")
    byte_level(WORDS, 300).save_pretrained(tmp_path / "adapter")
    torch.testing.assert_close(logits(tmp_path / "adapter"), meant, rtol=1e-4, atol=1e-4)


def test_prompt_tuning_is_refused_with_the_way_out(base: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(base)
        config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=4)
        get_peft_model(model, config).save_pretrained(tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert settings["peft_type"] == "PROMPT_TUNING"
    with pytest.raises(ModelError, match=r"PROMPT_TUNING.*Give a LoRA adapter, or the base"):
        load_model(tmp_path / "adapter", device="cpu")


def test_a_merge_that_changes_the_model_is_refused() -> None:
    model = build_family("Llama")
    before = sample_logits(model)
    refuse_other_model(before, model, "It")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    with pytest.raises(ModelError, match="another model once it is merged"):
        refuse_other_model(before, model, "It")
