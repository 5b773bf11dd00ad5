"""Scoring reference answers: ours against one padded batch of whole sequences with logits of every position.

python benchmarks_perf/scoring.py
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from steps import add_shape, random_llama, sequences

from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import TokenSequence


@torch.no_grad()
def plain(model: Any, chosen: Sequence[TokenSequence], batch_size: int) -> list[tuple[list[float], list[bool]]]:
    """Log-probabilities and hits of each answer's tokens."""
    found = []
    for start in range(0, len(chosen), batch_size):
        part = chosen[start : start + batch_size]
        longest = max(len(sequence.ids) for sequence in part)
        ids = torch.zeros(len(part), longest, dtype=torch.long)
        attention = torch.zeros_like(ids)
        for row, sequence in enumerate(part):
            ids[row, : len(sequence.ids)] = torch.tensor(sequence.ids)
            attention[row, : len(sequence.ids)] = 1
        shown = {"input_ids": ids.to(model.device), "attention_mask": attention.to(model.device)}
        said = model(**shown, use_cache=False).logits.float().log_softmax(-1)
        for row, sequence in enumerate(part):
            rows = said[row, sequence.scored_from - 1 : len(sequence.ids) - 1]
            targets = torch.tensor(sequence.ids[sequence.scored_from :], device=said.device)
            hits = (rows.argmax(1) == targets).tolist()
            found.append((rows.gather(1, targets[:, None]).squeeze(1).tolist(), hits))
    return found


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shape(parser, records=6, turns=5)
    parser.add_argument("--batch_size", type=int, default=12)
    chosen = parser.parse_args()
    model = random_llama(chosen)
    language_model = LanguageModel(model, SimpleNamespace(pad_token_id=0), "random")
    shape = (chosen.note, chosen.questions, chosen.prompt, chosen.answer, chosen.vocabulary)
    made = [sequence for record in range(chosen.records) for sequence in sequences(str(record), *shape)]
    ours = score_answers(language_model, made, batch_size=chosen.batch_size)
    for score, (log_probs, hits) in zip(ours, plain(model, made, chosen.batch_size), strict=True):
        same = all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(score.log_probs, log_probs, strict=True))
        if not same or list(score.hits) != hits:
            raise SystemExit("The two ways score differently.")
    best = [math.inf, math.inf]
    for _ in range(chosen.turns):
        best[0] = min(best[0], timed(lambda: plain(model, made, chosen.batch_size)))
        best[1] = min(best[1], timed(lambda: score_answers(language_model, made, batch_size=chosen.batch_size)))
    ratio = best[0] / best[1]
    print(f"{torch.get_num_threads()} threads: plain {best[0]:.3f} s  ours {best[1]:.3f} s  {ratio:.1f}x")


if __name__ == "__main__":
    main()
