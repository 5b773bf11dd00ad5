"""Greedy decoding in batches, each prompt answered as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache

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
    max_new_tokens: int,
    batch_size: int = 64,
    advance: Callable[[int], None] = lambda done: None,
) -> Iterator[list[tuple[int, Decoded]]]:
    """Answers, a batch at a time, with the place of each prompt in ``prompts``.

    Prompts of like length share a batch. They are padded on the left, and padding is masked and takes no
    position, so that an answer does not depend on which prompts it is decoded with (in fp32, up to ties).

    Args:
        prompts: token ids of each prompt.
        max_new_tokens: longest answer in tokens.
        advance: called with the number of prompts done since the last call.
    """
    order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
    language_model.model.eval()
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        decoded = _decode(language_model, [prompts[place] for place in places], max_new_tokens)
        yield list(zip(places, decoded, strict=True))
        advance(len(places))


@torch.inference_mode()
def _decode(language_model: LanguageModel, prompts: list[Sequence[int]], max_new_tokens: int) -> list[Decoded]:
    """Decode one batch. Rows that have ended leave the batch, so late steps cost what they are worth."""
    model, tokenizer, device = language_model.model, language_model.tokenizer, language_model.device
    ids, mask = _pad_left(prompts, tokenizer.pad_token_id, device)
    cache = DynamicCache(config=model.config)
    answers: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    alive = torch.arange(len(prompts), device=device)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    for _ in range(max_new_tokens):
        logits = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        chosen = logits.argmax(dim=1)
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
            cache.batch_select_indices(kept)
            alive, chosen, mask, positions = alive[kept], chosen[kept], mask[kept], positions[kept]
        ids, positions = chosen[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)
    return [Decoded(tuple(answer), done) for answer, done in zip(answers, ended, strict=True)]


def _pad_left(prompts: list[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(list(prompt))
        mask[row, longest - len(prompt) :] = 1
    return ids.to(device), mask.to(device)
