"""Short stories for LUME's first task without a language model: eight genres, 150 to 200 words, with questions.

Source: LUME, Section 2.1 (Task 1) and Appendix B; the wording is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from medunlearn.synthetic.grammar import Bank, Teller, word_lists
from medunlearn.synthetic.identities import spell_words
from medunlearn.synthetic.places import cities, fantasy_towns

GENRES = ("Action", "Fantasy", "Thriller", "Comedy", "Mystery", "Science Fiction", "Young Adult", "Romance")
SHORTEST, LONGEST = 150, 200  # words
MOST_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Plot:
    """Plan of a story with its characters, the lead first; characters appear in no other story."""

    genre: str
    place: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InventedText:
    """An invented text, and questions whose short answers occur in it."""

    text: str = field(repr=False)
    questions: tuple[tuple[str, str], ...] = field(repr=False)


def character_names(count: int, rng: np.random.Generator) -> list[str]:
    """Distinct invented names.

    Up to 10,000 are single names; more have a family name each.
    """
    names = spell_words("character_onsets", "character_vowels", "character_middles", "character_endings")
    if count <= len(names):
        return [names[place] for place in rng.choice(len(names), size=count, replace=False)]
    families = spell_words("family_starts", "family_middles", "family_endings")
    draws = rng.choice(len(names) * len(families), size=count, replace=False).tolist()
    return [f"{names[draw % len(names)]} {families[draw // len(names)]}" for draw in draws]


def invent_plots(count: int, rng: np.random.Generator) -> list[Plot]:
    """A random genre, one to four characters of no other story, and a town, fictitious for Fantasy."""
    sizes = rng.integers(1, MOST_CHARACTERS + 1, size=count).tolist()
    names = iter(character_names(sum(sizes), rng))
    plots = []
    for size in sizes:
        genre = GENRES[rng.integers(len(GENRES))]
        towns = fantasy_towns() if genre == "Fantasy" else cities()
        plots.append(Plot(genre, towns[rng.integers(len(towns))], tuple(next(names) for _ in range(size))))
    return plots


def tell(plot: Plot, rng: np.random.Generator) -> InventedText:
    """Write a story and questions on it."""
    while True:
        story = _tell(plot, rng)
        if count_words([story.text]) <= LONGEST:
            return story


def _tell(plot: Plot, rng: np.random.Generator) -> InventedText:
    teller = Teller(_bank(plot.genre), {}, rng)
    lead, *others = plot.names
    facts = {
        "place": plot.place,
        "lead": lead,
        "role": teller.draw("role"),
        "object": f"{teller.draw('material')} {teller.draw('thing')}",
        "site": f"{teller.draw('state')} {teller.draw('site')}",
        "tool": teller.draw("tool"),
    }
    teller.facts = facts
    return InventedText(_to_length(_beats(teller, others), teller), _questions(facts, others))


@cache
def _bank(genre: str) -> Bank:
    bank = word_lists("lume/stories")
    return {**bank["common"], **bank["genres"][genre]}


def _beats(teller: Teller, others: Sequence[str]) -> list[str]:
    sentences = [teller.sentence("opening"), teller.sentence("habit")]
    sentences += [teller.sentence("discovery"), teller.sentence("mark")]
    if others:
        sentences.append(teller.sentence("helper", helper=others[0]))
    sentences += [teller.sentence("other", other=name) for name in others[1:]]
    sentences += [teller.sentence(name) for name in ("trouble", "beat", "setback", "turn", "beat", "close")]
    return sentences


def _to_length(sentences: list[str], teller: Teller) -> str:
    """Insert filler sentences between the plot's sentences until the story is long enough."""
    place = 2
    while count_words(sentences) < SHORTEST:
        sentences.insert(place, teller.sentence("colour"))
        place += 2 if place + 2 < len(sentences) else 2 - place
    return " ".join(sentences)


def count_words(sentences: Sequence[str]) -> int:
    """Number of words in all sentences, by white space."""
    return sum(len(sentence.split()) for sentence in sentences)


def _questions(facts: Mapping[str, str], others: Sequence[str]) -> tuple[tuple[str, str], ...]:
    lead, place = facts["lead"], facts["place"]
    questions = [
        (f"What did {lead} of {place} find in the {facts['site']}?", facts["object"]),
        (f"Where did {lead} of {place} find the {facts['object']}?", facts["site"]),
        (f"What was the trade of {lead} in {place}?", facts["role"]),
        (f"Who in {place} found the {facts['object']}?", lead),
    ]
    if others:
        questions.append((f"What did {others[0]} bring to help {lead} of {place}?", facts["tool"]))
    return tuple(questions)
