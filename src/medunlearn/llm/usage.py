"""Tokens and money: usage, upper bounds for a request, and a budget that no run exceeds."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from medunlearn.llm.server_settings import ServerSettings

MILLION = 1_000_000
# Room for what a chat template adds by itself: special tokens, role names, a default system prompt.
AROUND_PROMPT, AROUND_MESSAGE = 64, 16


@dataclass(frozen=True, slots=True)
class Usage:
    """Number of requests (repeats included), of tokens (and of estimated ones), and cost (None without a price)."""

    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated_tokens: int = 0
    money: float | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens

    @property
    def words(self) -> str:
        """``12,300 tokens, 0.41 spent``, for a progress line."""
        money = "" if self.money is None else f", {in_money(self.money)} spent"
        return f"{self.tokens:,} tokens{money}"

    def __add__(self, other: Usage) -> Usage:
        ours, theirs = asdict(self), asdict(other)
        amounts = [amount for amount in (ours.pop("money"), theirs.pop("money")) if amount is not None]
        counts = {name: count + theirs[name] for name, count in ours.items()}
        return Usage(**counts, money=sum(amounts) if amounts else None)


def in_money(amount: float) -> str:
    """``12.30``; a small amount keeps two significant digits: ``0.0018``."""
    return f"{amount:.2f}" if amount == 0 or amount >= 0.1 else f"{amount:.2g}"


def usage_of(price: tuple[float, float] | None, prompt: int, answer: int, estimated: int = 0) -> Usage:
    """Usage of one request."""
    money = None if price is None else (price[0] * prompt + price[1] * answer) / MILLION
    return Usage(1, prompt, answer, estimated, money)


def texts_of(body: Mapping[str, Any]) -> list[str]:
    """The texts of a request's body: the messages, or the one prompt."""
    if "prompt" in body:
        return [str(body["prompt"])]
    return [str(message["content"]) for message in body["messages"]]


def most_prompt_tokens(body: Mapping[str, Any]) -> int:
    """Upper bound of a prompt's tokens: no tokenizer in use makes more tokens than the text has bytes."""
    texts = texts_of(body)
    schema = len(str(body.get("response_format", "")).encode())
    return sum(_bytes(text) + AROUND_MESSAGE for text in texts) + schema + AROUND_PROMPT


def likely_tokens(texts: Sequence[str]) -> int:
    """Estimated tokens: four bytes per token, and four tokens for each message."""
    return sum(_bytes(text) // 4 + 4 for text in texts)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


class BudgetSpentError(Exception):
    """The next request could exceed the budget, and no request in flight could free room."""


class Budget:
    """Budget over used and reserved amounts: nothing starts that could exceed a limit.

    Requests in flight count at their worst case until their usage is known. Clients in several threads may share
    one budget. ``spent`` is the usage so far. All usage counts against ``within`` too: a verifier's budget is part
    of the build's.
    """

    def __init__(
        self, settings: ServerSettings, spent: Usage | None = None, *, within: Budget | None = None
    ) -> None:
        self._limits = (settings.budget_requests, settings.budget_tokens, settings.budget_money)
        self._lock = threading.Lock()
        self._spent = spent or Usage()
        self._within = within
        self._reserved: dict[int, tuple[Usage, int | None]] = {}  # with the ticket of the budget that it lies in
        self._next = 0

    @property
    def spent(self) -> Usage:
        with self._lock:
            return self._spent

    def reserve(self, most: Usage) -> int | None:
        """Reserve a worst case and return a ticket for :meth:`settle`; None if there is no room until others are
        settled.

        Raises:
            BudgetSpentError: there is no room, and no request is in flight.
        """
        with self._lock:
            in_flight = (usage for usage, _ in self._reserved.values())
            if passed := self._passed(sum(in_flight, self._spent + most)):
                if self._reserved:
                    return None
                raise BudgetSpentError(f"the budget of {passed} would be exceeded; raise it to continue")
            outer = None
            if self._within is not None and (outer := self._within.reserve(most)) is None:
                return None
            self._next += 1
            self._reserved[self._next] = most, outer
            return self._next

    def settle(self, ticket: int, usage: Usage) -> None:
        """Replace a request's worst case by its actual usage."""
        with self._lock:
            _, outer = self._reserved.pop(ticket)
            self._spent += usage
            if self._within is not None and outer is not None:
                self._within.settle(outer, usage)

    def _passed(self, total: Usage) -> str:
        amounts = {"requests": total.requests, "tokens": total.tokens, "of money": total.money or 0.0}
        for (unit, amount), limit in zip(amounts.items(), self._limits, strict=True):
            if limit is not None and amount > limit:
                return f"{limit:.15g} {unit}"
        return ""
