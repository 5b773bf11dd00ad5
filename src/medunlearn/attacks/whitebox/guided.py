"""Contrastive decoding with two checkpoints: the model before and the model after a deletion.

What the older model finds likelier than the newer one is what was deleted. The guided distribution amplifies it:

    log q(v) = log p_new(v) + w * (log p_old(v) - log p_new(v)) - constant

over the tokens v that the older model finds plausible, ``p_old(v) >= share * max p_old``. w = 0 is the newer model,
w = 1 the older one, w > 1 goes beyond either. Even a model retrained from scratch adds to what the older one gives
away.

Source: Wu et al. 2025 (arXiv 2505.24379) for guidance by the model before exact unlearning; Li et al. 2023 (arXiv
2210.15097), Section 3.2, for the restriction to plausible tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import TokenSequence

PLAUSIBLE = 0.1
"""Share of the most likely token's probability."""


def guided_log_probs(new: Tensor, old: Tensor, weight: float, plausible: float = PLAUSIBLE) -> Tensor:
    """Log-probabilities of the guided distribution from both models' logits, [N, V] each -> [N, V].

    At weights 0 and 1 they are the models' own, without restriction. Tokens left out have minus infinity.
    """
    ours, theirs = new.log_softmax(dim=1), old.log_softmax(dim=1)
    if weight in (0.0, 1.0):
        return ours if weight == 0.0 else theirs
    guided = ours + weight * (theirs - ours)
    plausible_tokens = theirs >= theirs.max(dim=1, keepdim=True).values + torch.log(torch.tensor(plausible))
    return guided.masked_fill(~plausible_tokens, -torch.inf).log_softmax(dim=1)


@torch.no_grad()
def guided_scores(
    old: LanguageModel, weights: Sequence[float], sequences: Sequence[TokenSequence], new: LanguageModel
) -> list[list[tuple[list[float], list[bool]]]]:
    """Log-probability of each scored token, and whether it is the first choice, by weight, for each sequence."""
    batches = [make_batch(own.model, sequences, own.tokenizer.pad_token_id, own.device) for own in (new, old)]
    logits = [
        ForwardOutputs(decoder_of(own.model), batch).logits for own, batch in zip((new, old), batches, strict=True)
    ]
    targets, columns = batches[0].targets, list[tuple[list[float], list[bool]]]()
    for weight in weights:
        guided = guided_log_probs(logits[0], logits[1].to(logits[0].device), weight)
        picked = guided.gather(1, targets[:, None])[:, 0].tolist()
        columns.append((picked, (guided.argmax(dim=1) == targets).tolist()))
    ends = [0, *accumulate(sequence.scored for sequence in sequences)]
    return [[(a[start:end], b[start:end]) for a, b in columns] for start, end in pairwise(ends)]
