"""User-supplied prompts and templates: the text is read once and recorded with its SHA-256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from medunlearn.errors import InputError, first_line, unknown_name
from medunlearn.input_files import read_text

ENTRY = "#"
"""Before the name of one prompt of a file of several: ``amnesia-paper.yaml#label``."""
LONGEST_PROMPT = 2**20
"""Bytes of a prompt file."""
_ROLE = re.compile(r"^\[(System|User)\][ \t]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A user's prompt or template, in Jinja: ``{{ name }}`` is a placeholder.

    Attributes:
        file: name of the file, without its folder.
        sha256: of the text.
    """

    file: str
    sha256: str
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """``own.jinja@1a2b3c4d5e6f``: file and beginning of the SHA-256."""
        return f"{self.file}@{self.sha256[:12]}"

    def placeholders(self) -> frozenset[str]:
        """Names that the text reads."""
        return _placeholders(self.text)

    def render(self, fields: Mapping[str, str]) -> str:
        """The text with its placeholders filled in."""
        return self._filled(self.text, fields)

    def chat(self, fields: Mapping[str, str]) -> tuple[str, str]:
        """System and user message with their placeholders filled in; the system's may be empty."""
        system, user = (self._filled(part, fields) for part in self.parts())
        return system, user

    def _filled(self, text: str, fields: Mapping[str, str]) -> str:
        # Imported here: most commands are given no file.
        from jinja2 import TemplateError

        from medunlearn.template_process import render_prompt

        try:
            return render_prompt(self.file, text, ("strict", "keep_trailing_newline"), fields)
        except TemplateError as error:
            raise InputError(f"{self.file} cannot be filled in: {first_line(error)}.") from error

    def parts(self) -> tuple[str, str]:
        """System and user template: the text below the lines ``[System]`` and ``[User]``; without such lines all is
        the user's.
        """
        parts = _ROLE.split(self.text)
        texts = {role.lower(): text.strip() for role, text in zip(parts[1::2], parts[2::2], strict=True)}
        return texts.get("system", ""), texts.get("user", parts[0].strip())

    def check(self, required: Collection[str], optional: Collection[str] = ()) -> PromptFile:
        """The file itself, if it has every required placeholder and no unknown one.

        Raises:
            ValueError: names the placeholder.
        """
        there = self.placeholders()
        names = dict.fromkeys([*required, *optional])
        missing = [name for name in required if name not in there]
        strange = sorted(there - set(names))
        problems = [f"lacks the placeholder {{{{ {name} }}}}" for name in missing]
        problems += [
            f"has the placeholder {{{{ {name} }}}}, which nothing fills in; there are: {', '.join(names)}"
            for name in strange
        ]
        if problems:
            raise ValueError(f"{self.file} {'; '.join(problems)}")
        return self


def read_prompt_file(value: Any) -> PromptFile:
    """A prompt file from its path, from its record, or one prompt of a file of several (``FILE#NAME``).

    Raises:
        ValueError: it cannot be read, is not a template, or its record is inconsistent.
    """
    if isinstance(value, PromptFile):
        return value
    if isinstance(value, Mapping):
        if set(value) != {"file", "sha256", "text"} or _sha256(str(value["text"])) != value["sha256"]:
            raise ValueError("is not a record of a prompt file (file, sha256, text)")
        return PromptFile(**value)
    whole = Path(str(value))
    name, _, entry = str(value).partition(ENTRY)
    path = whole if whole.exists() else Path(name)
    entry = "" if whole.exists() else entry
    try:
        text = read_text(path, most=LONGEST_PROMPT)
    except InputError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    if entry:
        text = _entry_text(path, text, entry)
    if not text.strip():
        raise ValueError(f"{path} is empty")
    file = PromptFile(f"{path.name}{ENTRY}{entry}" if entry else path.name, _sha256(text), text)
    file.placeholders()
    return file


def _entry_text(path: Path, content: str, entry: str) -> str:
    """The text of one prompt of a file of several (``prompts``: name -> ``place`` and ``text``).

    A file with a text left empty is refused, whichever prompt is asked for: half of a paper's prompts are not its
    prompts.

    Raises:
        ValueError: not such a file, no such prompt, or names every text that is empty, with its place.
    """
    try:
        prompts = yaml.safe_load(content)["prompts"]
        texts = {str(name): str(own["text"] or "") for name, own in prompts.items()}
        places = {str(name): str(own.get("place", "no place given")) for name, own in prompts.items()}
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no file of prompts (prompts: {{NAME: {{place, text}}}}): {error!r}") from None
    if entry not in texts:
        raise ValueError(unknown_name(f"prompt of {path.name}", entry, texts))
    if empty := [f"{name} ({places[name]})" for name, text in texts.items() if not text.strip()]:
        raise ValueError(
            f"{path} has no text under {', '.join(empty)}. Write the published wording below `text:` of each"
        )
    return texts[entry]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=64)
def _placeholders(text: str) -> frozenset[str]:
    from jinja2 import TemplateError

    from medunlearn.template_process import placeholders

    try:
        return placeholders("The file", text)
    except (TemplateError, InputError) as error:
        raise ValueError(str(error).removesuffix(".")) from None
