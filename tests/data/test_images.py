"""Reading what users have as images, and never showing anything in place of what cannot be read."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medunlearn.data.images import augment, image_problem, image_size, png, read_image, within
from medunlearn.errors import SourceError


@pytest.fixture
def grey() -> np.ndarray:
    return np.arange(48 * 64, dtype=np.uint32).reshape(48, 64).astype(np.uint16)


def test_grey_files_and_colour_files_without_colour_are_grey(tmp_path: Path, grey: np.ndarray) -> None:
    low = (grey // 13).astype(np.uint8)
    Image.fromarray(low).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), low)
    Image.fromarray(low).convert("RGB").save(tmp_path / "b.jpg", quality=98)
    assert np.abs(read_image(tmp_path / "b.jpg").astype(int) - low).mean() < 3
    assert read_image(tmp_path / "a.png", 32).shape == (24, 32)


def test_sixteen_bits_are_scaled_not_cut(tmp_path: Path, grey: np.ndarray) -> None:
    Image.fromarray(grey).save(tmp_path / "a.png")
    pixels = read_image(tmp_path / "a.png")
    assert (pixels.min(), pixels.max()) == (0, 255)
    low, high = np.quantile(grey, (0.001, 0.999))
    assert np.array_equal(pixels, np.round(np.clip((grey - low) / (high - low), 0, 1) * 255).astype(np.uint8))
    # A burnt-in mark of the largest value leaves the rest its contrast: 12 bits in 16.
    marked = grey.copy()
    marked[0, :2] = 65535
    Image.fromarray(marked).save(tmp_path / "b.png")
    assert np.abs(read_image(tmp_path / "b.png").astype(int) - pixels)[1:].max() < 2


@pytest.fixture
def stained() -> np.ndarray:
    """Pink on blue, as histology is: two colours of nearly the same lightness."""
    colours = np.empty((24, 32, 3), dtype=np.uint8)
    colours[:, :16], colours[:, 16:] = (220, 90, 140), (80, 130, 235)
    return colours


@pytest.mark.parametrize("suffix", ["png", "tif", "jpg", "gif"])
def test_colour_is_kept_whatever_the_file(tmp_path: Path, stained: np.ndarray, suffix: str) -> None:
    Image.fromarray(stained).save(tmp_path / f"a.{suffix}")
    pixels = read_image(tmp_path / f"a.{suffix}")
    assert pixels.shape == stained.shape
    assert np.abs(pixels.astype(int) - stained)[:, [2, 29]].max() < 6
    assert read_image(tmp_path / f"a.{suffix}", 16).shape == (12, 16, 3)


def test_palettes_transparency_cmyk_and_turned_photos(tmp_path: Path, stained: np.ndarray) -> None:
    image = Image.fromarray(stained)
    palette = image.quantize(2)
    palette.save(tmp_path / "palette.png")
    assert np.abs(read_image(tmp_path / "palette.png").astype(int) - stained).max() < 4
    # Of the first colour nothing is seen: the page is white there.
    clear = palette.getpixel((0, 0))
    palette.save(tmp_path / "clear.png", transparency=bytes(0 if place == clear else 255 for place in range(2)))
    on_white = read_image(tmp_path / "clear.png")
    assert (on_white[:, 0] == 255).all()
    assert np.abs(on_white[:, 20].astype(int) - stained[:, 20]).max() < 4
    image.convert("CMYK").save(tmp_path / "print.tif")
    assert np.abs(read_image(tmp_path / "print.tif").astype(int) - stained).max() < 4
    upside_down = Image.Exif()
    upside_down[0x0112] = 3
    image.save(tmp_path / "photo.png", exif=upside_down)
    assert np.array_equal(read_image(tmp_path / "photo.png"), stained[::-1, ::-1])
    assert image_size(tmp_path / "photo.png") == (32, 24)
    on_its_side = Image.Exif()
    on_its_side[0x0112] = 6
    for name in ("photo.jpg", "photo.png", "photo.tif"):
        image.save(tmp_path / name, exif=on_its_side)
        assert read_image(tmp_path / name).shape == (32, 24, 3)
        assert image_size(tmp_path / name) == (24, 32)


def test_deep_colour_that_would_be_black_is_refused(tmp_path: Path) -> None:
    values = np.full((4, 4, 3), 900, dtype=">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    (tmp_path / "deep.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(SourceError, match="save it with 8 bits"):
        read_image(tmp_path / "deep.png")


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
    assert image_problem(tmp_path / "a.png") == "its image cannot be read to its end"
    assert image_problem(tmp_path / "none.png") == "its image is not there"
    with pytest.raises(SourceError, match="There is no image"):
        read_image(tmp_path / "none.png")


def write_dicom(path: Path, values: np.ndarray, photometric: str, **tags: object) -> None:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, "1.2.3"
    data.Rows, data.Columns = values.shape[:2]
    data.SamplesPerPixel, data.PhotometricInterpretation = values.ndim * 2 - 3, photometric
    data.PlanarConfiguration = 0
    bits = 8 * values.itemsize
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = bits, bits, bits - 1, 0
    data.PixelData = values.tobytes()
    for tag, value in tags.items():
        setattr(data, tag, value)
    data.save_as(path, enforce_file_format=True)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_dicom_is_read_where_an_image_is_expected(tmp_path: Path, grey: np.ndarray, photometric: str) -> None:
    path = tmp_path / "a.png"
    # Its own window, and without one the range of its values.
    write_dicom(path, grey, photometric, WindowCenter=[1000, 40], WindowWidth=[1200, 400])
    # PS3.3, C.11.2.1.2.1: the window's centre is half a value lower, and its width one less.
    straight = np.round(np.clip((grey - 999.5) / 1199 + 0.5, 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(read_image(path), straight if photometric == "MONOCHROME2" else 255 - straight)
    # C.11.2.1.3: of the exact function centre and width are as they are said; of a sigmoid there are no ends.
    how = {"WindowCenter": 1000, "WindowWidth": 1200}
    write_dicom(path, grey, photometric, **how, VOILUTFunction="LINEAR_EXACT")
    exact = np.round(np.clip((grey - 1000.0) / 1200 + 0.5, 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(read_image(path), exact if photometric == "MONOCHROME2" else 255 - exact)
    write_dicom(path, grey, photometric, **how, VOILUTFunction="SIGMOID")
    sigmoid = np.round(255 / (1 + np.exp(-4 * (grey - 1000.0) / 1200))).astype(np.uint8)
    assert np.array_equal(read_image(path), sigmoid if photometric == "MONOCHROME2" else 255 - sigmoid)
    write_dicom(path, grey, photometric)
    assert (read_image(path).min(), read_image(path).max()) == (0, 255)


def test_a_lookup_table_of_a_dicom_file(tmp_path: Path, grey: np.ndarray) -> None:
    """Values of interest by a table: the first mapped value is 300, of 4 entries of 8 bits."""
    pydicom = pytest.importorskip("pydicom")
    table = pydicom.Dataset()
    table.add_new("LUTDescriptor", "US", [4, 300, 8])
    table.add_new("LUTData", "US", [0, 51, 102, 255])
    write_dicom(tmp_path / "a.dcm", grey, "MONOCHROME2", VOILUTSequence=[table])
    expected = np.array([0, 51, 102, 255], dtype=np.uint8)[np.clip(grey.astype(int) - 300, 0, 3)]
    assert np.array_equal(read_image(tmp_path / "a.dcm"), expected)


def test_dicom_without_its_preamble(tmp_path: Path, grey: np.ndarray) -> None:
    write_dicom(tmp_path / "whole.dcm", grey, "MONOCHROME2", WindowCenter=1000, WindowWidth=1200)
    whole = read_image(tmp_path / "whole.dcm")
    (tmp_path / "no-preamble").write_bytes((tmp_path / "whole.dcm").read_bytes()[132:])
    assert np.array_equal(read_image(tmp_path / "no-preamble"), whole)
    pydicom = pytest.importorskip("pydicom")
    data = pydicom.dcmread(tmp_path / "whole.dcm")
    data.preamble, data.file_meta = None, pydicom.dataset.FileMetaDataset()
    data.save_as(tmp_path / "no-header", implicit_vr=True, little_endian=True, enforce_file_format=False)
    assert (tmp_path / "no-header").read_bytes()[:2] == b"\x08\x00"
    assert np.array_equal(read_image(tmp_path / "no-header"), whole)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("SC_rgb_jpeg_gdcm.dcm", None),  # JPEG lossless, by python-gdcm
        ("JPEGLSNearLossless_08.dcm", None),  # by pyjpegls
        ("JPGExtended.dcm", "pylibjpeg-libjpeg"),  # 12-bit JPEG, for which no free decoder is here
    ],
)
def test_compressed_files_of_archives(name: str, way_out: str | None) -> None:
    pydicom = pytest.importorskip("pydicom")
    for decoder in ("gdcm", "jpeg_ls"):
        pytest.importorskip(decoder)
    path = Path(pydicom.__file__).parent / "data" / "test_files" / name
    if not path.exists():
        pytest.skip(f"this pydicom has no {name}")
    if way_out is None:
        pixels = read_image(path)
        assert len(np.unique(pixels)) >= 5
        return
    with pytest.raises(SourceError, match=way_out):
        read_image(path)


def test_dicom_in_colour(tmp_path: Path, stained: np.ndarray) -> None:
    write_dicom(tmp_path / "doppler.dcm", stained, "RGB")
    assert np.array_equal(read_image(tmp_path / "doppler.dcm"), stained)


def test_a_broken_dicom_names_its_file(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    (tmp_path / "a.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\xff" * 40)
    with pytest.raises(SourceError, match=r"a\.dcm cannot be read"):
        read_image(tmp_path / "a.dcm")


def test_an_augmented_view_is_as_large_and_another(grey: np.ndarray) -> None:
    image = (np.sin(grey / 50.0) * 60 + 120).astype(np.uint8)
    views = [augment(image, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert views[0].shape == image.shape
    assert np.array_equal(views[0], views[1])
    assert not np.array_equal(views[0], views[2])
    assert 2 < np.abs(views[0].astype(int) - image).mean() < 90
    coloured = np.stack([image, image // 2, image // 3], axis=2)
    assert augment(coloured, np.random.default_rng(1)).shape == coloured.shape


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
