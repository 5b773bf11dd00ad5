"""The prompts that ask for a removed option: ours, or a file of the user's in the same form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, Literal, get_args

import yaml

from medunlearn.audit.options.removing import Removal
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.sources.options import letter

Form = Literal["text", "instruction"]
OURS = Path(__file__).with_name("prompts.yaml")
GAP = "____"
PARTS = ("question", "shown", "blank", "before", "letter", "count")


@dataclass(frozen=True, slots=True)
class OptionPrompt:
    """One way of asking.

    Attributes:
        name: what tables call it.
        form: ``text`` is gone on from; ``instruction`` is said to the model in its own template.
        template: the prompt with its parts in braces (:data:`PARTS`).
    """

    name: str
    form: Form
    template: str

    def render(self, removal: Removal) -> str:
        """The prompt for one question."""
        asked = removal.question
        lines = [f"{letter(place)}. {text}" for place, text in enumerate(asked.options)]
        return self.template.format(
            question=asked.question,
            shown=asked.lines(without=removal.place),
            blank="\n".join([*lines[: removal.place], f"{removal.letter}. {GAP}", *lines[removal.place + 1 :]]),
            before="\n".join([*lines[: removal.place], f"{removal.letter}."]),
            letter=removal.letter,
            count=len(asked.options),
        )


def read_prompts(path: Path | None = None) -> dict[str, OptionPrompt]:
    """Prompts by name, from a YAML file of the form of ours, or ours.

    Raises:
        InputError: the file cannot be read.
        ConfigError: what is wrong in it, all at once.
    """
    path = path or OURS
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(values, dict) or not values:
        raise ConfigError([f"{path} must hold prompts: NAME: with form: and prompt: below it"])
    problems = [problem for name, value in values.items() for problem in _wrong(str(name), value)]
    if problems:
        raise ConfigError([f"{path}: {problem}" for problem in problems])
    return {str(name): OptionPrompt(str(name), value["form"], value["prompt"]) for name, value in values.items()}


def chosen_prompts(known: Mapping[str, OptionPrompt], names: Sequence[str]) -> list[OptionPrompt]:
    """The prompts named, all of them where none is.

    Raises:
        ConfigError: names that there are not, all at once.
    """
    if wrong := [unknown_name("prompt", name, known) for name in names if name not in known]:
        raise ConfigError(wrong)
    return [known[name] for name in (names or known)]


def _wrong(name: str, value: Any) -> list[str]:
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
