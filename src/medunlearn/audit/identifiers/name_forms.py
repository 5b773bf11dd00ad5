"""Forms in which a person's name is written: orders, initials, particles, titles.

A form is a string of folded words (:func:`~medunlearn.audit.identifiers.normalized_text.words_of`) with one space
between two. *Full* forms have a given name and the family name, and are looked for wherever they may be. *Short*
ones (initials, a title and the family name) are many people's: they are looked for in the patient's own responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from medunlearn.audit.identifiers.normalized_text import words_of

TITLES = (
    *(
        "mr",
        "mrs",
        "ms",
        "miss",
        "mx",
        "dr",
        "doctor",
        "prof",
        "professor",
        "sir",
        "madam",
        "mister",
        "rev",
        "sister",
    ),
    *("herr", "frau", "monsieur", "madame", "mme", "senor", "senora", "sr", "sra", "signor", "signora", "nurse"),
)
_SUFFIXES = frozenset(
    ("jr", "sr", "ii", "iii", "iv", "junior", "senior", "esq", "md", "do", "phd", "rn", "np", "pa", "dds", "mph")
)
_PARTICLES = frozenset(
    (
        *("van", "von", "der", "den", "de", "del", "della", "di", "da", "do", "dos", "das", "du", "la", "le", "lo"),
        *(
            "el",
            "al",
            "bin",
            "ibn",
            "bint",
            "ben",
            "bat",
            "abu",
            "ter",
            "ten",
            "zu",
            "zur",
            "zum",
            "st",
            "af",
            "av",
        ),
        *("mac", "mc", "san", "santa", "e", "y", "vander", "ap"),
    )
)
_LEAST = 4
"""Letters of a family name that may stand without its particle."""
_ASIDE = re.compile(r"\([^)]*\)|\"[^\"]*\"|“[^”]*”")
_JOINED = re.compile(r"\b(al|el|ben|bin|abu)-(?=\w)", re.IGNORECASE)
_APOSTROPHE = re.compile(r"(?<=\w)['’ʼ`](?=\w)")
_MAC = re.compile(r"^(mc|mac)([a-z]{4,})$")


@dataclass(frozen=True, slots=True)
class NameParts:
    """A parsed name, as written: given names (the first and further ones), particles, family name."""

    given: str
    middle: tuple[str, ...]
    particles: tuple[str, ...]
    family: tuple[str, ...]


def parse_name(value: str) -> NameParts | None:
    """Parts of ``Dr. Cy van der Berg, Jr.`` or ``BERG, Cy van der``; None without a given or a family name."""
    # ``al-Rashid`` has a particle as ``al Rashid`` has.
    text = _JOINED.sub(r"\1 ", _ASIDE.sub(" ", value))
    chunks = [chunk.split() for chunk in text.split(",")]
    chunks = [left for chunk in chunks if (left := [word for word in chunk if words_of(word)])]
    chunks = [*chunks[:1], *(chunk for chunk in chunks[1:] if not all(_is(word, _SUFFIXES) for word in chunk))]
    if not chunks:
        return None
    chunks[0] = _without_ends(chunks[0])
    if len(chunks) > 1:
        family, rest = chunks[0], _without_ends(chunks[1])
        # ``Berg, Cy van der``
        moved = len(rest) - next((at for at, word in enumerate(rest[::-1]) if not _is(word, _PARTICLES)), len(rest))
        rest, family = rest[:moved], [*rest[moved:], *family]
    else:
        words = chunks[0]
        start = len(words) - 1
        while start > 1 and _is(words[start - 1], _PARTICLES):
            start -= 1
        rest, family = words[:start], words[start:]
    if not rest or not family:
        return None
    first = next((at for at, word in enumerate(family) if not _is(word, _PARTICLES)), 0)
    return NameParts(rest[0], tuple(rest[1:]), tuple(family[:first]), tuple(family[first:]))


@lru_cache(maxsize=1 << 14)
def full_forms(value: str) -> tuple[str, ...]:
    """Every way to write a name with a given name and the family name; first the value as it is."""
    forms = [" ".join(words_of(value))]
    parts = parse_name(value)
    if parts is not None:
        middles = [()] if not parts.middle else [(), parts.middle, tuple(word[0] for word in parts.middle)]
        for family in _families(parts):
            for given in _variants((parts.given,)):
                for middle in middles:
                    between = words_of(" ".join(middle))
                    forms += [_form(given, between, family), _form(family, given, between)]
    return tuple(dict.fromkeys(form for form in forms if form))


@lru_cache(maxsize=1 << 14)
def short_forms(value: str) -> tuple[str, ...]:
    """A title with the family name, and initials with the family name, in both orders."""
    parts = parse_name(value)
    if parts is None:
        return ()
    initials = [words_of(word)[0][0] for word in (parts.given, *parts.middle)]
    between = words_of(" ".join(parts.middle))
    forms = []
    for family in _families(parts):
        forms += [_form((title,), family) for title in TITLES]
        # ``X. Li`` is anybody's.
        if max(map(len, family)) > 2:
            letters = [initials[:1], initials, ["".join(initials)], [*initials[:1], *between]]
            forms += [form for some in letters for form in (_form(some, family), _form(family, some))]
    return tuple(dict.fromkeys(forms))


def _families(parts: NameParts) -> list[tuple[str, ...]]:
    """The family name with its particles, also in one word; without them if it is long enough."""
    families = [*_variants((*parts.particles, *parts.family))]
    if parts.particles and len("".join(parts.family)) >= _LEAST:
        families += _variants(parts.family)
    return list(dict.fromkeys(families))


def _variants(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Words of a name: as written, without apostrophes, in one word, with and without the space behind Mc."""
    text = " ".join(names)
    words, without = words_of(text), words_of(_APOSTROPHE.sub("", text))
    yield words
    yield without
    yield ("".join(words),)
    yield tuple(part for word in without for part in _MAC.sub(r"\1 \2", word).split(" "))


def _form(*parts: Iterable[str]) -> str:
    return " ".join(word for part in parts for word in part)


def _is(word: str, names: frozenset[str]) -> bool:
    return " ".join(words_of(word)).replace(" ", "") in names


def _without_ends(words: list[str]) -> list[str]:
    """Words without titles in front and suffixes behind."""
    while len(words) > 1 and _is(words[0], frozenset(TITLES)):
        words = words[1:]
    while len(words) > 1 and _is(words[-1], _SUFFIXES):
        words = words[:-1]
    return words
