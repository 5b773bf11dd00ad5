"""Normal chest anatomy, drawn once per patient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from medunlearn.synthetic.phantom.shapes import Ellipsoid, Points, Tube, line
from medunlearn.synthetic.studies import CHEST_WIDTH_MM

_RIBS = 9
_VESSELS = 22
BONE = 0.9
"""Density of ribs above that of water, in densities of water."""


@dataclass(frozen=True)
class Anatomy:
    """A healthy chest. Lengths in mm.

    Attributes:
        heart: width of the heart; below half of the chest's inner width.
        lung_height: height of the lungs at normal inspiration, from apex to base.
        depth: half of the chest's depth, skin to skin.
        fat: distance from ribs to skin at the sides.
        spine_curve: lateral deviation of the spine.
        rib_distance: distance between neighbouring ribs.
        rib_slope: descent of a rib from back to front.
        breast: radius of a woman's breasts; 0 for a man.
        seed: seed of the position of this patient's findings within their zones, equal in all studies.
        vessels: branches of lung vessels, each a line of points [n, 3].
    """

    heart: float
    lung_height: float
    depth: float
    fat: float
    spine_curve: float
    rib_distance: float
    rib_slope: float
    breast: float
    seed: int
    vessels: tuple[Points, ...]

    @cached_property
    def bones(self) -> tuple[Tube, ...]:
        """Ribs and clavicles."""
        ribs = [self._rib(number, side) for number in range(_RIBS) for side in (-1, 1)]
        clavicles = [
            Tube(line([(side * 15, 70, 118), (side * 85, 60, 132), (side * 150, 15, 142)]), 5.0, BONE)
            for side in (-1, 1)
        ]
        return (*ribs, *clavicles)

    @cached_property
    def markings(self) -> tuple[Tube, ...]:
        """Vessels of the lungs."""
        return tuple(Tube(points, 1.6, 0.8) for points in self.vessels)

    @cached_property
    def mediastinum(self) -> tuple[Ellipsoid, ...]:
        """The mediastinum beside the heart: vessels above it, the arch of the aorta, both hila."""
        hila = (Ellipsoid((side * 36, 0, 2 - 6 * side), (15, 14, 26)) for side in (-1, 1))
        return (
            Ellipsoid((0, 0, 30), (31, 46, 128)),
            Ellipsoid((24, 2, 62), (21, 26, 24)),
            *hila,
        )

    @cached_property
    def soft_tissue(self) -> tuple[Ellipsoid, ...]:
        """Shoulders, neck and breasts: soft tissue outside of the torso."""
        shoulders = (Ellipsoid((side * 150, -8, 152), (78, 52, 62)) for side in (-1, 1))
        size = self.breast
        breasts = (
            Ellipsoid((side * 82, 0.8 * self.depth, -62), (size, 0.3 * size, 0.85 * size)) for side in (-1, 1)
        )
        return (Ellipsoid((0, -4, 212), (62, 60, 92)), *shoulders, *(breasts if size else ()))

    def _rib(self, number: int, side: int) -> Tube:
        turn = np.linspace(0.2, 2.3, 70)
        height = 120 - number * self.rib_distance
        wide = np.sqrt(max(0.25, 1 - (max(height, 0) / 175) ** 2))
        x = side * (CHEST_WIDTH_MM / 2 + 3) * wide * np.sin(turn)
        y = -(self.depth - 14) * wide * np.cos(turn)
        z = height - self.rib_slope * (turn - 0.2) / 2.1
        return Tube(np.stack([x, y, z], axis=1), 4.0, BONE)


def invent_anatomy(rng: np.random.Generator, *, woman: bool = False) -> Anatomy:
    """A random chest, different for every patient."""
    return Anatomy(
        heart=float(rng.uniform(118, 146)),
        lung_height=float(rng.uniform(248, 278)),
        depth=float(rng.uniform(102, 126)),
        fat=float(rng.uniform(14, 32)),
        spine_curve=float(rng.uniform(-9, 9)),
        rib_distance=float(rng.uniform(24, 29)),
        rib_slope=float(rng.uniform(34, 62)),
        breast=float(rng.uniform(48, 72)) if woman else 0.0,
        seed=int(rng.integers(2**62)),
        vessels=tuple(_vessel(rng) for _ in range(_VESSELS)),
    )


def _vessel(rng: np.random.Generator) -> Points:
    side = -1.0 if rng.random() < 0.5 else 1.0
    start = np.array([side * 28, rng.uniform(-20, 20), rng.uniform(-15, 20)])
    turn = rng.uniform(-1.1, 1.1)
    end = start + np.array([side * 85 * np.cos(turn), rng.uniform(-35, 35), 85 * np.sin(turn)])
    bend = (start + end) / 2 + rng.uniform(-8, 8, size=3)
    return line([start.tolist(), bend.tolist(), end.tolist()], step=3.0)
