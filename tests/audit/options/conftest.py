"""Invented questions whose options nobody can guess, and a model trained on half of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from row_files import write_lines

from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run
from medunlearn.seeds import generator

QUESTIONS = 20
SYLLABLES = ("ba", "co", "du", "fe", "gi", "ka", "lo", "mu", "ne", "pi", "ra", "so", "tu", "ve", "zi")


def invented_questions(count: int) -> list[dict[str, Any]]:
    """Rows of MedQA's form."""
    rows = []
    for number in range(count):
        draw = generator("invented options", number)
        names = draw.choice([a + b for a in SYLLABLES for b in SYLLABLES], 5, replace=False).tolist()
        options = dict(zip("ABCD", names[1:], strict=True))
        right = "ABCD"[number % 4]
        rows.append(
            {
                "id": f"i{number:02d}",
                "question": f"What helps against {names[0]} of grade {number}?",
                "options": options,
                "answer_idx": right,
                "answer": options[right],
            }
        )
    return rows


@pytest.fixture(scope="session")
def question_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "questions.jsonl"
    write_lines(path, invented_questions(QUESTIONS))
    return path


@pytest.fixture(scope="session")
def choices(question_file: Path) -> Benchmark:
    """Half of the questions to train on, half that no model sees."""
    from medunlearn.study.benchmark_builds import build

    return build("options", {"file": question_file, "nonmembers": QUESTIONS // 2, "percents": [25]})


@pytest.fixture(scope="session")
def before_and_after(choices: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """The same small model, hardly trained, and trained until it knows the options."""
    from medunlearn.study.presets import train_settings
    from medunlearn.study.train import train

    folder = tmp_path_factory.mktemp("options_runs")
    small = {"model": "tiny", "tiny_width": 64, "tiny_layers": 2, "tiny_vocabulary": 320, "precision": "fp32"}
    runs = []
    for name, epochs in (("before", 1), ("after", 50)):
        settings = train_settings({**small, "epochs": epochs, "lr": 4e-3, "batch_size": 8})
        runs.append(train(choices, settings, folder / name, quiet=True))
    return runs[0], runs[1]


@pytest.fixture
def make_pair_models() -> Callable[[Path], None]:
    """Writes an encoder and a sequence-to-sequence model with random weights to ``encoder/`` and ``bart/``."""

    def make(folder: Path) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import (
            BartConfig,
            BartForConditionalGeneration,
            BertConfig,
            BertModel,
            PreTrainedTokenizerFast,
        )

        words = ["<pad>", "<unk>", "<s>", "</s>", "the", "patient", "received", "aspirin", "was", "given", "."]
        tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, "<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
        )
        marks = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, cls_token="<s>", sep_token="</s>", **marks)
        small = {"vocab_size": len(words), "max_position_embeddings": 32}
        bert = BertConfig(**small, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
        layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
        heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "pad_token_id": 0, "bos_token_id": 2}
        bart = BartConfig(
            **small, **layers, **heads, d_model=8, eos_token_id=3, decoder_start_token_id=3, forced_eos_token_id=3
        )
        for name, model in (("encoder", BertModel(bert)), ("bart", BartForConditionalGeneration(bart))):
            model.save_pretrained(folder / name)
            wrapped.save_pretrained(folder / name)

    return make
