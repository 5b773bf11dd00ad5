"""Judging tasks: a versioned prompt (YAML), the schema of its answer, and the rules that code checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from medunlearn.config import PromptFile, read_yaml
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import UnknownNameError
from medunlearn.judging.labels import LabelSheet
from medunlearn.llm.requests import Message

_FIELD = re.compile(r"\{(\w+)\}")
UNSURE = "Unclear"
"""The judges' word for none of the categories."""


@dataclass(frozen=True, slots=True)
class JudgingCase:
    """One case to judge.

    Attributes:
        case_id: unique among the cases of a run.
        group: label by which tables break down (the assigned category, the kind of question).
        fields: material shown to judges, by the task's field names.
        identifiers: identifiers of its record; None if unknown.
    """

    case_id: str
    subject: str
    group: str
    fields: Mapping[str, str] = field(repr=False)
    identifiers: tuple[str, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class JudgingTask:
    """Judging task whose verdict is a rating; the base of the others.

    Attributes:
        title: its name in tables.
        version: name and version of the prompt; any change of wording makes a new version.
        shows: required fields of a case, in display order.
        verdicts: in the order of tables; a person's Yes and No stand for the first two.
        asks: the question to a human annotator.
        system, prompt: system message and user message (a format string).
        split: verdict of a panel without a majority; empty for ratings.
        user_prompt: the user's prompt, which replaces ours.
    """

    name: str
    title: str
    version: str
    shows: Sequence[str]
    verdicts: Sequence[str]
    asks: str
    source: str
    system: str = field(repr=False)
    prompt: str = field(repr=False)
    split: str = ""
    user_prompt: PromptFile | None = None

    @property
    def prompt_sha256(self) -> str:
        """SHA-256 of the prompt's wording: a user's file, else system and user message with what they fill in."""
        if self.user_prompt is not None:
            return self.user_prompt.sha256
        return sha256_of_json([self.system, self.prompt, self._wording()])

    def _wording(self) -> Mapping[str, str]:
        """Further wording of the task that fills placeholders."""
        return {}

    @property
    def rates(self) -> bool:
        """True if verdicts are numbers on a scale."""
        return not self.split

    @property
    def decisive_verdicts(self) -> Sequence[str]:
        """Verdicts that a person can give: all ratings, else the positive and the negative verdict."""
        return self.verdicts if self.rates else self.verdicts[:2]

    @property
    def positive(self) -> str:
        return self.verdicts[0]

    @property
    def negative(self) -> str:
        return self.verdicts[1]

    @property
    def sheet(self) -> LabelSheet:
        """The sheet for annotators: they give ratings, or Yes and No."""
        labels = self.verdicts if self.rates else ("Yes", "No")
        return LabelSheet(dict(zip(labels, self.decisive_verdicts, strict=True)), self.shows)

    def messages(self, case: JudgingCase, categories: Sequence[str]) -> tuple[Message, ...]:
        """The prompt about a case, with the categories in use. A user's prompt gets the material without tags."""
        if self.user_prompt is not None:
            system, user = self.user_prompt.chat({**self.extras(case, categories), **case.fields})
            return (*((Message("system", system),) if system else ()), Message("user", user))
        fields = {name: in_tags(name, case.fields[name]) for name in self.shows}
        text = self.prompt.format(**fields, **self.extras(case, categories))
        return Message("system", self.system), Message("user", text)

    def worded_as(self, file: PromptFile | None) -> Self:
        """This task with a user's prompt; the task itself without a file.

        Raises:
            ValueError: a placeholder is missing or unknown.
        """
        if file is None:
            return self
        extras = _FIELD.findall(self.prompt)
        prompt = file.check(self.shows, [name for name in extras if name != "assigned_category"])
        return replace(self, user_prompt=prompt, version=f"{self.version.partition('@')[0]}@{file.sha256[:12]}")

    def extras(self, case: JudgingCase, categories: Sequence[str]) -> dict[str, str]:
        """Further placeholders of the prompt."""
        return {}

    def schema(self, categories: Sequence[str]) -> dict[str, Any]:
        """JSON schema of an answer."""
        ratings = [int(verdict) for verdict in self.verdicts]
        return object_schema(rating={"type": "integer", "minimum": min(ratings), "maximum": max(ratings)})

    def check(self, case: JudgingCase, value: Mapping[str, Any]) -> str | None:
        """Error of an answer that matches the schema, or None; its reasoning must not be empty."""
        return self.contradiction(case, value) or (
            None if str(value["reasoning"]).strip() else "reasoning is empty: say why"
        )

    def contradiction(self, case: JudgingCase, value: Mapping[str, Any]) -> str:
        """Reason why an answer contradicts itself; empty if it does not."""
        return ""

    def read(self, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The verdict of a valid answer, and its other values."""
        # JSON Schema takes 7.0 for an integer, and a server may write it so.
        return str(int(value["rating"])), {}


@dataclass(frozen=True)
class CategoryTask(JudgingTask):
    """Judging task that compares an assigned category with the best-fitting one.

    Attributes:
        belongs: word in a category's name -> description of the category.
    """

    belongs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def _wording(self) -> Mapping[str, str]:
        return self.belongs

    def extras(self, case: JudgingCase, categories: Sequence[str]) -> dict[str, str]:
        lines = []
        for category in categories:
            scope = next((text for word, text in self.belongs.items() if word in category.lower()), "")
            lines.append(f"- {category}: {scope}" if scope else f"- {category}")
        assigned = in_tags("assigned_category", case.fields["category"])
        return {"categories": "\n".join(lines), "assigned_category": assigned}

    def schema(self, categories: Sequence[str]) -> dict[str, Any]:
        return object_schema(
            verdict={"enum": list(self.verdicts)}, correct_category={"enum": [*categories, UNSURE]}
        )

    def contradiction(self, case: JudgingCase, value: Mapping[str, Any]) -> str:
        fits = value["correct_category"] == case.fields["category"]
        if value["verdict"] == self.positive and not fits:
            return f"verdict is {self.positive}, but correct_category is not the assigned category"
        if value["verdict"] == self.negative and fits:
            return f"verdict is {self.negative}, but correct_category is the assigned category"
        return ""

    def read(self, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return value["verdict"], {"correct_category": value["correct_category"]}


@dataclass(frozen=True)
class CriteriaTask(JudgingTask):
    """Judging task with true-or-false criteria and a verdict that must follow from them: true only if all are.

    Attributes:
        verdict: key of the verdict in the answer.
        criteria: name -> meaning.
    """

    verdict: str = ""
    criteria: Mapping[str, str] = field(default_factory=dict, repr=False)

    def _wording(self) -> Mapping[str, str]:
        return self.criteria

    def worded_as(self, file: PromptFile | None) -> Self:
        """Like :meth:`JudgingTask.worded_as`; a prompt without our criteria gets a verdict only."""
        task = super().worded_as(file)
        asks = file is None or "criteria" in file.placeholders()
        return task if asks else replace(task, criteria={})

    def extras(self, case: JudgingCase, categories: Sequence[str]) -> dict[str, str]:
        return {"criteria": "\n".join(f"- {name}: {meaning};" for name, meaning in self.criteria.items())}

    def schema(self, categories: Sequence[str]) -> dict[str, Any]:
        return object_schema(**{key: {"type": "boolean"} for key in (*self.criteria, self.verdict)})

    def contradiction(self, case: JudgingCase, value: Mapping[str, Any]) -> str:
        failed = [name for name in self.criteria if not value[name]]
        if value[self.verdict] and failed:
            return f"{self.verdict} is true, but {', '.join(failed)} is false: all criteria must be true"
        if self.criteria and not value[self.verdict] and not failed:
            return f"{self.verdict} is false, but no criterion is: say which one is not met"
        return ""

    def read(self, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        verdict = self.positive if value[self.verdict] else self.negative
        return verdict, {name: value[name] for name in self.criteria}


TASKS: Mapping[str, type[JudgingTask]] = {
    "label": CategoryTask,
    "question": CriteriaTask,
    "document": CriteriaTask,
    "factuality": JudgingTask,
}


@cache
def get_task(name: str) -> JudgingTask:
    """The judging task with this name.

    Raises:
        UnknownNameError: no such task.
    """
    if name not in TASKS:
        raise UnknownNameError("judging task", name, TASKS)
    return TASKS[name](name, **read_yaml(Path(__file__).with_name(f"{name}.yaml")))


def in_tags(name: str, text: str) -> str:
    """Material for a prompt enclosed in tags, which it cannot close."""
    return f"<{name}>\n{text.replace(f'</{name}', f'< /{name}')}\n</{name}>"


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of an object with a ``reasoning`` and exactly these keys."""
    properties = {"reasoning": {"type": "string"}, **properties}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
