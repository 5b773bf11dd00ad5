"""Dry run: number of requests, tokens and cost before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from medunlearn.llm.connection import body_of
from medunlearn.llm.exchange import stored_outcome
from medunlearn.llm.requests import Request
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.store import Store
from medunlearn.llm.structured import opening_messages
from medunlearn.llm.usage import Usage, in_money, likely_tokens, most_prompt_tokens, texts_of, usage_of


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Result of a dry run.

    Attributes:
        requests: number of requests to send, without repeats.
        stored: number already answered, or duplicates of others.
        likely: expected usage: prompts at four bytes per token; answers as long as stored ones to this prompt, or
            ``max_tokens``.
        most: upper bound of the usage without repeats.
    """

    requests: int
    stored: int
    likely: Usage
    most: Usage

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        money = ""
        if self.most.money is not None:
            money = f"; money: about {in_money(self.likely.money or 0.0)}, at most {in_money(self.most.money)}"
        return (
            f"{self.requests} requests to send, {self.stored} need none; "
            f"tokens: about {self.likely.tokens}, at most {self.most.tokens}{money}. Repeats come on top."
        )


def estimate(
    requests: Iterable[Request], settings: ServerSettings, store: Store | None = None, *, again: bool = False
) -> CostEstimate:
    """Estimate a run before it starts; requests with stored answers are not counted as sent.

    Args:
        again: as for :class:`~medunlearn.llm.client.Client`.
    """
    unsent: set[str] = set()
    means: dict[str, float | None] = {}
    total, likely, most = 0, Usage(), Usage()
    for request in requests:
        total += 1
        key = request.key(settings.name, settings.extra)
        if key in unsent or stored_outcome(store, request, key, again=again):
            continue
        unsent.add(key)
        body = body_of(request, opening_messages(request), settings, enforce=settings.structured != "prompt")
        prompt, limit = likely_tokens(texts_of(body)), request.max_tokens
        if store is not None and request.prompt_version not in means:
            means[request.prompt_version] = store.mean_answer_tokens(request.prompt_version, settings.name)
        mean = means.get(request.prompt_version)
        answer = limit if mean is None else min(limit, round(mean))
        likely += usage_of(settings.price, prompt, answer, prompt + answer)
        most += usage_of(settings.price, most_prompt_tokens(body), limit)
    return CostEstimate(len(unsent), total - len(unsent), likely, most)
