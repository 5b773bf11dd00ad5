"""Server settings: address, model, retries, rates, budget."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medunlearn.config import Settings
from medunlearn.errors import ConfigError
from medunlearn.llm.guard import read_address

NonNegative = Annotated[float, Field(ge=0)]
_CLIENT_FIELDS = frozenset({
    "model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "seed", "response_format",
    "n", "stream",
})  # fmt: skip
"""Fields of a request that ``extra`` cannot set: its value would be lost, or the budget passed."""


class ServerSettings(Settings):
    """One server and one model on it. The key itself is never a setting: only the variable that holds it is."""

    base_url: str = Field(description="where the server is, with /v1: http://127.0.0.1:8000/v1")
    model: str = Field(min_length=1, description="the model, as this server calls it")
    model_name: str | None = Field(
        None, description="the model's name in the store, where servers call one model differently; none: model"
    )
    api_key_env: str | None = Field(
        None, description="environment variable that holds the key; none: no key is sent"
    )
    proxy: str | None = Field(
        None, description="HTTP proxy to a server off this machine; the environment's is not used"
    )
    extra: dict[str, Any] = Field(
        default_factory=dict,
        description="further fields of a request that this server knows (reasoning_effort, ...)",
    )
    structured: Literal["json_schema", "json_object", "prompt"] = Field(
        "json_schema",
        description="how a schema is asked for; the prompt always says it too, and answers are checked",
    )
    limit_name: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="what the server calls the longest answer (OpenAI's newer models: the second)"
    )

    concurrency: int = Field(8, ge=1, le=1024, description="requests in flight")
    requests_per_minute: int | None = Field(None, ge=1, description="most requests to the server in any 60 seconds")
    tokens_per_minute: int | None = Field(None, ge=1, description="most tokens of the server in any 60 seconds")
    connect_seconds: float = Field(10.0, gt=0, description="wait for a connection")
    read_seconds: float = Field(120.0, gt=0, description="wait for the next bytes")
    total_seconds: float = Field(600.0, gt=0, description="wait for a whole answer")
    retries: int = Field(5, ge=0, description="times a request is sent again when server or network failed")
    corrections: int = Field(
        2, ge=0, description="times a model is asked again, with the reason, after a bad answer"
    )
    backoff_seconds: float = Field(0.5, ge=0, description="wait before the first retry; doubles, up to 30 s")
    longest_wait_seconds: float = Field(120.0, ge=0, description="longest Retry-After that is waited for")
    give_up_after: int = Field(20, ge=1, description="failed requests in a row that end the run")
    largest_answer_bytes: int = Field(4 * 2**20, ge=1024, description="longest body of an answer that is read")

    prices: dict[str, tuple[NonNegative, NonNegative]] = Field(
        default_factory=dict, description="model: [a million prompt tokens, a million answer tokens], in your money"
    )
    budget_requests: int | None = Field(None, ge=0, description="most requests of the run, repeats included")
    budget_tokens: int | None = Field(None, ge=0, description="most tokens of the run, prompts and answers")
    budget_money: float | None = Field(None, ge=0, description="most money of the run, by prices")

    @field_validator("base_url", "proxy")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        """Settings are written down, so a password must not stand in an address."""
        if value is not None:
            read_address(value)
        return value

    @field_validator("extra")
    @classmethod
    def _further_fields_alone(cls, value: dict[str, Any]) -> dict[str, Any]:
        if fields := sorted(_CLIENT_FIELDS & value.keys()):
            raise ValueError(f"medunlearn sets {', '.join(fields)} itself; leave it out of extra")
        return value

    @model_validator(mode="after")
    def _money_needs_a_price(self) -> ServerSettings:
        if self.budget_money is not None and self.price is None:
            raise ConfigError([f"budget_money needs a price: prices.{self.name}=[PROMPT, ANSWER] a million tokens"])
        return self

    @property
    def name(self) -> str:
        """The model's name in the store, the same on every server."""
        return self.model_name or self.model

    @property
    def price(self) -> tuple[float, float] | None:
        """Money for a million prompt tokens and a million answer tokens."""
        return self.prices.get(self.name, self.prices.get(self.model))

    def api_key(self) -> str | None:
        """The key, read at the moment it is needed.

        Raises:
            ConfigError: the variable is not set, or holds what no header can carry.
        """
        if self.api_key_env is None:
            return None
        named, key = f"api_key_env={self.api_key_env!r}", os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ConfigError([f"{named}: the variable is not set. Export it, or leave it out."])
        if not (key.isascii() and key.isprintable()):
            raise ConfigError([f"{named}: its value is not printable ASCII. Export it again."])
        return key
