"""When two names are one diagnosis."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from medunlearn.errors import InputError
from medunlearn.input_files import yaml_content
from medunlearn.papers.memorization.declared import declared

_WORD = re.compile(r"[^\W_]+")
# "carcinoma of the colon" is "colon carcinoma".
_SMALL = frozenset(("a", "an", "the", "of", "s"))

Key = tuple[str, ...]


def name_key(name: str) -> Key:
    """The words of a name, whatever their case, accents, order and marks between them; small words left out."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    words = _WORD.findall("".join(letter for letter in plain if not unicodedata.combining(letter)))
    return tuple(sorted(word for word in words if word not in _SMALL))


class Names:
    """Names of diagnoses, with synonyms.

    Args:
        synonyms: a name -> others for it. Those of the same key are one, and so on through chains.
    """

    def __init__(self, synonyms: Mapping[str, Iterable[str]]) -> None:
        self._roots: dict[Key, Key] = {}
        for name, others in synonyms.items():
            root = self._root(name_key(name))
            for other in others:
                self._roots[self._root(name_key(other))] = root
            self._roots.pop(root, None)

    def _root(self, key: Key) -> Key:
        while key in self._roots and self._roots[key] != key:
            key = self._roots[key]
        return key

    def same(self, one: str, other: str) -> bool:
        """True if two names are one diagnosis; never with a name that has no words."""
        first = self._root(name_key(one))
        return bool(first) and first == self._root(name_key(other))


@cache
def own_names() -> Names:
    """The small list of our own."""
    return Names(declared("synonyms"))


def names_with(path: Path | None) -> Names:
    """Our own list and, where a file is given, that file's as well.

    Raises:
        InputError: the file cannot be read as ``name: [synonym, ...]``.
    """
    if path is None:
        return own_names()
    synonyms = yaml_content(path)
    if not isinstance(synonyms, dict) or not all(_is_entry(name, others) for name, others in synonyms.items()):
        raise InputError(f"{path} must hold one `name: [synonym, synonym]` a line, all of them text.")
    built_in = declared("synonyms")
    added = {name: [*built_in.get(name, []), *others] for name, others in synonyms.items()}
    return Names({**built_in, **added})


def _is_entry(name: Any, others: Any) -> bool:
    return isinstance(name, str) and isinstance(others, list) and all(isinstance(other, str) for other in others)
