"""Respondents of the options audit: their interface, and stored responses of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from medunlearn.audit.options.questions import OptionPrompt, Removal, select_prompts
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.records import Question
from medunlearn.data.storage import sha256_of
from medunlearn.errors import SourceError
from medunlearn.sources.options import MultipleChoice, letter
from medunlearn.sources.tables import read_rows

PromptKey = tuple[str, str]
"""Question and prompt."""

TOO_LONG = "the prompt is longer than the model's context"
NOT_STORED = "stored responses say nothing about the options' probabilities"
STORED = "stored"
"""Name of the prompt where the file has none."""


@dataclass(frozen=True, slots=True)
class OptionResponse:
    """A response, or None and the reason."""

    text: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class OptionRating:
    """Log-probability of each option of a question, or None and the reason."""

    log_probs: tuple[float, ...] | None
    reason: str | None = None


@dataclass(frozen=True)
class OptionsJob:
    """Settings of one run.

    Attributes:
        folder: of the run, where responses are kept.
    """

    settings: AuditOptionsSettings
    folder: Path
    quiet: bool = False


class Respondent(Protocol):
    """Something that answers prompts and rates options.

    Attributes:
        label: name in tables.
    """

    label: str

    def inputs(self) -> Mapping[str, Any]:
        """Part of the run's key: what its responses depend on; no text and no secret."""
        ...

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        """The requested prompts, or all that it takes.

        Raises:
            ConfigError: an unknown prompt, or one that it does not take.
        """
        ...

    def ask(
        self, removals: Sequence[Removal], prompts: Sequence[OptionPrompt], job: OptionsJob
    ) -> dict[PromptKey, OptionResponse]:
        """A response to each prompt about each question. Earlier responses are reused."""
        ...

    def rate(self, questions: Sequence[MultipleChoice], form: str, job: OptionsJob) -> dict[str, OptionRating]:
        """Log-probability of each option as the answer, by question."""
        ...


class StoredRespondent:
    """A table with question_id and response, and prompt where it has several.

    A column ``removed`` (a letter) names the removed option; a row with another letter than the seed draws answers
    another question and is unscored.

    Args:
        path: CSV, TSV, JSONL, JSON or Parquet.

    Raises:
        SourceError: no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SourceError(f"There is no file {path}.")
        self.path, self.label = path, path.stem

    def inputs(self) -> Mapping[str, Any]:
        return {"responses": sha256_of(self.path)}

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        """The prompts that the file names; their texts are unknown."""
        names = dict.fromkeys(str(row.get("prompt") or STORED) for _, row in self._rows())
        return select_prompts({name: OptionPrompt(name, "instruction", "") for name in names}, settings.prompts)

    def ask(
        self, removals: Sequence[Removal], prompts: Sequence[OptionPrompt], job: OptionsJob
    ) -> dict[PromptKey, OptionResponse]:
        """The stored responses.

        Raises:
            SourceError: rows that cannot be read, a missing column, a question answered twice.
        """
        letters = {removal.question.question_id: removal.letter for removal in removals}
        responses: dict[PromptKey, OptionResponse] = {}
        for place, row in self._rows():
            key = str(row["question_id"]), str(row.get("prompt") or STORED)
            if key in responses:
                raise SourceError(f"{place}: question {key[0]!r} is answered twice for prompt {key[1]!r}.")
            removed, text = str(row.get("removed") or "").strip().upper(), row["response"]
            if removed and removed != letters.get(key[0], removed):
                reason = f"another option was removed than seed={job.settings.seed} draws"
                responses[key] = OptionResponse(None, reason)
            elif text is None:
                responses[key] = OptionResponse(None, "there is no response")
            else:
                responses[key] = OptionResponse(str(text))
        return responses

    def rate(self, questions: Sequence[MultipleChoice], form: str, job: OptionsJob) -> dict[str, OptionRating]:
        return {question.question_id: OptionRating(None, NOT_STORED) for question in questions}

    def _rows(self) -> list[tuple[str, Mapping[str, Any]]]:
        rows: list[tuple[str, Mapping[str, Any]]] = []
        for place, row in read_rows(self.path):
            if isinstance(row, str):
                raise SourceError(f"{place}: {row}.")
            if missing := [name for name in ("question_id", "response") if name not in row]:
                raise SourceError(f"{place} lacks the columns {', '.join(missing)}.")
            rows.append((place, row))
        return rows


def choice_question(choice: MultipleChoice, form: str) -> Question:
    """A question with its options shown; rated as its answer are their texts (``text``) or letters."""
    rated = choice.options if form == "text" else tuple(letter(place) for place in range(len(choice.options)))
    return Question(
        question_id=choice.question_id,
        record_id=choice.question_id,
        fold="train",
        kind="knowledge",
        level="question",
        question=f"{choice.question}\n{choice.lines()}",
        answer=rated[choice.answer_index or 0],
        options=rated,
        answer_index=choice.answer_index,
    )
