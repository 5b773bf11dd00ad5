"""Images of DICOM files as arrays of bytes, by pydicom and its decoders."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medunlearn.errors import SourceError, first_line
from medunlearn.input_files import regular_file

Pixels = NDArray[np.uint8]
"""[height, width] of a grey image, 0 is black; [height, width, 3] of one with colour: red, green, blue."""
_DICOM = b"DICM"
_GROUPS = (b"\x02\x00", b"\x08\x00", b"\x00\x08")
"""First bytes of a file without the preamble: group 0002 or 0008, little or big endian."""
_PIXEL_DATA = "PixelData"
_STRAY = 0.001
"""Share of the pixels at each end that a window of more than 8 bits may leave out: hot pixels, burnt-in marks."""
_BEYOND = 1e9
"""A value that lies outside every window."""


def is_dicom(path: Path) -> bool:
    """True for a DICOM file, also one without the preamble if pydicom finds an image in it.

    Raises:
        OSError: the file cannot be read.
    """
    with regular_file(path, SourceError).open("rb") as file:
        head = file.read(132)
    if head[128:] == _DICOM:
        return True
    return head[:2] in _GROUPS and _has_image(path)


def _has_image(path: Path) -> bool:
    """True if pydicom, told to read a file without the preamble, finds pixels; False without pydicom."""
    try:
        import pydicom

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _PIXEL_DATA in pydicom.dcmread(path, force=True, specific_tags=[_PIXEL_DATA])
    except Exception:
        # Not DICOM, then: another reader says what is wrong with it.
        return False


def dicom_pixels(path: Path) -> Pixels:
    """The single image of a DICOM file, as its own window shows it.

    The values of interest are chosen by pydicom (VOI lookup table, or the first window with its function: linear,
    linear exact, sigmoid; PS3.3, C.11.2). Without any the range of the values is shown, but for one in a thousand
    at each end. Of colour deeper than 8 bits the upper byte is read.

    Raises:
        SourceError: pydicom or a decoder is missing, the file is broken, or it has several frames; names the file.
    """
    try:
        import pydicom
    except ImportError:
        raise SourceError(
            f"{path} is a DICOM file, and pydicom, which reads these, is not installed: pip install "
            "'medunlearn[dicom]', or give PNG or JPEG."
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = pydicom.dcmread(path, force=True)
            _complete(data)
            # YBR comes as RGB.
            values = np.asarray(pydicom.pixels.pixel_array(data))
            kind = str(data.get("PhotometricInterpretation", ""))
            if kind == "PALETTE COLOR":
                values = np.asarray(pydicom.pixels.apply_color_lut(values, data))
            elif values.ndim == 2:
                values = _shown(values, data)
    except Exception as error:
        reason = _reason(_transfer_syntax(path), error)
        raise SourceError(f"The DICOM image {path} cannot be read ({reason}).") from error
    if values.ndim == 3 and values.shape[2] == 3:
        deepest = np.iinfo(values.dtype).bits - 8 if kind == "PALETTE COLOR" else int(data.BitsStored) - 8
        return (values >> max(0, deepest)).astype(np.uint8)
    if values.ndim != 2:
        raise SourceError(f"The DICOM image {path} is not a single frame (its shape is {values.shape}).")
    return 255 - values if kind == "MONOCHROME1" else values


def _complete(data: Any) -> None:
    """Give a dataset read without its header the transfer syntax that its encoding shows."""
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

    if getattr(data, "file_meta", None) is None:
        data.file_meta = FileMetaDataset()
    if "TransferSyntaxUID" in data.file_meta:
        return
    implicit, little = data.original_encoding
    syntax = ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian if little else ExplicitVRBigEndian
    data.file_meta.TransferSyntaxUID = syntax


def _shown(values: NDArray[Any], data: Any) -> Pixels:
    """Grey values through the file's modality and VOI transformation."""
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    stored = np.asarray(apply_modality_lut(values, data))
    if sequence := data.get("VOILUTSequence"):
        entries, first, bits = map(int, sequence[0].LUTDescriptor)
        ends = 0.0, float(2**bits - 1)
        # pydicom counts the places of a table of 8 bits in 8 bits, too, and starts again after 256.
        sequence[0].LUTDescriptor = [entries, first, 16]
        return to_grey(np.asarray(apply_voi_lut(stored, data), dtype=float), ends)
    if not _has_window(data):
        return to_grey(stored.astype(float))
    beyond = np.array([-_BEYOND, _BEYOND])
    with np.errstate(over="ignore"):  # of a sigmoid far outside its window
        low, high = (float(end) for end in np.asarray(apply_voi_lut(beyond, data), dtype=float))
        return to_grey(np.asarray(apply_voi_lut(stored.astype(float), data), dtype=float), (low, high))


def _has_window(data: Any) -> bool:
    """True if the first window is wide enough to show anything."""
    center, width = data.get("WindowCenter"), data.get("WindowWidth")
    if center is None or width is None:
        return False
    return float(width if isinstance(width, int | float | str) else width[0]) > 1


def to_grey(values: NDArray[np.float64], ends: tuple[float, float] | None = None) -> Pixels:
    """Values of more than 8 bits as grey: the ends are black and white; values beyond are clipped.

    Args:
        ends: values that are black and white; None: the range of the values, but for one in a thousand at each end.

    Raises:
        ValueError: every pixel has the same value.
    """
    low, high = ends or (float(end) for end in np.quantile(values, (_STRAY, 1 - _STRAY)))
    if not high > low:
        low, high = float(values.min()), float(values.max())
    if not high > low:
        raise ValueError("every pixel has the same value")
    grey: Pixels = np.round(np.clip((values - low) / (high - low), 0, 1) * 255).astype(np.uint8)
    return grey


def _transfer_syntax(path: Path) -> Any:
    """UID of a file's transfer syntax; None if that is unknown."""
    import pydicom

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            meta = pydicom.dcmread(path, force=True, stop_before_pixels=True).file_meta
        return meta.get("TransferSyntaxUID")
    except Exception:
        return None


def _reason(syntax: Any, error: Exception) -> str:
    """Reason for which pixels could not be read, with the way out where a decoder is missing."""
    if syntax is None or not syntax.is_compressed or not isinstance(error, RuntimeError | NotImplementedError):
        return first_line(error)
    return (
        f"no decoder here reads its pixels, {syntax.name}. Those of pip install 'medunlearn[dicom]' read JPEG "
        "lossless, JPEG-LS and JPEG 2000; pylibjpeg-libjpeg, under the GPL, reads 12-bit JPEG; or convert the "
        "file, e.g. with gdcmconv --raw"
    )
