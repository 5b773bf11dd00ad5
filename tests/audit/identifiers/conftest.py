"""Records and responses small enough to work out by hand; a tiny model, and its LoRA on four patients' notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medunlearn.audit.identifiers.findings import Output
from medunlearn.config import AmnesiaSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Identifier, Record

BEGINNING = 170  # characters of a note: who it is about, and where
PREFIX, LONGEST = 8, 70  # tokens
COMMON = {"epochs": 0, "precision": "fp32", "tiny_vocabulary": 800}
BASE = {"model": "tiny", "tiny_width": 96, "tiny_layers": 2, "pretrain_epochs": 25, "lr": 6e-3, "batch_size": 6}
LORA = {"pretrain_epochs": 120, "lr": 1e-2, "trainable": "lora:48", "batch_size": 4}

ADA = Record(
    "ada-1",
    "Ada Quillstane, born 1961-04-03, record HX-204511, phone 299-555-0123. She lives at 12 Inkwell Lane. "
    "Her daughter gave the history. Sodium 128 mmol/L. She was given heparin.",
    {"patient": "ada"},
    (
        Identifier("name", "Ada Quillstane"),
        Identifier("birth_date", "1961-04-03"),
        Identifier("record_number", "HX-204511"),
        Identifier("phone", "299-555-0123"),
        Identifier("address", "12 Inkwell Lane"),
    ),
)
BEN = Record(
    "ben-1",
    "Ben Vorndrask, 91, was seen at Tarnhythe Clinic by Dr. Orlquill on 2014-05-06.",
    {"patient": "ben"},
    (
        Identifier("name", "Ben Vorndrask"),
        Identifier("age", "91"),
        Identifier("institution", "Tarnhythe Clinic"),
        Identifier("clinician", "Orlquill"),
        Identifier("visit_date", "2014-05-06"),
    ),
)


@pytest.fixture(scope="session")
def records() -> list[Record]:
    return [ADA, BEN]


@pytest.fixture(scope="session")
def said() -> Callable[..., Output]:
    """``said("text", record=..., prefix=...)``: a response to a probe of a record."""

    def make(response: str, record: str = "ada-1", prefix: str = "", probe: str = "p", subject: str = "") -> Output:
        return Output(record, probe, subject or record, "greedy", 0, prefix, response)

    return make


@pytest.fixture(scope="session")
def patients() -> Benchmark:
    """The beginnings of four invented patients' notes."""
    return beginnings(AmnesiaSettings(synthetic=4))


def beginnings(settings: AmnesiaSettings) -> Benchmark:
    from medunlearn.papers.amnesia.build import build

    made = build(settings)
    cut = []
    for record in made.records:
        text = record.text[:BEGINNING]
        cut.append(replace(record, text=text, identifiers=tuple(i for i in record.identifiers if i.value in text)))
    return replace(made, records=tuple(cut))


@pytest.fixture(scope="session")
def models(patients: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``base``: never saw the four; ``lora``: fine-tuned on their notes."""
    import torch

    from medunlearn.pipeline.presets import train_settings
    from medunlearn.pipeline.train import train

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    strangers = beginnings(AmnesiaSettings(synthetic=24, seed=1))
    base = train(strangers, train_settings({**COMMON, **BASE}), folder / "base", quiet=True)
    lora = train(
        patients, train_settings({**COMMON, **LORA, "model": str(base.model)}), folder / "lora", quiet=True
    )
    return {"base": base.model, "lora": lora.model}


@pytest.fixture(scope="session")
def continued(patients: Benchmark, models: dict[str, Path]) -> Callable[[str], Sequence[Output]]:
    """``continued("lora")``: what a model says after the first tokens of each of the four notes."""
    from medunlearn.generation.decode import decode_greedily
    from medunlearn.models.load import load_model
    from medunlearn.models.sequences import record_sequences

    def say(name: str) -> list[Output]:
        model: Any = load_model(str(models[name]))
        cut = [record_sequences(one, model.tokenizer, None)[0].ids[:PREFIX] for one in patients.records]
        said = dict(pair for batch in decode_greedily(model, cut, max_new_tokens=LONGEST) for pair in batch)
        return [
            Output(
                one.record_id,
                f"{one.record_id}@{PREFIX}",
                patients.subject(one.record_id),
                "greedy",
                0,
                model.tokenizer.decode(cut[place]),
                model.tokenizer.decode(said[place].tokens),
            )
            for place, one in enumerate(patients.records)
        ]

    return say
