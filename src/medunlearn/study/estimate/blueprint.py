"""A model without weights: its shape and tokenizer, or those of a stand-in of similar size."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from medunlearn.config import TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ModelError, first_line
from medunlearn.models.folders import adapter_base, chain, is_adapter, model_folder
from medunlearn.models.pretrained import LOADING_ERRORS, load_tokenizer
from medunlearn.models.vision import family_of
from medunlearn.study.estimate.planned_images import (
    PlannedImages,
    counted_images,
    processed_images,
    text_config,
    usual_images,
)
from medunlearn.study.train import tiny_model

LETTERS_A_TOKEN = 4
DEFAULT_BILLIONS = 8.0
_SHAPE = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
STAND_INS: Mapping[float, tuple[int, int, int, int, int]] = {
    0.5: (1024, 4096, 24, 16, 16),
    1.0: (2048, 8192, 16, 32, 8),
    3.0: (3072, 8192, 28, 24, 8),
    8.0: (4096, 14336, 32, 32, 8),
    14.0: (5120, 17408, 40, 40, 8),
    32.0: (5120, 25600, 64, 64, 8),
    70.0: (8192, 28672, 80, 64, 8),
}
"""Billions of parameters -> shape of common decoders of that size."""
TEXT_ALONE = "The benchmark has images, and {} takes text alone. Give a vision-language model, or --images ignore."
USUAL_TOWER = " Its vision tower is taken for Qwen2.5-VL's: a picture token for 28 x 28 pixels."


class Blueprint(NamedTuple):
    """A model without weights: ``make`` builds it with a weight type, on the active device or mode.

    ``doubt`` is the reason why its numbers are estimates; empty if they are exact. ``images``: image input of a
    vision-language model; ``make`` then builds only its language model.
    """

    make: Callable[[torch.dtype], Any]
    tokenizer: Any
    doubt: str = ""
    images: PlannedImages | None = None


def blueprint(benchmark: Benchmark, settings: TrainSettings) -> Blueprint:
    """The initial model of a training run.

    Raises:
        ModelError: a folder without a model, or a text model for images.
    """
    if settings.model == "tiny-vision":
        live = tiny_model(benchmark, settings)
        assert live.pictures is not None
        config, processor = live.model.config, live.pictures.processor
        images = counted_images(processor, config, live.pictures.family, benchmark.folder)
        return Blueprint(_text_model(config), live.tokenizer, "", images)
    if settings.model == "tiny":
        with torch.device("meta"):
            tiny = tiny_model(benchmark, settings)
        return Blueprint(lambda dtype: type(tiny.model)(tiny.model.config).to(dtype), tiny.tokenizer)
    model = blueprint_named(settings)
    if settings.images == "ignore" or not any(record.image for record in benchmark.records):
        return model._replace(images=None)
    if model.images is not None:
        return model._replace(images=replace(model.images, folder=benchmark.folder))
    if not model.doubt:
        raise ModelError(TEXT_ALONE.format(settings.model))
    return model._replace(images=usual_images(benchmark.folder), doubt=model.doubt + USUAL_TOWER)


def blueprint_named(settings: TrainSettings) -> Blueprint:
    """The initial model of a training run, unless it is built from the benchmark's text.

    Raises:
        ModelError: a folder without a model.
    """
    return blueprint_of(model_folder(settings.model), trust_remote_code=settings.trust_remote_code)


def blueprint_of(source: str, *, trust_remote_code: bool = False) -> Blueprint:
    """The model of a folder or a hub id; nothing is downloaded, and a missing model gets a stand-in.

    Raises:
        ModelError: no model in the folder, or neither a folder nor a hub id.
    """
    local = Path(source).is_dir()
    if not local and not re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    if local and is_adapter(Path(source)):
        return blueprint_of(adapter_base(Path(source)), trust_remote_code=trust_remote_code)
    root = str(chain(Path(source), check=False)[0]) if local else source
    options = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(root, **options)
        tokenizer = load_tokenizer(Path(root)) if local else AutoTokenizer.from_pretrained(root, **options)
    except LOADING_ERRORS as error:
        if local:
            raise ModelError(f"Model {source} cannot be read: {first_line(error)}") from error
        return _stand_in(source)
    if (family := family_of(config)) is not None:
        return Blueprint(_text_model(config), tokenizer, "", processed_images(root, config, family, None))
    return Blueprint(
        lambda dtype: AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code),
        tokenizer,
    )


def _text_model(config: Any) -> Callable[[torch.dtype], Any]:
    """Build the language model of a vision-language model's configuration."""
    return lambda dtype: AutoModelForCausalLM.from_config(text_config(config), dtype=dtype)


def _stand_in(source: str) -> Blueprint:
    """A common decoder of the size in the model's name."""
    size = re.search(r"(\d+(?:\.\d+)?)\s*[bB](?![a-zA-Z])", source)
    billions = float(size.group(1)) if size else DEFAULT_BILLIONS
    nearest = min(STAND_INS, key=lambda known: abs(known - billions) / known)
    config = LlamaConfig(vocab_size=128_256, **dict(zip(_SHAPE, STAND_INS[nearest], strict=True)))
    doubt = (
        f"{source} is not on this machine: taken as a usual decoder of {nearest:g} billion parameters, with "
        f"{LETTERS_A_TOKEN} letters to a token."
    )
    return Blueprint(lambda dtype: AutoModelForCausalLM.from_config(config, dtype=dtype), _LetterTokenizer(), doubt)


class _LetterTokenizer:
    """Stand-in for a missing tokenizer: one token per few letters."""

    eos_token_id = 0
    bos_token_id = pad_token_id = None
    chat_template = "stand-in"

    def __call__(self, text: str | list[str], **options: Any) -> dict[str, Any]:
        if isinstance(text, list):
            return {"input_ids": [self(part)["input_ids"] for part in text]}
        pieces = [text[start : start + LETTERS_A_TOKEN] for start in range(0, len(text), LETTERS_A_TOKEN)]
        return {"input_ids": [1 + zlib.crc32(piece.encode()) % 100_000 for piece in pieces]}

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        return "".join(f"{message['content']}\n\n" for message in messages)
