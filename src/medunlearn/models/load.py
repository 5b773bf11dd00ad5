"""A causal language model with its tokenizer, from a folder or a hub."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from medunlearn.data.storage import as_storage_error, sha256_of, sha256_of_json
from medunlearn.errors import InputError, ModelError

Weights = Literal["fp32", "bf16", "fp16"]
LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, SafetensorError)
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class LanguageModel:
    """A model and the tokenizer that belongs to it.

    Attributes:
        model: a Hugging Face causal model.
        tokenizer: its tokenizer, with an EOS token and a pad token (which may be the same).
        source: the folder or hub id that it came from, or how it was built.
    """

    model: Any
    tokenizer: Any
    source: str

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    def save(self, folder: Path) -> Path:
        """Write a Hugging Face folder: weights as safetensors, configuration, tokenizer.

        Raises:
            StorageError: the disk refused.
        """
        transformers_logging.disable_progress_bar()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.model.save_pretrained(folder, safe_serialization=True)
            self.tokenizer.save_pretrained(folder)
        except Exception as error:
            refused = as_storage_error(error, folder)
            if refused is None:
                raise
            raise refused from error
        return folder


def load_model(
    source: str | Path, *, device: str = "auto", weights: Weights = "fp32", trust_remote_code: bool = False
) -> LanguageModel:
    """A causal model from a folder or a hub id.

    Args:
        source: a folder that holds a Hugging Face model, or a hub id such as ``org/name``.
        device: ``auto`` takes a GPU where there is one.
        weights: type of the weights in memory.
        trust_remote_code: run code that comes with the model; off unless asked for.

    Raises:
        ModelError: no such model, no tokenizer, no weights as safetensors, or not all of them.
    """
    transformers_logging.disable_progress_bar()
    folder = Path(source)
    if folder.is_dir():
        _check_folder(folder)
    elif folder.is_absolute() or str(source).startswith((".", "~")) or str(source).count("/") != 1:
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=trust_remote_code)
        model, loaded = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=_DTYPES[weights],
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
    except LOADING_ERRORS as error:
        raise ModelError(f"Model {source} cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    refuse_missing(source, loaded["missing_keys"])
    if tokenizer.eos_token_id is None:
        raise ModelError(f"The tokenizer of {source} has no EOS token; answers could not be ended.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return LanguageModel(model.to(pick_device(device)), tokenizer, str(source))


def refuse_missing(source: str | Path, missing: Iterable[str]) -> None:
    """Transformers fills weights that a file lacks with random numbers; here that is an error.

    Raises:
        ModelError: something is missing.
    """
    names = sorted(missing)
    if names:
        shown = ", ".join(names[:3]) + (f", ... ({len(names)} in all)" if len(names) > 3 else "")
        raise ModelError(
            f"{source} lacks weights that its config.json asks for: {shown}. Copy the whole model, or give one "
            "that was trained for this use."
        )


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").exists():
        raise ModelError(f"{folder} is no model folder: it has no config.json.")
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise ModelError(
            f"{folder} has a model but no tokenizer (no tokenizer.json). Save the tokenizer there too: "
            "tokenizer.save_pretrained(folder)."
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder} has no weights as safetensors. Convert it: model.save_pretrained(folder).")


def pick_device(device: str) -> torch.device:
    """``auto``, ``cpu``, ``cuda``, ``cuda:1``, ... as a device.

    Raises:
        InputError: no such device on this machine.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"Device {device!r} cannot be used here: {str(error).splitlines()[0]}") from error


# What decides over a model's answers besides its weights.
_TELLING = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)


def fingerprint(folder: Path) -> str:
    """SHA-256 over a model folder's configuration, weights and tokenizer: equal folders, equal models."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix == ".safetensors" or path.name in _TELLING)
    return sha256_of_json([(name, sha256_of(folder / name)) for name in names])
