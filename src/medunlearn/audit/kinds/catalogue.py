"""The kinds of what is memorized, and the three groups that they make.

Source: Memorization in Large Language Models in Medicine, Table 3 (kinds) and Figure 8 (groups, harmful kinds).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

Group = Literal["beneficial", "uninformative", "harmful"]
GROUPS: tuple[Group, ...] = ("beneficial", "uninformative", "harmful")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind.

    Attributes:
        name: short, for programs: ``drug``.
        title: as the paper's table has it.
        group: beneficial, uninformative or harmful.
        about: what belongs to it.
        terms: pattern -> weight; none for kinds that are told by other evidence than words.
    """

    name: str
    title: str
    group: Group
    about: str
    terms: Mapping[re.Pattern[str], int] = field(repr=False)


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind by its name, in the order of Table 3 and then of Figure 8."""
    text = files("medunlearn.audit.kinds").joinpath("kinds.yaml").read_text(encoding="utf-8")
    return {name: _kind(name, entry) for name, entry in yaml.safe_load(text)["kinds"].items()}


def group_of(kind: str) -> Group:
    """The group of a kind."""
    return kinds()[kind].group


def _kind(name: str, entry: Mapping[str, Any]) -> Kind:
    terms = {}
    for one in entry["terms"]:
        term, weight = (one["term"], int(one["weight"])) if isinstance(one, dict) else (str(one), 1)
        terms[_pattern(term)] = weight
    return Kind(name, entry["title"], entry["group"], entry["about"], terms)


def _pattern(term: str) -> re.Pattern[str]:
    """Words in a row between word borders; ``*`` takes any ending or beginning of a word."""
    words = [re.escape(word).replace(r"\*", r"\w*") for word in term.split()]
    return re.compile(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)")
