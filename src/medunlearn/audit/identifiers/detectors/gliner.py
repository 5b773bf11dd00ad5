"""GLiNER: zero-shot named-entity recognition, from a local model folder; on the GPU if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, without_overlaps
from medunlearn.audit.identifiers.normalized_text import WORD
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, first_line
from medunlearn.models.loading import from_pretrained

LABELS: Mapping[str, str] = {
    "person": "name",
    "doctor": "clinician",
    "date": "date",
    "age": "age",
    "hospital or clinic": "hospital",
    "street address": "location",
    "city": "location",
    "phone number": "phone",
    "email address": "email",
    "medical record number": "record_number",
    "social security number": "ssn",
}
"""Label that the model is asked for -> kind."""
LEAST = 0.5
"""Least confidence of a span, GLiNER's default."""
WORDS, SHARED = 200, 30
"""Words of a window, and those that it shares with the next; the models read 384 at most."""
BATCH = 8


class Gliner:
    """A GLiNER model in a folder (Zaratiana et al. 2024, "GLiNER: Generalist Model for NER").

    Args:
        folder: of the model, in safetensors.

    Raises:
        InputError: gliner is not installed, or the folder holds no such model.
    """

    name = "gliner"

    def __init__(self, folder: str = "") -> None:
        path = Path(folder)
        if not folder or not path.is_dir():
            raise InputError(f"There is no model folder {folder!r}. Write gliner:FOLDER.")
        weights = path / "model.safetensors"
        if not weights.exists():
            raise InputError(f"{folder} has no model.safetensors; weights in other formats are not loaded.")
        self._model = _load(path)
        self.version = f"{path.name}-{sha256_of(weights)[:8]}"

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        windows = [(place, start, end) for place, text in enumerate(texts) for start, end in _windows(text)]
        pieces = [texts[place][start:end] for place, start, end in windows]
        results = self._model.inference(pieces, list(LABELS), threshold=LEAST, batch_size=BATCH) if pieces else []
        spans: list[list[DetectedSpan]] = [[] for _ in texts]
        for (place, start, _), entities in zip(windows, results, strict=True):
            for entity in entities:
                first, end = start + entity["start"], start + entity["end"]
                spans[place].append(DetectedSpan(first, end, LABELS[entity["label"]], entity["score"]))
        return [without_overlaps(of_text) for of_text in spans]


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of chunks of :data:`WORDS` words that overlap by :data:`SHARED`."""
    words = [match.span() for match in WORD.finditer(text)]
    for first in range(0, max(1, len(words) - SHARED), WORDS - SHARED):
        last = min(first + WORDS, len(words))
        if last > first:
            yield words[first][0], words[last - 1][1]


def _load(folder: Path) -> Any:
    import torch

    # No extra of ours: it asks for an older transformers than the lock has.
    try:
        gliner = import_module("gliner")
    except ImportError:
        raise InputError(
            "The detector gliner needs GLiNER: pip install gliner, in an environment whose transformers it accepts."
        ) from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return from_pretrained(gliner.GLiNER, str(folder), local_files_only=True, map_location=device).eval()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder} holds no GLiNER model: {first_line(error)}") from error
