"""Phrases that tell a model whose note is meant."""

from __future__ import annotations

from medunlearn.data.records import Record

BEGINNING = 12
"""Words by which a note is called that no identifier names."""


def identifying_phrase(record: Record, hidden: str, start: int | None = None) -> str | None:
    """Phrase that identifies the note without revealing the answer; None if there is none.

    Args:
        hidden: the answer.
        start: offset of the answer in the note, if any: words that are part of it are not used.
    """
    for kind in ("name", "record_number", "mrn", "patient_id"):
        for identifier in record.identifiers:
            if identifier.type == kind and not stands_in(hidden, identifier.value):
                return identifier.value if kind == "name" else f"the patient with the number {identifier.value}"
    words = record.text.split(maxsplit=BEGINNING)
    beginning = " ".join(words[:BEGINNING])
    inside = start is not None and len(words) > BEGINNING and start < len(record.text) - len(words[BEGINNING])
    if len(words) <= BEGINNING or inside or stands_in(hidden, beginning):
        return None
    return f'the patient whose note begins with "{beginning}"'


def stands_in(value: str, text: str) -> bool:
    """True if a value occurs in a text on its own, in any case: 5 does not occur in 15 or 5.2."""
    # Without an expression: each value would be compiled into one of its own, and there are millions.
    value, text = value.lower(), text.lower()
    place = text.find(value)
    while place >= 0:
        before, after = text[max(0, place - 1) : place], text[place + len(value) : place + len(value) + 2]
        in_word = before.isalnum() or before in {"_", "."} or after[:1].isalnum() or after[:1] == "_"
        if not in_word and not (after[:1] == "." and after[1:].isdigit()):
            return True
        place = text.find(value, place + 1)
    return False
