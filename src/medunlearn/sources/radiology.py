"""What readers of radiology collections give: patients, each with dated studies, each with a report's sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from medunlearn.synthetic.phantom import Body

MASK = "___"
"""A word that was removed when a report was de-identified, as MIMIC-CXR writes it; Open-i's ``XXXX`` becomes it."""


@dataclass(frozen=True)
class RadiologyStudy:
    """One visit: an image or none, and the sections of its report.

    Attributes:
        patient, study: as the source calls them.
        sections: name (:data:`~medunlearn.sources.sections.STANDARD` first) -> text.
        image: file of the view to show; None where there is none, or where it is drawn.
        body: what the image is drawn from; None for an image in a file.
        institution: as the source calls it; None where it does not say.
        labels: findings that the source labelled, by name.
    """

    patient: str
    study: str
    sections: Mapping[str, str] = field(repr=False)
    image: Path | None = None
    body: Body | None = field(default=None, repr=False)
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
        id: as the source calls it.
        reason: one sentence without a word of the report.
    """

    what: Literal["study", "patient", "row"]
    id: str
    reason: str


class RadiologySource(Protocol):
    """A collection, read patient by patient so that a large one need not be read to its end.

    Attributes:
        name: in front of every question's provenance.
        source: one line for the manifest.
        licence: of the data, as hubs call it; empty where nobody said.
        data_use: credentialed data stay on this machine.
        has_images: a source without any is built as text alone.
        composed: whether patients were put together from several people's studies.
        excluded: what could not be read; grows while it is read.
    """

    name: str
    source: str
    licence: str
    data_use: Literal["open", "credentialed"]
    has_images: bool
    composed: bool
    excluded: list[Exclusion]

    def patients(self) -> Sequence[str]:
        """Every patient, sorted."""

    def studies(self, patient: str) -> Sequence[RadiologyStudy]:
        """A patient's studies in order."""
