"""Image controls: swapped, blank or edited images, to test whether answers need the right image."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.dicom_images import Pixels
from medunlearn.data.images import png, read_image
from medunlearn.data.records import Fold, Images, with_images
from medunlearn.data.storage import make_folder, sha256_of_json, write_bytes
from medunlearn.errors import InputError
from medunlearn.seeds import generator

ImageControl = Literal["swapped", "blank"]
CONTROLS: tuple[ImageControl, ...] = ("swapped", "blank")
_GREY = 128
CROPPED, NOISE = 0.7, 64
"""Share of each side that a cropped image keeps; standard deviation of the noise, in steps of 256."""


def with_swapped_images(benchmark: Benchmark, seed: int) -> Benchmark:
    """Give every record the images of another subject of its fold; records that share images still share them.

    Raises:
        InputError: more than half of a fold's images belong to one subject, so others are too few.
    """
    owners: dict[Fold, dict[Images, str]] = defaultdict(dict)
    for record in benchmark.records:
        if record.images:
            owners[record.fold].setdefault(record.images, benchmark.subject(record.record_id))
    swaps = {fold: _swap_images(images, generator("swapped images", seed, fold)) for fold, images in owners.items()}
    records = [
        with_images(record, swaps[record.fold][record.images]) if record.images else record
        for record in benchmark.records
    ]
    return replace(benchmark, records=tuple(records))


def with_blank_images(benchmark: Benchmark, folder: Path) -> Benchmark:
    """Give every record a uniform grey image of the same size; the files are written into a folder."""
    blanks: dict[str, str] = {}
    make_folder(folder)
    for image in dict.fromkeys(image for record in benchmark.records for image in record.images):
        height, width = read_image((benchmark.folder or Path()) / image).shape[:2]
        path = folder.resolve() / f"blank-{width}x{height}.png"
        if not path.exists():
            write_bytes(path, png(np.full((height, width), _GREY, dtype=np.uint8)))
        blanks[image] = str(path)
    records = [with_images(record, tuple(blanks[image] for image in record.images)) for record in benchmark.records]
    return replace(benchmark, records=tuple(records))


def with_edited_images(
    benchmark: Benchmark, edit: str, records: Collection[str], folder: Path, seed: int
) -> Benchmark:
    """Give some records their own images after one of the :data:`EDITS`; the files are written into a folder."""
    make_folder(folder)
    edited: dict[str, str] = {}
    own = [benchmark.record[name] for name in records]
    for image in dict.fromkeys(image for record in own for image in record.images):
        path = folder.resolve() / f"{edit}-{sha256_of_json(image)[:16]}.png"
        pixels = read_image((benchmark.folder or Path()) / image)
        write_bytes(path, png(EDITS[edit](pixels, generator("edited images", seed, edit, image))))
        edited[image] = str(path)
    changed = {
        record.record_id: with_images(record, tuple(edited[image] for image in record.images)) for record in own
    }
    return replace(benchmark, records=tuple(changed.get(record.record_id, record) for record in benchmark.records))


def _turn(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    return np.ascontiguousarray(np.rot90(pixels, 2))


def _crop(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    height, width = pixels.shape[:2]
    high, wide = (max(1, round(CROPPED * length)) for length in (height, width))
    top, left = (height - high) // 2, (width - wide) // 2
    middle = Image.fromarray(pixels[top : top + high, left : left + wide])
    return np.asarray(middle.resize((width, height)), dtype=np.uint8)


def _add_noise(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    noisy = pixels.astype(float) + rng.normal(0.0, NOISE, pixels.shape)
    view: Pixels = np.clip(np.round(noisy), 0, 255).astype(np.uint8)
    return view


EDITS: Mapping[str, Callable[[Pixels, np.random.Generator], Pixels]] = {
    "turned": _turn,
    "cropped": _crop,
    "noised": _add_noise,
}
"""Name of an edit -> the image upside down, its middle enlarged to its size, or with Gaussian noise."""


def _swap_images(owners: Mapping[Images, str], rng: np.random.Generator) -> dict[Images, Images]:
    """Images -> another subject's: subjects are shuffled, and images shifted by the largest subject's number of
    images.
    """
    of_subject: dict[str, list[Images]] = defaultdict(list)
    for image, subject in sorted(owners.items()):
        of_subject[subject].append(image)
    groups: Sequence[list[Images]] = [of_subject[name] for name in sorted(of_subject)]
    order = [image for place in rng.permutation(len(groups)).tolist() for image in groups[place]]
    step = max(map(len, groups))
    if 2 * step > len(order):
        raise InputError(
            f"An image control swaps images between patients, and {step} of {len(order)} images are one patient's. "
            "Build the benchmark with more patients."
        )
    return {image: order[(place + step) % len(order)] for place, image in enumerate(order)}
