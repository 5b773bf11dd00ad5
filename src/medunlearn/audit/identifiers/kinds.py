"""What counts as an identifier: HIPAA's eighteen, and the extensions that name no patient but lead to one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

from medunlearn.errors import UnknownNameError

Form = Literal["words", "number", "date", "age", "none"]
Group = Literal["dates_ages", "names", "locations", "contacts", "numbers", "other"]

GROUPS: Mapping[Group, str] = {
    "dates_ages": "Dates/ ages",
    "names": "Names",
    "locations": "Locations",
    "contacts": "Phone, fax, e-mail, web",
    "numbers": "Numbers",
    "other": "Other",
}
"""Group -> its title. The first three are the rows of the paper's Table 9; the others have no row there."""

UNKNOWN = "other_code"
"""The kind of a declared type that no kind names."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of identifier.

    Attributes:
        name: in tables, lower_snake_case.
        title: in words.
        hipaa: number in 45 CFR 164.514(b)(2)(i), (A) is 1 and (R) is 18; None for an extension.
        group: row of Table 9.
        form: how values are compared.
        similarity: least similarity of a fuzzy match of words, 0-1; None where words must be equal.
        also: types that records declare for it.
        description: what belongs to it.

    Source: 45 CFR 164.514(b)(2)(i); Stubbs & Uzuner 2015 for the extensions; Memorization in Large Language Models
        in Medicine, Section 3.3 and Table 9, for the groups.
    """

    name: str
    title: str
    hipaa: int | None
    group: Group
    form: Form
    similarity: float | None
    also: tuple[str, ...]
    description: str


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind by its name, HIPAA's first and in its order."""
    rows = yaml.safe_load((files(__package__) / "kinds.yaml").read_text(encoding="utf-8"))
    return {name: Kind(name=name, **{**row, "also": tuple(row["also"])}) for name, row in rows.items()}


def kind_of(declared: str) -> Kind:
    """The kind that a record's declared type belongs to; ``other_code`` for a type that none names.

    Args:
        declared: ``Identifier.type`` of a record, in any case, with spaces or underscores.
    """
    known = _declared()
    name = _plain(declared)
    return known.get(name) or kinds()[UNKNOWN]


def get_kind(name: str) -> Kind:
    """The kind of a name.

    Raises:
        UnknownNameError: there is none; says the nearest.
    """
    if name not in kinds():
        raise UnknownNameError("kind of identifier", name, kinds())
    return kinds()[name]


@cache
def _declared() -> Mapping[str, Kind]:
    return {_plain(other): kind for kind in kinds().values() for other in (kind.name, *kind.also)}


def _plain(declared: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", declared.strip().lower()).strip("_")
