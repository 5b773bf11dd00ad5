"""Open-i: the Indiana University chest X-ray collection, as two CSV files and a folder of images.

``indiana_reports.csv`` has a report a row in columns, ``indiana_projections.csv`` the images of each. What the
images are of (column ``image``) is the report's examination. A person has one study. Words that were removed
(``XXXX``) become ``___``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.studies_of_patients import MASK, Exclusion, RadiologyStudy
from medunlearn.errors import SourceError
from medunlearn.sources.table_files import read_rows

REPORTS, PROJECTIONS = "indiana_reports.csv", "indiana_projections.csv"
_FOLDERS = ("images", "images_normalized", "images/images_normalized", "NLMCXR_png", ".")
_COLUMNS = {
    "examination": "image",
    "indication": "indication",
    "comparison": "comparison",
    "findings": "findings",
    "impression": "impression",
}
_REMOVED = re.compile("X{4}")


class OpenI:
    """The collection; see ``RadiologySource``.

    Args:
        where: the folder of both files, or ``indiana_reports.csv``.
        images: folder of the images; None looks beside the reports. Where there are none it is text alone.

    Raises:
        SourceError: a file is missing or has other columns.
    """

    name = "openi"
    source = "Open-i, the Indiana University chest X-ray collection"
    licence = "cc-by-nc-nd-4.0"
    composed = False

    def __init__(self, where: Path, images: Path | None = None) -> None:
        self._path = where / REPORTS if where.is_dir() else where
        self.data_use: DataUse | None = use_of_file(where, "open")
        self.excluded: list[Exclusion] = []
        if images is not None and not images.is_dir():
            raise SourceError(f"There is no folder of images {images}.")
        files = _frontal(self._path.with_name(PROJECTIONS))
        self._images = _folder(images or self._path.parent, files, must=images is not None)
        self.has_images = self._images is not None
        self._studies = self._read(files)

    def patients(self) -> Sequence[str]:
        return sorted(self._studies)

    def studies(self, patient: str) -> list[RadiologyStudy]:
        return [self._studies[patient]]

    def _read(self, files: Mapping[str, str]) -> dict[str, RadiologyStudy]:
        by_uid: dict[str, RadiologyStudy] = {}
        texts: set[tuple[str, ...]] = set()
        for place, row in read_rows(self._path):
            if isinstance(row, str):
                self.excluded.append(Exclusion("row", place, row))
                continue
            if lacking := sorted({"uid", *_COLUMNS.values()} - row.keys()):
                raise SourceError(
                    f"{self._path} lacks the columns {', '.join(lacking)}. Give {REPORTS} as Open-i publishes it."
                )
            uid = str(row["uid"]).strip()
            sections = {name: text for name, column in _COLUMNS.items() if (text := _text(row[column]))}
            key = tuple(sections.values())
            if uid in by_uid:
                self.excluded.append(Exclusion("row", place, "its uid stands in an earlier row too"))
            elif key in texts:
                self.excluded.append(Exclusion("study", uid, "its report is word for word another one's"))
            else:
                texts.add(key)
                by_uid[uid] = RadiologyStudy(uid, uid, sections, self._image(files.get(uid)))
        if not by_uid:
            raise SourceError(f"{self._path} holds no report.")
        return by_uid

    def _image(self, name: str | None) -> Path | None:
        path = self._images / name if self._images is not None and name else None
        return path if path is not None and path.exists() else None


def _frontal(path: Path) -> dict[str, str]:
    """uid -> file of its frontal view, or of its first one; empty without the file."""
    frontal_files: dict[str, str] = {}
    if not path.exists():
        return frontal_files
    frontal = set()
    for _, row in read_rows(path):
        if isinstance(row, str) or not {"uid", "filename"} <= row.keys():
            raise SourceError(f"{path} must have the columns uid, filename and projection.")
        uid = str(row["uid"]).strip()
        is_frontal = str(row.get("projection", "")).strip().lower() == "frontal"
        if uid not in frontal_files or (is_frontal and uid not in frontal):
            frontal_files[uid] = str(row["filename"]).strip()
        if is_frontal:
            frontal.add(uid)
    return frontal_files


def _folder(beside: Path, files: Mapping[str, str], *, must: bool) -> Path | None:
    names = list(files.values())[:200]
    for name in _FOLDERS:
        if any((beside / name / file).exists() for file in names):
            return beside / name
    if must:
        raise SourceError(f"{beside} holds none of the images that {PROJECTIONS} names.")
    return None


def _text(value: Any) -> str:
    return " ".join(_REMOVED.sub(MASK, str(value or "")).split())
