"""Greedy decoding in batches, each prompt answered as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from medunlearn.generation.sharing import Prompt, arrange, begin
from medunlearn.models.batching import Batching
from medunlearn.models.load import LanguageModel


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a model said.

    Attributes:
        tokens: generated token ids, without the one that ended the answer.
        finished: a token that ends answers was reached; False where the length limit cut the response.
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
    model, ends = language_model.model, end_tokens(language_model)
    now = begin(model, prompts, pad=language_model.tokenizer.pad_token_id, most=most)
    answers: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    alive = list(range(len(prompts)))
    for _ in range(most):
        chosen = now.run(model).argmax(dim=1)
        tokens = chosen.tolist()
        for row, token in zip(alive, tokens, strict=True):
            if token in ends:
                ended[row] = True
            else:
                answers[row].append(token)
        going = [place for place, row in enumerate(alive) if not ended[row]]
        if not going:
            break
        if len(going) < len(alive):
            alive = [alive[place] for place in going]
            kept = torch.tensor(going, device=chosen.device)
            chosen = chosen[kept]
            now.keep(kept)
        now.follow(chosen)
    said = [Decoded(tuple(answer), done) for answer, done in zip(answers, ended, strict=True)]
    return [(prompt.place, decoded) for prompt, decoded in zip(prompts, said, strict=True)]


def end_tokens(language_model: LanguageModel) -> frozenset[int]:
    """The tokens that end an answer: the tokenizer's EOS, and those that the model's generation settings name.

    Chat models end their turn with a token of its own, which often is not the tokenizer's EOS.
    """
    settings = getattr(language_model.model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    more = named if isinstance(named, (list, tuple)) else [] if named is None else [named]
    return frozenset([language_model.tokenizer.eos_token_id, *more])
