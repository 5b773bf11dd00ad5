"""Radiology collections: patients, their dated studies, and the sections of each report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from medunlearn.data.data_use import DataUse

MASK = "___"
"""A word removed by de-identification, as MIMIC-CXR writes it; Open-i's ``XXXX`` becomes it."""

SECTION_ORDER = ("examination", "indication", "history", "technique", "comparison", "findings", "impression")


View = Literal["frontal", "lateral", "unknown"]
_FRONTAL = re.compile(r"PA\b|AP\b|POSTERO-?ANTERIOR|ANTERO-?POSTERIOR|FRONTAL")
_LATERAL = re.compile(r"(?:LEFT |RIGHT |XTABLE )?LATERAL|LL\b|RL\b|LAO\b|RAO\b|LPO\b|RPO\b|.*OBLIQUE|SWIMMERS")


def view_of(position: str) -> View:
    """View of a ViewPosition, or of a view code's meaning: ``PA``, ``AP AXIAL``, ``LL``, ``antero-posterior``."""
    name = position.strip().upper()
    return "frontal" if _FRONTAL.match(name) else "lateral" if _LATERAL.match(name) else "unknown"


@dataclass(frozen=True, slots=True)
class StudyImage:
    """A file of a study, with its ViewPosition in the source; empty if unknown."""

    path: Path
    position: str = ""

    @property
    def view(self) -> View:
        return view_of(self.position)


def frontal_first(images: Iterable[StudyImage]) -> tuple[StudyImage, ...]:
    """A study's images in display order: PA, AP, other frontal ones, unknown views, then all others.

    Images of equal rank keep their order.
    """
    views: Mapping[View, int] = {"frontal": 2, "unknown": 3, "lateral": 4}
    best = {"PA": 0, "AP": 1}

    return tuple(sorted(images, key=lambda image: best.get(image.position.upper(), views[image.view])))


@dataclass(frozen=True, slots=True)
class ShownView:
    """An image of a study as shown in questions: a file, or a phantom drawn at an angle.

    Attributes:
        position: ViewPosition; empty if unknown.
        path: None for a drawn image.
        angle: degrees from the front.
    """

    position: str
    path: Path | None = None
    angle: int = 0


DRAWN_FURTHER = (ShownView("LATERAL", angle=90), ShownView("OBLIQUE", angle=45), ShownView("OBLIQUE", angle=-45))
"""Views of a drawn body after the frontal one."""


def distinct_views(images: Iterable[StudyImage], count: int) -> tuple[StudyImage, ...]:
    """The first ``count`` images, with one of each view before a second of any view."""
    counts: Counter[View] = Counter()
    ranked: list[tuple[int, StudyImage]] = []
    for image in images:
        ranked.append((counts[image.view], image))
        counts[image.view] += 1
    return tuple(image for _, image in sorted(ranked, key=lambda entry: entry[0])[:count])


@dataclass(frozen=True)
class RadiologyStudy:
    """One visit: its images, if any, and the sections of its report.

    Attributes:
        patient, study: ids of the source.
        sections: name -> text.
        images: image files, the first one to show first; empty without files.
        missing: why the view to show is missing from ``images``; empty if it is there.
        body: ``synthetic.phantom.Body`` from which the image is drawn; None for an image in a file.
        institution: of the source; None if unknown.
        labels: findings that the source labelled, by name.
    """

    patient: str
    study: str
    sections: Mapping[str, str] = field(repr=False)
    images: tuple[StudyImage, ...] = ()
    missing: str = ""
    body: Any = field(default=None, repr=False)
    institution: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def views(self, count: int = 1) -> tuple[ShownView, ...]:
        """Images to show, at most ``count``; empty without images."""
        if self.images:
            return tuple(ShownView(image.position, image.path) for image in distinct_views(self.images, count))
        return () if self.body is None else (ShownView(str(self.body.position)), *DRAWN_FURTHER)[:count]

    @property
    def shown(self) -> bool:
        """True if there is an image to show."""
        return bool(self.images) or self.body is not None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An item that a reader or a rule excluded.

    Attributes:
        what: ``study``, ``patient`` or ``row``.
        id: of the source.
        reason: one sentence without report text.
    """

    what: Literal["study", "patient", "row"]
    id: str
    reason: str


class RadiologySource(Protocol):
    """A collection of radiology studies, read patient by patient.

    Attributes:
        name: prefix of every question's provenance.
        source: one line for the manifest.
        licence: of the data, as hubs call it; empty if unknown.
        data_use: recorded or known data use; None if unknown.
        has_images: a source without images is built as text only.
        composed: patients are composed of several people's studies.
        excluded: items that could not be read; grows during reading.
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
