"""Ellipsoids and tubes, and path lengths of parallel rays through them.

The patient's frame: x to the patient's left, y to the front, z up, in mm, the origin in the middle of the chest. A
view at an angle has horizontal rays; its columns are u, its rows z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float32]
Points = NDArray[np.float64]
FIELD_MM = 400.0
"""Width and height of the detector."""


@dataclass(frozen=True)
class Projection:
    """A detector of ``size`` x ``size`` pixels, for a patient rotated by ``angle`` degrees about z.

    Only rows ``first`` to ``last`` are computed; by default all. At 0 degrees it is a frontal view: the patient's
    left is on the right of the image.

    Attributes:
        shift: offset (u, z) in mm of the patient from the detector's centre.
    """

    angle: float
    size: int
    shift: tuple[float, float] = (0.0, 0.0)
    first: int = 0
    last: int | None = None

    @cached_property
    def pixel(self) -> float:
        """Width of a pixel in mm."""
        return FIELD_MM / self.size

    @cached_property
    def along(self) -> Points:
        """Unit vector along a row of pixels, in the patient's frame [3]."""
        turn = np.deg2rad(self.angle)
        return np.array([np.cos(turn), np.sin(turn), 0.0])

    @cached_property
    def ray(self) -> Points:
        """Unit vector of the rays [3]."""
        turn = np.deg2rad(self.angle)
        return np.array([-np.sin(turn), np.cos(turn), 0.0])

    @cached_property
    def columns(self) -> Image:
        """u of each column in the patient's frame, mm [size]."""
        return ((np.arange(self.size) + 0.5) * self.pixel - FIELD_MM / 2 - self.shift[0]).astype(np.float32)

    @cached_property
    def rows(self) -> Image:
        """z of each computed row in mm; the first row is the highest."""
        down = (np.arange(self.size) + 0.5) * self.pixel - FIELD_MM / 2 + self.shift[1]
        return -down[self.first : self.last].astype(np.float32)


@dataclass(frozen=True)
class Extent:
    """Entry and exit of each ray through a convex shape, in mm along the ray [size, size]; exit < entry for a
    miss.
    """

    start: Image
    end: Image

    def length(self) -> Image:
        """Path length through the shape, mm."""
        way: Image = np.maximum(self.end - self.start, 0)
        return way

    def hull(self, other: Extent) -> Extent:
        """From first entry to last exit: the path through two overlapping shapes."""
        return Extent(np.minimum(self.start, other.start), np.maximum(self.end, other.end))

    def common(self, other: Extent) -> Image:
        """Path length through the intersection of both shapes, mm."""
        way: Image = np.minimum(self.end, other.end) - np.maximum(self.start, other.start)
        return np.maximum(way, 0, out=way)


@dataclass(frozen=True)
class Ellipsoid:
    """An ellipsoid with axes along x, y and z; all in mm."""

    center: tuple[float, float, float]
    radii: tuple[float, float, float]

    def span(self, view: Projection) -> Extent:
        """Entry and exit of the rays: |(u along + z up + t ray - center) / radii| = 1 solved for t."""
        radii = np.array(self.radii)
        ray, along = view.ray / radii, view.along / radii
        up, center = np.array([0.0, 0.0, 1.0]) / radii, np.array(self.center) / radii
        # Rays are horizontal, so the middle of the chord depends on the column alone.
        square = float(ray @ ray)
        middle = -(view.columns * float(ray @ along) - float(ray @ center)) / square
        flat = np.outer(view.columns, along) - center + np.outer(middle, ray)
        # Without z: what is left of 1 for the column; with it, for each pixel.
        column = 1 - flat[:, 0] ** 2 - flat[:, 1] ** 2
        row = (view.rows * up[2] - center[2]) ** 2
        rest = column[None, :].astype(np.float32) - row[:, None].astype(np.float32)
        half = np.sqrt(np.maximum(rest, 0) / np.float32(square))
        half[rest <= 0] = -np.inf
        middle = middle.astype(np.float32)[None, :]
        return Extent(middle - half, middle + half)

    def add_to(self, image: Image, view: Projection, density: float) -> None:
        """Add path length times density to an image, only in the ellipsoid's rows."""
        rows = np.flatnonzero(np.abs(view.rows - self.center[2]) < self.radii[2])
        if len(rows):
            strip = replace(view, first=int(rows[0]), last=int(rows[-1]) + 1)
            image[strip.first : strip.last] += density * self.span(strip).length()


@dataclass(frozen=True)
class Tube:
    """A thin round tube along points [n, 3], dense enough to form a line.

    Attributes:
        radius: radius of its cross-section in mm.
        density: density above its surroundings, relative to water.
    """

    points: Points
    radius: float
    density: float

    @cached_property
    def volumes(self) -> Points:
        """Extra mass at each point: half of the two adjacent segments times the cross-section [n]."""
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        lengths = np.zeros(len(self.points))
        lengths[:-1] += steps / 2
        lengths[1:] += steps / 2
        return lengths * np.pi * self.radius**2 * self.density


def line(corners: Sequence[Sequence[float]], step: float = 2.0) -> Points:
    """Points ``step`` mm apart along straight lines between corners."""
    points = [np.array(corners[:1], dtype=float)]
    for start, end in pairwise(corners):
        a, b = np.array(start, dtype=float), np.array(end, dtype=float)
        count = max(1, int(np.ceil(np.linalg.norm(b - a) / step)))
        points.append(a + (b - a) * (np.arange(1, count + 1) / count)[:, None])
    return np.concatenate(points)


def curve(corners: Sequence[Sequence[float]], step: float = 2.0) -> Points:
    """Points about ``step`` mm apart on a smooth curve through corners (Catmull-Rom)."""
    through = np.array([corners[0], *corners, corners[-1]], dtype=float)
    points = []
    for a, b, c, d in zip(through, through[1:], through[2:], through[3:], strict=False):
        t = np.linspace(0, 1, max(2, int(np.linalg.norm(c - b) / step)), endpoint=False)[:, None]
        points.append(b + t / 2 * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))))
    return np.concatenate([*points, through[-1:]])


def thickness(tubes: Sequence[Tube], view: Projection) -> Image:
    """Extra path length of all tubes, in mm of water [size, size]; preserves mass at any angle.

    Each point is distributed bilinearly to four pixels, then blurred to the tube's width.
    """
    total = np.zeros((view.size, view.size))
    for radius in sorted({tube.radius for tube in tubes}):
        same = [tube for tube in tubes if tube.radius == radius]
        points = np.concatenate([tube.points for tube in same])
        mass = np.concatenate([tube.volumes for tube in same]) / view.pixel**2
        blur = _blur(view.size, radius / view.pixel)
        total += blur @ _scatter(points, mass, view) @ blur.T
    return total.astype(np.float32)


def _scatter(points: Points, mass: Points, view: Projection) -> Points:
    column = (points @ view.along + view.shift[0] + FIELD_MM / 2) / view.pixel - 0.5
    row = (FIELD_MM / 2 - view.shift[1] - points[:, 2]) / view.pixel - 0.5
    first_column, first_row = np.floor(column).astype(int), np.floor(row).astype(int)
    image = np.zeros(view.size * view.size)
    for down in (0, 1):
        for right in (0, 1):
            x, y = first_column + right, first_row + down
            weight = np.abs(1 - right - (column - first_column)) * np.abs(1 - down - (row - first_row))
            inside = (x >= 0) & (x < view.size) & (y >= 0) & (y < view.size)
            image += np.bincount((y * view.size + x)[inside], (weight * mass)[inside], minlength=view.size**2)
    return image.reshape(view.size, view.size)


@lru_cache(maxsize=32)
def _blur(size: int, radius: float) -> Points:
    """A blur matrix for a column, with half the tube's radius as standard deviation."""
    distance = np.arange(size)[:, None] - np.arange(size)[None, :]
    kernel = np.exp(-0.5 * (distance / max(radius / 2, 0.35)) ** 2)
    weights: Points = kernel / kernel.sum(axis=0, keepdims=True)
    return weights
