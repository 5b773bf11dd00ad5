"""Values that keep their shape and lose their content, to be shown where records may not be."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")


def masked(value: str) -> str:
    """A value with its first character and ``#`` for each other letter and digit of a word.

    ``900-01-0001`` is ``9##-##-####`` and ``John Smith`` is ``J### S####``. Of a number the first part alone keeps
    its first digit; a word of one character is hidden whole.
    """
    shown = False

    def hide(match: re.Match[str]) -> str:
        nonlocal shown
        word = match.group()
        keep = len(word) > 1 and (word[0].isalpha() or not shown)
        shown = True
        return (word[0] if keep else "#") + "#" * (len(word) - 1)

    return _WORD.sub(hide, value)
