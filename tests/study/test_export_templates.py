"""An exported folder has all chat templates, and a type of weights that was told."""

from __future__ import annotations

from pathlib import Path

import torch
from family_roads import small_benchmark, small_tokenizer
from model_families import build_family
from transformers import AutoTokenizer

from medunlearn.config import AdoptSettings, check
from medunlearn.study.adopt import adopt
from medunlearn.study.export import export
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

TEMPLATES = {
    "default": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}",
    "tool_use": "{% for m in messages %}<tool>{{ m['content'] }}\n{% endfor %}",
}


def save(folder: Path) -> Path:
    tokenizer = AutoTokenizer.from_pretrained(small_tokenizer().save_pretrained(folder)[0].rsplit("/", 1)[0])
    tokenizer.chat_template = TEMPLATES
    build_family("Llama", vocab_size=len(tokenizer)).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_further_chat_templates_are_kept(tmp_path: Path) -> None:
    folder = save(tmp_path / "base")
    assert (folder / "additional_chat_templates/tool_use.jinja").exists()
    settings = {"sample": 2, "allow_broken": True, "max_length": 512}
    for name, more in (("reference", {}), ("copy", {"copy_weights": True})):
        how = check(AdoptSettings, {**settings, **more})
        run = adopt(folder, small_benchmark(), how, tmp_path / name, device="cpu", quiet=True)
        out = export(run.folder, tmp_path / f"hf-{name}")
        assert AutoTokenizer.from_pretrained(out).chat_template == TEMPLATES
        assert AutoTokenizer.from_pretrained(run.model).chat_template == TEMPLATES if more else True


def test_weights_that_became_wider_are_told(tmp_path: Path) -> None:
    folder = save(tmp_path / "base")
    lines: list[str] = []
    values = {"model": str(folder), "epochs": 1, "precision": "fp32", "lr": 1e-3}
    run = train(small_benchmark(), train_settings(values), tmp_path / "run", device="cpu", quiet=True)
    export(run.folder, tmp_path / "hf", say=lines.append)
    assert len(lines) == 1
    assert "fp32" in lines[0]
    assert "bf16" in lines[0]
    export(folder, tmp_path / "same", say=lines.append)
    assert len(lines) == 1
