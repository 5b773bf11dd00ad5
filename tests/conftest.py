"""One tiny model and one small hospital for all tests; torch is imported only where it is asked for."""

from __future__ import annotations

import copy
import gc
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from fake_server import FakeServer
from hypothesis import settings

# torch reads it when it is loaded: sums are then the same on every machine, and workers do not fight for cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# With so many modules loaded, Python's own thresholds spend a tenth of the time on looking for garbage.
gc.set_threshold(10_000, 10, 10)
# Tests kill processes, never the machine: what was written is there without waiting for the disk.
os.fsync = lambda file: None
# A machine that is busy is no counterexample.
settings.register_profile("medunlearn", deadline=None)
settings.load_profile("medunlearn")

TEXTS = [
    "Patient Ana Silva, 61, was admitted to the Northern Clinic with chest pain on 3 May and left on 9 May.",
    "Question: Which drug was Ana Silva given? Answer: aspirin and heparin, for five days.",
]
SPECIAL = 3  # tokens 0 to 2 are begin, end and pad


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hostile commands, each in a fork, come first: to fork a process takes longer the more it holds."""
    items.sort(key=lambda item: "hostile" not in item.path.parts)


def pytest_collection_finish() -> None:
    """What is loaded by now stays; looking through it for garbage takes a third of a second a time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Settings of a training run."""
    return {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 2, "precision": "fp32"}


@pytest.fixture(scope="session")
def hospital() -> Any:
    """Twenty invented patients; ``random_10`` forgets two of them."""
    from medunlearn.papers.amnesia.build import build
    from medunlearn.papers.amnesia.settings import AmnesiaSettings

    return build(AmnesiaSettings(synthetic=20))


@pytest.fixture(scope="session")
def xrays(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Four patients with two studies each, and an image a study."""
    from medunlearn.build import medforget
    from medunlearn.data.benchmark import Benchmark

    folder = tmp_path_factory.mktemp("xrays") / "bench"
    size = {"synthetic": 4, "institutions": 2, "studies": 2, "sections": 4, "image_size": 32}
    medforget(out=folder, rephrase="none", **size)
    return Benchmark.load(folder)


@pytest.fixture(scope="session")
def seen_target(xrays: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model that was shown them for an epoch."""
    from xrays import SMALL

    from medunlearn.study.presets import train_settings
    from medunlearn.study.train import train

    return train(xrays, train_settings(SMALL), tmp_path_factory.mktemp("seen") / "target", quiet=True)


@pytest.fixture(scope="session")
def _tiny_source() -> Any:
    """Source of all copies, used by no test. Its layouts are probed here, once for all."""
    import torch

    from medunlearn.models.layouts import decoder_of
    from medunlearn.models.tiny import build_tiny

    language_model = build_tiny(TEXTS, vocabulary=300, width=32, layers=3, heads=2)
    with torch.no_grad():
        for tensor in language_model.model.parameters():
            if tensor.dim() == 2:
                tensor.mul_(5)
    decoder_of(language_model.model)
    return language_model


@pytest.fixture(scope="session")
def tiny_base(_tiny_source: Any) -> Any:
    """Do not change it: :func:`tiny` gives copies. Its weights are large, so that nothing is near uniform."""
    return copy.deepcopy(_tiny_source)


@pytest.fixture
def tiny(_tiny_source: Any) -> Callable[[], Any]:
    """A fresh copy of one Llama, 32 wide and 3 layers deep, each time it is called."""
    return lambda: copy.deepcopy(_tiny_source)


@pytest.fixture(scope="session")
def _exact_source(_tiny_source: Any) -> Any:
    from rounding import in_fp64

    exact = copy.deepcopy(_tiny_source)
    in_fp64(exact.model)
    return exact


@pytest.fixture
def exact_tiny(_exact_source: Any) -> Callable[[], Any]:
    """The same in fp64, for comparing two orders of computing; see :mod:`rounding`."""
    return lambda: copy.deepcopy(_exact_source)


@pytest.fixture(scope="session")
def make_sequences() -> Callable[..., list[Any]]:
    """``make_sequences(count, name)``: random tokens, unequal prompts and answers, the last one EOS."""
    from medunlearn.models.sequences import TokenSequence
    from medunlearn.seeds import generator

    def make(count: int, name: str = "s", vocabulary: int = 300) -> list[TokenSequence]:
        made = []
        for place in range(count):
            draw: np.random.Generator = generator("sequence", name, place)
            prompt, answer = (int(n) for n in draw.integers((3, 1), (14, 8)))
            ids = [*draw.integers(SPECIAL, vocabulary, prompt + answer).tolist(), 1]
            made.append(TokenSequence(f"{name}{place}", tuple(ids), 0, prompt))
        return made

    return make


@pytest.fixture(scope="session")
def with_notes() -> Callable[..., list[Any]]:
    """``with_notes(sequences, every=2)``: the same; each ``every`` of them go on from a note in common."""
    from medunlearn.models.sequences import TokenSequence

    def shared(sequences: list[TokenSequence], every: int = 2) -> list[TokenSequence]:
        made = []
        for place, s in enumerate(sequences):
            note = tuple(range(20 + place // every, 40 + place // every))
            made.append(TokenSequence(s.key, (*note, *s.ids), len(note), len(note) + s.scored_from))
        return made

    return shared


CATEGORIES = {"tumor": "Cancer", "sepsis": "Infectious/Immune", "infarction": "Cardiovascular", "odd": "Other"}
ASKED = ("complaint", "laboratory result", "imaging", "treatment", "course and laboratory", "therapy and scan")


def canned_answer(body: dict[str, Any]) -> str:
    """What a careful model would say to AMNESIA's prompts: answers are sentences of the note."""
    text = body["messages"][1]["content"]
    if found := re.search(r"<title>\n(.*?)\n</title>", text, re.DOTALL):
        category = next(name for word, name in CATEGORIES.items() if word in found[1])
        return json.dumps({"category": category, "reason": found[1]})
    found = re.search(r"<note>\n(.*?)\n</note>", text, re.DOTALL)
    assert found is not None
    said = [f"{sentence.strip('. ')}." for sentence in found[1].split(". ")][1:5]
    factual = [
        {"question": f"Which {topic} was recorded?", "answer": answer, "evidence": answer}
        for topic, answer in zip(ASKED, said, strict=False)
    ]
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    reasoning = [
        {
            "question": f"How do {ASKED[one]} and {ASKED[other]} belong together?",
            "findings": [said[one], said[other]],
            "answer": f"{said[one]} {said[other]}",
        }
        for one, other in pairs
    ]
    return json.dumps({"factual": factual, "reasoning": reasoning})


@pytest.fixture(scope="session")
def canned() -> Callable[[dict[str, Any]], str]:
    """For ``FakeServer(answer=canned)``: right answers to AMNESIA's prompts about :func:`own_notes`."""
    return canned_answer


@pytest.fixture(scope="session")
def own_notes() -> Callable[..., list[dict[str, str]]]:
    """``own_notes(12)``: rows with id, title and text; titles hold a word of ``CATEGORIES`` in turn."""

    def make(count: int, words: tuple[str, ...] = ("tumor", "sepsis", "infarction")) -> list[dict[str, str]]:
        return [
            {
                "id": f"n{number:03d}",
                "title": f"A rare {words[number % len(words)]} after operation {number}",
                "text": f"This report is about one patient. Pain of grade {number} began at night. Sodium was "
                f"{number + 900} mmol/L. Tomography showed a lesion of {number + 20} mm. Drug {number}X was given "
                "for a week. He went home.",
            }
            for number in range(count)
        ]

    return make


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


@pytest.fixture
def connect() -> Iterator[Callable[..., tuple[FakeServer, Any]]]:
    """``connect("busy", "well", retries=2)``: a server that behaves so, and an open client of it."""
    from medunlearn.config import check
    from medunlearn.llm import Client, ServerSettings, decide

    with ExitStack() as stack:

        def make(
            *behave: str, server: FakeServer | None = None, store: Any = None, again: bool = False, **settings: Any
        ) -> tuple[FakeServer, Any]:
            served = stack.enter_context(server or FakeServer(behave or ("well",)))
            given = {"base_url": served.base_url, "model": "m", "backoff_seconds": 0.01, **settings}
            chosen = check(ServerSettings, given)
            decision = decide(chosen.base_url, data_use="credentialed")
            return served, stack.enter_context(Client(chosen, decision, store=store, again=again))

        yield make
