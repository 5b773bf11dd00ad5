"""Greedy decoding in batches, each prompt answered as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from medunlearn.generation.batching import Batching
from medunlearn.generation.sharing import Prompt, arrange, begin
from medunlearn.models.load import LanguageModel


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a model said.

    Attributes:
        tokens: generated token ids, EOS left out.
        finished: EOS was reached; False where the length limit cut the response.
    """

    tokens: tuple[int, ...]
    finished: bool


def decode_greedily(
    language_model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    shared: Sequence[int] = (),
    max_new_tokens: int,
    batch_size: int = 64,
    advance: Callable[[int], None] = lambda done: None,
) -> Iterator[list[tuple[int, Decoded]]]:
    """Answers, a batch at a time, with the place of each prompt in ``prompts``.

    Prompts of like length share a batch. They are padded on the left, and padding is masked and takes no
    position, so that an answer does not depend on which prompts it is decoded with (in fp32, up to ties).
    Text that prompts share is run once where that spares work, and a batch that does not fit in memory is
    decoded in smaller ones.

    Args:
        prompts: token ids of each prompt.
        shared: how many tokens at the front of each prompt may be those of other prompts too (a record's note);
            empty where none are.
        max_new_tokens: longest answer in tokens.
        batch_size: the most prompts at a time.
        advance: called with the number of prompts done since the last call.

    Raises:
        MedunlearnError: a single prompt does not fit in memory.
    """
    language_model.model.eval()
    batching = Batching(batch_size)
    for alike in arrange(language_model.model, prompts, shared):
        for batch in batching.over(alike, lambda some: _decode(language_model, some, max_new_tokens)):
            yield batch
            advance(len(batch))


@torch.inference_mode()
def _decode(language_model: LanguageModel, prompts: list[Prompt], most: int) -> list[tuple[int, Decoded]]:
    """Decode one batch. Rows that have ended leave the batch, so late steps cost what they are worth."""
    model, tokenizer = language_model.model, language_model.tokenizer
    now = begin(model, prompts, pad=tokenizer.pad_token_id, most=most)
    answers: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    alive = torch.arange(len(prompts), device=now.ids.device)
    for _ in range(most):
        chosen = now.run(model).argmax(dim=1)
        going = chosen != tokenizer.eos_token_id
        for row, token, on in zip(alive.tolist(), chosen.tolist(), going.tolist(), strict=True):
            if on:
                answers[row].append(token)
            else:
                ended[row] = True
        if not going.any():
            break
        if not going.all():
            kept = going.nonzero().squeeze(1)
            alive, chosen = alive[kept], chosen[kept]
            now.keep(kept)
        now.follow(chosen)
    said = [Decoded(tuple(answer), done) for answer, done in zip(answers, ended, strict=True)]
    return [(prompt.place, decoded) for prompt, decoded in zip(prompts, said, strict=True)]
