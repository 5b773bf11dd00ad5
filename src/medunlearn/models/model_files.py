"""Files of a model's folder: those that its fingerprint covers, and those that it leaves out, with the reason.

Rule 2 covers all files at any depth but those in :data:`LEFT_OUT`, so that a file nobody thought of is covered.
Rule 1, of older versions, covered weights and a list of names at the top of the folder. For a folder with no other
files both give the same fingerprint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from medunlearn.data.leftovers import is_passed_over

RULE: Literal[2] = 2
"""Rule by which fingerprints are made now."""
RULE_1 = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "adapter_config.json",
)
"""Names that rule 1 covers, besides the weights as safetensors."""
_TO_READ = "for people to read; nothing computes with it"
_TOOL = "of a tool that stores or moves the folder"
LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(("*.md", "license", "license.txt", "notice", "notice.txt"), _TO_READ),
    **dict.fromkeys(("*.png", "*.jpg", "*.jpeg", "*.svg", "*.pdf"), _TO_READ),
    **dict.fromkeys((".gitattributes", ".gitignore", ".git/*", ".cache/*", ".ds_store"), _TOOL),
    "lineage.json": "what the model was made from, as its run recorded it",
    "delta.json": "where the base is; the base's fingerprint is taken in its place",
    "requests.parquet": "the ledger of the model, which is checked by itself",
}
"""Pattern of a name, in lower case -> the reason why the fingerprint leaves such a file out."""
WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".ggml", ".onnx", ".h5", ".msgpack", ".npz", ".npy"),
    *(".pkl", ".pickle", ".joblib", ".pdparams", ".keras", ".tflite", ".mlmodel", ".engine", ".distcp", ".ot"),
)
CODE = (
    ".py",
    ".pyc",
    ".pyd",
    ".so",
    ".dll",
    ".dylib",
    ".sh",
    ".js",
    ".wasm",
    ".ipynb",
    ".zip",
    ".whl",
    ".tar",
    ".gz",
)
"""Endings of files with weights, and with code or archives that may hold some."""


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name relative to the folder, with ``/``, and path of every file at any depth, by name; no leftovers.

    A link to a folder is given as a file, and not followed.
    """
    names = []
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        names += [Path(place, name) for name in (*files, *links) if not is_passed_over(Path(name))]
    yield from sorted((path.relative_to(folder).as_posix(), path) for path in names)


def reason_left_out(name: str) -> str:
    """Reason why a fingerprint leaves out a file; "" if it covers the file. Weights and code are never left out."""
    if is_weights_or_code(name):
        return ""
    whole, base = name.casefold(), name.casefold().rpartition("/")[2]
    matches = (
        why for pattern, why in LEFT_OUT.items() if fnmatchcase(whole, pattern) or fnmatchcase(base, pattern)
    )
    return next(matches, "")


def covered_files(folder: Path) -> dict[str, Path]:
    """Relative name -> path of every file that the fingerprint of a model's folder covers, by name."""
    return {name: path for name, path in files_below(folder) if not reason_left_out(name)}


def is_weights_or_code(name: str) -> bool:
    """True for a file that holds weights in any format, or code."""
    return name.casefold().endswith((*WEIGHTS, *CODE))
