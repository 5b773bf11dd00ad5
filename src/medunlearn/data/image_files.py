"""Table of a benchmark folder's images with their hashes, and its verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_table, sha256_of, write_table
from medunlearn.errors import BenchmarkError

FILE, NOTE = "images.parquet", "image files"
SCHEMA = pa.schema(
    [
        ("image", pa.string()),
        ("node", pa.string()),
        ("view", pa.string()),
        ("position", pa.string()),
        ("angle", pa.int32()),
        ("sha256", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file that records refer to.

    Attributes:
        node: the study, or the row of the general set, that it shows.
        view: ``original``, ``drawn``, ``turned`` (a phantom at ``angle``) or ``augmented``.
        position: ViewPosition (``PA``, ``AP``, ``LATERAL``, ...); empty if unknown, and for a turned view.
        angle: degrees; None if the image was not drawn.
    """

    image: str
    node: str
    view: str
    position: str
    angle: int | None
    sha256: str


def write_image_table(folder: Path, images: Sequence[ImageFile]) -> Mapping[str, object]:
    """Write the table of images and return its manifest entry: number of files, and the table's hash."""
    write_table(folder / FILE, [asdict(image) for image in images], SCHEMA)
    return {"files": len(images), "sha256": sha256_of(folder / FILE)}


def verify_images(benchmark: Benchmark) -> int:
    """Verify every image of a loaded benchmark against the table, and the table against the manifest; return their
    number.

    Raises:
        BenchmarkError: a file is missing or changed; names it.
    """
    folder, note = benchmark.folder, benchmark.notes.get(NOTE)
    if not folder or not isinstance(note, Mapping):
        return 0
    path = folder / FILE
    if not path.exists() or sha256_of(path) != note.get("sha256"):
        raise BenchmarkError(f"{path} is missing or not the table that was built. Build or copy the folder again.")
    # Its hash is known; folders built earlier lack a column.
    rows = read_table(path)
    for row in rows:
        image = folder / row["image"]
        if not image.is_file():
            raise BenchmarkError(f"The image {image} of {row['node']} is missing. Copy it back, or build again.")
        if sha256_of(image) != row["sha256"]:
            raise BenchmarkError(f"The image {image} was changed after the benchmark was built. Build it again.")
    return len(rows)
