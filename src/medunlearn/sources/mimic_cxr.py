"""MIMIC-CXR and MIMIC-CXR-JPG in PhysioNet's layout.

    files/p10/p10000032/s50414267.txt                      a report
    files/p10/p10000032/s50414267/<dicom id>.jpg or .dcm   its images
    mimic-cxr-2.0.0-metadata.csv[.gz]                      view and time of each image
    mimic-cxr-2.0.0-chexpert.csv[.gz]                      labels of each study
    mimic-cxr-2.0.0-split.csv[.gz]                         train, validate or test

Reports and images may be in two folders, like the two published data sets.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from medunlearn.data.data_use import DataUse
from medunlearn.data.studies_of_patients import Exclusion, RadiologyStudy, StudyImage, frontal_first, view_of
from medunlearn.errors import SourceError
from medunlearn.input_files import read_text
from medunlearn.sources.report_sections import read_report

_GROUP, _PATIENT, _STUDY = re.compile(r"p\d{2}"), re.compile(r"p\d{8}"), re.compile(r"s\d{8}")
_IMAGES = (".jpg", ".jpeg", ".png", ".dcm")
_POSITIONS = ("ViewPosition", "ViewCodeSequence_CodeMeaning")
_FRONTAL_REPORT = re.compile(r"\b(?:PA|AP|(?i:frontal|portable))\b")
_CHEXPERT = {"1": "positive", "0": "negative", "-1": "uncertain"}


class MimicCxr:
    """The data set, read patient by patient; see ``RadiologySource``.

    Args:
        reports: folder with ``files/``.
        images: folder with the images' ``files/`` and the tables; None: the same.

    Raises:
        SourceError: another layout.
    """

    name = "mimic_cxr"
    source = "MIMIC-CXR"
    licence = "physionet-credentialed-health-data-1.5.0"
    data_use: DataUse | None = "credentialed"
    has_images = True
    composed = False

    def __init__(self, reports: Path, images: Path | None = None) -> None:
        self._reports = _files(reports)
        self._images = self._reports if images is None else _files(images)
        self._tables = [folder for folder in (images, reports) if folder is not None]
        self.excluded: list[Exclusion] = []
        self._owner: dict[str, str] = {}

    def patients(self) -> Sequence[str]:
        groups = [group for group in self._reports.iterdir() if _GROUP.fullmatch(group.name)]
        return sorted(path.name for group in groups for path in group.iterdir() if _PATIENT.fullmatch(path.name))

    def studies(self, patient: str) -> list[RadiologyStudy]:
        folder = self._reports / patient[:3] / patient
        paths = [path for path in sorted(folder.glob("s*.txt")) if _STUDY.fullmatch(path.stem)]
        studies = [study for study in (self._study(patient, path) for path in paths) if study is not None]
        return sorted(studies, key=lambda study: (self._times.get(study.study, ""), study.study))

    def _study(self, patient: str, path: Path) -> RadiologyStudy | None:
        name = path.stem
        if (other := self._owner.setdefault(name, patient)) != patient:
            self.excluded.append(Exclusion("study", f"{patient}/{name}", f"its id is a study of {other} too"))
            return None
        try:
            text = read_text(path, SourceError)
        except SourceError:
            self.excluded.append(Exclusion("study", name, "its report cannot be read (no file of UTF-8 text)"))
            return None
        sections = read_report(text).sections
        images = self._study_images(patient, name)
        missing = ""
        if images and images[0].view == "lateral" and self._promises_frontal(name, sections):
            missing = "only a lateral view is there, and its metadata or report names a frontal one"
        labels = self._labels.get(name, {})
        return RadiologyStudy(patient, name, sections, images, missing, labels=labels)

    def _study_images(self, patient: str, study: str) -> tuple[StudyImage, ...]:
        """A study's images with their views; sorted by name without metadata."""
        folder = self._images / patient[:3] / patient / study
        paths = folder.iterdir() if folder.is_dir() else ()
        files = (path for path in sorted(paths) if path.suffix.lower() in _IMAGES)
        return frontal_first(StudyImage(path, self._positions.get(path.stem, "")) for path in files)

    def _promises_frontal(self, study: str, sections: Mapping[str, str]) -> bool:
        """True if, by metadata or report, a study has a frontal view, which may be missing from the folder."""
        projections = f"{sections.get('examination', '')} {sections.get('technique', '')}"
        return study in self._with_frontal or bool(_FRONTAL_REPORT.search(projections))

    @cached_property
    def _positions(self) -> Mapping[str, str]:
        """Image -> ViewPosition, or else the meaning of the view code."""
        return {row["dicom_id"]: _position(row) for row in self._rows("metadata", "dicom_id")}

    @cached_property
    def _with_frontal(self) -> frozenset[str]:
        rows = self._rows("metadata", "study_id")
        return frozenset(f"s{row['study_id']}" for row in rows if view_of(_position(row)) == "frontal")

    @cached_property
    def _times(self) -> Mapping[str, str]:
        """Study -> date and time of day as a sortable text."""
        times = {}
        for row in self._rows("metadata", "study_id"):
            # HHMMSS.fraction as a number: without zeros in front, and with as many decimals as it has.
            whole, _, fraction = row.get("StudyTime", "").partition(".")
            times[f"s{row['study_id']}"] = f"{row.get('StudyDate', '')} {whole.zfill(6)}.{fraction}"
        return times

    @cached_property
    def _labels(self) -> Mapping[str, Mapping[str, str]]:
        labels: dict[str, dict[str, str]] = defaultdict(dict)
        for row in self._rows("chexpert", "study_id"):
            for label, value in row.items():
                plain = value.removesuffix(".0")
                if plain in _CHEXPERT:
                    labels[f"s{row['study_id']}"][label] = _CHEXPERT[plain]
        for row in self._rows("split", "study_id"):
            labels[f"s{row['study_id']}"]["split"] = row.get("split", "")
        return labels

    def _rows(self, table: str, key: str) -> Iterator[dict[str, str]]:
        """Rows of one of the data set's tables; empty if it is missing."""
        names = [f"mimic-cxr-2.0.0-{table}.csv", f"mimic-cxr-2.0.0-{table}.csv.gz"]
        path = next((folder / name for folder in self._tables for name in names if (folder / name).exists()), None)
        if path is None:
            return
        try:
            with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                if key not in (reader.fieldnames or ()):
                    raise SourceError(f"{path} has no column {key}. Download it again.")
                yield from ({name: value or "" for name, value in row.items() if name} for row in reader)
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise SourceError(f"{path} cannot be read ({error}). Download it again.") from error


def _position(row: Mapping[str, str]) -> str:
    return next((row[name].strip() for name in _POSITIONS if row.get(name, "").strip()), "")


def _files(folder: Path) -> Path:
    """The folder that contains ``p10`` to ``p19``."""
    for place in (folder / "files", folder, folder / "mimic-cxr-reports" / "files"):
        if place.is_dir() and any(_GROUP.fullmatch(path.name) for path in place.iterdir()):
            return place
    raise SourceError(
        f"{folder} is not in MIMIC-CXR's layout: it has no files/p10/p10000032/s50414267.txt or similar. Give the "
        "folder that contains `files`."
    )
