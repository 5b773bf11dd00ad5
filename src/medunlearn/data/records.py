"""The two basic rows of a benchmark: a record and a question about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

Fold = Literal["train", "holdout", "rephrase", "utility", "choosing"]
Kind = Literal[
    "factual", "reasoning", "generation", "cloze", "classification", "identity", "completion", "knowledge",
    "question",
]  # fmt: skip
Side = Literal["forget", "retain"]
Images = tuple[str, ...]
"""Paths of images that are shown together, in order."""

FOLDS: tuple[Fold, ...] = get_args(Fold)
KINDS: tuple[Kind, ...] = get_args(Kind)
SIDES: tuple[Side, ...] = get_args(Side)
DIRECT: Final = "question"
"""Kind of plain questions about one fact of a note, made by rule or given by a hospital."""
RECORD = "record"
"""Fold and kind of rows on records in tables: their facts were ranked in place, and nothing was asked."""
MEMBERSHIP = "membership"
"""Group of the texts that a benchmark's authors chose for membership attacks: ``member`` or ``non-member``."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A value in a record that names or locates its subject.

    Attributes:
        type: kind of identifier: ``name``, ``birth_date``, ``record_number``, ``phone``, ``email``, ``address``,
            ``ssn``, or any other noun.
        value: exactly as in the record's text.
    """

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class Record:
    """A source document: a note, a report section, a biography.

    Attributes:
        groups: level -> node, e.g. ``{"disease": "Cancer", "patient": "patient-0007"}``.
        identifiers: every known identifier in ``text``.
        image: path of an image, relative to the benchmark's folder; None for text only.
        further_images: paths of other images of the same study, shown after it.
        fold: ``train``; ``holdout`` for a document that no model is ever trained on (a non-member); ``rephrase``
            for a record that is not a document: a piece of others, or the material of a question.
    """

    record_id: str
    text: str
    groups: Mapping[str, str]
    identifiers: tuple[Identifier, ...] = ()
    image: str | None = None
    fold: Fold = "train"
    further_images: Images = ()

    @property
    def images(self) -> Images:
        """Paths of all images, in display order."""
        return () if self.image is None else (self.image, *self.further_images)


def with_images(record: Record, images: Images) -> Record:
    """A copy of the record with other images."""
    return replace(record, image=images[0] if images else None, further_images=images[1:])


@dataclass(frozen=True, slots=True)
class Question:
    """One probe of a model's knowledge of a record.

    Attributes:
        record_id: the record that the answer comes from.
        fold: ``train`` (the target model saw it), ``holdout`` (it did not), ``rephrase``, ``utility``; ``choosing``
            for a question that settings are chosen by, and that nothing is trained on.
        kind: kind of probe (:data:`KINDS`).
        level: the level of the hierarchy that it asks about.
        question: the prompt; for ``completion``, the text to continue.
        options: the choices of a multiple-choice question; empty for an open one.
        answer_index: index of the right option in ``options``.
        provenance: its origin: a template's name, a file's row, a language model's name.
    """

    question_id: str
    record_id: str
    fold: Fold
    kind: Kind
    level: str
    question: str
    answer: str
    options: tuple[str, ...] = field(default=())
    answer_index: int | None = None
    provenance: str = ""
