"""A small hospital, a target trained on it, and settings so small that a stage takes a second."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import AmnesiaSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Settings of a training run."""
    return {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 2, "precision": "fp32"}


@pytest.fixture(scope="session")
def hospital() -> Benchmark:
    """Twenty invented patients; ``random_10`` forgets two of them."""
    from medunlearn.papers.amnesia.build import build

    return build(AmnesiaSettings(invented=20))


@pytest.fixture(scope="session")
def target(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Tests read it and write nothing but evaluations into it."""
    from medunlearn.pipeline.presets import train_settings
    from medunlearn.pipeline.train import train

    folder: Path = tmp_path_factory.mktemp("hospital") / "target"
    return train(hospital, train_settings(small), folder, quiet=True)


def lume_answer(body: dict[str, Any]) -> str:
    """What a careful model says to LUME's prompts: texts as asked for, and questions on their last word."""
    text = body["messages"][1]["content"]
    if names := re.search(r"Genre: (.*)\nPlace: (.*)\nCharacters: (.*)", text):
        words = [f"w{n}{names[3][:4]}" for n in range(160)]
        return json.dumps(
            {"story": f"In {names[2]} {names[3]} met. {' '.join(words)}. The prize was Owl{names[3][:4]}."}
        )
    if text.startswith("Name:"):
        facts = [line.partition(": ")[2] for line in text.splitlines()]
        words = [f"v{n}{facts[2][-4:]}" for n in range(70)]
        return json.dumps({"biography": f"{'; '.join(facts)}. Likes {' '.join(words)}."})
    document = text.partition("<text>\n")[2].partition("\n</text>")[0]
    if "<question>" in text:
        return json.dumps({"answers": [re.findall(r"\w+", document)[-1]]})
    noun, answer = re.findall(r"[A-Z]\w+", document)[0], re.findall(r"\w+", document)[-1]
    asked = {"question": f"Of what did {noun} speak last in {document[:40]!r}?", "answer": answer}
    return json.dumps({"proper_nouns": [noun], "reasoning": "r", "outcome": "question", **asked})


@pytest.fixture(scope="session")
def writer() -> Callable[[dict[str, Any]], str]:
    """For ``FakeServer(answer=writer)``: right answers to LUME's prompts."""
    return lume_answer
