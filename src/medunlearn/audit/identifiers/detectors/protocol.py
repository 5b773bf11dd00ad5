"""What a detector is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text that is said to be an identifier.

    Attributes:
        start, end: first character, and past the last.
        kind: name of its kind.
        score: how sure the detector is, 0-1; 1 where it does not say.
    """

    start: int
    end: int
    kind: str
    score: float = 1.0


class Detector(Protocol):
    """Finds identifiers in any text.

    Attributes:
        name: in tables.
        version: changes whenever it may find something else.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def find(self, texts: Sequence[str]) -> list[list[Span]]:
        """The spans of each text, in order of place; no two of them overlap."""
        ...


def without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Of spans that overlap the surest, then the longest, then the first; in order of place."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda one: (-one.score, one.start - one.end, one.start)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda one: one.start)
