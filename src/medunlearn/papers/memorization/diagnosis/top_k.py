"""Top-k diagnostic accuracy of single responses: parsed lists of diagnoses, and the rank of the first right one.

Source: Memorization in Large Language Models in Medicine, Section 3.3 and Figure 6.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from medunlearn.errors import InputError
from medunlearn.input_files import yaml_content
from medunlearn.metrics.measure import SHARE, Item, Measure, Score, Tools
from medunlearn.papers.paper_files import paper_yaml

_WORD = re.compile(r"[^\W_]+")
# "carcinoma of the colon" is "colon carcinoma".
_SMALL = frozenset(("a", "an", "the", "of", "s"))

Key = tuple[str, ...]


def name_key(name: str) -> Key:
    """Normalised words of a name, ignoring case, accents, order and punctuation; stop words dropped."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    words = _WORD.findall("".join(letter for letter in plain if not unicodedata.combining(letter)))
    return tuple(sorted(word for word in words if word not in _SMALL))


class Names:
    """Names of diagnoses with their synonyms.

    Args:
        synonyms: a name -> its synonyms; transitive.
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

    def same(self, name: str, other: str) -> bool:
        """True if two names mean the same diagnosis; never for a name without words."""
        first = self._root(name_key(name))
        return bool(first) and first == self._root(name_key(other))


@cache
def own_names() -> Names:
    """Our built-in list of synonyms."""
    return Names(paper_yaml("memorization", "synonyms"))


def names_with(path: Path | None) -> Names:
    """Our list, extended by that of a file if given.

    Raises:
        InputError: the file cannot be read as ``name: [synonym, ...]``.
    """
    if path is None:
        return own_names()
    synonyms = yaml_content(path)
    if not isinstance(synonyms, dict) or not all(_is_entry(name, others) for name, others in synonyms.items()):
        raise InputError(f"{path} must contain one `name: [synonym, synonym]` per line, all of them text.")
    built_in = paper_yaml("memorization", "synonyms")
    added = {name: [*built_in.get(name, []), *others] for name, others in synonyms.items()}
    return Names({**built_in, **added})


def _is_entry(name: Any, others: Any) -> bool:
    return isinstance(name, str) and isinstance(others, list) and all(isinstance(other, str) for other in others)


LONGEST_NAME = 12
"""Words beyond which a line is not a diagnosis but a sentence about one."""

_NUMBER = r"(?:\(?\d{1,2}[.):]|[-*\u2022\u2013])"
_ITEM = re.compile(rf"^\s*{_NUMBER}\s+")
_WITHIN = re.compile(r"(?:^|\s)\(?\d{1,2}[.)]\s+")
_LABEL = re.compile(r"^[^:;,\n]{0,60}\bdiagnos[ei]s\b[^:;,\n]{0,30}:\s*", re.IGNORECASE)
_EXPLAINED = re.compile(r"(?::\s|\s[-\u2013\u2014]\s|\s\().*$", re.DOTALL)
_LETTER = re.compile(r"[^\W\d_]")


class Prediction(NamedTuple):
    """Number of diagnoses in a response (0: none readable), and the position of the first right one, from 1."""

    named: int
    rank: int | None

    def right_at(self, k: int) -> bool:
        """True if a right diagnosis is among the first k."""
        return self.rank is not None and self.rank <= k


def parse_diagnoses(response: str) -> tuple[str, ...]:
    """The diagnoses in a response, in order, without duplicates; empty if none is found.

    Supported are lists with one diagnosis per line, numbered, bulleted or plain; numbers within one line; names
    separated by ``;``, or else by commas. Headings (``Diagnoses:``), explanations after a colon, dash or bracket,
    and lines of more than ``LONGEST_NAME`` words (sentences) are ignored. If some lines are numbered, the others
    are ignored.
    """
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    lines = [rest for line in lines if (rest := _LABEL.sub("", line))]
    lines = [line for line in lines if _ITEM.match(line)] or lines
    names: dict[str, str] = {}
    for name in map(_name, _pieces(lines[0]) if len(lines) == 1 else lines):
        if name:
            names.setdefault(name.casefold(), name)
    return tuple(names.values())


def _pieces(line: str) -> list[str]:
    within = [part for part in _WITHIN.split(line) if part.strip()]
    if len(within) > 1:
        return within
    if ";" in line:
        return line.split(";")
    return [line] if _ITEM.match(line) else line.split(",")


def _name(piece: str) -> str:
    name = _EXPLAINED.sub("", _ITEM.sub("", piece)).strip(" .;,*_\t")
    return name if _LETTER.search(name) and len(name.split()) <= LONGEST_NAME else ""


def reference_diagnoses(reference: str) -> tuple[str, ...]:
    """The diagnoses of a reference answer: one per line, without its number."""
    return tuple(name for line in reference.splitlines() if (name := _ITEM.sub("", line).strip()))


def predict(
    response: str, reference: str, names: Names | None = None, gold: Literal["principal", "any"] = "principal"
) -> Prediction:
    """Parse a response, and find its first right diagnosis.

    Args:
        reference: the reference answer, one diagnosis per line, the principal one first.
        gold: ``principal``: only the first of the reference is right; ``any``: each of them is. The paper does not
            specify this.
    """
    names = names or own_names()
    listed, diagnoses = parse_diagnoses(response), reference_diagnoses(reference)
    # Without what explains it, a right name is read as responses are.
    targets = diagnoses[:1] if gold == "principal" else diagnoses
    right = {form for name in targets for form in (name, _name(name) or name)}
    ranks = (place for place, name in enumerate(listed, start=1) if any(names.same(name, form) for form in right))
    return Prediction(len(listed), next(ranks, None))


def _scores(k: int, items: Sequence[Item], tools: Tools) -> list[Score]:
    return [
        Score(float(predict(item.response or "", item.reference).right_at(k)))
        if reference_diagnoses(item.reference)
        else Score.unscored("the reference names no diagnosis")
        for item in items
    ]


TOP_1, TOP_2, TOP_3 = (
    Measure(
        name=f"top_{k}",
        title=f"Top-{k} accuracy",
        needs=("response",),
        meaning=f"0 or 1, 1 = the principal diagnosis is among the first {k} that the response names",
        source="Memorization in Large Language Models in Medicine, Section 3.3 and Figure 6",
        score=partial(_scores, k),
        item_by_item=True,
        range=SHARE,
        direction="neither",
    )
    for k in (1, 2, 3)
)
