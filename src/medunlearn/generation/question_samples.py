"""Several drawn responses a question, and the likelihood of the reference answer under the same decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.generation.decode import decode
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.sampling import TokenSampler, decoded_log_probs
from medunlearn.models.batching import Batching
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering, TokenSequence, families_by_length, question_sequence

ROUND = 8
"""Batches of draws whose first ones are rated before they are decoded: what a crash may cost beside a batch."""


def sample_responses(
    language_model: LanguageModel,
    questions: Sequence[Question],
    records: Mapping[str, Record],
    store: ResponseStore,
    rendering: Rendering,
    decoding: Decoding,
    *,
    samples: int,
    seed: int,
    max_new_tokens: int,
    batch_size: int = 64,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, list[Response]]:
    """Drawn responses by question; what is in the store is not drawn again.

    Each draw has a seed of its own, made of question and sample, so that it depends on nothing beside it and fewer
    samples are the first ones of more. The first sample carries the log-probabilities with which the decoding says
    the reference answer's tokens, EOS last.

    Args:
        advance: called with the number of responses done since the last call, stored ones included.
    """
    variant, known = rendering.context, store.read()
    pending = [(q, n) for q in questions for n in range(samples) if (q.question_id, variant, n) not in known]
    advance(samples * len(questions) - len(pending))
    tokenizer, pictures = language_model.tokenizer, language_model.pictures
    rating, drawing = Batching(batch_size), Batching(batch_size)
    for start in range(0, len(pending), ROUND * batch_size):
        pairs = pending[start : start + ROUND * batch_size]
        asked = {question.question_id: question for question, _ in pairs}
        sequences = {
            name: question_sequence(q, records[q.record_id], tokenizer, rendering, pictures)
            for name, q in asked.items()
        }
        first = [sequences[question.question_id] for question, sample in pairs if sample == 0]
        rated = dict(zip((one.key for one in first), _rate(language_model, first, decoding, rating), strict=True))
        prompts = [sequences[question.question_id].prompt for question, _ in pairs]
        purposes = [("sampled response", seed, decoding.name, q.question_id, sample) for q, sample in pairs]
        for batch in decode(
            language_model,
            prompts,
            # All samples of a question share its prompt.
            shared=[len(prompt) for prompt in prompts],
            max_new_tokens=max_new_tokens,
            batch_size=drawing,
            choose=TokenSampler(decoding, purposes, max_new_tokens),
            advance=advance,
        ):
            responses = [
                Response(
                    question_id=pairs[place][0].question_id,
                    variant=variant,
                    sample=pairs[place][1],
                    response=tokenizer.decode(list(decoded.tokens), skip_special_tokens=True).strip(),
                    response_tokens=decoded.tokens,
                    finished=decoded.finished,
                    answer_log_probs=rated[pairs[place][0].question_id] if pairs[place][1] == 0 else None,
                )
                for place, decoded in batch
            ]
            store.add(responses)
            known |= {(one.question_id, one.variant, one.sample): one for one in responses}
    return {q.question_id: [known[q.question_id, variant, n] for n in range(samples)] for q in questions}


def _rate(
    language_model: LanguageModel, sequences: Sequence[TokenSequence], decoding: Decoding, batching: Batching
) -> list[tuple[float, ...]]:
    """Log-probability of each answer token under the decoding, in the order of the sequences."""
    language_model.model.eval()
    places = [place for family in reversed(families_by_length(sequences)) for place in family]
    rated: dict[int, tuple[float, ...]] = {}
    for batch in batching.over(places, lambda some: _passed(language_model, sequences, some, decoding)):
        rated |= batch
    return [rated[place] for place in range(len(sequences))]


@torch.no_grad()
def _passed(
    language_model: LanguageModel, sequences: Sequence[TokenSequence], places: list[int], decoding: Decoding
) -> dict[int, tuple[float, ...]]:
    model, members = language_model.model, [sequences[place] for place in places]
    batch = make_batch(model, members, language_model.tokenizer.pad_token_id, language_model.device)
    outputs, parts = ForwardOutputs(decoder_of(model), batch), []
    if outputs.decoder.support.head:
        # In pieces: logits of all positions are never held at once.
        for piece in outputs.head.pieces(len(batch.targets)):
            logits = outputs.head.logits(outputs.final[piece])
            parts.append(decoded_log_probs(logits, batch.targets[piece], decoding))
    else:
        parts.append(decoded_log_probs(outputs.logits, batch.targets, decoding))
    values = torch.split(torch.cat(parts), [sequence.scored for sequence in members])
    return {place: tuple(part.tolist()) for place, part in zip(places, values, strict=True)}
