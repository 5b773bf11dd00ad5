"""A causal language model with its tokenizer, from a folder or a hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from medunlearn.data.storage import as_storage_error, sha256_of, sha256_of_json
from medunlearn.errors import InputError, ModelError

Weights = Literal["fp32", "bf16", "fp16"]
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
        ModelError: no such model, no tokenizer, or no weights as safetensors.
    """
    transformers_logging.disable_progress_bar()
    folder = Path(source)
    if folder.is_dir():
        _check_folder(folder)
    elif folder.is_absolute() or str(source).startswith((".", "~")) or str(source).count("/") != 1:
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=trust_remote_code)
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=_DTYPES[weights], use_safetensors=True, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"Model {source} cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"The tokenizer of {source} has no EOS token; answers could not be ended.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return LanguageModel(model.to(pick_device(device)), tokenizer, str(source))


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


def fingerprint(folder: Path) -> str:
    """SHA-256 over a model folder's configuration, weights and tokenizer: equal folders, equal models."""
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.suffix == ".safetensors" or path.name in ("config.json", "tokenizer.json")
    )
    return sha256_of_json([(name, sha256_of(folder / name)) for name in names])
