"""Limits on what a model folder may ask for: sizes are read before a library builds what they say.

A configuration of ten million layers, or a tokenizer with half a million added tokens, holds a library for hours,
without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from medunlearn.data.storage import read_json
from medunlearn.errors import InputError, ModelError

CONFIG = "config.json"
SIZES = (
    (frozenset({"vocab"}), 100_000_000),
    (frozenset({"layer", "layers", "depth", "depths", "blocks"}), 1_000),
    (frozenset({"experts"}), 100_000),
    (frozenset({"image"}), 100_000),
    (frozenset({"size", "dim", "width", "heads", "channels", "embd", "inner", "ffn", "rank"}), 10_000_000),
    (frozenset({"positions", "position", "ctx"}), 1_000_000_000),
)
"""Words in the name of a size, and the largest that is taken: several times that of any model in transformers."""
_PLACES = frozenset({"id", "ids", "index", "indices", "token", "tokens"})
ADDED_TOKENS = 100_000
"""Added tokens of a tokenizer: loading takes longer than in proportion to them."""
LARGEST_TOKENIZER = 1 << 28
"""Bytes of a tokenizer's file."""
LONGEST_LIST = 100_000
_TOKENIZER, _TOKENS = "tokenizer.json", ("tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")
_ADDED = re.compile(rb'"special"\s*:')


def refuse_oversized(folder: Path) -> None:
    """Refuse a model folder whose configuration or tokenizer is larger than any model's.

    Raises:
        ModelError: names the file, the size and the limit.
    """
    for name in (CONFIG, _TOKENIZER, *_TOKENS):
        path = folder / name
        if path.is_file():
            state = path.stat()
            if problem := _problem(path, state.st_size, state.st_mtime_ns):
                raise ModelError(f"{path} {problem}. Is it the right model?")


@lru_cache(maxsize=256)
def _problem(path: Path, size: int, changed: int) -> str | None:
    """The entry of a model folder's file that is too large, in words; None if none is."""
    if size > LARGEST_TOKENIZER:
        return f"has {size:,} bytes; at most {LARGEST_TOKENIZER:,} are read"
    if path.name == _TOKENIZER:  # it is too long to be parsed twice
        added = sum(1 for _ in _ADDED.finditer(path.read_bytes()))
        return _too_many(added)
    try:
        content = read_json(path)
    except InputError:
        return None  # who needs it says so
    if path.name == CONFIG:
        return next(_large_sizes(content), None)
    return _too_many(max((len(part) for part in _parts(content)), default=0))


def _too_many(added: int) -> str | None:
    return f"adds {added:,} tokens; at most {ADDED_TOKENS:,} are read" if added > ADDED_TOKENS else None


def _large_sizes(config: Any) -> Iterator[str]:
    for part in _parts(config):
        if len(part) > LONGEST_LIST:
            yield f"has a list or table of {len(part):,} values; at most {LONGEST_LIST:,} are read"
        for name, value in part.items() if isinstance(part, dict) else ():
            values = value if isinstance(value, list) else [value]
            for number in (number for number in values if isinstance(number, int)):
                words = set(re.split(r"[^a-z]+", str(name).lower()))
                most = next((most for named, most in SIZES if words & named and not words & _PLACES), None)
                if most is not None and number > most:
                    yield f"says {name} = {number:,}; at most {most:,} is taken"


def _parts(content: Any) -> Iterator[dict[str, Any] | list[Any]]:
    """Every table and list of a JSON value."""
    stack = [content]
    while stack:
        part = stack.pop()
        if isinstance(part, dict | list):
            yield part
            stack += part.values() if isinstance(part, dict) else part
