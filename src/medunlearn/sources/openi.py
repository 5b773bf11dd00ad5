"""Open-i: the Indiana University chest X-ray collection, as two CSV files and a folder of images.

``indiana_reports.csv`` has a report per row in columns, ``indiana_projections.csv`` the images of each. The column
``image`` gives the report's examination. Each person has one study. Removed words (``XXXX``) become ``___``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.studies_of_patients import MASK, Exclusion, RadiologyStudy, StudyImage, frontal_first, view_of
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
        images: folder of the images; None looks next to the reports. Without images it is text only.

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
        files = _by_report(self._path.with_name(PROJECTIONS))
        names = [name for of_report in files.values() for name, _ in of_report]
        self._images = _folder(images or self._path.parent, names, must=images is not None)
        self.has_images = self._images is not None
        self._studies = self._read(files)

    def patients(self) -> Sequence[str]:
        return sorted(self._studies)

    def studies(self, patient: str) -> list[RadiologyStudy]:
        return [self._studies[patient]]

    def _read(self, files: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, RadiologyStudy]:
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
            uid = str(row["uid"] or "").strip()
            sections = {name: text for name, column in _COLUMNS.items() if (text := _text(row[column]))}
            key = tuple(sections.values())
            if not uid:
                self.excluded.append(Exclusion("row", place, "it has no uid"))
            elif uid in by_uid:
                self.excluded.append(Exclusion("row", place, "its uid stands in an earlier row too"))
            elif key in texts:
                self.excluded.append(Exclusion("study", uid, "its report is word for word another one's"))
            else:
                texts.add(key)
                by_uid[uid] = self._study(uid, sections, files.get(uid, ()))
        if not by_uid:
            raise SourceError(f"{self._path} holds no report.")
        return by_uid

    def _study(self, uid: str, sections: Mapping[str, str], files: Sequence[tuple[str, str]]) -> RadiologyStudy:
        folder = self._images
        images = frontal_first(
            StudyImage(folder / name, view)
            for name, view in files
            if folder is not None and (folder / name).exists()
        )
        frontal = any(view_of(view) == "frontal" for _, view in files)
        lacks = bool(images) and images[0].view == "lateral" and frontal
        missing = f"only a lateral view is there, and {PROJECTIONS} names a frontal one" if lacks else ""
        return RadiologyStudy(uid, uid, sections, images, missing)


def _by_report(path: Path) -> dict[str, list[tuple[str, str]]]:
    """uid -> its files with their projection (``Frontal``, ``Lateral``); empty without the file."""
    files: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for _, row in read_rows(path) if path.exists() else ():
        if isinstance(row, str) or not {"uid", "filename"} <= row.keys():
            raise SourceError(f"{path} must have the columns uid, filename and projection.")
        name, view = (str(row.get(column) or "").strip() for column in ("filename", "projection"))
        files[str(row["uid"]).strip()].append((name, view))
    return files


def _folder(beside: Path, files: Sequence[str], *, must: bool) -> Path | None:
    names = files[:200]
    for name in _FOLDERS:
        if any((beside / name / file).exists() for file in names):
            return beside / name
    if must:
        raise SourceError(f"{beside} contains none of the images in {PROJECTIONS}.")
    return None


def _text(value: Any) -> str:
    return " ".join(_REMOVED.sub(MASK, str(value or "")).split())
