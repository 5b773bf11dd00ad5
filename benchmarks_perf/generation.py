"""Answers to several questions on one note: the note run once, against one padded batch of full prompts.

The padded batch is timed twice: with transformers' growing cache, as ``generate`` has it, and with the cache with
room that we decode with. All ways are timed in one process, in turns, on a random Llama that never says EOS; the
best of a few turns counts for each. The tokens they say are compared.

    python benchmarks_perf/generation.py --note 500 --questions 8
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
from medunlearn.generation.decode import Decoded, decode_greedily
from medunlearn.models.load import LanguageModel

VOCABULARY, NEVER = 4096, -1


def random_llama(width: int, layers: int) -> LanguageModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=32768,
    )
    ends = SimpleNamespace(eos_token_id=NEVER, pad_token_id=0)
    model = LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    return LanguageModel(model, ends, "random")


def timed(
    model: LanguageModel, prompts: list[list[int]], shared: list[int], new: int
) -> tuple[float, list[Decoded]]:
    """Seconds and answers of one batch."""
    start = time.perf_counter()
    (batch,) = decode_greedily(model, prompts, shared=shared, max_new_tokens=new, batch_size=len(prompts))
    return time.perf_counter() - start, [decoded for _, decoded in sorted(batch, key=lambda pair: pair[0])]


def growing(model: Any, room: int) -> DynamicCache:
    return DynamicCache(config=model.config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--note", type=int, default=500, help="tokens of the note")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--question", type=int, default=20, help="tokens of a question")
    parser.add_argument("--new", type=int, default=45, help="tokens of an answer")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3)
    chosen = parser.parse_args()
    model = random_llama(chosen.width, chosen.layers)
    note = torch.randint(1, VOCABULARY, (chosen.note,)).tolist()
    own = torch.randint(1, VOCABULARY, (chosen.questions, chosen.question)).tolist()
    prompts = [note + question for question in own]
    together = [chosen.note] * chosen.questions
    ways = {
        "full prompts, growing cache": ([], growing),
        "full prompts, cache with room": ([], sharing.roomy_cache),
        "shared note": (together, sharing.roomy_cache),
    }
    timed(model, prompts, together, 2)  # the first call pays for what is prepared once
    best: dict[str, float] = {}
    said: list[list[Decoded]] = []
    for _ in range(chosen.turns):
        for way, (shared, cache) in ways.items():
            with patch.object(sharing, "roomy_cache", cache):
                seconds, answers = timed(model, prompts, shared, chosen.new)
            best[way] = min(seconds, best.get(way, seconds))
            said.append(answers)
    for way, seconds in best.items():
        print(f"{way:30} {seconds:7.3f} s   {seconds / best['shared note']:5.2f} x the shared note's")
    print(f"same answers: {all(answers == said[0] for answers in said)}")


if __name__ == "__main__":
    main()
