"""Sentence vectors and entailment labels, from a BERT with random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
)

from medunlearn.errors import ModelError
from medunlearn.models.encoders import EntailmentModel, SentenceEncoder

SENTENCE = "ana silva was given aspirin heparin for five days and left on may the ninth"
WORDS = SENTENCE.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [" ".join(WORDS[:count]) for count in (1, 4, 15, 2, 9)]


@pytest.fixture(scope="module")
def make_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    tokenizer = Tokenizer(models.WordPiece({w: n for n, w in enumerate([*SPECIAL, *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )

    def make(cls: Any = BertModel, labels: list[str] | None = None) -> Path:
        names = (
            {"id2label": dict(enumerate(labels)), "label2id": {w: n for n, w in enumerate(labels)}}
            if labels
            else {}
        )
        config = BertConfig(
            vocab_size=len(tokenizer.get_vocab()),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=40,
            initializer_range=0.5,
            **names,
        )
        folder = tmp_path_factory.mktemp("encoder")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            cls(config).save_pretrained(folder)
        wrapped.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="module")
def encoder(make_encoder: Callable[..., Path]) -> Path:
    return make_encoder()


def plain_vector(source: Path, text: str) -> np.ndarray[Any, Any]:
    tokenizer, model = AutoTokenizer.from_pretrained(source), AutoModel.from_pretrained(source).eval()
    with torch.inference_mode():
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].double()
    mean = states.mean(0).numpy()
    return mean / np.linalg.norm(mean)


def test_vectors_are_means_of_unit_length(encoder: Path) -> None:
    vectors = np.array(SentenceEncoder(str(encoder), "cpu").encode(TEXTS))
    assert vectors.shape == (5, 16)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5))
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector == pytest.approx(plain_vector(encoder, text), abs=1e-5)


def test_company_changes_nothing(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SentenceEncoder(str(encoder), "cpu")
    together = np.array(model.encode(TEXTS))
    alone = np.array([model.encode([text])[0] for text in TEXTS])
    backwards = np.array(model.encode(TEXTS[::-1]))[::-1]
    monkeypatch.setattr("medunlearn.models.encoders.BATCH", 2)
    in_twos = np.array(model.encode(TEXTS))
    for other in (alone, backwards, in_twos):
        assert other == pytest.approx(together, abs=1e-5)


class TestEntailment:
    PAIRS = (TEXTS, TEXTS[::-1])

    def labels(self, source: Path) -> list[int]:
        """The plain arg-max label of each pair, one at a time."""
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForSequenceClassification.from_pretrained(source).eval()
        with torch.inference_mode():
            return [
                int(model(**tokenizer(a, b, return_tensors="pt")).logits[0].argmax())
                for a, b in zip(*self.PAIRS, strict=True)
            ]

    @pytest.mark.parametrize(("word", "place"), [("entailment", 0), ("ENTAILMENT", 1), ("Entails", 2)])
    def test_the_label_is_found_by_its_name(
        self, make_encoder: Callable[..., Path], place: int, word: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = ["neutral", "contradiction"]
        names.insert(place, word)
        source = make_encoder(BertForSequenceClassification, names)
        model = EntailmentModel(str(source), "cpu")
        expected = [label == place for label in self.labels(source)]
        assert model.entails(*self.PAIRS) == expected
        monkeypatch.setattr("medunlearn.models.encoders.BATCH", 2)
        assert model.entails(*self.PAIRS) == expected

    @pytest.mark.parametrize(
        "names", [["LABEL_0", "LABEL_1", "LABEL_2"], ["not_entailment", "neutral"], ["entailment", "entails"]]
    )
    def test_no_such_label_or_two(self, make_encoder: Callable[..., Path], names: list[str]) -> None:
        with pytest.raises(ModelError, match=f"{', '.join(n.lower() for n in names)}; exactly one .* Set id2label"):
            EntailmentModel(str(make_encoder(BertForSequenceClassification, names)), "cpu")

    def test_a_bare_encoder_is_no_classifier(self, make_encoder: Callable[..., Path]) -> None:
        # Transformers would draw the classifier's weights at random.
        with pytest.raises(ModelError, match=r"lacks weights .* classifier\.bias, classifier\.weight"):
            EntailmentModel(str(make_encoder(BertModel, ["entailment", "neutral", "contradiction"])), "cpu")


def test_an_encoder_may_lack_its_pooler_but_nothing_else(encoder: Path, tmp_path: Path) -> None:
    for dropped, works in (("pooler", True), ("layer.1", False)):
        folder = Path(shutil.copytree(encoder, tmp_path / dropped))
        tensors = load_file(folder / "model.safetensors")
        remaining = {name: tensor for name, tensor in tensors.items() if dropped not in name}
        assert len(remaining) < len(tensors)
        save_file(remaining, folder / "model.safetensors", metadata={"format": "pt"})
        if works:
            assert SentenceEncoder(str(folder), "cpu").encode(TEXTS) == SentenceEncoder(str(encoder), "cpu").encode(
                TEXTS
            )
        else:
            with pytest.raises(ModelError, match="lacks weights"):
                SentenceEncoder(str(folder), "cpu")


def test_not_there_and_broken(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        SentenceEncoder(str(tmp_path / "nothing"), "cpu")
    folder = Path(shutil.copytree(encoder, tmp_path / "broken"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    with pytest.raises(ModelError, match="cannot be loaded"):
        SentenceEncoder(str(folder), "cpu")
