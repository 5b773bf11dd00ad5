"""Provenance of texts and ratings that a language model, a person's template or an extractor made.

Each record file keeps a list of :class:`Provenance`: a judging run in ``run.json``, a benchmark in the notes of its
manifest. A rehearsal draws labels, questions and ratings at random (:mod:`medunlearn.judging.rehearsal`). A measure
of drawn ratings has a name of its own (:func:`drawn_name`), so nothing that looks a measure up by its name decides
by it, and :func:`is_drawn` tells the two apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

DRAWN = "drawn at random for rehearsal"
"""The mark of everything that was drawn, in every format."""
NOTE = f"What is marked as drawn, here or by .drawn in a measure's name, was {DRAWN}: it decides nothing."
NOT_RECORDED = "not recorded"
REHEARSAL = "rehearsal"
"""Stands for a server's address, and is the model's name: answers are drawn."""
FINGERPRINT = "medunlearn-rehearsal"
"""Server fingerprint of a rehearsal's answers, by which stored ones are recognized."""
_TEXTS = ("what", "model", "server", "prompt", "prompt_sha256", "date")
_SUFFIX = ".drawn"
_DRAWN_NAME = re.compile(r"\w\.drawn\b")
_MODEL = re.compile(rf"{REHEARSAL}([-_ ]?\d+| of .+)?")
_WRITTEN = re.compile(r"llm:(?:(?P<model>.*):)?(?P<prompt>\w+@\w+)(?::.*)?")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of one kind of text or rating.

    Attributes:
        what: what was made, in words: ``questions``, ``disease labels``, ``factuality ratings``.
        model: name of the model, as its server calls it; ``templates`` or an extractor's name without a server.
        server: ``on this machine``, ``on another machine``, ``rehearsal``, or ``none``.
        prompt: name and version of the prompt.
        prompt_sha256: SHA-256 of the prompt's text and answer schema.
        date: day of the last answer, UTC, ISO 8601.
        drawn: True if any answer was drawn at random; None if nobody recorded it.
        controls: control cases with the expected verdict, and all of them, if the maker was tested: (18, 20).
    """

    what: str
    model: str = ""
    server: str = ""
    prompt: str = ""
    prompt_sha256: str = ""
    date: str = ""
    drawn: bool | None = None
    controls: tuple[int, int] | None = None

    def __str__(self) -> str:
        """``questions by qwen3 on this machine (prompt q@1, 2026-11-28, real)``."""
        drawn = {True: DRAWN, False: "real", None: NOT_RECORDED}[self.drawn]
        details = (f"prompt {self.prompt}" if self.prompt else "", self.date, drawn)
        by = f"{self.model or NOT_RECORDED} {self.server if self.server.startswith('on ') else ''}".strip()
        return f"{self.what} by {by} ({', '.join(filter(None, details))})"

    def to_json(self) -> dict[str, Any]:
        """The record, without what is not recorded."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Provenance:
        """A record as written by :meth:`to_json`; values of another type count as not recorded."""
        texts = {name: value for name in _TEXTS if isinstance(value := record.get(name), str)}
        drawn, controls = record.get("drawn"), record.get("controls")
        pair = isinstance(controls, Sequence) and len(controls) == 2 and all(type(n) is int for n in controls)
        return cls(
            **{"what": "", **texts},
            drawn=drawn if isinstance(drawn, bool) else None,
            controls=(controls[0], controls[1]) if pair and controls else None,
        )


def read_provenance(records: object) -> tuple[Provenance, ...]:
    """The entries of a record file; empty for a file of an older version."""
    entries = records if isinstance(records, Sequence) and not isinstance(records, str) else ()
    return tuple(Provenance.of(entry) for entry in entries if isinstance(entry, Mapping))


def any_drawn(entries: Iterable[Provenance]) -> bool:
    """True if something was drawn at random."""
    return any(entry.drawn for entry in entries)


def is_rehearsal_model(name: str) -> bool:
    """True for names that a rehearsal gives its models; before answers had a fingerprint they were known by it."""
    return _MODEL.fullmatch(name) is not None


def written_by(origins: Iterable[str]) -> tuple[Provenance, ...]:
    """Writers of questions from the questions' own origins (``llm:MODEL:PROMPT``), where no record names them."""
    matches = (_WRITTEN.fullmatch(origin) for origin in origins)
    pairs = dict.fromkeys((match["model"] or "", match["prompt"]) for match in matches if match)
    return tuple(
        Provenance("questions", model, prompt=prompt, drawn=True if is_rehearsal_model(model) else None)
        for model, prompt in pairs
    )


def drawn_name(measure: str) -> str:
    """Name of a measure whose ratings were drawn: ``factuality.drawn``."""
    return measure if is_drawn(measure) else f"{measure}{_SUFFIX}"


def real_name(measure: str) -> str:
    """Name of the measure that was rehearsed: inverse of :func:`drawn_name`."""
    return measure.removesuffix(_SUFFIX)


def is_drawn(measure: str) -> bool:
    """True if a number of this measure was drawn at random, so that it decides nothing."""
    return measure.endswith(_SUFFIX)


def decisive(measures: Iterable[str]) -> list[str]:
    """The measures whose numbers may decide something: those that were not drawn."""
    return [measure for measure in measures if not is_drawn(measure)]


def marked(title: str) -> str:
    """A title with the mark of drawn content."""
    return title if DRAWN in title else f"{title} ({DRAWN})"


def is_marked(text: str) -> bool:
    """True if a text has the mark, whole or short, or names a drawn measure."""
    return DRAWN in text or "(drawn)" in text or _DRAWN_NAME.search(text) is not None


def why_undecided(entries: Iterable[Provenance]) -> str:
    """Reason why numbers that rest on these entries decide nothing; empty if none was drawn."""
    *others, last = ["", *dict.fromkeys(entry.what or "answers" for entry in entries if entry.drawn)]
    if not last:
        return ""
    names = ", ".join(filter(None, others))
    return f"{names} and {last} were {DRAWN}" if names else f"{last} were {DRAWN}"
