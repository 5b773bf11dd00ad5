"""Adopted chat models are asked as they were trained: the opening of an answer and the date of a prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from real_tokenizers import CLOCK, QWEN3, byte_level, prepending
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from medunlearn.config import AdoptSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.models.chat import TODAY
from medunlearn.models.load import load_model
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.probes.sample_loss import sample_losses
from medunlearn.study.adopt import adopt

STEPS = 60


@pytest.fixture(scope="module")
def few() -> Benchmark:
    return build(AmnesiaSettings(synthetic=5))


def texts(benchmark: Benchmark, tokenizer: Any, how: str) -> list[str]:
    """The training questions as whole texts, as plain transformers trains on them."""
    questions = [question for question in benchmark.questions if question.fold == "train"][:8]
    if how == "plain":
        return [f"Question: {q.question}\nAnswer: {q.answer}{tokenizer.eos_token}" for q in questions]
    turns = [
        [{"role": "user", "content": q.question}, {"role": "assistant", "content": q.answer}] for q in questions
    ]
    return [tokenizer.apply_chat_template(turn, tokenize=False) for turn in turns]


def trained(benchmark: Benchmark, tokenizer: Any, folder: Path, how: str) -> Path:
    """A Llama that knows eight questions, trained by transformers' own loss on whole texts."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=256, eos_token_id=tokenizer.eos_token_id,
        )
    )  # fmt: skip
    batch = tokenizer(
        texts(benchmark, tokenizer, how), padding=True, return_tensors="pt", add_special_tokens=how == "plain"
    )
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def known(benchmark: Benchmark) -> Benchmark:
    """The benchmark with the eight questions alone."""
    kept = [question for question in benchmark.questions if question.fold == "train"][:8]
    return replace(benchmark, questions=kept)


def questions_loss(run: Any, template: str) -> float:
    (loss,) = [own["loss"] for own in run.info.results["losses"] if own["template"] == template]
    return float(loss)


def settings(**values: Any) -> AdoptSettings:
    return check(AdoptSettings, {"sample": 100, **values})


def corpus(benchmark: Benchmark) -> list[str]:
    return [f"Question: {q.question} Answer: {q.answer}" for q in benchmark.questions]


def loss_of_answers(folder: Path, texts: list[str], marker: str) -> float:
    """By transformers alone: tokens of whole texts that end behind the marker."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), LlamaForCausalLM.from_pretrained(folder).eval()
    values = []
    for text in texts:
        encoding = tokenizer(text, return_offsets_mapping=True)
        ids, start = torch.tensor([encoding["input_ids"]]), text.index(marker) + len(marker)
        with torch.inference_mode():
            log_probs = model(input_ids=ids).logits[0].log_softmax(-1)
        ends = [end for _, end in encoding["offset_mapping"]]
        values += [float(log_probs[n - 1, ids[0, n]]) for n, end in enumerate(ends) if end > start]
    return -sum(values) / len(values)


def test_a_model_with_prepended_spaces_knows_what_it_learned(few: Benchmark, tmp_path: Path) -> None:
    tokenizer = prepending(corpus(few), 600)
    folder = trained(few, tokenizer, tmp_path / "model", "plain")
    run = adopt(folder, known(few), settings(), tmp_path / "run", device="cpu", quiet=True)
    assert run.info.rendering["template"] == "plain"
    theirs = loss_of_answers(folder, texts(few, tokenizer, "plain"), "Answer:")
    assert questions_loss(run, "plain") == pytest.approx(theirs, rel=1e-4)


def test_a_model_trained_on_answered_turns_is_asked_in_them(few: Benchmark, tmp_path: Path) -> None:
    folder = trained(few, byte_level(corpus(few), chat=QWEN3), tmp_path / "model", "chat")
    run = adopt(folder, known(few), settings(), tmp_path / "run", device="cpu", quiet=True)
    choice = run.info.results["opening_choice"]
    assert run.info.rendering["opening"] == choice["opening"] == "turn"
    assert choice["losses"]["turn"] == pytest.approx(questions_loss(run, "chat"))
    assert choice["losses"]["turn"] < 0.1 < choice["losses"]["prompt"]
    again = sample_losses(load_model(run.model, device="cpu"), known(few), run.rendering(), sample=100, seed=0)
    assert questions_loss(run, "chat") == pytest.approx(again[-1].loss)


def test_the_date_of_prompts_is_part_of_a_run(few: Benchmark, tmp_path: Path) -> None:
    folder = trained(few, byte_level(corpus(few), chat=CLOCK), tmp_path / "model", "chat")
    run = adopt(folder, known(few), settings(), tmp_path / "run", device="cpu", quiet=True)
    assert run.info.rendering["today"] == TODAY
    assert run.rendering().chat_facts == {"today": TODAY}
    assert "opening_choice" not in run.info.results
