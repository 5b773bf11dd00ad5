"""Responses and scores: decoding from where a response parts with the reference, against decoding all of it.

Both ways score the references and decode; one scores first and takes from the scores what decoding would say too.
The model is a random Llama, 500-token notes, 8 questions each; it knows a share of the answers by heart, which here
are what it says, and the other references are random tokens. What both ways say is compared. Both are timed in one
process, in turns; the best of a few turns counts.

    python benchmarks_perf/responding.py --notes 4
"""

from __future__ import annotations

import argparse
import time

import torch

from generation import VOCABULARY, random_llama
from medunlearn.generation.decode import DecodedAnswer, decode, greedy_prefix
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import TokenSequence

SHARES = (0.0, 0.5, 0.9, 1.0)
NOTE, QUESTION, ANSWER, QUESTIONS = 500, 20, 45, 8


def asked(notes: int) -> list[tuple[int, ...]]:
    """Prompts of ``notes`` notes with their questions, the notes one after the other."""
    texts = torch.randint(1, VOCABULARY, (notes, NOTE)).tolist()
    own = torch.randint(1, VOCABULARY, (notes, QUESTIONS, QUESTION)).tolist()
    return [(*text, *question) for text, questions in zip(texts, own, strict=True) for question in questions]


def respond(
    model: LanguageModel, sequences: list[TokenSequence], *, tell: bool
) -> tuple[float, list[DecodedAnswer]]:
    """Seconds for scores and responses, and the responses."""
    start = time.perf_counter()
    scores = score_answers(model, sequences)
    known = [
        greedy_prefix(s.ids[s.scored_from :], score.choices) for s, score in zip(sequences, scores, strict=True)
    ]
    batches = decode(
        model,
        [sequence.prompt for sequence in sequences],
        shared=[sequence.shared for sequence in sequences],
        begun=known if tell else (),
        max_new_tokens=ANSWER,
        batch_size=32,
    )
    said = dict(pair for batch in batches for pair in batch)
    return time.perf_counter() - start, [said[place] for place in range(len(sequences))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    chosen = parser.parse_args()
    model, prompts = random_llama(256, 8), asked(chosen.notes)
    bare = [TokenSequence(str(place), (*prompt, 0), NOTE, len(prompt)) for place, prompt in enumerate(prompts)]
    said = [answer.tokens for answer in respond(model, bare, tell=False)[1]]
    other = torch.randint(1, VOCABULARY, (len(prompts), ANSWER)).tolist()
    print(f"{torch.get_num_threads()} threads, {len(prompts)} questions")
    print("known  decoding all  decoding the rest  ratio  same")
    for share in SHARES:
        answers = [said[n] if n < share * len(prompts) else tuple(other[n]) for n in range(len(prompts))]
        sequences = [
            TokenSequence(str(place), (*prompt, *answer), NOTE, len(prompt))
            for place, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
        ]
        turns = [[respond(model, sequences, tell=tell) for tell in (False, True)] for _ in range(chosen.turns)]
        (plain, before), (told, after) = (min(way, key=lambda found: found[0]) for way in zip(*turns, strict=True))
        print(f"{share:4.0%}  {plain:10.3f} s  {told:15.3f} s  {plain / told:5.2f}  {before == after}", flush=True)


if __name__ == "__main__":
    main()
