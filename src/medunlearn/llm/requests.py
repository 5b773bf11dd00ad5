"""Requests, outcomes, and the key of a request in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError
from medunlearn.llm.usage import Usage
from medunlearn.seeds import stable_seed

Role = Literal["system", "user", "assistant"]
Status = Literal["answered", "invalid", "refused", "failed", "not_sent"]
UNFINISHED = ("failed", "not_sent")
"""Outcomes of server, network, budget or guard, not of the model: the next run asks them again."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a language model.

    Attributes:
        id: returned with the outcome; not part of the key.
        prompt: messages of a chat, or a text to continue.
        schema: JSON schema that the answer must match; chats only.
        temperature, top_p, stop: sampling; None leaves a field out, for servers that refuse it.
        seed: sent with the request; samples after the first send one derived from it.
        sample: sample number, if a prompt is sent several times.
        log_probs: number of alternatives per token with log-probabilities; 0 for the chosen token only, None for
            none.
        echo: return the prompt's tokens with log-probabilities too; texts only.
        fields: further fields, each with its values in order of preference. A field whose values the server
            refuses is left out, and the outcome says so.
        prompt_version: name and version of the prompt.
        check: function from the answer (parsed if there is a schema) to an error, or None; not part of the key. A
            stored answer is checked again. It runs in the client's thread.
        identifiers: identifiers in the prompt's records. None: unknown, treated as present for servers off this
            machine.
    """

    id: str
    prompt: tuple[Message, ...] | str = field(repr=False)
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    temperature: float | None = 0.0
    max_tokens: int = 1024
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    sample: int = 0
    log_probs: int | None = None
    echo: bool = False
    fields: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    prompt_version: str = ""
    check: Callable[[Any], str | None] | None = field(default=None, repr=False, compare=False)
    identifiers: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.prompt or not self.text.strip():
            raise InputError(f"Request {self.id!r} has an empty prompt.")
        if self.max_tokens < (0 if self.echo else 1):
            raise InputError(f"Request {self.id!r}: max_tokens must be at least 1 (0 only with echo).")
        if isinstance(self.prompt, str) and self.schema is not None:
            raise InputError(f"Request {self.id!r}: a schema needs a chat; give messages instead of a text.")
        if not isinstance(self.prompt, str) and self.echo:
            raise InputError(f"Request {self.id!r}: echo needs a text; a chat cannot echo its prompt.")

    @property
    def text(self) -> str:
        """The whole text of the prompt."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n".join(message.content for message in self.prompt)

    @property
    def sent_seed(self) -> int | None:
        """The seed sent to the server: each sample has its own."""
        if self.seed is None or self.sample == 0:
            return self.seed
        return stable_seed("llm sample", self.seed, self.sample) % 2**31

    def key(self, model_name: str, extra: Mapping[str, Any]) -> str:
        """SHA-256 of everything that the answer depends on; ``model_name`` is independent of the server."""
        prompt = self.prompt if isinstance(self.prompt, str) else [[m.role, m.content] for m in self.prompt]
        sampling = [self.temperature, self.top_p, list(self.stop), self.max_tokens, self.sent_seed, self.sample]
        answer_form = [self.schema, self.log_probs, self.echo, self.prompt_version]
        fields = {**extra, **{name: list(values) for name, values in self.fields.items()}}
        return sha256_of_json(["response", 1, model_name, fields, prompt, sampling, answer_form])


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Tokens as returned by the server, with log-probabilities (natural logarithm).

    A value is None for a token without one (the first of an echoed prompt). Offsets are character offsets of
    tokens; empty if the server gives none.
    """

    tokens: tuple[str, ...]
    values: tuple[float | None, ...]
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplyDetails:
    """Details of a server's last reply beside the text.

    Attributes:
        content: form of the reply's text: ``text``, ``empty``, ``null``.
        reasoning, refusal: texts that the server sends apart from the answer.
        tool_calls: number of tools that the model called instead.
        prompt_tokens, completion_tokens: of this reply alone, as counted by the server; None if it does not.
        refused_fields: fields of the request that the server refused, so that its own settings apply.
    """

    content: str = "text"
    reasoning: str = field(default="", repr=False)
    refusal: str = field(default="", repr=False)
    tool_calls: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refused_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one request; every request has exactly one.

    Attributes:
        status: ``answered``; ``invalid`` (all answers were unusable); ``refused`` (by the model or its filter);
            ``failed`` (server or network, after all retries); ``not_sent`` (the run was stopped before, or the
            guard refused).
        reason: why there is no answer, without text of record or answer; empty for an answer.
        text: the model's last reply; for ``invalid`` only as evidence.
        value: the parsed answer of a request with a schema; None in every other case.
        usage: usage of all attempts; for a stored answer, its original usage.
        stored: True if it came from the store without a request.
        permanent: True if the same request would fail again until settings change.
        drawn: True if a rehearsal drew the answer at random.
        created, prompt_version: time of the answer (UTC, ISO 8601) and its prompt; empty without one.
        served_model: the model's name in the reply; empty without one.
        details: of the last reply; None without one, and of replies that older versions stored.
    """

    id: str
    key: str
    status: Status
    reason: str = ""
    text: str = field(default="", repr=False)
    value: Any = field(default=None, repr=False)
    finish_reason: str = ""
    log_probs: LogProbs | None = field(default=None, repr=False)
    usage: Usage = field(default_factory=Usage)
    stored: bool = False
    drawn: bool = False
    created: str = ""
    prompt_version: str = ""
    permanent: bool = False
    served_model: str = ""
    details: ReplyDetails | None = None
