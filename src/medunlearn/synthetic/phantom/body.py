"""A patient at one study: anatomy, findings and pose, as shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from medunlearn.synthetic.phantom.anatomy import Anatomy
from medunlearn.synthetic.phantom.shapes import Ellipsoid
from medunlearn.synthetic.studies import CHEST_WIDTH_MM, ChestFinding, FindingKind, Laterality

LungSide = Literal["left", "right"]
LUNG_SIDES: tuple[LungSide, LungSide] = ("right", "left")
BASE = -112.0
"""z of the costophrenic angles, from which the depth of an effusion counts."""


@dataclass(frozen=True)
class Pose:
    """A patient's position and breathing.

    Attributes:
        breath: height of the lungs relative to normal.
        turn: unintended rotation in degrees.
        shift: offset (u, z) from the centre, mm.
        seed: seed of the quantum noise.
    """

    breath: float
    turn: float
    shift: tuple[float, float]
    seed: int


def invent_pose(rng: np.random.Generator) -> Pose:
    """A random pose with small deviations, so that no two studies are equal."""
    return Pose(
        breath=float(rng.uniform(0.96, 1.04)),
        turn=float(rng.uniform(-1.5, 1.5)),
        shift=(float(rng.uniform(-6, 6)), float(rng.uniform(16, 28))),
        seed=int(rng.integers(2**62)),
    )


@dataclass(frozen=True)
class Exposure:
    """Exposure of a radiograph, shown on its label.

    Attributes:
        position: ``ERECT``, ``SUPINE`` or ``PORTABLE``; the first is a PA view, the others are AP.
        time: time of day, ``14:32``.
        kilovolts: tube voltage; higher values make bones and metal fainter.
        milliampere_seconds: tube charge; lower values increase noise.
    """

    position: str
    time: str
    kilovolts: int
    milliampere_seconds: float

    @property
    def view(self) -> str:
        """ViewPosition."""
        return "PA" if self.position == "ERECT" else "AP"

    @property
    def lines(self) -> tuple[str, str]:
        """Text of the film's label."""
        return f"{self.time} {self.position}", f"{self.kilovolts}KV {self.milliampere_seconds:.1f}MAS"


@dataclass(frozen=True)
class Body:
    """Everything between source and detector; without an exposure at 100 kV, on an unlabelled film."""

    anatomy: Anatomy
    findings: tuple[ChestFinding, ...]
    pose: Pose
    exposure: Exposure | None = None

    @property
    def position(self) -> str:
        """ViewPosition of its image at 0 degrees; empty without an exposure."""
        return "" if self.exposure is None else self.exposure.view

    def finding(self, kind: FindingKind, side: Laterality) -> ChestFinding | None:
        """The finding of that kind on that side."""
        return next(
            (finding for finding in self.findings if finding.kind == kind and finding.laterality == side), None
        )

    @property
    def heart_width(self) -> float:
        """Width of the heart in mm; that of the report if the heart is enlarged."""
        enlarged = self.finding("cardiomegaly", "central")
        return float(enlarged.size_mm) if enlarged is not None and enlarged.size_mm else self.anatomy.heart

    @cached_property
    def torso(self) -> Ellipsoid:
        return Ellipsoid((0, 0, -60), (CHEST_WIDTH_MM / 2 + self.anatomy.fat, self.anatomy.depth, 420))

    @cached_property
    def heart(self) -> Ellipsoid:
        width = self.heart_width
        return Ellipsoid((0.13 * width, 28, -48), (width / 2, 0.36 * width, 0.3 * width + 18))

    def cavity(self, side: LungSide) -> Ellipsoid:
        """The space of a lung, with height by inspiration and a fixed base."""
        toward = -1 if side == "right" else 1
        half = self.anatomy.lung_height * self.pose.breath / 2
        width = 72.0 if side == "right" else 69.0
        center = toward * (CHEST_WIDTH_MM / 2 - 5 - width)
        return Ellipsoid((center, -6, half - 134), (width, self.anatomy.depth - 26, half))

    def dome(self, side: LungSide) -> Ellipsoid:
        """The half of the diaphragm below a lung, and the tissue under it."""
        cavity = self.cavity(side)
        top = -80.0 if side == "right" else -90.0
        return Ellipsoid((cavity.center[0] * 0.94, 2, top - 62), (73, 0.92 * cavity.radii[1], 62))

    @cached_property
    def stomach(self) -> Ellipsoid:
        """Gastric air bubble below the left half of the diaphragm."""
        return Ellipsoid((62, 14, -122), (25, 26, 13))

    def collapsed(self, side: LungSide) -> Ellipsoid | None:
        """A collapsed lung, detached from the chest wall at apex and side; None without a pneumothorax."""
        pneumothorax = self.finding("pneumothorax", side)
        if pneumothorax is None or pneumothorax.size_mm is None:
            return None
        gap = float(pneumothorax.size_mm)
        (x, y, z), (width, depth, height) = (cavity := self.cavity(side)).center, cavity.radii
        inward = gap / 2 if side == "right" else -gap / 2
        return Ellipsoid((x + inward, y, z - gap / 2), (width - gap / 2, depth - 2, height - gap / 2))

    @cached_property
    def vertebrae(self) -> tuple[Ellipsoid, ...]:
        heights = np.arange(11) * 27.0 - 140
        sway = self.anatomy.spine_curve * np.sin((heights + 140) / 270 * np.pi)
        back = -self.anatomy.depth + 34
        return tuple(
            Ellipsoid((float(x), back, float(z)), (18, 17, 11.5)) for x, z in zip(sway, heights, strict=True)
        )

    @cached_property
    def trachea(self) -> Ellipsoid:
        return Ellipsoid((-2, 4, 120), (8, 8, 62))
