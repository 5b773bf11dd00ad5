"""Teacher-forced scores of reference answers: how likely each token was, and whether it was the first choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from medunlearn.models.batching import Batching
from medunlearn.models.feeding import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.seen import Seen
from medunlearn.models.sequences import TokenSequence, families_by_length


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """How a model rates a reference answer.

    Attributes:
        log_probs: natural-log probability of each scored token, EOS last.
        hits: whether each was the arg-max.
        choices: the arg-max token in place of each.
    """

    log_probs: tuple[float, ...]
    hits: tuple[bool, ...]
    choices: tuple[int, ...]


def score_answers(
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    *,
    batch_size: int = 32,
    advance: Callable[[int], None] = lambda done: None,
) -> list[AnswerScore]:
    """Scores in the order of the sequences.

    Args:
        batch_size: sequences in one pass at most, fewer where memory runs out. Sequences that share text go
            together, and those of like length; that changes no number.
        advance: called with the number of sequences done since the last call.

    Raises:
        MedunlearnError: memory runs out with a single sequence.
    """
    order = families_by_length(sequences)
    family = {place: number for number, places in enumerate(order) for place in places}
    places = [place for chosen in reversed(order) for place in chosen]
    scores: dict[int, AnswerScore] = {}

    def score(chosen: list[int]) -> dict[int, AnswerScore]:
        return dict(zip(chosen, _score([sequences[place] for place in chosen], language_model), strict=True))

    language_model.model.eval()
    for done in Batching(batch_size).over(places, score, family.__getitem__):
        scores |= done
        advance(len(done))
    return [scores[place] for place in range(len(sequences))]


@torch.no_grad()
def _score(sequences: Sequence[TokenSequence], language_model: LanguageModel) -> list[AnswerScore]:
    model, pad = language_model.model, language_model.tokenizer.pad_token_id
    batch = make_batch(model, sequences, pad, language_model.device)
    rated, choices = Seen(decoder_of(model), batch).rated()
    columns = rated.tolist(), (choices == batch.targets).tolist(), choices.tolist()
    scores, start = [], 0
    for sequence in sequences:
        end = start + sequence.scored
        log_probs, hits, first = (tuple(column[start:end]) for column in columns)
        scores.append(AnswerScore(log_probs, hits, first))
        start = end
    return scores
