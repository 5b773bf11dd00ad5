"""Findings as shapes with position and density.

Source of the sizes: the report's own findings (:class:`~medunlearn.synthetic.studies.ChestFinding`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medunlearn.synthetic.phantom.body import Body, LungSide
from medunlearn.synthetic.phantom.shapes import Ellipsoid, Tube, curve, line
from medunlearn.synthetic.studies import ChestFinding, Zone

_HEIGHTS: Mapping[Zone, float] = {"upper": 62.0, "middle": 2.0, "lower": -56.0}
_PLACES = ("nodule", "opacity")
METAL, PLASTIC = 22.0, 12.0
"""Densities of devices above that of water, in densities of water (plastic lines are made to be seen)."""


def nodule(body: Body, finding: ChestFinding, side: LungSide) -> Ellipsoid:
    """A ball of the reported diameter."""
    radius = float(finding.size_mm or 0) / 2
    return Ellipsoid(_place(body, finding, side, radius), (radius, radius, radius))


def opacity(body: Body, finding: ChestFinding, side: LungSide) -> tuple[Ellipsoid, ...]:
    """An uneven cloud, as wide as reported: a large ellipsoid and smaller ones within."""
    radius = float(finding.size_mm or 0) / 2
    x, y, z = _place(body, finding, side, radius)
    rng = np.random.default_rng([body.anatomy.seed, 1])
    parts = [Ellipsoid((x, y, z), (radius, 0.8 * radius, 0.75 * radius))]
    for _ in range(8):
        dx, dy, dz = (float(part) for part in rng.uniform(-0.6, 0.6, size=3) * radius)
        lobe = float(rng.uniform(0.25, 0.5)) * radius
        parts.append(Ellipsoid((x + dx, y + dy, z + dz), (lobe, lobe, lobe)))
    return tuple(parts)


def device(finding: ChestFinding) -> tuple[Tube, ...]:
    """Tubes of a device on its side."""
    toward = -1.0 if finding.laterality == "right" else 1.0
    match finding.device:
        case "pacemaker":
            lead = [(toward * 96, 60, 106), (toward * 52, 46, 122), (toward * 18, 40, 104), (-16, 30, 66)]
            ends = ([(-20, 30, 6), (4, 38, -54), (44, 44, -78)], [(-24, 34, 26), (-36, 44, -2), (-24, 48, 8)])
            return (*_case(toward * 112, 64, 88, 23, 19), *(Tube(curve([*lead, *end]), 1.5, METAL) for end in ends))
        case "central venous line":
            way = [
                (toward * 44, 30, 190),
                (toward * 36, 30, 150),
                (toward * 22, 34, 108),
                (-14, 30, 78),
                (-19, 28, 12),
            ]
            return (Tube(curve(way), 2.0, PLASTIC),)
        case "chest drain":
            way = [(toward * 196, 10, -96), (toward * 150, 4, -58), (toward * 122, -4, 0), (toward * 92, -8, 66)]
            return (Tube(curve(way), 4.0, PLASTIC / 2),)
        case "port catheter":
            way = [
                (toward * 84, 66, 56),
                (toward * 80, 60, 104),
                (toward * 46, 46, 126),
                (-14, 34, 88),
                (-18, 28, 2),
            ]
            return (*_ring(toward * 84, 68, 56, 13), Tube(curve(way), 2.0, PLASTIC))
    raise ValueError(f"there is no drawing of the device {finding.device!r}")


def _case(x: float, y: float, z: float, wide: float, high: float) -> tuple[Tube, ...]:
    """A flat metal case with rounded corners, as a stack of bars."""
    steps = np.arange(-high, high + 1, 1.5)
    halves = wide * np.sqrt(np.sqrt(np.maximum(1 - (steps / high) ** 4, 0.06)))
    bars = (
        line([(x - half, y, z + dz), (x + half, y, z + dz)], step=1.0)
        for dz, half in zip(steps, halves, strict=True)
    )
    return tuple(Tube(bar, 4.0, METAL / 8) for bar in bars)


def _ring(x: float, y: float, z: float, radius: float) -> tuple[Tube, ...]:
    """A port's chamber: a disc with a dense rim."""
    turn = np.linspace(0, 2 * np.pi, 60)
    rims = (
        Tube(np.stack([x + r * np.cos(turn), np.full(60, y), z + r * np.sin(turn)], axis=1), 1.8, METAL / weaker)
        for r, weaker in ((radius, 1), (0.66 * radius, 2), (0.33 * radius, 2))
    )
    return tuple(rims)


def _place(body: Body, finding: ChestFinding, side: LungSide, radius: float) -> tuple[float, float, float]:
    """A random position in the finding's zone of its lung, away from the edges and the heart."""
    rng = np.random.default_rng([body.anatomy.seed, _PLACES.index(finding.kind)])
    lung = body.cavity(side)
    outward = -1.0 if side == "right" else 1.0
    free = max(lung.radii[0] - 14 - radius, 2.0)
    across = 0.35 * free + float(rng.uniform(-0.25, 0.4)) * free
    depth = float(rng.uniform(-0.35, 0.35)) * max(lung.radii[1] - radius, 4.0)
    height = _HEIGHTS[finding.zone] + float(rng.uniform(-9, 9))
    return (lung.center[0] + outward * across, lung.center[1] + depth, height)
