"""Lower-case names in transcripts of speech (``[doctor] hi ada , how are you ?``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from medunlearn.audit.identifiers.detectors.gazetteer import gazetteer
from medunlearn.audit.identifiers.detectors.person_names import COMMON, STRONG, PersonName

_SPEAKERS = ("[doctor]", "[patient]", "[clinician]", "[nurse]", "doctor:", "patient:")
_WORD = re.compile(r"[a-z]{3,}(?:['’-][a-z]+)*")
_TITLED = re.compile(r"\b(?:dr|doctor|mr|mrs|ms|miss)\.?\s([a-z]{3,})\b")
_ADDRESSED = re.compile(
    r"\b(?:hi|hey|hello|morning|afternoon)\s?,?\s(?P<greeted>[a-z]{3,})\s?[,.]"
    r"|\b(?P<described>[a-z]{3,})(?:\s[a-z]{3,})?\sis\san?\s\d{1,3}[\s-]year"
)
_NOBODY = frozenset(
    (
        *("there", "everyone", "everybody", "again", "dragon", "doctor", "patient"),
        *("she", "how", "this", "that", "who", "and"),
    )
)


def spoken_names_in(text: str) -> Iterator[PersonName]:
    """Lower-case names if the text is a transcript; unordered, may overlap."""
    if not any(speaker in text for speaker in _SPEAKERS):
        return
    lists = gazetteer()
    for match in _TITLED.finditer(text):
        if match[1] not in lists.no_names:
            yield PersonName(*match.span(1), "clinician" if match.group()[0] == "d" else "name", STRONG)
    addressed: set[str] = set()
    for match in _ADDRESSED.finditer(text):
        group = "greeted" if match["greeted"] else "described"
        if match[group] not in lists.no_names and match[group] not in _NOBODY:
            addressed.add(match[group])
    for match in _WORD.finditer(text):
        word = match.group().removesuffix("'s")
        if word in lists.given or word in addressed:
            score = STRONG if word in addressed else COMMON
            yield PersonName(match.start(), match.start() + len(word), "name", score)
