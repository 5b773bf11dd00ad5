"""What a case says of the patients of earlier requests who were not asked about."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.reports.formatting import count
from medunlearn.request.case.evidence import Battery
from medunlearn.statistics.rotations import chance_to_find, rounds_until_all

MOST_NAMED = 12
"""Pseudonyms in a sentence; evidence.json has all."""
SHOWN = 12
"""Hex digits of a pseudonym."""


def not_asked_sentences(battery: Battery) -> Iterator[str]:
    """Sentences on patients who were not asked about, on what that may miss, and on those who are gone."""
    earlier = battery.earlier
    if earlier is None:
        return
    if missed := len(earlier.not_asked):
        asked = len(earlier.asked)
        yield (
            f"Patients of earlier requests: {asked} of {asked + missed} were asked about. Nothing is known now of "
            f"the other {missed}: {_names(earlier.not_asked)}."
        )
        if asked:
            yield _chance_sentence(asked, asked + missed)
    if earlier.absent:
        number = count(len(earlier.absent), "patient")
        yield (
            f"{number} of earlier requests: not in these notes any more, or under another id, so that nobody can "
            f"ask about them: {_names(earlier.absent)}."
        )


def _chance_sentence(asked: int, everybody: int) -> str:
    rounds = rounds_until_all(everybody, asked)
    one, several = (chance_to_find(everybody, asked, back) for back in (1, min(5, everybody)))
    return (
        f"They take turns: with {asked} a request, each is asked about once in {count(rounds, 'request')}. If one "
        f"of the {everybody} had come back, this request would have asked about that one with a chance of "
        f"{one:.0%}; if {min(5, everybody)} had, about one of these with {several:.0%}. “--earlier all” asks about "
        "everybody."
    )


def _names(pseudonyms: tuple[str, ...]) -> str:
    shown = ", ".join(name[:SHOWN] for name in pseudonyms[:MOST_NAMED])
    more = len(pseudonyms) - MOST_NAMED
    return f"{shown} and {more} more (evidence.json)" if more > 0 else shown
