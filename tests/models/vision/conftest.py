"""Tiny random models of every family, built of local parts alone and saved as folders that can be loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    CLIPVisionConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from medunlearn.data.records import Question, Record
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.tiny import build_tiny
from medunlearn.models.vision.idefics3 import AROUND, TILE, WHOLE
from medunlearn.models.vision.qwen import END, PAD, START

FAMILIES = ("llava", "idefics3", "smolvlm", "qwen2_5_vl")
TEXTS = ["Which finding does this chest radiograph show? A small effusion on the left, and no pneumothorax."]
TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "max_position_embeddings": 512,
}
TOWER: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 4,
}
SPECIAL = {
    "llava": ["<image>"],
    "idefics3": ["<image>", AROUND, WHOLE, *(TILE.format(r, c) for r in (1, 2) for c in (1, 2))],
    "smolvlm": ["<image>", AROUND, WHOLE, *(TILE.format(r, c) for r in (1, 2) for c in (1, 2))],
    "qwen2_5_vl": [START, PAD, END],
}
CHAT = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %} Said:"
)


def _llava(text: dict[str, Any], image_token: int) -> tuple[Any, Any]:
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**TOWER, image_size=12),
        text_config=LlamaConfig(**text),
        image_token_id=image_token,
        vision_feature_layer=-2,
    )
    processor = CLIPImageProcessorPil(size={"height": 12, "width": 12}, do_center_crop=False)
    return LlavaForConditionalGeneration(config), processor


def _idefics3(text: dict[str, Any], image_token: int) -> tuple[Any, Any]:
    config = Idefics3Config(
        vision_config={**TOWER, "image_size": 8},
        text_config=LlamaConfig(**text),
        image_token_id=image_token,
        scale_factor=2,
    )
    processor = Idefics3ImageProcessorPil(size={"longest_edge": 16}, max_image_size={"longest_edge": 8})
    return Idefics3ForConditionalGeneration(config), processor


def _smolvlm(text: dict[str, Any], image_token: int) -> tuple[Any, Any]:
    config = SmolVLMConfig(
        vision_config={**TOWER, "image_size": 8},
        text_config=LlamaConfig(**text),
        image_token_id=image_token,
        scale_factor=2,
    )
    processor = SmolVLMImageProcessorPil(
        size={"longest_edge": 16}, max_image_size={"longest_edge": 8}, do_image_splitting=False
    )
    return SmolVLMForConditionalGeneration(config), processor


def _qwen(text: dict[str, Any], image_token: int) -> tuple[Any, Any]:
    config = Qwen2_5_VLConfig(
        vision_config={
            "depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4,
            "spatial_merge_size": 2, "out_hidden_size": 32, "fullatt_block_indexes": [1], "window_size": 16,
        },
        text_config={
            **text,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        },
        image_token_id=image_token,
    )  # fmt: skip
    processor = Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, size={"shortest_edge": 256, "longest_edge": 1024}
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor


MAKE: dict[str, Callable[..., tuple[Any, Any]]] = {
    "llava": _llava,
    "idefics3": _idefics3,
    "smolvlm": _smolvlm,
    "qwen2_5_vl": _qwen,
}


@pytest.fixture(scope="session")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two images that are wider than high, and one that is none."""
    folder = tmp_path_factory.mktemp("pictured")
    for name, seed in (("one", 1), ("two", 2)):
        pixels = np.random.default_rng(seed).integers(0, 256, (20, 30), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    (folder / "broken.png").write_bytes(b"no image at all")
    return folder


@pytest.fixture(scope="session", params=FAMILIES)
def model_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name: str = request.param
    folder: Path = tmp_path_factory.mktemp(name)
    tokenizer = build_tiny(TEXTS, vocabulary=300, width=16, layers=1, heads=2).tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL[name]})
    tokenizer.chat_template = CHAT.replace("<image>", START + PAD + END) if name == "qwen2_5_vl" else CHAT
    marker = PAD if name == "qwen2_5_vl" else "<image>"
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        text = {**TEXT, **ends, "vocab_size": len(tokenizer)}
        model, processor = MAKE[name](text, tokenizer.convert_tokens_to_ids(marker))
        with torch.no_grad():
            for tensor in model.parameters():
                if tensor.dim() == 1:
                    tensor.add_(0.1 * torch.randn_like(tensor))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture
def seeing(model_folder: Path, pictured: Path) -> LanguageModel:
    """A fresh model of each family."""
    return load_model(model_folder, device="cpu", images=pictured)


@pytest.fixture(scope="session")
def about() -> Callable[[str, int, str], tuple[Question, Record]]:
    """``about(image, place, answer)``: a question and the record with the image that it is about."""

    def make(image: str, place: int, answer: str) -> tuple[Question, Record]:
        record = Record(f"r-{image}-{place}", "A small effusion.", {"patient": image}, image=f"{image}.png")
        text = f"Which finding does this show{' on the left' * place}?"
        return Question(
            f"q-{image}-{place}", record.record_id, "train", "generation", "patient", text, answer
        ), record

    return make
