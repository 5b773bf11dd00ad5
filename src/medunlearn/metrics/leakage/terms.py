"""Table 7 of AMNESIA: seed terms of three diseases, and clinical words that tell nothing of a patient."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

FILE = "terms.yaml"


@dataclass(frozen=True, slots=True)
class Terms:
    """The lists of Table 7.

    Attributes:
        diseases: AMNESIA's category -> subcategory -> terms, as printed.
        common: terms that are never keywords.
        names: ways to write a category, lower-cased -> the category.
        version: changes with the file.
    """

    diseases: Mapping[str, Mapping[str, tuple[str, ...]]]
    common: frozenset[str]
    names: Mapping[str, str]
    version: str

    def category(self, disease: str) -> str | None:
        """The category with a list that a disease is a name of, in any case; None where there is none."""
        return self.names.get(" ".join(disease.lower().split()))

    def seeds(self, category: str) -> tuple[str, ...]:
        """All terms of a category, in the order of the table."""
        return tuple(term for terms in self.diseases[category].values() for term in terms)


@cache
def terms() -> Terms:
    """The lists that come with the package."""
    content = (files(__package__) / FILE).read_bytes()
    rows = yaml.safe_load(content)
    diseases = {
        name: {part: tuple(found) for part, found in row["terms"].items()} for name, row in rows["diseases"].items()
    }
    names = {other.lower(): name for name, row in rows["diseases"].items() for other in (name, *row["also"])}
    return Terms(diseases, frozenset(rows["common"]), names, hashlib.sha256(content).hexdigest()[:8])
