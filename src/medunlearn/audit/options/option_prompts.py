"""Multiple-choice questions with one option removed: the random draw, the prompts, and matching of responses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any, Literal, get_args

from medunlearn.data.records import Question
from medunlearn.errors import ConfigError, unknown_name
from medunlearn.input_files import yaml_content
from medunlearn.seeds import generator
from medunlearn.sources.multiple_choice import MultipleChoice, letter

Form = Literal["text", "instruction"]
Letters = Literal["kept", "restarted"]
MATCHES = ("exact", "relaxed", "exact.lettered", "relaxed.lettered")
PROMPTS_FILE = Path(__file__).with_name("prompts.yaml")
GAP = "____"
PARTS = ("question", "shown", "blank", "before", "letter", "count")
STANDS_THERE = "the removed option also stands among those that are shown"
NOTHING_LEFT = "the removed option is nothing but punctuation"
_ANNOUNCED = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|yes)\b[\s,.!–-]*)"
    r"(?:[^:\n]{0,120}:|(?=\Z))"
    r"|(?:here(?: is|'s|’s| are)|(?:one|an)other|one|the|a|my)\b[^:\n]{0,80}"
    r"\b(?:option|answer|choice|alternative|possibility)\b[^:\n]{0,60}:",
    re.IGNORECASE,
)
"""Announcements of an answer: ``Sure! Here is one other option:``, ``Certainly.``, ``Another option could be:``."""
_ENDS = " \t\n\"'`*_.,;:“”‘’"


@dataclass(frozen=True, slots=True)
class Removal:
    """A question with one option removed.

    Attributes:
        place: index of the removed option.
        letters: ``kept``: options keep the file's letters; ``restarted``: lettered anew from A, the removed one
            last.
    """

    question: MultipleChoice
    place: int
    letters: Letters = "kept"

    @property
    def letter(self) -> str:
        """The removed option's letter in the file."""
        return letter(self.place)

    @property
    def as_shown(self) -> Removal:
        """The removal with the places and letters that a prompt shows."""
        if self.letters == "kept":
            return self
        options = self.question.options
        reordered = (*options[: self.place], *options[self.place + 1 :], self.text)
        return Removal(replace(self.question, options=reordered), len(options) - 1)

    @property
    def text(self) -> str:
        return self.question.options[self.place]

    @property
    def unscorable(self) -> str | None:
        """Reason why no response can be scored against it; None if responses can be scored."""
        if not normalised(self.text):
            return NOTHING_LEFT
        others = (text for place, text in enumerate(self.question.options) if place != self.place)
        return STANDS_THERE if normalised(self.text) in map(normalised, others) else None


@dataclass(frozen=True, slots=True)
class OptionPrompt:
    """A prompt for a removed option.

    Attributes:
        name: label in tables.
        form: ``text`` is continued; ``instruction`` is shown in the model's own template.
        template: text with :data:`PARTS` in braces.
    """

    name: str
    form: Form
    template: str

    def render(self, removal: Removal) -> str:
        """The prompt for one question."""
        removal = removal.as_shown
        question = removal.question
        lines = [f"{letter(place)}. {text}" for place, text in enumerate(question.options)]
        before = lines[: removal.place]
        return self.template.format(
            question=question.question,
            shown=question.lines(without=removal.place),
            blank="\n".join([*before, f"{removal.letter}. {GAP}", *lines[removal.place + 1 :]]),
            before="\n".join([*before, f"{removal.letter}."]),
            letter=removal.letter,
            count=len(question.options),
        )


def choice_question(choice: MultipleChoice, form: str) -> Question:
    """A question with its options shown; its answers are the options' texts (``text``) or letters."""
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


def remove_one(questions: Iterable[MultipleChoice], seed: int = 0, letters: Letters = "kept") -> list[Removal]:
    """Remove one option of each question, drawn uniformly over all options, the right one included.

    The draw depends only on seed and question id, so a sample of a file removes the same options as the whole file.
    """
    return [
        Removal(
            question,
            int(generator("removed answer option", seed, question.question_id).integers(len(question.options))),
            letters,
        )
        for question in questions
    ]


def probe_name(question_id: str, prompt: str) -> str:
    """Id of the probe that asks for a question's removed option by a prompt."""
    return f"{prompt}/{question_id}"


def normalised(text: str) -> str:
    """Normal form in which options and responses are compared.

    Unicode's compatibility form (NFKC), case-folded, white space collapsed, without quotation marks, emphasis marks
    and stops at both ends. Words, signs within the text, and articles stay.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_ENDS)


def answer_line(response: str) -> str:
    """The first line with an answer; models without instruction tuning often continue after it.

    A line that only announces an answer (``Sure! Here is one other option:``) is skipped; an announcement in the
    answer's own line is handled by :func:`exact_match`.
    """
    lines = [line for line in response.splitlines() if line.strip(_ENDS)]
    return next((line for line in lines if not _ANNOUNCED.fullmatch(line.strip())), lines[0] if lines else "")


def _forms(line: str, letter: str) -> Iterator[str]:
    """A line unchanged and without an announcement, each with and without a label of the letter."""
    announced = _ANNOUNCED.match(line.strip())
    for text in (line, *([line.strip()[announced.end() :]] if announced else [])):
        yield text
        label = re.match(
            rf"\W*(?:(?:option|answer|choice)\s*:?\s*)?\(?{letter}\)?\s*[.:)\-–]\s*", text, re.IGNORECASE
        )
        if label:
            yield text[label.end() :]


def exact_match(response: str, option: str, letter: str) -> bool:
    """Exact answer option match: the :func:`normalised` first line of the response is the removed option.

    A label of the removed option's own letter in front of it (``C.``, ``(C)``, ``Option C:``) is ignored, and so is
    an announcement (``Sure! Here is one other option:``) in the same or an earlier line.

    Source: the memorization paper, Section 3.2, "Exact Answer Option Match".
    """
    expected = normalised(option)
    return any(normalised(text) == expected for text in _forms(answer_line(response), letter))


def relaxed_match(response: str, option: str) -> bool:
    """Relaxed answer option match: the :func:`normalised` response contains the removed option.

    A substring, as in the paper: the option ``5`` is in ``15 mg``, and a response that lists many diseases contains
    one by chance. A baseline model's rate shows how much of this is chance.

    Source: the memorization paper, Section 3.2, "Relaxed Answer Option Match".
    """
    return normalised(option) in normalised(response)


def lettered_options(response: str) -> list[str]:
    """Options that a response lists after a capital letter, a full stop and white space; stripped, lower-cased.

    Each extends to the next capital letter with a full stop, anywhere (``vitamin C. difficile`` is cut); text after
    ``###Answer`` is ignored. Empty for a response without a list.

    Source: released code of the memorization paper, its evaluation of options.
    """
    pieces = re.split(r"(?=[A-Z]\.)", response.split("###Answer")[0])
    return [piece[2:].strip().lower() for piece in pieces if re.match(r"[A-Z]\.\s", piece)]


def option_matches(response: str, removal: Removal) -> dict[str, bool]:
    """Match -> whether the response restores the removed option.

    ``exact``, ``relaxed``: :func:`exact_match` and :func:`relaxed_match`. ``exact.lettered``, ``relaxed.lettered``:
    as the memorization paper's released code: one of the :func:`lettered_options` is the removed option, or
    contains it.
    """
    option, listed = removal.text.strip().lower(), lettered_options(response)
    return {
        "exact": exact_match(response, removal.text, removal.as_shown.letter),
        "relaxed": relaxed_match(response, removal.text),
        "exact.lettered": option in listed,
        "relaxed.lettered": any(option in text for text in listed),
    }


def read_prompts(path: Path | None = None) -> dict[str, OptionPrompt]:
    """Prompts by name, from a YAML file in the package's format, or the package's own.

    Raises:
        InputError: the file cannot be read.
        ConfigError: every mistake in it.
    """
    path = path or PROMPTS_FILE
    values = yaml_content(path)
    if not isinstance(values, dict) or not values:
        raise ConfigError([f"{path} must contain prompts: NAME: with form: and prompt: below it"])
    problems = [problem for name, value in values.items() for problem in _problems(str(name), value)]
    if problems:
        raise ConfigError([f"{path}: {problem}" for problem in problems])
    return {str(name): OptionPrompt(str(name), value["form"], value["prompt"]) for name, value in values.items()}


def select_prompts(prompts: Mapping[str, OptionPrompt], names: Sequence[str]) -> list[OptionPrompt]:
    """The named prompts, or all.

    Raises:
        ConfigError: every unknown name.
    """
    if wrong := [unknown_name("prompt", name, prompts) for name in names if name not in prompts]:
        raise ConfigError(wrong)
    return [prompts[name] for name in (names or prompts)]


def _problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, dict) or set(value) != {"form", "prompt"} or not isinstance(value["prompt"], str):
        return [f"{name}: needs form and prompt, and nothing else"]
    problems = []
    if value["form"] not in get_args(Form):
        problems.append(f"{name}.form={value['form']!r}: it is one of {', '.join(get_args(Form))}")
    try:
        parts = {part for _, part, _, _ in Formatter().parse(value["prompt"]) if part is not None}
    except ValueError as error:
        return [*problems, f"{name}.prompt: {error}; a brace that is meant is written twice"]
    problems += [unknown_name(f"part of {name}.prompt", part, PARTS) for part in sorted(parts - set(PARTS))]
    if "question" not in parts:
        problems.append(f"{name}.prompt: does not show the {{question}}")
    return problems
