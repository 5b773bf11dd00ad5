"""Radiology collections: patients, their dated studies, and the sections of each report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from medunlearn.data.data_use import DataUse

MASK = "___"
"""A word removed by de-identification, as MIMIC-CXR writes it; Open-i's ``XXXX`` becomes it."""

SECTION_ORDER = ("examination", "indication", "history", "technique", "comparison", "findings", "impression")


@dataclass(frozen=True)
class RadiologyStudy:
    """One visit: an image or none, and the sections of its report.

    Attributes:
        patient, study: ids of the source.
        sections: name -> text.
        image: file of the view to show; None if there is none, or if it is drawn.
        body: ``synthetic.phantom.Body`` from which the image is drawn; None for an image in a file.
        institution: of the source; None if unknown.
        labels: findings that the source labelled, by name.
    """

    patient: str
    study: str
    sections: Mapping[str, str] = field(repr=False)
    image: Path | None = None
    body: Any = field(default=None, repr=False)
    institution: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> bool:
        """Whether there is an image."""
        return self.image is not None or self.body is not None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Something that a reader or a rule left out.

    Attributes:
        what: ``study``, ``patient`` or ``row``.
        id: of the source.
        reason: one sentence without a word of the report.
    """

    what: Literal["study", "patient", "row"]
    id: str
    reason: str


class RadiologySource(Protocol):
    """A collection, read patient by patient.

    Attributes:
        name: prefix of every question's provenance.
        source: one line for the manifest.
        licence: of the data, as hubs call it; empty if unknown.
        data_use: recorded or known of it; None where nobody says.
        has_images: a source without images is built as text alone.
        composed: patients are composed of several people's studies.
        excluded: what could not be read; grows while it is read.
    """

    name: str
    source: str
    licence: str
    data_use: DataUse | None
    has_images: bool
    composed: bool
    excluded: list[Exclusion]

    def patients(self) -> Sequence[str]:
        """Every patient, sorted."""

    def studies(self, patient: str) -> Sequence[RadiologyStudy]:
        """A patient's studies in order."""


def in_order(names: Iterable[str]) -> list[str]:
    """Section names in their usual order; unusual ones last, by name."""
    rank = {name: place for place, name in enumerate(SECTION_ORDER)}
    return sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name))
