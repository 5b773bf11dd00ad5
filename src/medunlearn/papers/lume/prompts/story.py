"""LUME, Task 1: short stories about characters and places that exist nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from medunlearn.errors import InputError
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.words import content, holds, words
from medunlearn.judging.writing.writing import Reject, Written
from medunlearn.seeds import generator
from medunlearn.synthetic.stories import GENRES, LONGEST, MOST_CHARACTERS, SHORTEST

ALIKE = 0.5  # share of content words that two stories may have in common


class LumeStory(WritingTask):
    """Writes a story of 150 to 200 words with the given genre, place and characters.

    A source has ``genre``, ``place`` and ``names`` (with commas between them); a result is ``{"story"}``. Code
    checks: its length, and that place and every name stand in it. :func:`invent_stories` draws sources,
    :func:`without_similar` leaves out stories that are too alike.

    Source: LUME, Section 2.1 (Task 1) and Appendix B.
    """

    name: ClassVar[str] = "lume_story"
    title: ClassVar[str] = "stories"

    def wrong(self, source: Source, value: Any) -> str:
        story, count = value["story"], words(value["story"])
        if not SHORTEST <= count <= LONGEST:
            return f"the story has {count} words and must have {SHORTEST} to {LONGEST}"
        if not holds(story, source.fields["place"]):
            return "the place is not named in the story"
        if not all(holds(story, name) for name in source.fields["names"].split(", ")):
            return "a character is not named in the story"
        return ""


def invent_stories(
    count: int, *, names: list[str], cities: list[str], fantasy_towns: list[str], seed: int = 0
) -> list[Source]:
    """What stories are to be about: a random genre, one to four names that no other story has, and a place.

    Args:
        names: at least four a story, so that all can differ.
        cities, fantasy_towns: places; the second for the genre Fantasy alone.

    Raises:
        InputError: too few names or no places.
    """
    if len(set(names)) < MOST_CHARACTERS * count or not cities or not fantasy_towns:
        raise InputError(f"{count} stories need {MOST_CHARACTERS * count} different names, cities, fantasy towns.")
    draw = generator("lume stories", seed)
    left = [sorted(set(names))[place] for place in draw.permutation(len(set(names)))]
    sources = []
    for number in range(count):
        genre = GENRES[draw.integers(len(GENRES))]
        places = fantasy_towns if genre == "Fantasy" else cities
        characters = [left.pop() for _ in range(draw.integers(1, MOST_CHARACTERS + 1))]
        fields = {"genre": genre, "place": places[draw.integers(len(places))], "names": ", ".join(characters)}
        sources.append(Source(f"story-{number + 1:04d}", fields, identifiers=()))
    return sources


def without_similar(written: Written, most: float = ALIKE) -> Written:
    """Without the stories that are too alike to one before them: two share more content words than allowed.

    The paper's authors read all stories and took out those like earlier ones; this is the part that code can do.

    Args:
        most: largest overlap (words in both over words in either) of two stories.
    """
    kept: dict[str, frozenset[str]] = {}
    rejects = list(written.rejects)
    results: Mapping[str, Any] = written.results
    for name, value in results.items():
        said = content(value["story"])
        like = next((other for other, has in kept.items() if len(said & has) / len(said | has) > most), None)
        if like is None:
            kept[name] = said
        else:
            rejects.append(Reject(LumeStory.name, name, "excluded", f"too much like {like}"))
    return Written({name: results[name] for name in kept}, tuple(rejects))
