"""Who is asked for removed options: what a local model, a server and a file of responses have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from medunlearn.audit.options.prompts import OptionPrompt
from medunlearn.audit.options.removing import Removal
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.sources.options import MultipleChoice

Key = tuple[str, str]
"""Question and prompt."""

TOO_LONG = "the prompt is longer than the model's context"


@dataclass(frozen=True, slots=True)
class Said:
    """A response, or none and the reason."""

    text: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Rated:
    """How likely each option of a question is: one number an option, or none and the reason."""

    log_probs: tuple[float, ...] | None
    reason: str | None = None


class Respondent(Protocol):
    """Something that is asked.

    Attributes:
        label: what tables call it.
    """

    label: str

    def inputs(self) -> Mapping[str, Any]:
        """What its answers depend on, for the run's key; no text and no secret."""
        ...

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        """The prompts that the settings ask for, or all that it takes.

        Raises:
            ConfigError: a prompt that there is not, or that it does not take.
        """
        ...

    def ask(
        self,
        removals: Sequence[Removal],
        prompts: Sequence[OptionPrompt],
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[Key, Said]:
        """A response, or the reason for none, to each prompt about each question. What was asked before is kept."""
        ...

    def rate(
        self,
        questions: Sequence[MultipleChoice],
        form: str,
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[str, Rated]:
        """How likely it finds each option as the answer, by question."""
        ...
