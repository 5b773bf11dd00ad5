"""Sentences from word lists: braces in templates are replaced by a text's facts or by draws from other lists."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

Bank = Mapping[str, tuple[str, ...]]
"""Name of a list -> its entries."""

_BRACES = re.compile(r"\{(a )?(\w+)\}")
# "a unit", "a one-way street": vowels that are not spoken as such.
_SPOKEN_AS_CONSONANT = re.compile(r"(?:uni|use|usu|one|once|eu|ewe)", re.IGNORECASE)


@cache
def word_lists(name: str) -> Any:
    """The lists of ``<name>.yaml`` in this folder; a text block there is a tuple of its lines."""
    text = files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return _lines(yaml.safe_load(text))


def _lines(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lines(part) for key, part in value.items()}
    if isinstance(value, list):
        return tuple(_lines(part) for part in value)
    return tuple(line.strip() for line in value.splitlines() if line.strip()) if "\n" in value else value


def capitalized(text: str) -> str:
    """The text with its first letter in upper case and the rest untouched."""
    return text[:1].upper() + text[1:]


class Teller:
    """Writer of one text: list entries do not repeat until the list is used up.

    Args:
        bank: the lists.
        facts: values for braces in this text, which take precedence over lists.
    """

    def __init__(self, bank: Bank, facts: Mapping[str, str], rng: np.random.Generator) -> None:
        self.bank = bank
        self.facts = dict(facts)
        self._rng = rng
        self._left: dict[str, list[str]] = defaultdict(list)

    def draw(self, name: str) -> str:
        """Draw an entry of a list, with its braces replaced."""
        if not self._left[name]:
            entries = self.bank[name]
            self._left[name] = [entries[place] for place in self._rng.permutation(len(entries))]
        template = self._left[name].pop()
        return _BRACES.sub(lambda match: self._value(match[2], article=bool(match[1])), template)

    def sentence(self, name: str, **facts: str) -> str:
        """Draw an entry as a sentence; ``facts`` apply only to this sentence."""
        before, self.facts = self.facts, {**self.facts, **facts}
        try:
            return capitalized(self.draw(name))
        finally:
            self.facts = before

    def _value(self, name: str, *, article: bool) -> str:
        value = self.facts[name] if name in self.facts else self.draw(name)
        return f"{_article(value)} {value}" if article else value


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" and not _SPOKEN_AS_CONSONANT.match(word) else "a"
