"""From the candidates of a note, a question and an answer to weighted keywords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medunlearn.metrics.leakage.relevance import THRESHOLD, Seeds

TOP = 5
"""Keywords that a note gives at most; questions and answers give all (AMNESIA, Algorithm 1, step 3)."""

MOST_COUNTED, PER_TIME = 5, 0.05

FIELDS = ("note", "question", "answer")


@dataclass(frozen=True, slots=True)
class Keyword:
    """A phrase that a response is searched for.

    Attributes:
        phrase: lower-cased words with single spaces.
        weight: 0.55-1.25, higher = nearer to the disease and more frequent.
        field: where it was selected: ``note``, ``question``, ``answer``, or several of them joined by ``+``.
    """

    phrase: str
    weight: float
    field: str


def weight(relevance: float, times: int) -> float:
    """``relevance + min(times, 5) * 0.05``: AMNESIA, Algorithm 1, step 2.

    Rounded to the hundredths of a thousandth, so that the same sum is the same number on every road to it.
    """
    return round(relevance + min(times, MOST_COUNTED) * PER_TIME, 5)


def scored(candidates: Mapping[str, int], seeds: Seeds) -> dict[str, float]:
    """The candidates of one field that are relevant enough, with their weights, heaviest first.

    Equally heavy ones stay in the order of the field.

    Args:
        candidates: phrase -> how often it stands in the field.
    """
    relevances = ((phrase, times, seeds.relevance(phrase)) for phrase, times in candidates.items())
    found = [(phrase, weight(near, times)) for phrase, times, near in relevances if near >= THRESHOLD]
    return dict(sorted(found, key=lambda one: -one[1]))


def top(found: Mapping[str, float], most: int = TOP) -> dict[str, float]:
    """The first, heaviest ones of what :func:`scored` gives."""
    return dict(list(found.items())[:most])


def merged(by_field: Mapping[str, Mapping[str, float]]) -> list[Keyword]:
    """The keywords of several fields; one that stands in several has the largest of its weights."""
    weights: dict[str, float] = {}
    fields: dict[str, list[str]] = {}
    for field, found in by_field.items():
        for phrase, heavy in found.items():
            weights[phrase] = max(heavy, weights.get(phrase, 0.0))
            fields.setdefault(phrase, []).append(field)
    return [Keyword(phrase, heavy, "+".join(fields[phrase])) for phrase, heavy in weights.items()]


def without_redundant(keywords: list[Keyword]) -> list[Keyword]:
    """Leave out a keyword in which another one stands as whole contiguous words; the shorter is kept."""
    rows = [f" {keyword.phrase} " for keyword in keywords]
    return [
        keyword
        for keyword, row in zip(keywords, rows, strict=True)
        if not any(other in row and other != row for other in rows)
    ]


def select(note: Mapping[str, float], question: Mapping[str, float], answer: Mapping[str, float]) -> list[Keyword]:
    """The keywords of one question: five of the note, all of question and answer, without redundant ones.

    Args:
        note, question, answer: what :func:`scored` gives for each field; of the note, :func:`top` of it is enough.

    Source: AMNESIA, Algorithm 1, step 3. (Appendix E.1 has redundant phrases leave the note's before the five are
    taken; where algorithm and text differ, the algorithm is followed.)
    """
    return without_redundant(merged({"note": top(note), "question": question, "answer": answer}))
