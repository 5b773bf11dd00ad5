"""Kinds of identifiers: HIPAA's eighteen, and extensions that can lead to a patient; masking of values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

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
"""Group -> title. The first three are the rows of the paper's Table 9; it has no row for the others."""

UNKNOWN = "other_code"
"""Kind of a declared type without a kind."""
NAMES = ("name", "clinician")
"""Kinds that are people's names."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class IdentifierKind:
    """One kind of identifier.

    Attributes:
        hipaa: number in 45 CFR 164.514(b)(2)(i), (A) is 1 and (R) is 18; None for an extension.
        group: row of Table 9.
        form: how values are compared.
        similarity: least similarity of a fuzzy match of words, 0-1; None if words must be equal.
        also: types that records declare for it.

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
def kinds() -> Mapping[str, IdentifierKind]:
    """Every kind by name, HIPAA's first and in its order."""
    rows = yaml.safe_load((files(__package__) / "kinds.yaml").read_text(encoding="utf-8"))
    return {name: IdentifierKind(name=name, **{**row, "also": tuple(row["also"])}) for name, row in rows.items()}


def kind_of(declared: str) -> IdentifierKind:
    """The kind of a record's declared type (any case, spaces or underscores); ``other_code`` for an unknown one."""
    return _by_declared_type().get(_plain(declared)) or kinds()[UNKNOWN]


def masked(value: str) -> str:
    """A value's shape: the first character, and ``#`` for each other letter and digit of a word.

    ``900-01-0001`` is ``9##-##-####`` and ``John Smith`` is ``J### S####``. Of a number only the first part keeps
    its first digit; a word of one character is hidden.
    """
    first_digit_out = False

    def hide(match: re.Match[str]) -> str:
        nonlocal first_digit_out
        word = match.group()
        keep = len(word) > 1 and (word[0].isalpha() or not first_digit_out)
        first_digit_out = True
        return (word[0] if keep else "#") + "#" * (len(word) - 1)

    return _WORD.sub(hide, value)


@cache
def _by_declared_type() -> Mapping[str, IdentifierKind]:
    return {_plain(other): kind for kind in kinds().values() for other in (kind.name, *kind.also)}


def _plain(declared: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", declared.strip().lower()).strip("_")
