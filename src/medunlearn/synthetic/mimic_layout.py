"""The invented hospital in MIMIC-CXR's layout, to test its reader without credentialed data.

Headings vary as in real reports; images are JPEG files of the drawn phantoms.
"""

from __future__ import annotations

import csv
import gzip
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from medunlearn.data.studies_of_patients import RadiologyStudy, in_order
from medunlearn.seeds import generator
from medunlearn.synthetic.clinical_cases import pick
from medunlearn.synthetic.phantom import radiograph
from medunlearn.synthetic.radiology import InventedRadiology

_HEADINGS: Mapping[str, Sequence[str]] = {
    "examination": ("EXAMINATION:", "Examination:", "EXAM:", "STUDY:"),
    "indication": ("INDICATION:", "INDICATIONS:", "REASON FOR EXAM:", "Indication :"),
    "technique": ("TECHNIQUE:", "Technique:"),
    "comparison": ("COMPARISON:", "COMPARISONS:", "Comparison:"),
    "findings": ("FINDINGS:", "FINDINGS\n", "Findings:", "FINDINGS -"),
    "impression": ("IMPRESSION:", "IMPRESSION\n", "Impression:", "CONCLUSION:"),
}
_LABELS = {"effusion": "Pleural Effusion", "opacity": "Lung Opacity", "cardiomegaly": "Cardiomegaly"}
_LABELS |= {"nodule": "Lung Lesion", "pneumothorax": "Pneumothorax", "device": "Support Devices"}


def write_mimic_layout(
    folder: Path, *, patients: int = 8, studies: int = 4, seed: int = 0, image_size: int = 128
) -> Path:
    """Write an invented MIMIC-CXR: reports, images, metadata, splits and labels.

    Args:
        folder: target of ``files/`` and the tables.
        image_size: width and height in pixels; 0 writes no images.
    """
    source = InventedRadiology(patients, studies, seed)
    every_study = [study for patient in source.patients() for study in source.studies(patient)]
    rows: list[dict[str, str]] = []
    for number, study in enumerate(every_study):
        rng = generator("mimic layout", seed, study.study)
        place = folder / "files" / study.patient[:3] / study.patient
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{study.study}.txt").write_text(_report(study, rng), encoding="utf-8")
        ids = {"subject_id": study.patient[1:], "study_id": study.study[1:]}
        for view in reversed(study.views(2)):
            dicom = "-".join(f"{part:08x}" for part in rng.integers(2**32, size=5).tolist())
            time = {
                "ViewPosition": view.position,
                "StudyDate": str(21800101 + number),
                "StudyTime": f"{number:06d}.0",
            }
            rows.append({"dicom_id": dicom, **ids, **time})
            if image_size:
                _draw(place / study.study / f"{dicom}.jpg", study, view.angle, image_size)
    metadata = folder / "mimic-cxr-2.0.0-metadata.csv.gz"
    with gzip.open(metadata, "wt", encoding="utf-8", newline="") as file:
        _table(file, rows)
    with (folder / "mimic-cxr-2.0.0-split.csv").open("w", encoding="utf-8", newline="") as file:
        keys = ("dicom_id", "study_id", "subject_id")
        _table(file, ({key: row[key] for key in keys} | {"split": "train"} for row in rows))
    with (folder / "mimic-cxr-2.0.0-chexpert.csv").open("w", encoding="utf-8", newline="") as file:
        _table(file, map(_labels, every_study))
    return folder


def _report(study: RadiologyStudy, rng: np.random.Generator) -> str:
    parts = [f"{'FINAL REPORT':>45}"]
    for name in in_order(study.sections):
        heading, space = pick(rng, _HEADINGS[name]), pick(rng, ("  ", "\n \n ", " "))
        lines = textwrap.wrap(study.sections[name], 78, break_on_hyphens=False)
        parts.append(f" {heading}{space}" + "\n ".join(lines))
    return "\n \n".join(parts) + "\n"


def _draw(path: Path, study: RadiologyStudy, angle: int, size: int) -> None:
    assert study.body is not None
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(radiograph(study.body, angle, size)).save(path, quality=95)


def _labels(study: RadiologyStudy) -> dict[str, str]:
    assert study.body is not None
    kinds = {finding.kind for finding in study.body.findings}
    labels = {label: "1.0" if kind in kinds else "" for kind, label in _LABELS.items()}
    return {"subject_id": study.patient[1:], "study_id": study.study[1:], **labels}


def _table(file: IO[str], rows: Iterable[Mapping[str, str]]) -> None:
    records = list(rows)
    table = csv.DictWriter(file, list(records[0]))
    table.writeheader()
    table.writerows(records)
