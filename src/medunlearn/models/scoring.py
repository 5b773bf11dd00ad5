"""Teacher-forced scores: log-probability and arg-max of each scored token, mean and variance under the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from medunlearn.errors import InputError
from medunlearn.models.batching import Batching
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import TokenSequence, families_by_length

Score = TypeVar("Score")
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Teacher-forced score of a reference answer.

    Attributes:
        log_probs: natural-log probability of each scored token, EOS last.
        hits: whether each was the arg-max.
        choices: the arg-max token in place of each.
    """

    log_probs: tuple[float, ...]
    hits: tuple[bool, ...]
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TokenMoments:
    """Log-probability of a sequence's n scored tokens, with its mean and variance under the model.

    Attributes:
        log_probs: natural-log probability of each, [n].
        means: mean of the log-probability over the model's next-token distribution (minus its entropy), [n].
        variances: variance of the same, [n].
    """

    log_probs: Floats
    means: Floats
    variances: Floats


def score_answers(
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    *,
    batch_size: int | Batching = 32,
    advance: Callable[[int], None] = lambda count: None,
) -> list[AnswerScore]:
    """Teacher-forced scores, in the order of the sequences.

    Args:
        batch_size: most sequences per pass, fewer if memory runs out; or a batching with the experience of earlier
            calls. Sequences with shared text or similar length are batched together; that changes no number.
        advance: called with the number of sequences done since the last call.

    Raises:
        MedunlearnError: memory runs out with a single sequence.
    """
    return in_batches(_score, language_model, sequences, batch_size, advance)


def score_moments(
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    *,
    batch_size: int | Batching = 32,
    advance: Callable[[int], None] = lambda count: None,
) -> list[TokenMoments]:
    """Log-probability of each scored token with its mean and variance, in the order of the sequences.

    Distributions are processed in chunks: the logits of all positions are never in memory at once.

    Args:
        batch_size, advance: as in :func:`score_answers`.

    Raises:
        MedunlearnError: memory runs out with a single sequence.
    """
    return in_batches(_moments, language_model, sequences, batch_size, advance)


def in_batches(
    rate: Callable[[Sequence[TokenSequence], LanguageModel], list[Score]],
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    batch_size: int | Batching,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Score]:
    """Apply a function to batches of sequences in evaluation mode; returns values in the sequences' order."""
    if language_model.engine is not None:
        return _by_engine(rate, language_model, sequences, advance)
    order = families_by_length(sequences)
    family = {place: number for number, places in enumerate(order) for place in places}
    places = [place for members in reversed(order) for place in members]
    scores: dict[int, Score] = {}

    def score(members: list[int]) -> dict[int, Score]:
        return dict(zip(members, rate([sequences[place] for place in members], language_model), strict=True))

    language_model.model.eval()
    for batch_scores in Batching.of(batch_size).over(places, score, family.__getitem__):
        scores |= batch_scores
        advance(len(batch_scores))
    return [scores[place] for place in range(len(sequences))]


def _by_engine(
    rate: Callable[[Sequence[TokenSequence], LanguageModel], list[Score]],
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    advance: Callable[[int], None],
) -> list[Score]:
    if rate is not _score:
        raise InputError("Distributions are only available from our own engine. Leave --backend out.")
    scores: list[Score] = language_model.engine.score(sequences)
    advance(len(sequences))
    return scores


@torch.no_grad()
def _score(sequences: Sequence[TokenSequence], language_model: LanguageModel) -> list[AnswerScore]:
    model, pad = language_model.model, language_model.tokenizer.pad_token_id
    batch = make_batch(model, sequences, pad, language_model.device)
    rated, choices = ForwardOutputs(decoder_of(model), batch).rated()
    columns = rated.tolist(), (choices == batch.targets).tolist(), choices.tolist()
    scores, start = [], 0
    for sequence in sequences:
        end = start + sequence.scored
        log_probs, hits, first = (tuple(column[start:end]) for column in columns)
        scores.append(AnswerScore(log_probs, hits, first))
        start = end
    return scores


@torch.no_grad()
def _moments(sequences: Sequence[TokenSequence], language_model: LanguageModel) -> list[TokenMoments]:
    model, pad = language_model.model, language_model.tokenizer.pad_token_id
    batch = make_batch(model, sequences, pad, language_model.device)
    stacked = torch.stack(ForwardOutputs(decoder_of(model), batch).moments()).cpu().numpy()
    ends = np.cumsum([sequence.scored for sequence in sequences])
    return [TokenMoments(*part) for part in np.split(stacked, ends[:-1], axis=1)]
