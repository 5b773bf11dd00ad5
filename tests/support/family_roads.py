"""Roads of a model family through medunlearn, each compared with plain transformers one sequence at a time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from model_families import build_family
from real_tokenizers import byte_level
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from medunlearn.config import AdoptSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.generation.decode import decode
from medunlearn.models.load import load_model
from medunlearn.models.prompts import CONTEXTS
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.results.runs import Run
from medunlearn.study.adopt import adopt
from medunlearn.study.export import export
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

LONGEST, QUESTIONS, ENDS = 6, 6, 16
ROADS: Mapping[str, Mapping[str, Any]] = {
    "adopt": {},
    "train": {},
    "npo": {"method": "npo"},
    "rmu": {"method": "rmu", "arguments": {"layer": 1}},
    "counterfactual": {"method": "counterfactual"},
    "lora": {"method": "graddiff", "trainable": "lora:4"},
}
"""Road -> settings of `unlearn`, if it has that step; each ends with an export."""


@dataclass(frozen=True)
class Agreement:
    """Ours and plain transformers' numbers for one model folder.

    Attributes:
        difference: largest difference of a log-probability, nats.
        answers: number of greedy answers that are the same, of ``prompts``.
        lengths: number of different lengths of the answers.
    """

    difference: float
    answers: int
    prompts: int
    lengths: int


@cache
def small_benchmark() -> Benchmark:
    """Four invented patients with a few questions each, and short notes."""
    from medunlearn.papers.amnesia.build import build
    from medunlearn.papers.amnesia.settings import AmnesiaSettings

    whole = build(AmnesiaSettings(synthetic=5))
    records = [replace(record, text=record.text[:120]) for record in whole.records]
    kept = [q for record in records for q in [q for q in whole.questions if q.record_id == record.record_id][:4]]
    return replace(whole, records=records, questions=kept)


@cache
def small_tokenizer() -> Any:
    benchmark = small_benchmark()
    return byte_level([*(r.text for r in benchmark.records), *(q.answer for q in benchmark.questions)], 330)


def save_family(name: str, folder: Path) -> Path:
    """A random model of the family as plain transformers saves it, with a tokenizer."""
    logging.disable_progress_bar()
    tokenizer = small_tokenizer()
    longest = {} if "NTK" in name else {"max_position_embeddings": 512}
    if "Mamba" in name:
        longest = {}
    # Some families' tokenizer classes add tokens of their own.
    model = build_family(name, vocab_size=len(tokenizer) + 8, **longest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Many tokens end an answer, so that rows of a batch end at different times.
        model.generation_config.eos_token_id = list(range(1, len(tokenizer), ENDS))
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def travel(name: str, road: str, where: Path) -> tuple[Path, Path]:
    """Take a family's model down a road; returns the run's model and the exported folder."""
    benchmark = small_benchmark()
    folder = save_family(name, where / "base")
    quick = {"epochs": 1, "precision": "fp32", "micro_batch_size": 8, "lr": 1e-3}
    if road == "train":
        run = train(
            benchmark, train_settings({"model": str(folder), **quick}), where / "train", device="cpu", quiet=True
        )
    else:
        settings = check(AdoptSettings, {"sample": 4, "allow_broken": True})
        run = adopt(folder, benchmark, settings, where / "adopted", device="cpu", quiet=True)
    if ROADS[road]:
        split = next(iter(benchmark.splits))
        run = unlearned(run, benchmark, {**quick, **ROADS[road], "split": split}, where / "unlearned")
    return run.model, export(run.folder, where / "hf")


def unlearned(target: Run, benchmark: Benchmark, values: dict[str, Any], out: Path) -> Run:
    return unlearn(target, benchmark, unlearn_settings(values, tiny=False), out, device="cpu", quiet=True)


def prompts(language_model: Any, count: int) -> list[TokenSequence]:
    """Questions with the note and without, of unequal lengths."""
    benchmark = small_benchmark()
    questions = benchmark.questions[:count]
    rows = [
        (context, question, language_model.question_sequence(question, benchmark.record[question.record_id], how))
        for context, how in ((name, Rendering("plain", name)) for name in CONTEXTS)
        for question in questions
    ]
    return [replace(sequence, key=f"{context} {question.question_id}") for context, question, sequence in rows]


def agreement(model: Path, folder: Path, questions: int = QUESTIONS) -> Agreement:
    """Log-probabilities in batches of several sizes, and greedy answers, against plain transformers.

    Args:
        model: model of a run.
        folder: the same model as transformers loads it.
        questions: number of them, each asked with its note and without.
    """
    live = load_model(model, device="cpu")
    sequences = prompts(live, questions)
    scores = [score_answers(live, sequences, batch_size=size) for size in (1, 64)]
    decoded = [_decoded(live, sequences, shared) for shared in (True, False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    theirs = [_score(plain, sequence) for sequence in sequences]
    answers = [_answer(plain, sequence.prompt) for sequence in sequences]
    difference = max(
        abs(one - other)
        for ours in scores
        for score, own in zip(ours, theirs, strict=True)
        for one, other in zip(score.log_probs, own, strict=True)
    )
    same = sum(all(ours[n] == answer for ours in decoded) for n, answer in enumerate(answers))
    return Agreement(difference, same, len(answers), len({len(answer) for answer in answers}))


def _decoded(live: Any, sequences: Sequence[TokenSequence], shared: bool) -> dict[int, list[int]]:
    heads = [sequence.shared for sequence in sequences] if shared else []
    batches = decode(live, [s.prompt for s in sequences], shared=heads, max_new_tokens=LONGEST, batch_size=64)
    return {place: list(answer.tokens) for batch in batches for place, answer in batch}


def _fresh(model: Any) -> None:
    """Frequencies of a model that saw no sequence yet; transformers keeps those of the longest one."""
    for module in model.modules():
        if "dynamic" in str(getattr(module, "rope_type", "")):
            module.max_seq_len_cached = module.original_max_seq_len
            module.inv_freq = module.original_inv_freq


def _logits(model: Any, ids: Sequence[int]) -> torch.Tensor:
    _fresh(model)
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float()
    return logits


def _score(model: Any, sequence: TokenSequence) -> list[float]:
    log_probs = _logits(model, sequence.ids).log_softmax(-1)
    return [float(log_probs[n - 1, sequence.ids[n]]) for n in range(sequence.scored_from, len(sequence.ids))]


def _answer(model: Any, prompt: Sequence[int]) -> list[int]:
    """Greedy answer by whole passes, without a cache."""
    ids, answer, ends = list(prompt), list[int](), model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else ends
    while len(answer) < LONGEST and (token := int(_logits(model, ids)[-1].argmax())) not in ends:
        answer.append(token)
        ids.append(token)
    return answer
