"""Input and output of the options audit's respondents, and a respondent that reads stored responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.audit.options.option_prompts import OptionPrompt, Removal, select_prompts
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.data_use import DataUse
from medunlearn.data.storage import sha256_of
from medunlearn.errors import SourceError
from medunlearn.sources.multiple_choice import MultipleChoice
from medunlearn.sources.table_files import read_rows

Responses = dict[tuple[str, str], tuple[str | None, str | None]]
"""Question and prompt -> response, or None and the reason."""
Ratings = dict[str, tuple[tuple[float, ...] | None, str | None]]
"""Question -> log-probability of each of its options, or None and the reason."""
TEXT, NO_END = "text", "text.no_end"
"""Forms of a rating by text: with the token that ends an answer, and without it, as a server echoes a text."""

TOO_LONG = "the prompt is longer than the model's context"
NOT_STORED = "stored responses say nothing about the options' probabilities"
STORED = "stored"
"""Name of the prompt where the file has none."""


@dataclass(frozen=True)
class OptionsJob:
    """Settings of one run, its folder, and the data use under which responses are stored there."""

    settings: AuditOptionsSettings
    folder: Path
    quiet: bool = False
    data_use: DataUse | None = None


class StoredRespondent:
    """Respondent of stored responses: a table with question_id and response, and prompt if it has several.

    A column ``removed`` (a letter) names the removed option; a row whose letter differs from the seeded draw
    answers another question and is unscored.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SourceError(f"There is no file {path}.")
        self.path, self.label = path, path.stem

    def inputs(self) -> Mapping[str, Any]:
        """Part of the run's key; contains no text and no secret."""
        return {"responses": sha256_of(self.path)}

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        """The prompt names in the file; their texts are unknown."""
        names = dict.fromkeys(str(row.get("prompt") or STORED) for _, row in self._rows())
        return select_prompts({name: OptionPrompt(name, "instruction", "") for name in names}, settings.prompts)

    def ask(self, removals: Sequence[Removal], prompts: Sequence[OptionPrompt], job: OptionsJob) -> Responses:
        """The stored responses."""
        letters = {removal.question.question_id: removal.letter for removal in removals}
        responses: Responses = {}
        for place, row in self._rows():
            key = str(row["question_id"]), str(row.get("prompt") or STORED)
            if key in responses:
                raise SourceError(f"{place}: question {key[0]!r} is answered twice for prompt {key[1]!r}.")
            removed = str(row.get("removed") or "").strip().upper()
            if removed and removed != letters.get(key[0], removed):
                responses[key] = None, f"another option was removed than seed={job.settings.seed} draws"
            elif row["response"] is None:
                responses[key] = None, "there is no response"
            else:
                responses[key] = str(row["response"]), None
        return responses

    def rate(self, questions: Sequence[MultipleChoice], form: str, job: OptionsJob) -> dict[str, Ratings]:
        return {form: {question.question_id: (None, NOT_STORED) for question in questions}}

    def _rows(self) -> list[tuple[str, Mapping[str, Any]]]:
        rows: list[tuple[str, Mapping[str, Any]]] = []
        for place, row in read_rows(self.path):
            if isinstance(row, str):
                raise SourceError(f"{place}: {row}.")
            if missing := [name for name in ("question_id", "response") if name not in row]:
                raise SourceError(f"{place} lacks the columns {', '.join(missing)}.")
            rows.append((place, row))
        return rows
