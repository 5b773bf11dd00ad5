"""Prompts with table columns in braces: ``Write the note of {name}, {complaint}.``"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_COLUMN = re.compile(r"\{([^{}]*)\}")


def columns_of(prompts: Iterable[str]) -> list[str]:
    """Distinct columns named in braces in prompts."""
    return list(dict.fromkeys(name.strip() for prompt in prompts for name in _COLUMN.findall(prompt)))


def fill_prompt(prompt: str, values: Mapping[str, str]) -> str | None:
    """The prompt with a row's values; None if one of its columns is empty or missing."""
    if any(not values.get(name) for name in columns_of([prompt])):
        return None
    return _COLUMN.sub(lambda match: values[match[1].strip()], prompt)
