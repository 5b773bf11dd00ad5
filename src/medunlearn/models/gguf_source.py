"""A GGUF file as the model that is adopted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.errors import InputError
from medunlearn.models.gguf_files import folder_of_gguf, gguf_facts
from medunlearn.models.model_source import ModelSource, find_model
from medunlearn.progress import remark


def gguf_source(file: Path, where: Path, given: Mapping[str, Any], *, quiet: bool = False) -> ModelSource:
    """The model of a GGUF file, in a folder below ``where``; says what its weights are.

    Args:
        given: settings that say which files belong to a model; none may be given, as the file holds all of it.

    Raises:
        InputError: a setting is given; else as :func:`folder_of_gguf`.
    """
    if names := [name for name, value in given.items() if value is not None]:
        raise InputError(f"A GGUF file has its own tokenizer and no base. Leave out --{', --'.join(names)}.")
    folder = folder_of_gguf(file, where)
    remark(
        f"{file}: its weights are dequantized from {(gguf_facts(folder) or {}).get('tensor_type')} into {folder}; "
        "they are the file's, not those of the model that it was made from",
        quiet=quiet,
    )
    return replace(find_model(folder), name=str(file))
