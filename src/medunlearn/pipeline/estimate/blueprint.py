"""A model before it is loaded: its shape and its tokenizer, from the configuration alone; nothing is downloaded."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from medunlearn.config import TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ModelError
from medunlearn.models.folders import chain
from medunlearn.models.load import LanguageModel, load_tokenizer
from medunlearn.models.vision import family_of
from medunlearn.pipeline.estimate.hollow import on_meta
from medunlearn.pipeline.material import model_folder
from medunlearn.pipeline.train import tiny_model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LETTERS_A_TOKEN = 4
USUAL = 8.0
# Billions of parameters -> width, inner width, layers, heads, key and value heads of usual decoders of that size.
STAND_INS: Mapping[float, tuple[int, int, int, int, int]] = {
    0.5: (1024, 4096, 24, 16, 16),
    1.0: (2048, 8192, 16, 32, 8),
    3.0: (3072, 8192, 28, 24, 8),
    8.0: (4096, 14336, 32, 32, 8),
    14.0: (5120, 17408, 40, 40, 8),
    32.0: (5120, 25600, 64, 64, 8),
    70.0: (8192, 28672, 80, 64, 8),
}


NOT_ESTIMATED = (
    "What a vision-language model takes is not estimated: its tower is not rehearsed. Run it without --plan."
)


@dataclass(frozen=True)
class Blueprint:
    """What is known of a model without its weights.

    Attributes:
        make: builds it on the meta device, with weights of a given type.
        tokenizer: its tokenizer, or a stand-in.
        doubt: why numbers about it are estimates; empty where they are exact.
    """

    make: Callable[[torch.dtype], Any]
    tokenizer: Any
    doubt: str = ""

    def model(self, weights: str) -> Any:
        """The model on the meta device; ``weights`` is ``fp32`` or ``bf16``."""
        with on_meta():
            return self.make(DTYPES[weights])

    def language_model(self) -> LanguageModel:
        """A tokenizer where one is asked for together with a model; there is no model in it."""
        return LanguageModel(None, self.tokenizer, "blueprint")


def blueprint(benchmark: Benchmark, settings: TrainSettings) -> Blueprint:
    """The model that a training run starts from.

    Raises:
        ModelError: a folder without a model, or a model that sees images.
    """
    if settings.model == "tiny-vision":
        raise ModelError(NOT_ESTIMATED)
    if settings.images == "use" and any(record.image for record in benchmark.records):
        raise ModelError(f"{NOT_ESTIMATED} For a model of text alone, say images=ignore.")
    if settings.model == "tiny":
        with on_meta():
            tiny = tiny_model(benchmark, settings)
        return Blueprint(lambda dtype: type(tiny.model)(tiny.model.config).to(dtype), tiny.tokenizer)
    return of_folder_or_hub(model_folder(settings.model), trust_remote_code=settings.trust_remote_code)


def of_folder_or_hub(source: str, *, trust_remote_code: bool = False) -> Blueprint:
    """The model in a folder or, as far as it is on this machine, behind a hub id.

    Raises:
        ModelError: the folder holds no model, or is none and no hub id either; the model sees images.
    """
    here = Path(source).is_dir()
    if not here and not re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    root = str(chain(Path(source), check=False)[0]) if here else source
    more = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(root, **more)
        tokenizer = load_tokenizer(Path(root)) if here else AutoTokenizer.from_pretrained(root, **more)
    except (OSError, ValueError, KeyError) as error:
        if here:
            raise ModelError(f"Model {source} cannot be read: {str(error).strip().splitlines()[0]}") from error
        return _stand_in(source)
    if family_of(config) is not None:
        raise ModelError(NOT_ESTIMATED)
    return Blueprint(
        lambda dtype: AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code),
        tokenizer,
    )


def _stand_in(source: str) -> Blueprint:
    """For a model that is not on this machine: a usual decoder of the size that its name says."""
    said = re.search(r"(\d+(?:\.\d+)?)\s*[bB](?![a-zA-Z])", source)
    size = float(said.group(1)) if said else USUAL
    nearest = min(STAND_INS, key=lambda known: abs(known - size) / known)
    width, inner, layers, heads, key_value_heads = STAND_INS[nearest]
    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
    )
    doubt = (
        f"{source} is not on this machine: taken as a usual decoder of {nearest:g} billion parameters, with "
        f"{LETTERS_A_TOKEN} letters to a token."
    )
    return Blueprint(lambda dtype: AutoModelForCausalLM.from_config(config, dtype=dtype), _Letters(), doubt)


class _Letters:
    """Stands in for a tokenizer that is not here: a token for every few letters."""

    eos_token_id = 0
    bos_token_id = pad_token_id = None
    chat_template = "stand-in"

    def __call__(self, text: str | list[str], **named: Any) -> dict[str, Any]:
        if isinstance(text, list):
            return {"input_ids": [self(one)["input_ids"] for one in text]}
        pieces = [text[start : start + LETTERS_A_TOKEN] for start in range(0, len(text), LETTERS_A_TOKEN)]
        return {"input_ids": [1 + zlib.crc32(piece.encode()) % 100_000 for piece in pieces]}

    def apply_chat_template(self, messages: list[dict[str, str]], **named: Any) -> str:
        return "".join(f"{message['content']}\n\n" for message in messages)
