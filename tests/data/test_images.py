"""Reading what users have as images, and never showing anything in place of what cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medunlearn.data.images import augmented, png, read_image, within
from medunlearn.errors import SourceError


@pytest.fixture
def grey() -> np.ndarray:
    return np.arange(48 * 64, dtype=np.uint32).reshape(48, 64).astype(np.uint16)


def test_png_and_jpeg_and_colour_are_read_as_grey(tmp_path: Path, grey: np.ndarray) -> None:
    low = (grey // 13).astype(np.uint8)
    Image.fromarray(low).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), low)
    Image.fromarray(low).convert("RGB").save(tmp_path / "b.jpg", quality=98)
    assert np.abs(read_image(tmp_path / "b.jpg").astype(int) - low).mean() < 3
    assert read_image(tmp_path / "a.png", 32).shape == (24, 32)


def test_sixteen_bits_are_scaled_not_cut(tmp_path: Path, grey: np.ndarray) -> None:
    Image.fromarray(grey).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    assert (found.min(), found.max()) == (0, 255)
    assert np.array_equal(found, np.round(grey / grey.max() * 255).astype(np.uint8))


@pytest.mark.parametrize("content", [b"", b"no image at all", b"\x89PNG\r\n\x1a\n cut off"])
def test_an_unreadable_image_is_an_error_that_names_its_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"broken\.png cannot be read"):
        read_image(path)


def test_half_an_image_is_an_error_and_so_is_none(tmp_path: Path, grey: np.ndarray) -> None:
    Image.fromarray((grey // 13).astype(np.uint8)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"a\.png cannot be read"):
        read_image(tmp_path / "a.png")
    with pytest.raises(SourceError, match="There is no image"):
        read_image(tmp_path / "none.png")


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_dicom_is_read_where_an_image_is_expected(tmp_path: Path, grey: np.ndarray, photometric: str) -> None:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    data = FileDataset(str(tmp_path / "a.png"), {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, "1.2.3"
    data.Rows, data.Columns = grey.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, photometric
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 16, 15, 0
    data.PixelData = grey.tobytes()
    data.save_as(tmp_path / "a.png", enforce_file_format=True)
    found = read_image(tmp_path / "a.png")
    straight = np.round(grey / grey.max() * 255).astype(np.uint8)
    assert np.array_equal(found, straight if photometric == "MONOCHROME2" else 255 - straight)


def test_a_broken_dicom_names_its_file(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    (tmp_path / "a.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\xff" * 40)
    with pytest.raises(SourceError, match=r"a\.dcm cannot be read"):
        read_image(tmp_path / "a.dcm")


def test_an_augmented_view_is_as_large_and_another(grey: np.ndarray) -> None:
    image = (np.sin(grey / 50.0) * 60 + 120).astype(np.uint8)
    found = [augmented(image, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert found[0].shape == image.shape
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert 2 < np.abs(found[0].astype(int) - image).mean() < 90


def test_the_same_image_gives_the_same_file(grey: np.ndarray) -> None:
    image = (grey // 13).astype(np.uint8)
    assert png(image) == png(image.copy())
    assert png(image)[:4] == b"\x89PNG"


def test_within_keeps_the_proportions() -> None:
    film = np.zeros((3056, 2544), dtype=np.uint8)
    small = within(film, 1_003_520)
    assert small.size <= 1_003_520 < 1.01 * small.size
    assert small.shape[0] / small.shape[1] == pytest.approx(3056 / 2544, rel=2e-3)
    assert within(small, small.size) is small
