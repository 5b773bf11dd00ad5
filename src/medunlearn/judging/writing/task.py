"""Writing task: a prompt in a file beside its module, a schema, and rules that code checks.

    schema (the client)  ->  ``wrong`` (rules of the task; the model gets the error and answers again)
                         ->  ``declined`` (a valid answer that declines the task)

The prompt's file has the name of the task and is in its module's folder: ``disease_label.yaml``. It holds
``version`` (raised with every change of its text or schema), ``max_tokens``, ``temperature``, ``system``, ``user``
(Jinja, with the source's fields) and ``schema``.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import jinja2

from medunlearn.config import PromptFile, read_yaml
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError
from medunlearn.llm.requests import Message, Request
from medunlearn.template_process import placeholders, render_prompt


@dataclass(frozen=True, slots=True)
class Source:
    """Material of one request: an id unique among a task's sources, and the prompt's fields by name.

    ``identifiers`` are those of its subject; None: unknown, which the guard treats as present.
    """

    id: str
    fields: Mapping[str, str] = field(repr=False)
    identifiers: tuple[str, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings that override the prompt's.

    Temperature ``"prompt"`` and max_tokens None keep the prompt's values; temperature or seed None omits the field.
    """

    temperature: float | str | None = "prompt"
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class WritingPrompt:
    """Content of a prompt file."""

    version: int | str
    max_tokens: int
    temperature: float
    system: str
    user: str
    schema: Mapping[str, Any]

    @staticmethod
    def read(path: Path) -> WritingPrompt:
        """Read a prompt from its YAML file.

        Raises:
            InputError: no such file, or keys that are missing or unknown.
        """
        values = read_yaml(path)
        names = set(WritingPrompt.__dataclass_fields__)
        if wrong := names ^ values.keys():
            raise InputError(f"{path}: a prompt has the keys {', '.join(sorted(names))}; wrong: {sorted(wrong)}.")
        return WritingPrompt(**values)

    def worded_as(self, file: PromptFile) -> WritingPrompt:
        """The same task with a user's prompt; answer schema and sampling stay.

        Raises:
            ValueError: a placeholder is missing or unknown.
        """
        system, user = file.check(sorted(placeholders("The prompt", self.user))).parts()
        return replace(self, version=file.sha256[:12], system=system, user=user)

    def messages(self, fields: Mapping[str, str]) -> tuple[Message, ...]:
        """The prompt about one source; an InputError if it uses a missing field."""
        try:
            system, user = (
                render_prompt("The prompt", text, ("strict",), fields).strip() for text in (self.system, self.user)
            )
        except jinja2.UndefinedError as error:
            raise InputError(f"The prompt needs a field that its source lacks: {error.message}.") from None
        except jinja2.TemplateError as error:
            raise InputError(f"The prompt cannot be filled in from its source: {error.message}.") from None
        return (*((Message("system", system),) if system else ()), Message("user", user))


class WritingTask(ABC):
    """A text that a language model is asked to write.

    Attributes:
        name: key in ``TASKS``; with the prompt's version it is part of every response's key.
        title: title of the progress bar.
    """

    name: ClassVar[str]
    title: ClassVar[str]

    @cached_property
    def prompt(self) -> WritingPrompt:
        return WritingPrompt.read(Path(inspect.getfile(type(self))).with_name(f"{self.name}.yaml"))

    def worded_as(self, file: PromptFile | None) -> Self:
        """This task with a user's prompt; the task itself without a file.

        Raises:
            ValueError: a placeholder is missing or unknown.
        """
        if file is None:
            return self
        task = copy(self)
        task.prompt = self.prompt.worded_as(file)
        return task

    @property
    def version(self) -> str:
        """``disease_label@1``; for a user's prompt the beginning of its SHA-256: ``disease_label@1a2b3c4d5e6f``."""
        return f"{self.name}@{self.prompt.version}"

    @property
    def prompt_sha256(self) -> str:
        """SHA-256 of the prompt's text and answer schema."""
        return sha256_of_json([self.prompt.system, self.prompt.user, self.prompt.schema])

    def request(self, source: Source, sampling: Sampling | None = None) -> Request:
        """The request about a source."""
        prompt, sampling = self.prompt, sampling or Sampling()
        return Request(
            source.id,
            prompt.messages(source.fields),
            schema=prompt.schema,
            temperature=prompt.temperature if isinstance(sampling.temperature, str) else sampling.temperature,
            max_tokens=sampling.max_tokens or prompt.max_tokens,
            seed=sampling.seed,
            prompt_version=self.version,
            check=lambda value: self.wrong(source, value) or None,
            identifiers=source.identifiers,
        )

    @abstractmethod
    def wrong(self, source: Source, value: Any) -> str:
        """Error of an answer that matches the schema; empty for none.

        It is sent to the model and stored as a reason, so it must not repeat words of source or answer.
        """

    def declined(self, source: Source, value: Any) -> str:
        """Reason why a valid answer declines the task; empty if it does not."""
        return ""

    def shaped(self, source: Source, value: Any) -> Any:
        """Convert an accepted answer into the task's result."""
        return value
