"""Claims, words, tables and published numbers of the paper: YAML files beside its code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def declared(name: str) -> Any:
    """Content of ``papers/memorization/<name>.yaml``; not to be changed."""
    path = files("medunlearn.papers.memorization") / f"{name}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))
