"""Word lists for the recognition of names and places: ``gazetteer.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

GAZETTEER = files(__package__) / "gazetteer.yaml"


@dataclass(frozen=True)
class Gazetteer:
    """Word lists, in lower case.

    Attributes:
        given: unambiguous given names.
        ambiguous: given names that are also words, months, places or things.
        family: common family names.
        no_names: capitalized words of notes that are never part of a name.
        after_eponym: nouns after an eponym: a sign, a disease or a tool.
        relatives, staff: words before the name of a relative, or of clinical staff.
        persons_verbs: verbs whose subject is a person.
        large_places: states and countries.
    """

    given: frozenset[str]
    ambiguous: frozenset[str]
    family: frozenset[str]
    no_names: frozenset[str]
    after_eponym: frozenset[str]
    relatives: frozenset[str]
    staff: frozenset[str]
    persons_verbs: frozenset[str]
    large_places: frozenset[str]


@cache
def gazetteer() -> Gazetteer:
    """The word lists of ``gazetteer.yaml``."""
    lists: Mapping[str, str | list[str]] = yaml.safe_load(GAZETTEER.read_bytes())
    words = {
        name: frozenset(text.split() if isinstance(text, str) else map(str.lower, text))
        for name, text in lists.items()
    }
    return Gazetteer(**{**words, "given": words["given"] - words["ambiguous"]})
