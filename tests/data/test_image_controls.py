"""A benchmark with other images: another patient's, and blank ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.image_controls import with_blank_images, with_swapped_images
from medunlearn.data.images import png, read_image
from medunlearn.data.records import Record
from medunlearn.errors import InputError


def ward(folder: Path, images: dict[str, int]) -> Benchmark:
    """Patients with so many images each, two records an image, and one record without."""
    records = []
    for patient, count in images.items():
        for number in range(count):
            name = f"{patient}{number}.png"
            (folder / name).write_bytes(png(np.full((6 + number, 8), 40, dtype=np.uint8)))
            records += [Record(f"{name}-{part}", "x", {"patient": patient}, image=name) for part in "ab"]
    records.append(Record("text", "x", {"patient": "p"}))
    return Benchmark(
        name="w",
        builder="medforget",
        levels=("patient",),
        subject_level="patient",
        records=tuple(records),
        questions=(),
        splits={},
        seed=0,
        source="t",
        folder=folder,
    )


@pytest.mark.parametrize("seed", range(5))
def test_swapped_images_are_all_used_and_all_of_another_patient(tmp_path: Path, seed: int) -> None:
    own = ward(tmp_path, {"p": 3, "q": 1, "r": 2, "s": 2})
    other = with_swapped_images(own, seed)
    images = {record.record_id: record.image for record in other.records}
    for record in own.records:
        if record.image is None:
            assert images[record.record_id] is None
        else:
            assert str(images[record.record_id])[0] != record.image[0]
            assert images[record.record_id] == images[f"{record.image}-a"]
    assert {r.image for r in other.records} == {r.image for r in own.records}
    assert with_swapped_images(own, seed) == other


def test_images_shown_together_are_swapped_and_blanked_together(tmp_path: Path) -> None:
    ward(tmp_path, {"p": 2, "q": 2, "r": 2})
    records = [Record(p, "x", {"patient": p}, image=f"{p}0.png", further_images=(f"{p}1.png",)) for p in "pqr"]
    own = replace(ward(tmp_path, {}), records=tuple(records))
    swapped = [record.images for record in with_swapped_images(own, 0).records]
    assert sorted(swapped) == [record.images for record in records]
    assert all(images != record.images for images, record in zip(swapped, records, strict=True))
    blank = with_blank_images(own, tmp_path / "blank").records
    for before, after in zip(records, blank, strict=True):
        sizes = [[read_image(tmp_path / image).shape for image in record.images] for record in (before, after)]
        assert sizes[0] == sizes[1]


def test_a_patient_with_most_images_cannot_be_swapped(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 of 5 images are one patient's"):
        with_swapped_images(ward(tmp_path, {"p": 3, "q": 2}), 0)


def test_blank_images_are_as_large_and_even(tmp_path: Path) -> None:
    own = ward(tmp_path, {"p": 2, "q": 1})
    blank = with_blank_images(own, tmp_path / "run" / "blank")
    for before, after in zip(own.records, blank.records, strict=True):
        if before.image is None:
            assert after.image is None
        else:
            pixels = read_image(Path(str(after.image)))
            assert pixels.shape == read_image(tmp_path / before.image).shape
            assert set(np.unique(pixels)) == {128}
    assert len(list((tmp_path / "run" / "blank").iterdir())) == 2
