"""What a judging task is: a prompt with a version, the form of the answer, and the rules that code can check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medunlearn.llm.requests import Message

UNSURE = "Unclear"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to judge.

    Attributes:
        case_id: unique among the cases of a run.
        subject: whose data it is; intervals are over subjects.
        group: what tables break down by (the assigned category, the kind of question).
        fields: what judges are shown, by the names that the task asks for.
        identifiers: known identifiers of the record behind it; None where nobody looked.
    """

    case_id: str
    subject: str
    group: str
    fields: Mapping[str, str] = field(repr=False)
    identifiers: tuple[str, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a judge's answer comes down to.

    Attributes:
        verdict: one of the task's verdicts.
        reasoning: the judge's own.
        detail: what else the answer says: the category that fits best, each criterion.
    """

    verdict: str
    reasoning: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JudgingTask:
    """A way of judging.

    Attributes:
        name: its key on the command line.
        title: its name in tables.
        version: name and version of the prompt; any change of a word is another version.
        shows: the fields that a case must have, in the order in which they are shown.
        verdicts: what a judge can say, in the order of tables.
        positive, negative: the two verdicts that a person's Yes and No stand for; empty for ratings.
        split: what a panel without a majority is called.
        rates: verdicts are numbers on a scale.
        asks: what a person is asked.
        source: of its rules.
        messages, schema: prompt and form of the answer, for a case and the categories in use.
        check: what is wrong with an answer that has the right form; None if nothing is.
        read: an answer that passed to what it comes down to.
    """

    name: str
    title: str
    version: str
    shows: tuple[str, ...]
    verdicts: tuple[str, ...]
    positive: str
    negative: str
    split: str
    rates: bool
    asks: str
    source: str
    messages: Callable[[Case, Sequence[str]], tuple[Message, ...]] = field(repr=False)
    schema: Callable[[Sequence[str]], Mapping[str, Any]] = field(repr=False)
    check: Callable[[Case, Any], str | None] = field(repr=False)
    read: Callable[[Any], Reading] = field(repr=False)

    @property
    def human_labels(self) -> tuple[str, ...]:
        """What a person can answer."""
        return self.verdicts if self.rates else ("Yes", "No")

    def as_verdict(self, human: str) -> str:
        """The verdict that a person's label stands for."""
        return human if self.rates else {"Yes": self.positive, "No": self.negative}[human]


def quoted(name: str, text: str) -> str:
    """Material in a prompt, between tags that it cannot close by itself."""
    return f"<{name}>\n{text.replace(f'</{name}', f'< /{name}')}\n</{name}>"


def an_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def no_reason(value: Mapping[str, Any]) -> str | None:
    """A judgement without a reason is none."""
    return None if str(value["reasoning"]).strip() else "reasoning is empty: say why"
