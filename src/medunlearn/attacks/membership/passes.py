"""Model passes of membership attacks: one teacher-forced pass for all of them, and a backward pass for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch

from medunlearn.data.records import Record
from medunlearn.models.batching import Batching
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.rope import rope_limit
from medunlearn.models.scoring import TokenMoments, score_answers, score_moments
from medunlearn.models.sequences import TokenSequence, record_sequences
from medunlearn.models.vision.pictures import Pictures
from medunlearn.results.runs import Run
from medunlearn.seeds import generator

Advance = Callable[[int], None]
Documents = Sequence[Sequence[TokenSequence]]
"""The sequences of each document (:func:`document_sequences`)."""
SHOTS = 4
"""Documents in front of one in ReCaLL."""


def document_sequences(
    records: Sequence[Record], tokenizer: Any, max_length: int | None, pictures: Pictures | None = None
) -> list[list[TokenSequence]]:
    """Token sequences of each document as in training: plain text, cut into chunks of ``max_length`` tokens, EOS
    last; each chunk behind the record's images.

    Args:
        pictures: of the model that is shown images; None: text alone.
    """

    def images_of(record: Record) -> tuple[int, ...]:
        return pictures.tokens(record.images, record.record_id) if pictures and record.images else ()

    return [record_sequences(record, tokenizer, max_length, images_of(record)) for record in records]


def shown_pictures(language_model: LanguageModel, run: Run) -> Pictures | None:
    """Pictures of a run's model; None if it takes only text, or was trained without images."""
    return None if run.rendering().images == "ignore" else language_model.pictures


def document_moments(
    language_model: LanguageModel,
    documents: Documents,
    *,
    batch_size: int = 32,
    advance: Advance = lambda count: None,
) -> list[TokenMoments]:
    """Log-probability, mean and variance of every scored token of each document."""
    pieces = [piece for document in documents for piece in document]
    moments = score_moments(language_model, pieces, batch_size=batch_size, advance=advance)
    columns = [(row.log_probs, row.means, row.variances) for row in moments]
    return [
        TokenMoments(*map(np.concatenate, zip(*columns[start:stop], strict=True)))
        for start, stop in _bounds(documents)
    ]


def log_likelihoods(
    language_model: LanguageModel,
    documents: Documents,
    *,
    batch_size: int = 32,
    advance: Advance = lambda count: None,
) -> list[float]:
    """Sum of the log-probabilities of every scored token of each document; as :func:`document_moments`."""
    pieces = [piece for document in documents for piece in document]
    scores = score_answers(language_model, pieces, batch_size=batch_size, advance=advance)
    sums = [sum(score.log_probs) for score in scores]
    return [sum(sums[start:stop]) for start, stop in _bounds(documents)]


def documents_in_front(members: Sequence[bool], seed: int, shots: int = SHOTS) -> list[tuple[int, ...]]:
    """Indices of the non-members in front of each document, never itself; none if there are too few.

    Two sets are drawn: the second stands in front of the documents of the first, the first in front of all others.
    """
    outside = [place for place, member in enumerate(members) if not member]
    if len(outside) < 2 * shots:
        return [()] * len(members)
    order = [outside[place] for place in generator("documents in front", seed).permutation(len(outside)).tolist()]
    first, second = tuple(order[:shots]), tuple(order[shots : 2 * shots])
    return [second if place in first else first for place in range(len(members))]


def conditional_means(
    language_model: LanguageModel,
    documents: Documents,
    in_front: Sequence[Sequence[TokenSequence]],
    *,
    batch_size: int = 32,
    advance: Advance = lambda count: None,
) -> list[float | None]:
    """Mean log-probability of each document's scored tokens behind other documents.

    Args:
        in_front: sequences in front of each document; their last tokens if not all fit the model's context.

    Returns:
        None for a document with nothing in front of it, or that leaves no room.
    """
    longest = _context(language_model.model)
    behind: list[TokenSequence] = []
    counts = list[int]()
    for document, before in zip(documents, in_front, strict=True):
        tokens = [token for piece in before for token in piece.ids]
        room = longest - max(len(piece.ids) for piece in document)
        front = tuple(tokens[-room:] if room < len(tokens) else tokens) if room > 0 else ()
        pieces = [
            TokenSequence(piece.key, (*front, *piece.ids), len(front), len(front) + piece.scored_from)
            for piece in document
        ]
        behind += pieces if front else []
        counts.append(len(pieces) if front else 0)
    scores = iter(score_answers(language_model, behind, batch_size=batch_size, advance=advance))
    values = [[value for _ in range(count) for value in next(scores).log_probs] for count in counts]
    return [float(np.mean(own)) if own else None for own in values]


def _context(model: Any) -> int:
    """Tokens that a model reads at once."""
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2048
    return int(min(longest, rope_limit(model)))


def gradient_norms(
    language_model: LanguageModel, documents: Documents, *, advance: Advance = lambda count: None
) -> list[float]:
    """Euclidean norm, over all weights, of the gradient of each document's mean token loss.

    One document at a time: gradients of several in one pass would be a sum. Takes memory for the gradient of every
    weight, as a training step without optimizer does. The model is left as it was.
    """
    norms: list[float] = []
    with _all_weights_trainable(language_model.model):
        for norm in Batching(1).over(documents, lambda batch: _gradient_norm(language_model, batch[0])):
            norms.append(norm)
            advance(1)
    return norms


def _bounds(documents: Documents) -> Iterator[tuple[int, int]]:
    """Start and end of each document in the flat list of sequences."""
    return pairwise(accumulate((len(document) for document in documents), initial=0))


def _gradient_norm(language_model: LanguageModel, document: Sequence[TokenSequence]) -> float:
    model, pad = language_model.model, language_model.tokenizer.pad_token_id
    model.zero_grad(set_to_none=True)
    tokens = sum(piece.scored for piece in document)
    for piece in document:
        batch = make_batch(model, [piece], pad, language_model.device)
        loss = -ForwardOutputs(decoder_of(model), batch).log_probs.sum() / tokens
        loss.backward()  # type: ignore[no-untyped-call]
    gradients = [tensor.grad for tensor in model.parameters() if tensor.grad is not None]
    squares = [torch.linalg.vector_norm(gradient, dtype=torch.float32).double().square() for gradient in gradients]
    return float(torch.stack(squares).sum().sqrt())


@contextmanager
def _all_weights_trainable(model: Any) -> Iterator[None]:
    """Context in evaluation mode with gradients for every weight; restores modes and flags."""
    training, flags = model.training, [tensor.requires_grad for tensor in model.parameters()]
    model.eval()
    model.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield
    finally:
        model.zero_grad(set_to_none=True)
        for tensor, flag in zip(model.parameters(), flags, strict=True):
            tensor.requires_grad_(flag)
        model.train(training)
