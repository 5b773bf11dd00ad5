"""Whether options are a fair choice on a section."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.data.answer_texts import normalised, stands_in
from medunlearn.papers.medforget.items import says


def one_is_right(options: Sequence[str], right: int | None, text: str) -> bool:
    """All options differ; the right one stands in the section, and no other does, not even in other order."""
    assert right is not None
    distinct = len(set(map(normalised, options))) == len(options) >= 2 and all(map(normalised, options))
    others = [option for place, option in enumerate(options) if place != right]
    return distinct and stands_in(options[right], text) and not any(says(text, option) for option in others)
