"""The tables that a build from notes puts beside its benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from medunlearn.data.benchmark import MANIFEST
from medunlearn.data.storage import read_json, write_table
from medunlearn.errors import InputError
from medunlearn.sources.notes import Note

BUILD, REJECTS_FILE, RESPONSES = "build.json", "rejects.parquet", "llm"
LABELS_FILE, EVIDENCE_FILE = "labels.parquet", "evidence.parquet"

LABELS = pa.schema(
    [(name, pa.string()) for name in ("record_id", "subject", "title", "category", "reason", "prompt")]
)
EVIDENCE = pa.schema([("question_id", pa.string()), ("record_id", pa.string()), ("quotes", pa.list_(pa.string()))])

Results = Mapping[str, Any]


def refuse_another(out: Path, key: str, *, again: bool) -> None:
    """Refuse a folder with a benchmark of other notes or settings before anything is paid for.

    Raises:
        InputError: it holds another benchmark.
    """
    if not (out / MANIFEST).exists():
        return
    found = read_json(out / BUILD).get("key") if (out / BUILD).exists() else None
    if found != key:
        raise InputError(f"{out} holds another benchmark. Choose another --out, or remove it.")
    if again:
        raise InputError(
            f"{out} holds this benchmark already, and what is asked again could change it. Choose another "
            f"--out, with --llm-store {out / RESPONSES}."
        )


def labels_of(results: Results) -> dict[str, str]:
    """Note -> category."""
    return {name: value["category"] for name, value in results.items()}


def save_tables(out: Path, notes: Sequence[Note], labels: Results, questions: Results, prompt: str) -> None:
    """Labels with their reasons, and the words of the note that each question rests on.

    Judges of labels and questions, human or not, start from these.
    """
    of = {note.note_id: note for note in notes}
    rows = [
        {"record_id": name, "subject": of[name].subject, "title": of[name].title, "prompt": prompt, **labels[name]}
        for name in questions
    ]
    write_table(out / LABELS_FILE, rows, LABELS)
    write_table(out / EVIDENCE_FILE, _evidence(questions), EVIDENCE)


def _evidence(questions: Results) -> list[dict[str, Any]]:
    return [
        {
            "question_id": f"{name}-{kind}-{number}",
            "record_id": name,
            "quotes": item["findings"] if kind == "reasoning" else [item["evidence"]],
        }
        for name, value in questions.items()
        for kind in ("factual", "reasoning")
        for number, item in enumerate(value[kind], start=1)
    ]
