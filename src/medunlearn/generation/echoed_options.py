"""Likelihood of each of a question's options, as a server echoes the text. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs
from medunlearn.errors import MedunlearnError
from medunlearn.llm import Budget, Client, Decision, Outcome, Request, ServerSettings, Store
from medunlearn.llm import LogProbs as EchoedLogProbs
from medunlearn.llm.faults import next_step
from medunlearn.llm.requests import UNFINISHED
from medunlearn.models.prompts import render
from medunlearn.models.sequences import Rendering

NOT_PARTED = "the server's tokens do not part where an option begins"


def rate_on_server(
    settings: ServerSettings,
    decision: Decision,
    questions: Sequence[Question],
    rendering: Rendering,
    *,
    folder: Path,
    budget: Budget,
    prompt_version: str,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[dict[str, LogProbs], dict[str, str]]:
    """Log-probabilities of each option's tokens by question, and the reasons of questions without.

    An echoed text does not hold the token that ends an answer.

    Args:
        folder: cache of the server's answers, by request.
        advance: called with the number of questions done since the last call.

    Raises:
        MedunlearnError: server or network failed on some, or the server gives no log-probabilities.
    """
    triples = [
        (question.question_id, _prompt(question, rendering), f" {option}")
        for question in questions
        for option in question.options
    ]
    requests = [
        Request(
            id=str(place),
            prompt=prompt + option,
            max_tokens=0,
            log_probs=0,
            echo=True,
            prompt_version=prompt_version,
            identifiers=(),
        )
        for place, (_, prompt, option) in enumerate(triples)
    ]
    with Store(folder) as store, Client(settings, decision, store=store, budget=budget) as client:
        outcomes = list[Outcome](client.stream(requests, quiet=True))
        halted, permanent = client.halted, client.permanent
    if failures := [outcome for outcome in outcomes if outcome.status in UNFINISHED]:
        reason = halted or Counter(outcome.reason for outcome in failures).most_common(1)[0][0]
        raise MedunlearnError(
            f"{len(failures)} of {len(outcomes)} options were not rated. {reason} Received ratings are stored. "
            f"{next_step(permanent)}."
        )
    advance(len(questions))
    rated: dict[str, list[tuple[float, ...]]] = {}
    for (name, prompt, option), outcome in zip(
        triples, sorted(outcomes, key=lambda outcome: int(outcome.id)), strict=True
    ):
        rated.setdefault(name, []).append(option_log_probs(outcome.log_probs, len(prompt), len(option)))
    # An option without tokens of its own leaves its question unrated.
    parted = {name: tuple(options) for name, options in rated.items() if all(options)}
    return parted, {name: NOT_PARTED for name in rated if name not in parted}


def option_log_probs(log_probs: EchoedLogProbs | None, start: int, length: int) -> tuple[float, ...]:
    """Log-probabilities of an option's tokens in the echoed text; empty if no token begins with the option."""
    if log_probs is None or start not in log_probs.offsets:
        return ()
    pairs = zip(log_probs.values, log_probs.offsets, strict=True)
    return tuple(value for value, offset in pairs if start <= offset < start + length and value is not None)


def _prompt(question: Question, rendering: Rendering) -> str:
    return render(question, "", template=rendering.template, context=rendering.context).own
