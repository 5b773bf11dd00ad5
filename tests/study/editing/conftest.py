"""A hospital of 2 institutions x 2 patients x 2 sections by hand, a target trained on it, and edits of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import request
from medunlearn.results.runs import Run

FINDINGS = {"A1": "a nodule", "A2": "an effusion", "B1": "a clear lung", "B2": "a wide heart"}
SETTINGS: dict[str, Any] = {"model": "tiny", "tiny_width": 32, "tiny_layers": 3, "epochs": 2, "precision": "fp32"}


def _asked(node: str, text: str) -> list[Question]:
    wrong = next(one for one in FINDINGS.values() if one not in text)
    name = node.replace("-", " of ")
    return [
        Question(f"{node}-g", node, "train", "generation", "section", f"What does {name} say?", text),
        Question(f"{node}-c", node, "train", "cloze", "section", f"{name}: there is [blank].", FINDINGS[node[:2]]),
        Question(
            f"{node}-o", node, "train", "classification", "section", f"Which is {name}?", FINDINGS[node[:2]],
            (wrong, FINDINGS[node[:2]]), 1,
        ),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def bench() -> Benchmark:
    """``gone`` forgets patient A1."""
    records, questions = [], []
    for patient, finding in FINDINGS.items():
        for section in ("findings", "impression"):
            node, text = f"{patient}-{section}", f"The {section} of {patient} tell of {finding}."
            records.append(Record(node, text, {"institution": patient[0], "patient": patient, "section": node}))
            questions += _asked(node, text)
    parts = ("by hand", "own", ("institution", "patient", "section"), "patient", tuple(records), tuple(questions))
    gone = request(Benchmark(*parts, {}).hierarchy, "gone", "patient", ["A1"])
    return Benchmark(*parts, {"gone": gone}, notes={"invented": True})


@pytest.fixture(scope="session")
def runs(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """target, retrained, manu, chip. Tests write nothing but attacks and evaluations into them."""
    from medunlearn.study.presets import train_settings, unlearn_settings
    from medunlearn.study.train import train
    from medunlearn.study.unlearn import unlearn

    folder: Path = tmp_path_factory.mktemp("edits")
    found = {
        name: train(bench, train_settings({**SETTINGS, **more}), folder / name, quiet=True)
        for name, more in (("target", {}), ("retrained", {"without": "gone"}))
    }
    for name, more in (("manu", {"manu.alpha": 5}), ("chip", {"chip.layers": "2"})):
        settings = unlearn_settings({"method": name, "split": "gone", **more}, tiny=True, shared=False)
        found[name] = unlearn(found["target"], bench, settings, folder / name, quiet=True)
    return found
