"""Batched decoding, greedy or sampled; each answer is independent of its batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from medunlearn.generation.sampling import Choose, greedy_choice
from medunlearn.generation.sharing import SharedPrompt, arrange, begin
from medunlearn.models.batching import Batching
from medunlearn.models.chat import end_token_id, turn_of
from medunlearn.models.load import LanguageModel


@dataclass(frozen=True, slots=True)
class DecodedAnswer:
    """A decoded answer.

    Attributes:
        tokens: generated token ids, without the one that ended the answer.
        finished: an end token was reached; False if the length limit cut the response.
    """

    tokens: tuple[int, ...]
    finished: bool


def decode(
    language_model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    shared: Sequence[int] = (),
    begun: Sequence[Sequence[int]] = (),
    max_new_tokens: int,
    batch_size: int | Batching = 64,
    choose: Choose = greedy_choice,
    advance: Callable[[int], None] = lambda count: None,
) -> Iterator[list[tuple[int, DecodedAnswer]]]:
    """Decode answers batch by batch; yields each with its index in ``prompts``.

    Prompts of similar length share a batch. They are padded on the left, and padding is masked and takes no
    position, so an answer does not depend on its batch (in fp32, up to ties). Shared prefixes are run once if that
    saves work, and a batch that does not fit in memory is split.

    Args:
        prompts: token ids of each prompt.
        shared: number of leading tokens of each prompt that other prompts may share (a record's note);
            empty if none are.
        begun: known first tokens of each prompt's answer (:func:`greedy_prefix`), including the end token if
            reached; empty if unknown. Decoding continues from there.
        max_new_tokens: longest answer in tokens, those begun with included.
        batch_size: most prompts per batch; or a batching with the experience of earlier calls.
        choose: next-token choice, greedy or sampled (:class:`~medunlearn.generation.sampling.TokenSampler`).
        advance: called with the number of prompts done since the last call.

    Raises:
        MedunlearnError: a single prompt does not fit in memory.
    """
    language_model.model.eval()
    batching, ends = Batching.of(batch_size), end_tokens(language_model)
    begun_answers = [_truncate(tokens, max_new_tokens, ends) for tokens in begun] if begun else [()] * len(prompts)
    complete = [
        place for place, tokens in enumerate(begun_answers) if len(tokens) == max_new_tokens or ends & {*tokens}
    ]
    for start in range(0, len(complete), batching.largest):
        yield [(place, _answer(begun_answers[place], ends)) for place in complete[start : start + batching.largest]]
        advance(len(complete[start : start + batching.largest]))
    if language_model.engine is not None:
        from medunlearn.generation.vllm_backend import decode_by_engine

        rest = (prompts, begun_answers, ends, max_new_tokens, choose, batching.largest)
        for answers in decode_by_engine(language_model.engine, *rest):
            yield [(place, _answer(tokens, ends)) for place, tokens in answers]
            advance(len(answers))
        return
    for alike in arrange(language_model.model, prompts, shared, begun_answers, leave_out={*complete}):
        for batch in batching.over(alike, lambda some: _decode(language_model, some, max_new_tokens, choose)):
            yield batch
            advance(len(batch))


@torch.inference_mode()
def _decode(
    language_model: LanguageModel, prompts: list[SharedPrompt], most: int, choose: Choose
) -> list[tuple[int, DecodedAnswer]]:
    """Decode one batch. Finished rows leave the batch, so late steps cost less."""
    model, ends = language_model.model, end_tokens(language_model)
    answers = [list(prompt.ids[len(prompt.ids) - prompt.begun :]) for prompt in prompts]
    room = most - min(prompt.begun for prompt in prompts)
    now = begin(model, prompts, pad=language_model.tokenizer.pad_token_id, most=room)
    alive = list(range(len(prompts)))
    while True:
        logits = now.run(model)
        next_tokens = choose(logits, [prompts[row].place for row in alive], [len(answers[row]) for row in alive])
        for row, token in zip(alive, next_tokens.tolist(), strict=True):
            answers[row].append(token)
        going = [
            place for place, row in enumerate(alive) if answers[row][-1] not in ends and len(answers[row]) < most
        ]
        if not going:
            break
        if len(going) < len(alive):
            alive = [alive[place] for place in going]
            remaining = torch.tensor(going, device=next_tokens.device)
            next_tokens = next_tokens[remaining]
            now.keep(remaining)
        now.follow(next_tokens)
    return [(prompt.place, _answer(answer, ends)) for prompt, answer in zip(prompts, answers, strict=True)]


def greedy_prefix(answer: Sequence[int], choices: Sequence[int]) -> tuple[int, ...]:
    """The first tokens of greedy decoding, derived from one teacher-forced pass over a reference answer.

    As long as the model's first choices equal the reference's tokens, decoding would make the same choices. So the
    answer is known up to and including the first choice that differs; a memorized reference needs no decoding at
    all.

    Args:
        answer: tokens of the reference, in the prompt's sequence.
        choices: the model's first choice in place of each, teacher-forced.
    """
    parted = next(
        (place for place, pair in enumerate(zip(answer, choices, strict=True)) if pair[0] != pair[1]), None
    )
    return tuple(choices if parted is None else choices[: parted + 1])


def _truncate(tokens: Sequence[int], most: int, ends: frozenset[int]) -> tuple[int, ...]:
    """Truncate tokens to the maximum length of an answer, and after its end token."""
    stop = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[: min(stop, most)])


def _answer(tokens: Sequence[int], ends: frozenset[int]) -> DecodedAnswer:
    finished = bool(tokens) and tokens[-1] in ends
    return DecodedAnswer(tuple(tokens[:-1] if finished else tokens), finished)


def end_tokens(language_model: LanguageModel) -> frozenset[int]:
    """Tokens that end an answer: the tokenizer's EOS, its chat template's end of a turn, and those in the model's
    generation settings.
    """
    settings = getattr(language_model.model, "generation_config", None)
    eos_token_id = getattr(settings, "eos_token_id", None)
    more = (
        eos_token_id if isinstance(eos_token_id, (list, tuple)) else [] if eos_token_id is None else [eos_token_id]
    )
    tokenizer = language_model.tokenizer
    return frozenset([tokenizer.eos_token_id, end_token_id(tokenizer, turn_of(tokenizer).end), *more])
