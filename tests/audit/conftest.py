"""Eight short texts that a tiny model knows by heart, four that it never saw, and the model before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from medunlearn.cli.main import app
from medunlearn.data.records import Record
from medunlearn.seeds import generator

PARTS = (
    ("The nurse", "A surgeon", "Her daughter", "The porter", "Our pharmacist", "His neighbour"),
    ("wrote down", "carried away", "asked about", "counted again", "forgot to sign", "looked for"),
    ("the blue chart", "four vials", "a letter from the coast", "the second scan", "an old radiograph"),
    ("before breakfast", "on the ninth day", "during the storm", "after visiting hours", "at the late round"),
)
SETTINGS = {"prefixes": (10, 20), "max_new_tokens": 60, "shortest_suffix": 30, "replicates": 100}


def text(name: str, sentences: int = 9) -> str:
    draw = generator("audit test", name)
    lines = [" ".join(str(draw.choice(part)) for part in PARTS) for _ in range(sentences)]
    return f"{name}: " + ". ".join(lines) + "."


def _write_texts(folder: Path, texts: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, words in texts.items():
        (folder / f"{name}.txt").write_text(words, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def write_texts() -> Callable[[Path, Mapping[str, str]], Path]:
    """Writes a text file for each name to a new folder."""
    return _write_texts


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """Run a command in this process; a wrong exit code fails the test."""

    def invoke(*words: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == code, f"{words}\n{result.output}"
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture(scope="session")
def memorize() -> Callable[..., None]:
    """Trains a model on texts until it knows them."""
    from medunlearn.models.sequences import record_sequences
    from medunlearn.training.batch_plan import Plan
    from medunlearn.training.loop import LoopSettings, train_loop
    from medunlearn.training.objectives import NextToken

    def train(language_model: Any, texts: Mapping[str, str], length: int, batch: int, epochs: int = 100) -> None:
        records = [Record(name, words, {}) for name, words in texts.items()]
        pieces = [
            piece for record in records for piece in record_sequences(record, language_model.tokenizer, length)
        ]
        plan = Plan({"train": pieces}, batch, epochs, 0)
        train_loop(language_model.model, 2, NextToken(), plan, LoopSettings(lr=1e-2, precision="fp32"))

    return train


@dataclass(frozen=True)
class World:
    """Folders: texts that were trained on, texts that were not, the trained model, and the one before; settings."""

    seen: Path
    unseen: Path
    model: Path
    before: Path
    settings: dict[str, Any]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, memorize: Callable[..., None]) -> World:
    from medunlearn.models.tiny import build_tiny

    root = tmp_path_factory.mktemp("audit")
    texts = {f"s{place}": text(f"s{place}") for place in range(8)}
    seen = _write_texts(root / "seen", texts)
    unseen = _write_texts(root / "unseen", {f"u{n}": text(f"u{n}") for n in range(4)})
    language_model = build_tiny(texts.values(), vocabulary=400, width=64, layers=2, heads=4, max_length=256)
    language_model.save(root / "before")
    memorize(language_model, texts, 256, 8)
    language_model.save(root / "model")
    return World(seen, unseen, root / "model", root / "before", SETTINGS)
