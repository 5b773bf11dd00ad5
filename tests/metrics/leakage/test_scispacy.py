"""The road through scispaCy: with a stand-in of its interface always, and for real where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from medunlearn.errors import InputError
from medunlearn.metrics.leakage import extractor_class
from medunlearn.metrics.leakage.extractors import MODEL, SciSpacy
from medunlearn.metrics.leakage.phrases import candidates


class Span:
    """Words ``start`` to ``end`` of a document, as spaCy's."""

    def __init__(self, words: Sequence[str], start: int, end: int) -> None:
        self.start, self.end, self.text = start, end, " ".join(words[start:end])


class Document:
    """Entities and noun chunks as a model would mark :data:`TEXT`."""

    def __init__(self, text: str) -> None:
        words = text.split()
        self.ents = [Span(words, 1, 4), Span(words, 7, 9)]
        self.noun_chunks = iter([Span(words, 0, 4), Span(words, 7, 9), Span(words, 6, 10)])


class Model:
    pipe_names: Sequence[str] = ("tok2vec", "tagger", "parser", "ner")
    max_length = 1000

    def pipe(self, texts: Sequence[str]) -> Iterator[Document]:
        return (Document(text) for text in texts)


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("spacy")
    module.model, module.asked = Model(), []

    def load(name: str) -> Model:
        module.asked.append(name)
        if module.model is None:
            raise OSError("[E050] Can't find model 'en_core_sci_lg'.")
        return module.model

    module.load = load
    monkeypatch.setitem(sys.modules, "spacy", module)
    return module


TEXT = "The metastatic lung cancer spread to the lung cancer ward"


def test_entities_and_noun_chunks_and_each_place_once(spacy: Any) -> None:
    (phrases,) = extractor_class("scispacy")().phrases([TEXT])
    assert spacy.asked == [MODEL] == ["en_core_sci_lg"]
    assert phrases == [
        "The metastatic lung cancer",
        "metastatic lung cancer",
        "the lung cancer ward",
        "lung cancer",
    ]
    assert candidates(phrases) == {"metastatic lung cancer": 2, "lung cancer ward": 1, "lung cancer": 1}


def test_a_model_that_is_missing_or_lacks_a_part_is_refused(spacy: Any) -> None:
    spacy.model.pipe_names = ("tok2vec",)
    with pytest.raises(InputError, match="no ner and no parser"):
        SciSpacy()
    spacy.model = None
    with pytest.raises(InputError, match=r"cannot be loaded.*E050.*docs/measure.md"):
        SciSpacy()


def test_a_text_longer_than_the_model_reads_is_refused(spacy: Any) -> None:
    with pytest.raises(InputError, match="1001 characters"):
        SciSpacy().phrases([TEXT, "x" * 1001])


def test_without_spacy_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=r"docs/measure.md"):
        SciSpacy()


@pytest.mark.skipif(find_spec(MODEL) is None, reason=f"scispaCy's {MODEL} is not installed")
def test_the_real_model() -> None:
    (phrases,) = SciSpacy().phrases(["The patient received chemotherapy for metastatic lung adenocarcinoma."])
    assert "chemotherapy" in candidates(phrases)
    assert any("lung adenocarcinoma" in phrase for phrase in candidates(phrases))
