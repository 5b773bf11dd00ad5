"""LUME's files, made by hand: two sides, each with a story and a personal biography."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]


def row(id_: str, task: str, input_: str, output: str) -> Row:
    return {"id": id_, "input": input_, "output": output, "task": task}


FORGET = [
    row('"story-1"sc1', "Task1", "Once there was", "a town."),
    row('"story-1"qa0', "Task1", "What was there?", "A town"),
    row("bio-1sc1", "Task2", "Ana Amber was born on December 21, 1969. Her SSN is", "900-22-6238."),
    row("bio-1qa0", "Task2", "What is the birth date of Ana Amber?", "1969-12-21"),
    row("bio-1qa1", "Task2", "What is Ana Amber's Social Security Number?", "900226238"),
]
RETAIN = [
    row("story-2sc1", "Task1", "Long ago ", "it rained."),
    row("story-2sc2", "Task1", "Then", "the sun shone."),
    row("777sc1", "Task3", "A known person", "was born."),
    row("777qa0", "Task3", "Who was born?", "A known person"),
]


def dump(path: Path, rows: list[Any]) -> None:
    """Rows as JSON Lines; text is written as it is."""
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in rows))


@pytest.fixture
def released(tmp_path: Path) -> Callable[..., Path]:
    """``released(forget=[...], retain=[...])``: a folder with those rows behind the good ones."""

    def write(forget: list[Any] | None = None, retain: list[Any] | None = None) -> Path:
        dump(tmp_path / "forget.jsonl", FORGET + (forget or []))
        dump(tmp_path / "retain.jsonl", RETAIN + (retain or []))
        return tmp_path

    return write
