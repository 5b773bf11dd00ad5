"""Scores of finished chunks on disk: scoring by a model that was cut off goes on where it stopped."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import read_json, sha256_of, sha256_of_json, write_json
from medunlearn.metrics.measure import Item, Measure, Score

FOLDER = "scoring"
"""Folder of finished chunks, in that of the table which they become part of."""


@dataclass(frozen=True)
class ScoreStore:
    """Scores of chunks, by measure, its models and the items.

    Attributes:
        folder: folder of the store; created with the first chunk.
        models: identities of the models that measures use; a chunk that others scored is scored again.
    """

    folder: Path
    models: Mapping[str, object] = field(default_factory=dict)

    def read(self, measure: Measure, items: Sequence[Item]) -> list[Score] | None:
        """Scores of a chunk; None if it was not finished."""
        rows = read_whole(self._file(measure, items), read_json)
        return None if rows is None else [Score(value, reason) for value, reason in rows]

    def write(self, measure: Measure, items: Sequence[Item], scores: Sequence[Score]) -> None:
        write_json(self._file(measure, items), [[score.value, score.reason] for score in scores])

    def remove(self) -> None:
        """Remove the store, once its scores are in their table."""
        for file in self.folder.glob("*.json"):
            file.unlink()
        with suppress(OSError):
            self.folder.rmdir()

    def _file(self, measure: Measure, items: Sequence[Item]) -> Path:
        content = hashlib.sha256(repr(items).encode("utf-8", "surrogatepass")).hexdigest()
        key = sha256_of_json([measure.name, _code(measure), dict(self.models), content])
        return self.folder / f"{key[:32]}.json"


def _code(measure: Measure) -> str | None:
    """SHA-256 of the file that defines a measure's function; None if it has no file."""
    module = sys.modules.get(getattr(measure.score, "__module__", ""))
    file = getattr(module, "__file__", None)
    return sha256_of(Path(file)) if file else None
