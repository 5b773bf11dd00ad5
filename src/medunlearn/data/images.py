"""Images as arrays of bytes: reading what users have, and writing what is drawn.

An image that cannot be read is an error that names the file; nothing is ever shown in its place.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from medunlearn.errors import SourceError, first_line
from medunlearn.input_files import regular_file

Grey = NDArray[np.uint8]
_DICOM = b"DICM"


def read_image(path: Path, size: int | None = None) -> Grey:
    """A grey image from PNG, JPEG, TIFF or DICOM.

    Images of more than 8 bits are scaled so that their darkest value is 0 and their brightest 255.

    Args:
        size: pixels of the longer side; the shorter one keeps the proportion. None keeps the size.

    Returns:
        [height, width], 0 is black.

    Raises:
        SourceError: no such file, or none that can be read; names it.
    """
    try:
        with regular_file(path, SourceError).open("rb") as file:
            is_dicom = file.read(132)[128:] == _DICOM
        image = Image.fromarray(_dicom(path)) if is_dicom else _plain(path)
    except FileNotFoundError:
        raise SourceError(f"There is no image {path}.") from None
    except SourceError:
        raise
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = (str(error).splitlines() or ["broken"])[0]
        raise SourceError(
            f"The image {path} cannot be read ({reason}). Copy or download it again, or leave its study out."
        ) from error
    if size is not None:
        scale = size / max(image.size)
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    return np.asarray(image, dtype=np.uint8)


def within(grey: Grey, pixels: int) -> Grey:
    """An image with at most so many pixels in all, in the same proportions; a smaller one as it is."""
    height, width = grey.shape
    if height * width <= pixels:
        return grey
    scale = (pixels / (height * width)) ** 0.5
    size = max(1, int(width * scale)), max(1, int(height * scale))
    return np.asarray(Image.fromarray(grey).resize(size), dtype=np.uint8)


def png(grey: Grey) -> bytes:
    """An image as the content of a PNG file; the same image gives the same bytes."""
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, format="PNG")
    return buffer.getvalue()


def augmented(grey: Grey, rng: np.random.Generator) -> Grey:
    """A slightly other view of an image that cannot be turned: cropped by 4 to 10%, brighter or darker, as large.

    Stands in for the turned view of MedForget's rephrased set (Section 3.3) where no phantom is behind the image.
    """
    height, width = grey.shape
    share = 1 - float(rng.uniform(0.04, 0.10))
    high, wide = max(1, round(height * share)), max(1, round(width * share))
    top, left = (int(rng.integers(0, most + 1)) for most in (height - high, width - wide))
    cropped = Image.fromarray(grey[top : top + high, left : left + wide]).resize((width, height))
    sign = 1 if rng.random() < 0.5 else -1
    brighter = np.asarray(cropped, dtype=float) * float(rng.uniform(0.92, 1.08)) + sign * float(rng.uniform(8, 20))
    view: Grey = np.clip(np.round(brighter), 0, 255).astype(np.uint8)
    return view


def _plain(path: Path) -> Image.Image:
    with warnings.catch_warnings():
        # A warning of a huge or odd file is as good a reason to stop as an error.
        warnings.simplefilter("error")
        try:
            with Image.open(path) as image:
                image.load()
                if image.mode in ("I", "F") or image.mode.startswith("I;16"):
                    return Image.fromarray(_scaled(np.asarray(image, dtype=float)))
                return image.convert("L")
        except Warning as warning:
            raise ValueError(str(warning)) from warning


def _scaled(values: NDArray[np.float64]) -> Grey:
    low, high = float(values.min()), float(values.max())
    if not high > low:
        raise ValueError("every pixel has the same value")
    scaled: Grey = np.round((values - low) / (high - low) * 255).astype(np.uint8)
    return scaled


def _dicom(path: Path) -> Grey:
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
            data = pydicom.dcmread(path)
            values = np.asarray(data.pixel_array, dtype=float)
    except Exception as error:
        raise SourceError(f"The DICOM image {path} cannot be read ({first_line(error)}).") from error
    if values.ndim != 2:
        raise SourceError(f"The DICOM image {path} is no single grey frame (its shape is {values.shape}).")
    grey = _scaled(values)
    return 255 - grey if data.get("PhotometricInterpretation") == "MONOCHROME1" else grey
