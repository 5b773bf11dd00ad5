"""Continuations and answers by a model behind an OpenAI-compatible server. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.data.refusals import REFUSED
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.generation.decodings import Decoding
from medunlearn.llm import Budget, Client, Decision, Message, Outcome, ReplyDetails, Request, ServerSettings, Store
from medunlearn.seeds import stable_seed

STORE_EVERY = 32
ENDED = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})
"""Reasons of servers for an answer that the model ended itself."""
Fields = Mapping[str, tuple[Any, ...]]
NEUTRAL: Fields = {
    "top_k": (0, -1), "top_p": (1.0,), "min_p": (0.0,), "typical_p": (1.0,), "xtc_probability": (0.0,),
    "repeat_penalty": (1.0,), "repetition_penalty": (1.0,), "frequency_penalty": (0.0,), "presence_penalty": (0.0,),
    "dry_multiplier": (0.0,), "dynatemp_range": (0.0,), "mirostat": (0,),
}  # fmt: skip
"""Every setting that shapes a distribution, with the values that switch it off, by the servers' own names.

A server has defaults for what a request leaves out: llama.cpp cuts at top_k 40, top_p 0.95 and min_p 0.05,
llama-cpp-python has a repeat_penalty of 1.1 even under greedy decoding. Servers differ in the number for no top-k.
"""
TOP_K, TOP_P = "top_k", "top_p"
"""The fields of both; top-k is not a part of OpenAI's protocol, but of the servers that run open models."""


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A text to continue, or a user's chat message, with its probe's id.

    ``identifiers`` are the known identifiers of its subject; None if unknown, so that it does not leave this
    machine without permission.
    """

    key: str
    text: str | tuple[Message, ...] = field(repr=False)
    identifiers: tuple[str, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Lacking:
    """Prompts without a response, with reasons.

    Attributes:
        reasons: (probe id, decoding's name, sample) -> reason, without any text.
        permanent: a request would fail again until settings change.
        may_come: number of them that a rerun may resolve: server or network failed, or the request was never sent.
    """

    reasons: dict[tuple[str, str, int], str]
    may_come: int
    permanent: bool = False


def continue_on_server(
    settings: ServerSettings,
    decision: Decision,
    prompts: Sequence[ServerPrompt],
    decodings: Sequence[Decoding],
    store: ResponseStore,
    tokens: Callable[[Sequence[str], Sequence[str]], list[tuple[int, ...]]],
    *,
    folder: Path,
    budget: Budget | None = None,
    samples: int = 1,
    seed: int = 0,
    max_new_tokens: int,
    advance: Callable[[int], None] = lambda count: None,
) -> Lacking:
    """Store a response to every prompt that has none yet.

    Args:
        decision: decision of the guard for this server and these texts.
        tokens: function from prompts' keys and responses to the responses' token ids.
        folder: cache of the server's answers, by request.
        budget: of all that the server is asked; None: one for these prompts.
        samples, seed: as in :func:`~medunlearn.generation.continuations.continue_openings`; the server gets a seed
            per prompt and sample, which some servers ignore.

    Raises:
        RemoteRefusedError: the texts may not leave this machine.
    """
    stored, budget = store.read(), Budget(settings) if budget is None else budget
    reasons: dict[tuple[str, str, int], str] = {}
    counts: Counter[str] = Counter()
    permanent = False
    with Store(folder) as answers:
        for decoding in decodings:
            many = range(samples if decoding.draws else 1)
            pending = {
                f"{place}": (prompt, sample)
                for place, (prompt, sample) in enumerate((prompt, sample) for prompt in prompts for sample in many)
                if (prompt.key, decoding.name, sample) not in stored
            }
            advance(len(prompts) * len(many) - len(pending))
            limits = {TOP_K: decoding.top_k, TOP_P: decoding.top_p}
            extra = {**settings.extra, **{name: value for name, value in limits.items() if value}}
            fields = {name: values for name, values in NEUTRAL.items() if name not in extra}
            requests = (
                _request(name, prompt, sample, decoding, seed, max_new_tokens, fields)
                for name, (prompt, sample) in pending.items()
            )
            with Client(
                settings.model_copy(update={"extra": extra, "corrections": 0}),
                decision,
                store=answers,
                budget=budget,
            ) as client:
                for batch in _batches(client.stream(requests, quiet=True)):
                    good = [outcome for outcome in batch if outcome.status == "answered"]
                    keys = [(pending[outcome.id][0].key, pending[outcome.id][1]) for outcome in good]
                    ids = tokens([key for key, _ in keys], [outcome.text for outcome in good])
                    store.add(
                        _response((key, decoding.name, sample), outcome, answer)
                        for (key, sample), outcome, answer in zip(keys, good, ids, strict=True)
                    )
                    for outcome in batch:
                        if outcome.status != "answered":
                            prompt, sample = pending[outcome.id]
                            refused = outcome.status == "refused"
                            reason = REFUSED if refused else outcome.reason or outcome.status
                            reasons[prompt.key, decoding.name, sample] = reason
                            counts[outcome.status] += 1
                            permanent |= outcome.permanent
                    advance(len(batch))
    return Lacking(reasons, counts["failed"] + counts["not_sent"], permanent)


def _response(key: tuple[str, str, int], outcome: Outcome, tokens: tuple[int, ...]) -> Response:
    details = outcome.details or ReplyDetails(content="text" if outcome.text.strip() else "empty")
    return Response(
        *key,
        outcome.text,
        tokens,
        finished=outcome.finish_reason in ENDED,
        finish_reason=outcome.finish_reason or None,
        content=details.content,
        reasoning=details.reasoning or None,
        refusal=details.refusal or None,
        prompt_tokens=details.prompt_tokens,
        completion_tokens=details.completion_tokens,
        served_model=outcome.served_model or None,
        refused_fields=details.refused_fields or None,
    )


def _request(
    name: str, prompt: ServerPrompt, sample: int, decoding: Decoding, seed: int, most: int, fields: Fields
) -> Request:
    request_seed = stable_seed("audit decoding", seed, decoding.name, prompt.key, sample) % 2**31
    return Request(
        name,
        prompt.text,
        temperature=decoding.temperature if decoding.temperature is not None else 0.0,
        max_tokens=most,
        seed=request_seed if decoding.draws else None,
        fields=fields,
        prompt_version="audit/1",
        identifiers=prompt.identifiers,
    )


def _batches(outcomes: Iterator[Outcome]) -> Iterator[list[Outcome]]:
    batch: list[Outcome] = []
    for outcome in outcomes:
        batch.append(outcome)
        if len(batch) == STORE_EVERY:
            yield batch
            batch = []
    if batch:
        yield batch
