"""Places of names beside points: near their point, off other points, intervals and names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DIRECTIONS = 16
RADII = (16.0, 26.0, 38.0, 54.0, 74.0, 98.0, 128.0)
POINT, WHISKER, NAME, LEADER = 8.0, 1.5, 20.0, 8.0
"""Cost of a covered pixel of a point, an interval, another name, and a line to one."""
_RING, _CROSSING, _OUTSIDE = 30.0, 150.0, 1e6
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Label:
    """Middle of a name; ``apart`` if it needs a line from its point to ``edge``."""

    x: float
    y: float
    apart: bool = False
    edge: tuple[float, float] = (0.0, 0.0)


def place_labels(
    points: Sequence[tuple[float, float, float]], whiskers: Sequence[Box], room: Box, size: float
) -> list[Label]:
    """A place for the name of every point, the first points choosing first.

    Args:
        points: x, y, and width of the name.
        whiskers: boxes of intervals.
        room: box that names stay within.
        size: height of the letters.
    """
    blocked = [(_box(x, y, 16, 16), POINT) for x, y, _ in points] + [(box, WHISKER) for box in whiskers]
    labels: list[Label] = []
    taken: list[Box] = []
    for x, y, width in points:
        best: tuple[float, Label, Box] | None = None
        for ring, dx, dy in _candidates(width):
            box = _box(x + dx, y + dy, width, 1.3 * size)
            cost = _RING * ring + sum(_overlap(box, other) * weight for other, weight in blocked)
            cost += 0.0 if _is_inside(box, room) else _OUTSIDE
            if ring:
                steps = (_box(x + dx * share, y + dy * share, 5, 5) for share in (0.25, 0.4, 0.55, 0.7))
                cost += _CROSSING * sum(any(_overlap(step, other) for other in taken) for step in steps)
            if best is None or cost < best[0]:
                best = cost, Label(x + dx, y + dy, ring > 0, _edge(box, x, y)), box
        assert best is not None
        _, label, box = best
        labels.append(label)
        taken.append(box)
        blocked.append((box, NAME))
        if label.apart:
            shares = (0.25, 0.4, 0.55, 0.7)
            line = [_box(x + (label.x - x) * share, y + (label.y - y) * share, 5, 5) for share in shares]
            blocked += [(step, LEADER) for step in line]
    return labels


def _candidates(width: float) -> Iterator[tuple[int, float, float]]:
    for ring, radius in enumerate(RADII):
        for number in range(DIRECTIONS):
            angle = 2 * math.pi * number / DIRECTIONS
            side = abs(math.cos(angle))
            yield ring, math.cos(angle) * (radius + (width / 2 - 6) * side), -math.sin(angle) * radius


def _box(x: float, y: float, width: float, height: float) -> Box:
    return (x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _is_inside(box: Box, room: Box) -> bool:
    return box[0] >= room[0] + 2 and box[1] >= room[1] and box[2] <= room[2] and box[3] <= room[3]


def _edge(box: Box, x: float, y: float) -> tuple[float, float]:
    """The point of a box that is nearest to a point."""
    return (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
