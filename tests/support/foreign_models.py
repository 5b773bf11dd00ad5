"""Models from elsewhere: saved by plain transformers and PEFT, without medunlearn."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def save_foreign(trained: Path, folder: Path, *, chat: bool = True, shard: str = "5GB") -> Path:
    """The model of a folder saved by transformers elsewhere; with ``chat`` its tokenizer has a chat template."""
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(trained)
    tokenizer.chat_template = CHAT if chat else None
    AutoModelForCausalLM.from_pretrained(trained).save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    return folder


def save_adapter(base: Path, folder: Path, *, named: str | None = None) -> Path:
    """A LoRA adapter over a model folder, saved by PEFT; it names ``named`` as its base, the folder if None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = get_peft_model(
            AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
        )
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "lora_B" in name:
                tensor.copy_(0.05 * torch.randn(tensor.shape, generator=draw))
    model.save_pretrained(folder)
    edit_json(folder / "adapter_config.json", base_model_name_or_path=str(base) if named is None else named)
    return folder


def edit_json(path: Path, **values: object) -> None:
    """Replace keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
