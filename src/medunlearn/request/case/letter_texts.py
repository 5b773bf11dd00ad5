"""Words of the answer to a patient, by language: ``letters/*.yaml``, filled in from the evidence."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

Language = Literal["en", "de", "fr"]


@dataclass(frozen=True)
class LetterTexts:
    """Texts of one language; each is found by its keys, and a text that is not there is an error."""

    language: Language
    content: Mapping[str, Any]

    @staticmethod
    def of(language: Language) -> LetterTexts:
        return LetterTexts(language, _content(language))

    def text(self, *keys: str, **values: object) -> str:
        """A text with its values."""
        return str(self._at(keys)).format(**values)

    def texts(self, *keys: str, **values: object) -> tuple[str, ...]:
        """A list of texts with their values."""
        return tuple(str(text).format(**values) for text in self._at(keys))

    def day(self, day: date) -> str:
        """A date in words: ``2 March 2026``, ``1er mars 2026``."""
        number = self.content["first_day"] if day.day == 1 else day.day
        return self.text("date", day=number, month=self.content["months"][day.month - 1], year=day.year)

    def _at(self, keys: tuple[str, ...]) -> Any:
        content: Any = self.content
        for key in keys:
            content = content[key]
        return content


def one_month_from(received: date) -> date:
    """End of the month in which a request is to be answered (Article 12(3) GDPR).

    A period of months ends on the day with the same number, or on the last day of a month without one (Regulation
    1182/71, Article 3(2)(c)). That it goes on to the next working day is left out.
    """
    year, month = received.year + received.month // 12, received.month % 12 + 1
    return date(year, month, min(received.day, monthrange(year, month)[1]))


@cache
def _content(language: str) -> Mapping[str, Any]:
    source = files("medunlearn.request.case") / "letters" / f"{language}.yaml"
    content: Mapping[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    return content
