"""BERTScore against the bert-score package, BARTScore against the loss of one pair at a time; on small models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from medunlearn.errors import ConfigError, InputError, ModelError
from medunlearn.models.bart_score import BartScorer
from medunlearn.models.bert_score import BEST_LAYERS, BertScorer
from medunlearn.models.text_pairs import with_states
from medunlearn.seeds import generator

SENTENCES = (
    "the patient was given aspirin and heparin for five days then left with a letter to his doctor about pain in",
    "chest arm jaw fever cough sodium potassium low high normal scan showed lesion of lung liver kidney no sign",
)
WORDS = " ".join(SENTENCES).split()
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


def text(name: str, longest: int = 30) -> str:
    draw = generator("text of a pair", name)
    return " ".join(draw.choice(WORDS, size=int(draw.integers(1, longest))).tolist())


SAID = [text(f"said {place}") for place in range(23)]
MEANT = [text(f"meant {place // 2}") for place in range(23)]


@pytest.fixture(scope="module")
def save(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], str]:
    tokenizer = Tokenizer(
        models.WordLevel({w: n for n, w in enumerate(dict.fromkeys([*SPECIAL, *WORDS]))}, "<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    marks = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="<s>", sep_token="</s>", model_max_length=64, **marks
    )

    def make(build: Callable[[], Any]) -> str:
        folder: Path = tmp_path_factory.mktemp("model")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            build().save_pretrained(folder)
        wrapped.save_pretrained(folder)
        return str(folder)

    return make


@pytest.fixture(scope="module")
def bert(save: Callable[[Any], str]) -> str:
    config = BertConfig(
        vocab_size=60,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return save(lambda: BertModel(config))


@pytest.fixture(scope="module")
def bart(save: Callable[[Any], str]) -> str:
    config = BartConfig(
        vocab_size=60,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=0.5,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
        forced_eos_token_id=3,
    )
    return save(lambda: BartForConditionalGeneration(config))


@pytest.fixture(scope="module")
def t5(save: Callable[[Any], str]) -> str:
    config = T5Config(
        vocab_size=60,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    return save(lambda: T5ForConditionalGeneration(config))


def package(responses: list[str], meant: list[str], source: str, layer: int, *, idf: bool) -> list[list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from bert_score import score

        result = score(responses, meant, model_type=source, num_layers=layer, idf=idf, device="cpu", nthreads=0)
    return [part.tolist() for part in result]


class TestBertScore:
    @pytest.mark.parametrize("idf", [False, True])
    @pytest.mark.parametrize("layer", [1, 2, 3])
    def test_is_that_of_the_package(self, bert: str, layer: int, idf: bool) -> None:
        ours = BertScorer(bert, layer=layer, device="cpu").score(SAID, MEANT, idf=idf)
        theirs = package(SAID, MEANT, bert, layer, idf=idf)
        for item, p, r, f in zip(ours, *theirs, strict=True):
            assert item is not None
            assert (item.precision, item.recall, item.f1) == pytest.approx((p, r, f), abs=2e-6)
        assert len({item.f1 for item in ours if item}) == len(SAID)

    def test_the_same_text_is_1_and_nothing_is_none(self, bert: str) -> None:
        scorer = BertScorer(bert, device="cpu")
        same, empty, other = scorer.score([f" {SAID[0]}\n", "", SAID[1]], [SAID[0], SAID[0], " "])
        assert same is not None
        assert same.f1 == pytest.approx(1.0, abs=1e-6)
        assert empty is other is None
        assert scorer.score([], []) == []

    def test_each_text_is_encoded_once(self, bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
        scorer, encoded, real = BertScorer(bert, device="cpu"), [], BertScorer._encode

        def counting(self: BertScorer, texts: Any, ids: Any) -> Any:
            encoded.extend(texts)
            return real(self, texts, ids)

        monkeypatch.setattr(BertScorer, "_encode", counting)
        counts: list[int] = []
        scorer.score(SAID * 3, MEANT * 3, advance=counts.append)
        assert sorted(encoded) == sorted({*SAID, *MEANT})
        assert sum(counts) == 3 * len(SAID)

    def test_a_model_whose_layers_cannot_be_dropped(self, save: Callable[[Any], str]) -> None:
        config = GPT2Config(
            vocab_size=60, n_embd=16, n_layer=3, n_head=2, n_positions=64, bos_token_id=2, eos_token_id=3
        )
        source = save(lambda: GPT2Model(config))
        scorer = BertScorer(source, layer=2, device="cpu")
        ids = [scorer.tokenizer(item, return_tensors="pt") for item in (SAID[2], MEANT[2])]
        with torch.inference_mode():
            states = [scorer.model(**item, output_hidden_states=True).hidden_states[2][0] for item in ids]
        cosines = torch.nn.functional.cosine_similarity(states[0][:, None], states[1][None], dim=-1)
        (result,) = scorer.score([SAID[2]], [MEANT[2]])
        assert result is not None
        assert result.recall == pytest.approx(float(cosines.max(dim=0).values[1:-1].mean()), abs=1e-6)

    def test_layers(self, bert: str, tmp_path: Path) -> None:
        assert BertScorer(bert, device="cpu").layer == 3
        with pytest.raises(ConfigError, match=r"layer=4: .* has the layers 1 to 3"):
            BertScorer(bert, layer=4, device="cpu")
        folder = tmp_path / "distilbert-base-uncased"
        folder.symlink_to(bert)
        assert BEST_LAYERS[folder.name] == 5
        assert BertScorer(str(folder), device="cpu").layer == 3

    def test_the_authors_layers_are_those_of_the_package(self) -> None:
        from bert_score.utils import model2layers

        theirs = {name.split("/")[-1]: layer for name, layer in model2layers.items()}
        assert {name: theirs[name] for name in BEST_LAYERS} == BEST_LAYERS

    def test_not_as_many_and_not_there(self, bert: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="2 responses and 1 references"):
            BertScorer(bert, device="cpu").score(["a", "b"], ["a"])
        with pytest.raises(ModelError, match="cannot be loaded"):
            BertScorer(str(tmp_path / "none"), device="cpu")


def plain(scorer: BartScorer, source: str, target: str) -> float:
    """Minus the loss that transformers itself gives for one pair, nothing padded."""
    source_ids = scorer.tokenizer(source, return_tensors="pt")
    labels = scorer.tokenizer(target, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        return -float(
            scorer.model(
                input_ids=source_ids["input_ids"], attention_mask=source_ids["attention_mask"], labels=labels
            ).loss
        )


class TestBartScore:
    @pytest.mark.parametrize("kind", ["bart", "t5"])
    def test_is_minus_the_loss_of_each_pair(self, kind: str, request: pytest.FixtureRequest) -> None:
        scorer = BartScorer(request.getfixturevalue(kind), device="cpu")
        expected = [plain(scorer, response, meant) for response, meant in zip(SAID, MEANT, strict=True)]
        for size in (1, 4, 16):
            assert scorer.score(SAID, MEANT, batch_size=size) == pytest.approx(expected, abs=1e-5)
        assert len({round(item, 6) for item in expected}) == len(SAID)

    def test_each_source_is_encoded_once(self, bart: str, monkeypatch: pytest.MonkeyPatch) -> None:
        scorer, encoded, real = BartScorer(bart, device="cpu"), [], BartScorer._encode

        def counting(self: BartScorer, texts: Any, ids: Any) -> Any:
            encoded.extend(texts)
            return real(self, texts, ids)

        monkeypatch.setattr(BartScorer, "_encode", counting)
        counts: list[int] = []
        result = scorer.score([*MEANT, " "], [*SAID, "x"], advance=counts.append)
        assert sorted(encoded) == sorted({*MEANT})
        assert result[-1] is None
        assert sum(counts) == len(SAID) + 1


def test_states_are_kept_as_long_as_they_are_needed_and_no_longer() -> None:
    pairs = [(f"a{place}", "b") if place % 3 == 0 else (f"a{place}", f"c{place // 4}") for place in range(20)]
    encoded: list[str] = []

    def encode(texts: Any) -> dict[str, torch.Tensor]:
        encoded.extend(texts)
        return {item: torch.zeros(1) for item in texts}

    sizes = []
    for chunk, states in with_states(pairs, lambda pair: pair, encode, size=4):
        assert all(item in states for pair in chunk for item in pair)
        sizes.append(len(states))
    assert sorted(encoded) == sorted({item for pair in pairs for item in pair})
    assert max(sizes) <= 8
