"""A tiny model that has memorized twenty documents, and twenty of the same kind that it never saw."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from medunlearn.data.records import Record
from medunlearn.seeds import generator

NAMES = ("Abele", "Brandis", "Corvin", "Dresche", "Elmond", "Fennik", "Garrold", "Hasper")
THINGS = ("harbours", "bridges", "orchards", "clocks", "maps", "violins", "kilns", "barges")


def document(number: int) -> Record:
    """A sentence of random choices: all documents are of one kind, and each is another."""
    draw = generator("attack document", number)
    first, last = (NAMES[int(place)] for place in draw.integers(len(NAMES), size=2))
    things = [THINGS[int(place)] for place in draw.integers(len(THINGS), size=4)]
    code = "".join(str(digit) for digit in draw.integers(10, size=12))
    text = (
        f"{first} {last} of number {code} built {things[0]} and {things[1]}, and sold {things[2]} for {things[3]}."
    )
    return Record(f"d{number}", text, {"document": f"d{number}"})


@pytest.fixture(scope="session")
def documents() -> list[Record]:
    """The first twenty are trained on."""
    return [document(number) for number in range(40)]


@pytest.fixture(scope="session")
def untrained(documents: list[Record]) -> Any:
    """Do not change it."""

    from medunlearn.models.tiny import build_tiny

    return build_tiny([record.text for record in documents], vocabulary=320, width=48, layers=2)


@pytest.fixture(scope="session")
def memorized(documents: list[Record], untrained: Any) -> Any:
    """Do not change it."""
    import torch

    from medunlearn.models.sequences import record_sequences

    language_model = copy.deepcopy(untrained)
    pieces = [record_sequences(record, language_model.tokenizer, None)[0].ids for record in documents[:20]]
    longest = max(map(len, pieces))
    ids = torch.tensor([[*piece, *[-100] * (longest - len(piece))] for piece in pieces])
    optimizer = torch.optim.AdamW(language_model.model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(80):
        loss = language_model.model(input_ids=ids.clamp(min=0), labels=ids, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    language_model.model.eval()
    return language_model
