"""Checks of model folders and devices around loading; tokenizers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.errors import InputError, ModelError, first_few, first_line
from medunlearn.models.folders import adapter_base, chain, is_adapter
from medunlearn.models.loading import from_pretrained

if TYPE_CHECKING:
    import torch

LOADING_ERRORS = (Exception,)
"""Libraries in other languages raise errors of their own, and broken JSON any."""


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a model folder; of its base for a delta, and for an adapter without one.

    Raises:
        ModelError: it cannot be loaded.
    """
    root: str | Path = folder
    if is_adapter(folder) and not (folder / "tokenizer.json").exists():
        root = adapter_base(folder)
    if not is_adapter(Path(root)) and Path(root).is_dir():
        root = chain(Path(root), check=False)[0]
        check_model_folder(root)
    try:
        return from_pretrained("AutoTokenizer", root)
    except LOADING_ERRORS as error:
        raise ModelError(f"The tokenizer of {root} cannot be loaded: {first_line(error)}") from error


def refuse_missing(source: str | Path, missing: Iterable[str]) -> None:
    """Refuse missing weights, which transformers would silently initialise at random.

    Raises:
        ModelError: something is missing.
    """
    names = sorted(missing)
    if names:
        raise ModelError(
            f"{source} lacks weights that its config.json requires: {first_few(names)} ({len(names)} in all). Copy "
            "the whole model, or give one that was trained for this use."
        )


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that lacks a configuration, a tokenizer, or weights as safetensors. Raises ModelError."""
    if not (folder / "config.json").exists():
        raise ModelError(f"{folder} is not a model folder: it has no config.json.")
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise ModelError(
            f"{folder} has a model but no tokenizer (no tokenizer.json). Save the tokenizer there too: "
            "tokenizer.save_pretrained(folder)."
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder} has no weights as safetensors. Convert it: model.save_pretrained(folder).")


def pick_device(device: str) -> torch.device:
    """Resolve ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ... to a device.

    Raises:
        InputError: no such device on this machine.
    """
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"Device {device!r} is not available: {first_line(error)}") from error
