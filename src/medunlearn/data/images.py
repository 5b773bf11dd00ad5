"""Images as arrays of bytes: reading users' files, and writing drawn images.

An unreadable image is an error that names the file; it is never replaced by a placeholder.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from medunlearn.data.dicom_images import Pixels, dicom_pixels, is_dicom, to_grey
from medunlearn.errors import SourceError, first_line
from medunlearn.input_files import regular_file

_DARK = 32
"""Upper bytes of 16 bits of colour that are all below this are those of fewer bits."""


def read_image(path: Path, size: int | None = None) -> Pixels:
    """Read an image from PNG, JPEG, TIFF or DICOM, in colour if it has colour.

    A colour file whose three channels are equal is grey. Transparent pixels are shown on white, as on a page. A
    photo is turned as its EXIF orientation says. More than 8 bits are mapped to 0..255 by a window: a DICOM file's
    own, or the range of the values but for one in a thousand at each end. Of 16-bit colour the upper byte is read;
    if that is almost empty, it is an error.

    Args:
        size: pixels of the longer side; the shorter one keeps the proportion. None keeps the size.

    Raises:
        SourceError: the file is missing or cannot be read completely; names it.
    """
    try:
        image = Image.fromarray(dicom_pixels(path)) if is_dicom(path) else _plain(path)
    except FileNotFoundError:
        raise SourceError(f"There is no image {path}.") from None
    except SourceError:
        raise
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SourceError(
            f"The image {path} cannot be read ({first_line(error)}). Copy or download it again, or leave its study "
            "out."
        ) from error
    if size is not None:
        scale = size / max(image.size)
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    return np.asarray(image, dtype=np.uint8)


def within(image: Pixels, most: int) -> Pixels:
    """Shrink an image to at most ``most`` pixels, keeping its aspect ratio."""
    height, width = image.shape[:2]
    if height * width <= most:
        return image
    scale = (most / (height * width)) ** 0.5
    size = max(1, int(width * scale)), max(1, int(height * scale))
    return np.asarray(Image.fromarray(image).resize(size), dtype=np.uint8)


def image_problem(path: Path) -> str:
    """Reason why an image cannot be read, without its path, so that reasons can be counted; empty if it can be
    read.
    """
    try:
        read_image(path)
    except SourceError:
        return "its image cannot be read to its end" if path.exists() else "its image is not there"
    return ""


def png(pixels: Pixels) -> bytes:
    """Encode an image as PNG bytes, deterministically."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def augment(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Augment an image: cropped by 4 to 10%, brighter or darker, of the same size.

    Stands in for the turned view of MedForget's rephrased set (Section 3.3) for images that are not drawn phantoms.
    """
    height, width = pixels.shape[:2]
    share = 1 - float(rng.uniform(0.04, 0.10))
    high, wide = max(1, round(height * share)), max(1, round(width * share))
    y, x = (int(rng.integers(0, most + 1)) for most in (height - high, width - wide))
    cropped = Image.fromarray(pixels[y : y + high, x : x + wide]).resize((width, height))
    sign = 1 if rng.random() < 0.5 else -1
    brighter = np.asarray(cropped, dtype=float) * float(rng.uniform(0.92, 1.08)) + sign * float(rng.uniform(8, 20))
    view: Pixels = np.clip(np.round(brighter), 0, 255).astype(np.uint8)
    return view


def _plain(path: Path) -> Image.Image:
    with warnings.catch_warnings():
        # A warning of a huge or odd file is as good a reason to stop as an error.
        warnings.simplefilter("error")
        try:
            with Image.open(path) as image:
                deep_colour = any("RGB" in str(tile[3]) and "16" in str(tile[3]) for tile in image.tile)
                image.load()
                upright = ImageOps.exif_transpose(image)
                if upright.mode in ("I", "F") or upright.mode.startswith("I;16"):
                    return Image.fromarray(to_grey(np.asarray(upright, dtype=float)))
                plain = _in_colour(upright)
                if deep_colour and np.asarray(plain).max() < _DARK:
                    raise ValueError("its 16 bits of colour use only the lower 8; save it with 8 bits")
                return plain
        except Warning as warning:
            raise ValueError(str(warning)) from warning


def _in_colour(image: Image.Image) -> Image.Image:
    """Convert to RGB, or L without colour, from any mode (palette, transparency, CMYK, one bit)."""
    if image.has_transparency_data:
        page = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(page, image.convert("RGBA"))
    if image.mode in ("1", "L"):
        return image.convert("L")
    colour = image.convert("RGB")
    red, green, blue = (np.asarray(band) for band in colour.split())
    return Image.fromarray(red) if np.array_equal(red, green) and np.array_equal(green, blue) else colour


def image_size(path: Path) -> tuple[int, int]:
    """Width and height of an image as returned by :func:`read_image`; for most formats only the header is read.

    Raises:
        SourceError: the file is missing or unreadable; names it.
    """
    try:
        with Image.open(regular_file(path, SourceError)) as image:
            is_on_its_side = "exif" in image.info and image.getexif().get(ExifTags.Base.Orientation, 1) > 4
            return (image.height, image.width) if is_on_its_side else image.size
    except SourceError:
        raise
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        height, width = read_image(path).shape[:2]
        return width, height
