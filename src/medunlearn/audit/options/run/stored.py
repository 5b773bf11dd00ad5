"""Responses that somebody has already: no model is asked, and nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.audit.options.prompts import OptionPrompt, chosen_prompts
from medunlearn.audit.options.removing import Removal
from medunlearn.audit.options.run.respondents import Key, Rated, Said
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.storage import sha256_of
from medunlearn.errors import SourceError
from medunlearn.sources.options import MultipleChoice
from medunlearn.sources.tables import read_rows

NOT_RATED = "stored responses say nothing about the options' probabilities"


class StoredResponses:
    """A table with question_id and response, and prompt where it holds several ways of asking.

    A column ``removed`` (a letter) says which option was left out; a row in which another one was than the seed
    draws is unscored, since it answers another question.

    Args:
        path: CSV, TSV, JSONL, JSON or Parquet.

    Raises:
        SourceError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SourceError(f"There is no file {path}.")
        self.path, self.label = path, path.stem

    def inputs(self) -> Mapping[str, Any]:
        return {"responses": sha256_of(self.path)}

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        """The ways of asking that the file names; what was said there is not known here."""
        names = dict.fromkeys(str(row.get("prompt") or STORED) for _, row in self._rows())
        return chosen_prompts({name: OptionPrompt(name, "instruction", "") for name in names}, settings.prompts)

    def ask(
        self,
        removals: Sequence[Removal],
        prompts: Sequence[OptionPrompt],
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[Key, Said]:
        """What the file holds.

        Raises:
            SourceError: rows that cannot be read, a column that is missing, a question answered twice.
        """
        letters = {one.question.question_id: one.letter for one in removals}
        found: dict[Key, Said] = {}
        for place, row in self._rows():
            key = str(row["question_id"]), str(row.get("prompt") or STORED)
            if key in found:
                raise SourceError(f"{place}: question {key[0]!r} is answered twice for prompt {key[1]!r}.")
            removed, text = str(row.get("removed") or "").strip().upper(), row["response"]
            if removed and removed != letters.get(key[0], removed):
                found[key] = Said(None, f"another option was removed than seed={settings.seed} draws")
            else:
                found[key] = Said(None, "there is no response") if text is None else Said(str(text))
        return found

    def rate(
        self,
        questions: Sequence[MultipleChoice],
        form: str,
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[str, Rated]:
        return {one.question_id: Rated(None, NOT_RATED) for one in questions}

    def _rows(self) -> list[tuple[str, Mapping[str, Any]]]:
        rows: list[tuple[str, Mapping[str, Any]]] = []
        for place, row in read_rows(self.path):
            if isinstance(row, str):
                raise SourceError(f"{place}: {row}.")
            if missing := [name for name in ("question_id", "response") if name not in row]:
                raise SourceError(f"{place} lacks the columns {', '.join(missing)}.")
            rows.append((place, row))
        return rows


STORED = "stored"
"""What the way of asking is called where the file does not say."""
