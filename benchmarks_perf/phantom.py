"""How long a drawn chest X-ray takes: by size, against summing a grid of voxels along the rays.

    python benchmarks_perf/phantom.py

The plain way fills a grid with the body's ellipsoids as it stands before the detector and sums it. It leaves out
tubes (ribs, vessels, devices) and findings, which the exact one draws. Both run in this process; times are
processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from medunlearn.synthetic.phantom import Body, project, radiograph
from medunlearn.synthetic.phantom.shapes import FIELD_MM, Ellipsoid
from medunlearn.synthetic.radiology import InventedRadiology


def bodies(patients: int) -> list[Body]:
    source = InventedRadiology(patients, 4, 0)
    studies = [study for patient in source.patients() for study in source.studies(patient)]
    return [study.body for study in studies if study.body is not None]


def voxels(body: Body, angle: float, size: int) -> np.ndarray:
    """mm of water along each ray, by a grid with voxels as large as pixels."""
    pitch = FIELD_MM / size
    axis = (np.arange(size) + 0.5) * pitch - FIELD_MM / 2
    turn = np.deg2rad(angle + body.pose.turn)
    # The grid is filled as it lies before the detector: u along the columns, t along the rays.
    u, t = np.meshgrid(axis, axis, indexing="ij")
    x, y = u * np.cos(turn) - t * np.sin(turn), u * np.sin(turn) + t * np.cos(turn)

    def inside(part: Ellipsoid) -> np.ndarray:
        flat = ((x - part.center[0]) / part.radii[0]) ** 2 + ((y - part.center[1]) / part.radii[1]) ** 2
        return flat[None] + (((-axis - part.center[2]) / part.radii[2]) ** 2)[:, None, None] <= 1

    density = inside(body.torso).astype(np.float32)
    blocked = inside(body.heart)
    for side in ("right", "left"):
        density -= 0.75 * (inside(body.cavity(side)) & ~blocked & ~inside(body.dome(side)))
    for part in body.vertebrae:
        density += 0.6 * inside(part)
    density -= 0.9 * inside(body.trachea)
    return density.sum(axis=2) * pitch


def milliseconds(draw: Callable[[Body, float, int], object], body: Body, size: int, repeats: int) -> float:
    """Of one view at 15 degrees: the median."""
    draw(body, 15, size)
    found = []
    for _ in range(repeats):
        start = time.process_time()
        draw(body, 15, size)
        found.append(time.process_time() - start)
    return 1000 * float(np.median(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 224])
    options = parser.parse_args()
    found = bodies(4)
    plain = Body(found[0].anatomy, (), found[0].pose)
    for size in options.sizes:
        times = [milliseconds(radiograph, body, size, options.repeats) for body in found]
        grid = milliseconds(voxels, plain, size, max(1, options.repeats // 3))
        exact = milliseconds(project, plain, size, options.repeats)
        print(f"{size} px: a study {np.median(times):.0f} ms (slowest {max(times):.0f})")
        print(f"  projection alone {exact:.0f} ms, by voxels {grid:.0f} ms: {grid / exact:.0f} times as long")


if __name__ == "__main__":
    main()
