"""Answers to several questions on one note: the note run once, against one padded batch of full prompts.

The padded batch is timed three times: by transformers' ``generate``, as peers do it; by our loop with the growing
cache that ``generate`` has; and with the cache with room that we decode with. All ways are timed in one process,
in turns, in CPU seconds, on a random Llama that never says EOS; the best of a few turns counts for each. The tokens
they say are compared. Below them stands what no way can do without: the matrix products of the weights, once over
the note and the questions, then once a token. ``--grow`` does it for notes of 128 to 4096 tokens and for 1 to 16
questions, by our loop alone.

    python benchmarks_perf/generation.py --note 500 --questions 8
    python benchmarks_perf/generation.py --vocabulary 32768 --width 768 --layers 6
    python benchmarks_perf/generation.py --grow --turns 2
"""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from medunlearn.generation import sharing
from medunlearn.generation.decode import DecodedAnswer, decode
from medunlearn.models.load import LanguageModel

NEVER = -1
GENERATE, GROWING, ROOMY, SHARED = (
    "transformers' generate",
    "full prompts, growing cache",
    "full prompts, cache with room",
    "shared note",
)
NOTES, QUESTIONS = (128, 256, 512, 1024, 2048, 4096), (1, 2, 4, 8, 16)


def random_llama(width: int, layers: int, vocabulary: int) -> LanguageModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=32768,
        eos_token_id=None,
    )
    ends = SimpleNamespace(eos_token_id=NEVER, pad_token_id=0)
    return LanguageModel(LlamaForCausalLM(config).eval(), ends, "random")


def timed(
    model: LanguageModel, prompts: list[list[int]], shared: list[int], new: int
) -> tuple[float, list[DecodedAnswer]]:
    """Seconds and answers of one batch."""
    start = time.process_time()
    (batch,) = decode(model, prompts, shared=shared, max_new_tokens=new, batch_size=len(prompts))
    return time.process_time() - start, [decoded for _, decoded in sorted(batch, key=lambda pair: pair[0])]


def by_generate(model: LanguageModel, prompts: list[list[int]], new: int) -> tuple[float, list[DecodedAnswer]]:
    """Seconds and answers of one batch by ``generate``; prompts of one length need no padding."""
    start, ids = time.process_time(), torch.tensor(prompts)
    with torch.inference_mode():
        found = model.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, pad_token_id=0
        )
    answers = [DecodedAnswer(tuple(row), finished=False) for row in found[:, ids.shape[1] :].tolist()]
    return time.process_time() - start, answers


@torch.inference_mode()
def products(model: LanguageModel, prompt: int, answers: int, new: int) -> float:
    """Seconds of the products with all weights: over the prompt's tokens, then for each token of the answers."""
    head, inside = model.model.lm_head, [m for m in model.model.model.modules() if isinstance(m, torch.nn.Linear)]
    passes = [(prompt, inside), *[(answers, [*inside, head])] * (new - 1), (answers, [head])]
    inputs = {(rows, m.in_features): torch.randn(rows, m.in_features) for rows, layers in passes for m in layers}
    start = time.process_time()
    for rows, layers in passes:
        for layer in layers:
            layer(inputs[rows, layer.in_features])
    return time.process_time() - start


def growing(model: Any, room: int) -> DynamicCache:
    return DynamicCache(config=model.config)


def compare(
    model: LanguageModel, ways: tuple[str, ...], note: int, questions: int, chosen: argparse.Namespace
) -> tuple[dict[str, float], bool]:
    """Best seconds of each way, and whether all said the same."""
    text = torch.randint(1, chosen.vocabulary, (note,)).tolist()
    own = torch.randint(1, chosen.vocabulary, (questions, chosen.question)).tolist()
    prompts = [text + question for question in own]
    timed(model, prompts, [note] * questions, 2)  # the first call pays for what is prepared once
    best: dict[str, float] = {}
    said: list[list[DecodedAnswer]] = []
    for _ in range(chosen.turns):
        for way in ways:
            shared = [note] * questions if way == SHARED else []
            cache = growing if way == GROWING else sharing.preallocated_cache
            with patch.object(sharing, "preallocated_cache", cache):
                seconds, answers = (
                    by_generate(model, prompts, chosen.new)
                    if way == GENERATE
                    else timed(model, prompts, shared, chosen.new)
                )
            best[way] = min(seconds, best.get(way, seconds))
            said.append(answers)
    return best, all(answers == said[0] for answers in said)


def grow(model: LanguageModel, chosen: argparse.Namespace) -> None:
    """A line for each length of the note, and one for each number of questions."""
    cases = [(note, chosen.questions) for note in NOTES] + [(chosen.note, count) for count in QUESTIONS]
    print("note  questions  full prompts  shared note  ratio  same answers")
    for note, questions in cases:
        best, same = compare(model, (GROWING, SHARED), note, questions, chosen)
        full, shared = best[GROWING], best[SHARED]
        print(f"{note:4}  {questions:9}  {full:10.3f} s  {shared:9.3f} s  {full / shared:5.2f}  {same}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--note", type=int, default=500, help="tokens of the note")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--question", type=int, default=20, help="tokens of a question")
    parser.add_argument("--new", type=int, default=45, help="tokens of an answer")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--grow", action="store_true", help="a table over lengths and numbers of questions")
    chosen = parser.parse_args()
    model = random_llama(chosen.width, chosen.layers, chosen.vocabulary)
    if chosen.grow:
        grow(model, chosen)
        return
    best, same = compare(model, (GENERATE, GROWING, ROOMY, SHARED), chosen.note, chosen.questions, chosen)
    for way, seconds in best.items():
        print(f"{way:30} {seconds:7.3f} s   {seconds / best[SHARED]:5.2f} x the shared note's")
    prompt = chosen.note + chosen.questions * chosen.question
    floor = min(products(model, prompt, chosen.questions, chosen.new) for _ in range(chosen.turns))
    print(
        f"{'products with the weights':30} {floor:7.3f} s   {best[GENERATE] / floor:5.2f} x is the most to be had"
    )
    print(f"same answers: {same}")


if __name__ == "__main__":
    main()
