"""Judging task: a versioned prompt, the schema of its answer, and the rules that code checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medunlearn.llm.requests import Message

UNSURE = "Unclear"


@dataclass(frozen=True, slots=True)
class JudgingCase:
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
class ParsedVerdict:
    """Verdict in a judge's answer.

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
    messages: Callable[[JudgingCase, Sequence[str]], tuple[Message, ...]] = field(repr=False)
    schema: Callable[[Sequence[str]], Mapping[str, Any]] = field(repr=False)
    check: Callable[[JudgingCase, Any], str | None] = field(repr=False)
    read: Callable[[Any], ParsedVerdict] = field(repr=False)

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


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def missing_reason(value: Mapping[str, Any]) -> str | None:
    """A judgement without a reason is none."""
    return None if str(value["reasoning"]).strip() else "reasoning is empty: say why"


def criteria_task(
    *, verdict: str, criteria: Mapping[str, str], system: str, prompt: str, verdicts: tuple[str, str], **fields: Any
) -> JudgingTask:
    """A task with criteria that are true or false, whose verdict must follow from them.

    Args:
        verdict: key of the verdict in the answer: true only if all criteria are.
        criteria: name -> meaning.
        prompt: with the task's fields and ``{criteria}`` to fill in.
        verdicts: of an answer that is true, and false.
        fields: name, title, version, shows, asks and source of the task.
    """
    boolean = {"type": "boolean"}
    answer = object_schema(reasoning={"type": "string"}, **dict.fromkeys(criteria, boolean), **{verdict: boolean})
    listed = "\n".join(f"- {name}: {meaning};" for name, meaning in criteria.items())

    def messages(case: JudgingCase, categories: Sequence[str]) -> tuple[Message, ...]:
        shown = {name: quoted(name, case.fields[name]) for name in fields["shows"]}
        return Message("system", system), Message("user", prompt.format(**shown, criteria=listed))

    def check(case: JudgingCase, value: Any) -> str | None:
        failed = [name for name in criteria if not value[name]]
        if value[verdict] and failed:
            return f"{verdict} is true, but {', '.join(failed)} is false: all criteria must be true"
        if not value[verdict] and not failed:
            return f"{verdict} is false, but no criterion is: say which one is not met"
        return missing_reason(value)

    def read(value: Any) -> ParsedVerdict:
        detail = {name: value[name] for name in criteria}
        return ParsedVerdict(verdicts[0] if value[verdict] else verdicts[1], value["reasoning"], detail)

    return JudgingTask(
        **fields,
        verdicts=verdicts,
        positive=verdicts[0],
        negative=verdicts[1],
        split="Split",
        rates=False,
        messages=messages,
        schema=lambda categories: answer,
        check=check,
        read=read,
    )
