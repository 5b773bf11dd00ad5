"""GGUF files (llama.cpp, Ollama) as model folders: read by transformers, dequantized, saved as safetensors.

A GGUF file is quantized as a rule. The model that comes of it answers like the file, not like the model that the
file was made from, and can be trained; it is not a file for llama.cpp any more.
"""

from __future__ import annotations

import struct
import warnings
from contextlib import redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from medunlearn.data.storage import make_folder, read_json, sha256_of, write_json
from medunlearn.errors import InputError, ModelError, first_line
from medunlearn.models.loading import from_pretrained

SUFFIX, RECORD = ".gguf", "gguf.json"
_MAGIC = b"GGUF"


def is_gguf(source: str | Path) -> bool:
    """True for a GGUF file."""
    path = Path(source)
    return path.suffix.casefold() == SUFFIX and path.is_file()


def gguf_facts(folder: Path) -> dict[str, Any] | None:
    """Facts on the file that a folder was made from; None for other folders."""
    try:
        return dict(read_json(folder / RECORD)) if (folder / RECORD).exists() else None
    except (InputError, TypeError, ValueError):
        return None


def folder_of_gguf(file: Path, where: Path) -> Path:
    """A model folder with the dequantized weights of a GGUF file, below ``where``; made once.

    Raises:
        InputError: the package gguf is not installed.
        ModelError: no GGUF file, an architecture that transformers does not read, or a tokenizer that is not there.
        StorageError: the disk refused.
    """
    with file.open("rb") as opened:
        head = opened.read(8)
    if len(head) < 8 or head[:4] != _MAGIC:
        raise ModelError(f"{file} is no GGUF file. Copy it again.")
    digest = sha256_of(file)
    folder = where / f"{file.stem}-{digest[:8]}"
    known = gguf_facts(folder)
    if known is not None and known.get("sha256") == digest:
        return folder
    if find_spec("gguf") is None:
        raise InputError(
            f"{file} is a GGUF file, and its package is not installed: pip install gguf (the extra "
            "medunlearn[gguf])."
        )
    make_folder(folder)
    _convert(file, folder)
    # Last: a folder with it is complete.
    facts = {
        "file": file.name,
        "sha256": digest,
        "version": struct.unpack("<I", head[4:])[0],
        **_quantization(file),
    }
    write_json(folder / RECORD, facts)
    return folder


def _convert(file: Path, folder: Path) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        # Its progress bar cannot be turned off.
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            tokenizer = from_pretrained("AutoTokenizer", file.parent, gguf_file=file.name)
            model = from_pretrained("AutoModelForCausalLM", file.parent, gguf_file=file.name, dtype="float32")
    except Exception as error:  # libraries raise errors of their own, and a broken file any
        raise ModelError(
            f"{file} cannot be read: {first_line(error)} transformers reads GGUF files of some architectures. Give "
            "the Hugging Face folder that the file was made from."
        ) from error
    plain = type(model)(_unquantized(model.config))
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    plain.to(model.dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _unquantized(config: Any) -> Any:
    facts = config.to_dict()
    facts.pop("quantization_config", None)
    return type(config).from_dict(facts)


def _quantization(file: Path) -> dict[str, Any]:
    """Number of tensors and of values by type, such as Q4_1, and the type that most values have."""
    from gguf import GGUFReader

    values: dict[str, int] = {}
    for tensor in GGUFReader(file).tensors:
        values[tensor.tensor_type.name] = values.get(tensor.tensor_type.name, 0) + int(tensor.n_elements)
    return {"tensor_type": max(values, key=values.__getitem__), "values": dict(sorted(values.items()))}
