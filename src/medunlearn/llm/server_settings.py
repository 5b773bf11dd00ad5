"""Server settings: address, model, retries, rates, budget."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medunlearn.config import Settings
from medunlearn.data.origins import REHEARSAL, is_rehearsal_model
from medunlearn.errors import ConfigError
from medunlearn.llm.guard import read_address

NonNegative = Annotated[float, Field(ge=0)]
_CLIENT_FIELDS = frozenset({
    "model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "seed", "response_format",
    "n", "stream", "stream_options",
})  # fmt: skip
"""Fields of a request that ``extra`` cannot set: its value would be lost, or the budget passed."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KEY = re.compile(r"(sk|pk|hf|gsk|xai|ghp|AIza)[-_]?\w*\d|(?=.*\d)(?=.*[a-z])\w{20,}|[0-9a-fA-F]{16,}")
_SECRET_FIELD = re.compile(r"(?i)api[-_]?key|authorization|password|secret|bearer|access[-_]?token")
"""Names of request fields that hold a key; settings are recorded."""


class ServerSettings(Settings):
    """Settings of one server and one model on it. The key is never a setting, only the variable that contains
    it.
    """

    base_url: str = Field(
        repr=False,
        description="address of the server, with /v1: http://127.0.0.1:8000/v1; rehearsal: answers are drawn",
    )
    model: str = Field(min_length=1, description="name of the model on this server")
    model_name: str | None = Field(
        None, description="name of the model in the store, if servers use different names for it; none: model"
    )
    api_key_env: str | None = Field(
        None, repr=False, description="environment variable with the key; none: no key is sent"
    )
    proxy: str | None = Field(
        None, repr=False, description="HTTP proxy to a server off this machine; the environment's is not used"
    )
    extra: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="further request fields that this server supports (reasoning_effort, ...)",
    )
    structured: Literal["json_schema", "json_object", "prompt"] = Field(
        "json_schema",
        description="how a schema is requested; the prompt always contains it too, and answers are checked",
    )
    limit_name: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="field for the longest answer (OpenAI's newer models: the second)"
    )

    concurrency: int = Field(8, ge=1, le=1024, description="requests in flight")
    requests_per_minute: int | None = Field(None, ge=1, description="most requests to the server in any 60 seconds")
    tokens_per_minute: int | None = Field(None, ge=1, description="most tokens of the server in any 60 seconds")
    connect_seconds: float = Field(10.0, gt=0, description="seconds to wait for a connection")
    read_seconds: float | None = Field(
        None,
        gt=0,
        description="seconds to wait for the next part of an answer; none: 120 in it, total_seconds before it",
    )
    total_seconds: float = Field(600.0, gt=0, description="seconds to wait for a whole answer")
    retries: int = Field(5, ge=0, description="retries of a request after a server or network failure")
    corrections: int = Field(2, ge=0, description="times a model is asked to correct an unusable answer")
    backoff_seconds: float = Field(0.5, ge=0, description="seconds before the first retry; doubles, up to 30")
    longest_wait_seconds: float = Field(120.0, ge=0, description="longest Retry-After to wait for, in seconds")
    give_up_after: int = Field(20, ge=1, description="consecutive failed requests that end the run")
    largest_answer_bytes: int = Field(4 * 2**20, ge=1024, description="longest answer body to read, in bytes")

    prices: dict[str, tuple[NonNegative, NonNegative]] = Field(
        default_factory=dict,
        description="model: [price per million prompt tokens, per million answer tokens], in your currency",
    )
    budget_requests: int | None = Field(None, ge=0, description="most requests of the run, repeats included")
    budget_tokens: int | None = Field(None, ge=0, description="most tokens of the run, prompts and answers")
    budget_money: float | None = Field(None, ge=0, description="highest cost of the run, by prices")

    @model_validator(mode="before")
    @classmethod
    def _rehearsed_model(cls, values: Any) -> Any:
        """A rehearsal needs no model's name."""
        is_named = not isinstance(values, dict) or values.get("base_url") != REHEARSAL or values.get("model")
        return values if is_named else {**values, "model": REHEARSAL}

    @field_validator("base_url", "proxy")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        """Refuse a password in an address, since settings are recorded."""
        if value not in (None, REHEARSAL):
            read_address(str(value))
        return value

    @field_validator("api_key_env")
    @classmethod
    def _name_of_a_variable(cls, value: str | None) -> str | None:
        """Refuse a key in place of its variable's name, without showing it: settings are recorded and reported."""
        is_name = value is None or value in os.environ or (_VARIABLE.fullmatch(value) and not _KEY.match(value))
        if not is_name:
            raise ValueError(
                "give the name of the environment variable that holds the key, such as LLM_API_KEY. If this was "
                "the key, which is not shown: export LLM_API_KEY=..., name that, and replace a key that others saw"
            )
        return value

    @property
    def rehearsed(self) -> bool:
        """True if no server is asked, and answers are drawn at random."""
        return self.base_url == REHEARSAL

    @field_validator("extra")
    @classmethod
    def _further_fields_alone(cls, value: dict[str, Any]) -> dict[str, Any]:
        if fields := sorted(_CLIENT_FIELDS & value.keys()):
            raise ValueError(f"medunlearn sets {', '.join(fields)} itself; leave it out of extra")
        if fields := sorted(filter(_SECRET_FIELD.search, value)):
            raise ValueError(f"{', '.join(fields)}: extra is recorded, and a key belongs in the environment")
        return value

    @model_validator(mode="after")
    def _money_needs_a_price(self) -> ServerSettings:
        if self.budget_money is not None and self.price is None:
            raise ConfigError(
                [f"budget_money needs a price: prices.{self.name}=[PROMPT, ANSWER] per million tokens"]
            )
        return self

    @property
    def name(self) -> str:
        """The model's name in the store, the same on every server, and another one for its rehearsal."""
        name = self.model_name or self.model
        return f"{REHEARSAL} of {name}" if self.rehearsed and not is_rehearsal_model(name) else name

    @property
    def price(self) -> tuple[float, float] | None:
        """Price per million prompt tokens and per million answer tokens."""
        return self.prices.get(self.name, self.prices.get(self.model))

    def api_key(self) -> str | None:
        """The key, read from the environment when needed.

        Raises:
            ConfigError: the variable is not set, or is invalid in a header.
        """
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        # The name is not shown, since a key may stand in its place.
        if not key:
            raise ConfigError(["api_key_env: no variable of that name is set. Export it, or leave it out."])
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(["api_key_env: the variable's value is not printable ASCII. Export it again."])
        return key
