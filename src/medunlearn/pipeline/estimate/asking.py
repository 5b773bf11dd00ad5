"""What asking a model takes before it starts: prompts, answers of at most so many tokens, scores of the right ones.

Prompts are taken to be begun as :mod:`medunlearn.generation.sharing` does where it spares most: text that they
share is run once a batch, and its keys and values are held once. Padding of prompts is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from medunlearn.models.feeding import decoder_of, make_batch
from medunlearn.models.seen import Seen
from medunlearn.models.sequences import TokenSequence, families, families_by_length
from medunlearn.pipeline.estimate.amounts import Memory, Work
from medunlearn.pipeline.estimate.cost import Shape, batch_shape, costs
from medunlearn.pipeline.estimate.estimate import Estimator
from medunlearn.pipeline.estimate.hollow import Hollow, nbytes


def asking(
    estimator: Estimator, sequences: Sequence[TokenSequence], most: int, batch_size: int, *, counted: bool = True
) -> Work:
    """What decoding an answer of at most ``most`` tokens to each prompt takes, and scoring the right one.

    Args:
        sequences: prompts with their right answers.
        counted: tokens and FLOPs are wanted, not memory alone.
    """
    if not sequences:
        return Work()
    order = [sequences[place] for places in families_by_length(sequences) for place in places]
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    scored = [batch_shape(estimator.hollow.model, batch) for batch in batches]
    hollow = estimator.rehearsed([shape] for shape in scored)
    hollow.model.eval()
    memory = _memory(hollow, batches, most)
    if not counted:
        return Work(memory=memory)
    cost = costs(hollow, lambda given: lambda: _score(hollow, given["asked"]), ["asked"])["asked"]
    shapes = [*scored, *map(_begun, batches)]
    flops = sum(cost.flops(shape) for shape in shapes)
    flops += sum(cost.decoding(sequence.scored_from, most) for sequence in sequences)
    return Work(sum(shape.tokens for shape in shapes), most * len(sequences), flops, memory)


@torch.no_grad()
def _score(hollow: Hollow, sequences: Sequence[TokenSequence]) -> None:
    model = hollow.model
    seen = Seen(decoder_of(model), make_batch(model, sequences, 0, hollow.device))
    _ = seen.log_probs


def _memory(hollow: Hollow, batches: Sequence[Sequence[TokenSequence]], most: int) -> Memory:
    """Of the batch with the longest prompts: scoring, or beginning its answers, with the answers' cache."""
    model = hollow.model
    weights = nbytes(model)
    batch = max(batches, key=lambda chosen: sum(_prompt_tokens(chosen)))
    shared, own = _prompt_tokens(batch)
    cache = (shared + own + len(batch) * most) * _cache_bytes(model)
    prompts = [replace(s, ids=s.prompt, scored_from=s.scored_from - 1) for s in batch if s.scored_from > 1]
    scoring = hollow.rehearse(lambda: _score(hollow, batch)).peak_bytes
    begun = hollow.rehearse(lambda: _score(hollow, prompts)).peak_bytes if prompts else 0
    if scoring >= begun + cache:
        return Memory(weights=weights, activations=scoring)
    return Memory(weights=weights, activations=begun, cache=cache)


def _prompt_tokens(batch: Sequence[TokenSequence]) -> tuple[int, int]:
    """Tokens of the prompts that are held once for all that share them, and those of one prompt each."""
    shared = own = 0
    for family in families(batch):
        members = [batch[place] for place in family]
        head = min(members[0].shared, *(sequence.scored_from - 1 for sequence in members))
        shared += head
        own += sum(sequence.scored_from - head for sequence in members)
    return shared, own


def _begun(batch: Sequence[TokenSequence]) -> Shape:
    """The pass over the prompts of a batch: shared text among itself, then each prompt's own behind it."""
    pairs = 0
    for family in families(batch):
        members = [batch[place] for place in family]
        head = min(members[0].shared, *(sequence.scored_from - 1 for sequence in members))
        pairs += head**2 + sum((s.scored_from - head) * s.scored_from for s in members)
    tokens = sum(_prompt_tokens(batch))
    return Shape(tokens, pairs, 0, len(batch), tokens)


def _cache_bytes(model: Any) -> int:
    """Bytes of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    size: int = next(model.parameters()).element_size()
    return 2 * size * int(config.num_hidden_layers) * int(heads) * int(width)
