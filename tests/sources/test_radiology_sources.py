"""MIMIC-CXR's layout, Open-i's files, a table of one's own, and questions on other images."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from row_files import write_csv

from medunlearn.data.images import read_image
from medunlearn.data.studies_of_patients import view_of
from medunlearn.errors import SourceError
from medunlearn.sources.composed import Composed
from medunlearn.sources.image_table import ImageTable
from medunlearn.sources.mimic_cxr import MimicCxr
from medunlearn.sources.openi import OpenI
from medunlearn.sources.vqa import read_general
from medunlearn.synthetic.mimic_layout import write_mimic_layout
from medunlearn.synthetic.phantom import radiograph
from medunlearn.synthetic.radiology import InventedRadiology

OPENI = Path(__file__).parents[3] / "shared" / "data" / "openi"


def draw(path: Path, shade: int = 90) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((16, 16), shade, dtype=np.uint8)).save(path)


@pytest.fixture(scope="module")
def mimic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mimic_layout(tmp_path_factory.mktemp("mimic"), patients=3, studies=2, image_size=48)


def test_an_invented_mimic_is_read_as_it_was_invented(mimic: Path) -> None:
    invented, source = InventedRadiology(3, 2, 0), MimicCxr(mimic)
    assert source.patients() == invented.patients()
    assert source.data_use == "credentialed"
    for patient in invented.patients():
        pairs = zip(invented.studies(patient), source.studies(patient), strict=True)
        for own, read in pairs:
            assert (read.study, read.patient) == (own.study, own.patient)
            assert read.sections == own.sections
            assert own.body is not None
            assert [view.position for view in read.views(3)] == [own.body.position, "LATERAL"]
            front = read.views()[0].path
            assert front is not None
            # The frontal view by the metadata, not the lateral one that stands beside it.
            film = read_image(front).astype(int)
            assert np.abs(film - radiograph(own.body, 0, 48)).mean() < 4
            kinds = {finding.kind for finding in own.body.findings}
            assert (read.labels.get("Pleural Effusion") == "positive") == ("effusion" in kinds)
            assert read.labels["split"] == "train"
            assert read.views()[0].position == own.views()[0].position == own.body.exposure.view
    assert not source.excluded


def test_reports_and_images_may_lie_apart(mimic: Path, tmp_path: Path) -> None:
    reports = write_mimic_layout(tmp_path / "reports", patients=3, studies=2, image_size=0)
    patient = MimicCxr(reports).patients()[0]
    assert MimicCxr(reports).studies(patient)[0].views() == ()
    assert MimicCxr(reports, mimic).studies(patient)[0].views(2) == MimicCxr(mimic).studies(patient)[0].views(2)


def test_labels_are_positive_negative_or_uncertain(tmp_path: Path) -> None:
    folder = write_mimic_layout(tmp_path, patients=1, studies=1, image_size=0)
    (patient,) = MimicCxr(folder).patients()
    (study,) = MimicCxr(folder).studies(patient)
    row = {"subject_id": patient[1:], "study_id": study.study[1:]}
    values = {"Edema": "1.0", "Fracture": "0.0", "Pneumonia": "-1.0", "Lung Lesion": ""}
    write_csv(folder / "mimic-cxr-2.0.0-chexpert.csv", [row | values])
    labels = MimicCxr(folder).studies(patient)[0].labels
    assert labels == {"Edema": "positive", "Fracture": "negative", "Pneumonia": "uncertain", "split": "train"}


def test_what_is_wrong_in_a_mimic_is_listed_or_refused(tmp_path: Path) -> None:
    folder = write_mimic_layout(tmp_path, patients=2, studies=2, image_size=0)
    first, second = MimicCxr(folder).patients()
    own = sorted((folder / "files" / "p10" / first).glob("*.txt"))
    (folder / "files" / "p10" / second / own[0].name).write_text("FINDINGS: Clear.")
    own[1].write_bytes(b"\xff\xfe\x00 FINDINGS")
    source = MimicCxr(folder)
    assert len(source.studies(first)) == 1
    assert len(source.studies(second)) == 2
    assert [(exclusion.id, exclusion.reason.split(" (")[0]) for exclusion in source.excluded] == [
        (own[1].stem, "its report cannot be read"),
        (f"{second}/{own[0].stem}", f"its id is a study of {first} too"),
    ]
    (folder / "mimic-cxr-2.0.0-metadata.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(SourceError, match="Download it again"):
        MimicCxr(folder).studies(first)
    with pytest.raises(SourceError, match="not in MIMIC-CXR's layout"):
        MimicCxr(tmp_path / "files" / "p10" / first)


def rewrite_metadata(folder: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    path = folder / "mimic-cxr-2.0.0-metadata.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [change(row) for row in csv.DictReader(file)]
    path.unlink()
    write_csv(path.with_suffix(""), rows)


def test_a_lateral_view_is_not_shown_where_a_frontal_one_is_promised(tmp_path: Path) -> None:
    folder = write_mimic_layout(tmp_path, patients=1, studies=4, image_size=32)
    (patient,) = MimicCxr(folder).patients()
    first, second, third, fourth = MimicCxr(folder).studies(patient)
    # Its frontal image was not downloaded, and the metadata knows of it.
    first.images[0].path.unlink()
    # Nobody says what its frontal image is, but for the view code's meaning; or nobody at all.
    unsaid = {second.images[0].path.stem: "postero-anterior", third.images[0].path.stem: ""}
    # Only the report promises a frontal view of the fourth.
    fourth.images[0].path.unlink()
    lost_image = fourth.images[0].path.stem

    def change(row: dict[str, str]) -> dict[str, str]:
        meaning = unsaid.get(row["dicom_id"])
        row["ViewCodeSequence_CodeMeaning"] = meaning or ""
        is_unnamed = meaning is not None or row["dicom_id"] == lost_image
        return row | {"ViewPosition": "" if is_unnamed else row["ViewPosition"]}

    rewrite_metadata(folder, change)
    studies = MimicCxr(folder).studies(patient)
    assert [study.views()[0].position for study in studies] == ["LATERAL", "postero-anterior", "", "LATERAL"]
    assert [bool(study.missing) for study in studies] == [True, False, False, True]
    assert studies[1].images[0].view == "frontal"
    report = folder / "files" / patient[:3] / patient / f"{fourth.study}.txt"
    report.write_text("EXAMINATION: Lateral radiograph.\nFINDINGS: Clear.")
    last = MimicCxr(folder).studies(patient)[3]
    assert (last.views()[0].position, last.missing) == ("LATERAL", "")


def test_studies_of_one_day_stand_in_the_order_of_their_times(tmp_path: Path) -> None:
    """Times are numbers in the published table: without zeros in front, and with more decimals or fewer."""
    folder = write_mimic_layout(tmp_path, patients=1, studies=3, image_size=0)
    (patient,) = MimicCxr(folder).patients()
    names = [study.study for study in MimicCxr(folder).studies(patient)]
    times = dict(zip(names, ("213014.0", "101500.53100000002", "80556.875"), strict=True))
    rewrite_metadata(folder, lambda row: row | {"StudyDate": "21800101", "StudyTime": times[f"s{row['study_id']}"]})
    assert [study.study for study in MimicCxr(folder).studies(patient)] == names[::-1]


@pytest.mark.parametrize(("position", "view"), [
    ("PA", "frontal"), ("AP AXIAL", "frontal"), ("ap lld", "frontal"), ("antero-posterior", "frontal"),
    ("Frontal", "frontal"), ("LATERAL", "lateral"), ("LL", "lateral"), ("XTABLE LATERAL", "lateral"),
    ("left anterior oblique", "lateral"), ("SWIMMERS VIEW", "lateral"), ("", "unknown"), ("PARTIAL", "unknown"),
])  # fmt: skip
def test_view_positions(position: str, view: str) -> None:
    assert view_of(position) == view


ROW = {"MeSH": "normal", "Problems": "normal", "image": "Chest PA", "indication": "XXXX-year-old with pain in XXXX"}
ROW |= {"comparison": "None.", "findings": "Lungs clear.", "impression": "No disease."}


def test_open_i_rows_are_studies_of_people_with_one_each(tmp_path: Path) -> None:
    rows = [ROW | {"uid": str(number), "findings": f"Nodule {number}."} for number in range(9)]
    rows += [rows[0] | {"uid": "50"}, rows[1] | {"findings": "Other."}]
    write_csv(tmp_path / "indiana_reports.csv", rows)
    write_csv(tmp_path / "indiana_projections.csv", [
        {"uid": "3", "filename": "lateral.png", "projection": "Lateral"},
        {"uid": "3", "filename": "front.png", "projection": "Frontal"},
    ])  # fmt: skip
    without = OpenI(tmp_path)
    assert not without.has_images
    draw(tmp_path / "images" / "front.png")
    collection = OpenI(tmp_path)
    assert collection.has_images
    (study,) = collection.studies("3")
    assert study.views()[0].path == tmp_path / "images" / "front.png"
    draw(tmp_path / "images" / "lateral.png")
    assert [image.position for image in OpenI(tmp_path).studies("3")[0].images] == ["Frontal", "Lateral"]
    (tmp_path / "images" / "front.png").unlink()
    assert "names a frontal one" in OpenI(tmp_path).studies("3")[0].missing
    projections = tmp_path / "indiana_projections.csv"
    write_csv(projections, [{"uid": "3", "filename": "lateral.png", "projection": "Lateral"}])
    assert OpenI(tmp_path).studies("3")[0].missing == ""
    assert study.sections["indication"] == "___-year-old with pain in ___"
    assert study.sections["examination"] == "Chest PA"
    assert [exclusion.reason.split(" ")[1] for exclusion in collection.excluded] == ["report", "uid"]
    with pytest.raises(SourceError, match="no folder of images"):
        OpenI(tmp_path, tmp_path / "nowhere")
    write_csv(tmp_path / "other.csv", [{"uid": "1", "text": "x"}])
    with pytest.raises(SourceError, match="lacks the columns comparison"):
        OpenI(tmp_path / "other.csv")


def test_composed_patients_are_whole_and_the_seed_decides(tmp_path: Path) -> None:
    rows = [ROW | {"uid": str(number), "findings": f"Nodule {number}."} for number in range(11)]
    write_csv(tmp_path / "indiana_reports.csv", [*rows, rows[0]])
    groups = []
    for seed in (0, 0, 1):
        collection = Composed(OpenI(tmp_path), lambda study: "odd" if study.study == "7" else "", 3, seed)
        groups.append(
            [tuple(study.study for study in collection.studies(patient)) for patient in collection.patients()]
        )
        assert collection.composed
        assert [exclusion.id for exclusion in collection.excluded] == ["7", "indiana_reports.csv:13"]
        assert {study.patient for study in collection.studies("composed-0001")} == {"composed-0001"}
    assert [len(group) for group in groups[0]] == [3, 3, 3]
    assert len({name for group in groups[0] for name in group}) == 9
    assert groups[0] == groups[1] != groups[2]


@pytest.mark.skipif(not OPENI.exists(), reason="the Open-i reports (../shared/data/openi) are not here")
def test_the_real_open_i_is_read() -> None:
    collection = OpenI(OPENI)
    assert len(collection.patients()) > 3700
    texts = [text for patient in collection.patients() for text in collection.studies(patient)[0].sections.values()]
    assert not any("XXXX" in text for text in texts)
    assert any("___" in text for text in texts)


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    draw(tmp_path / "x" / "a.png")
    (tmp_path / "two.txt").write_text("FINDINGS: Fluid.\nIMPRESSION: Effusion.")
    side, front = {"image": "x/b.png", "view": "LATERAL"}, {"image": "x/a.png", "view": "PA"}
    study = {"patient": "p1", "study": "s1", "report": "FINDINGS: Clear.", "report_file": ""}
    path = write_csv(tmp_path / "images.csv", [
        study | side,
        study | front | {"report": ""},
        study | {"study": "s2", "image": "", "view": "", "report": "", "report_file": "two.txt"},
    ])  # fmt: skip
    table = ImageTable(path, None)
    first, second = table.studies("p1")
    assert [view.path for view in first.views(2)] == [tmp_path / "x" / "a.png", tmp_path / "x" / "b.png"]
    assert first.sections == {"findings": "Clear."}
    assert (second.views(), second.sections["impression"]) == ((), "Effusion.")
    assert table.has_images


def test_a_table_that_contradicts_itself_is_refused_with_every_row(tmp_path: Path) -> None:
    row = {"patient": "p1", "study": "s1", "image": "", "report": "FINDINGS: A.", "institution": "North"}
    path = write_csv(tmp_path / "t.csv", [
        row,
        row | {"study": "s2", "institution": "South"},
        row | {"patient": "p2"},
        row | {"report": "FINDINGS: B."},
    ])  # fmt: skip
    with pytest.raises(SourceError, match="in 3 rows") as caught:
        ImageTable(path, None)
    for problem in ("'p1' is in two institutions", "'s1' belongs to patient 'p1'", "'s1' has another report"):
        assert problem in str(caught.value)
    with pytest.raises(SourceError, match="names no study"):
        ImageTable(write_csv(tmp_path / "u.csv", [row | {"study": ""}]), None)
    with pytest.raises(SourceError, match=r"the report none\.txt cannot be read"):
        ImageTable(write_csv(tmp_path / "v.csv", [{"patient": "1", "study": "2", "report_file": "none.txt"}]), None)


def test_pmc_vqa_gives_three_tasks_a_row(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "f1.jpg")
    row = {"Figure_path": "f1.jpg", "Question": "Which organ?", "Answer": "The liver", "Answer_label": "B"}
    row |= {
        "Choice A": " A:The lung",
        "Choice B": " B:The liver",
        "Choice C": "C:The heart",
        "Choice D": " D:A bone",
    }
    rows = [row, row | {"Figure_path": "gone.jpg"}, row | {"Answer_label": "", "Answer": "The brain"}]
    rows += [row | {"Answer_label": "", "Answer": "C"}]
    questions, excluded = read_general(write_csv(tmp_path / "test.csv", rows), 10, 0)
    assert [question.answer for question in questions] == ["The liver", "The heart"]
    assert [exclusion.reason for exclusion in excluded] == [
        "its image is not there",
        "its right option cannot be told",
    ]
    tasks = {
        kind: (question, answer, options, right) for kind, question, answer, options, right in questions[0].tasks()
    }
    assert list(tasks) == ["generation", "cloze", "classification"]
    assert tasks["generation"][:2] == ("Which organ?", "The liver")
    assert tasks["cloze"][0].count("[blank]") == 1
    assert tasks["classification"][2:] == (("The lung", "The liver", "The heart", "A bone"), 1)
    assert tasks["classification"][0].endswith("A) The lung\nB) The liver\nC) The heart\nD) A bone")


def test_any_table_of_questions_on_images_will_do(tmp_path: Path) -> None:
    draw(tmp_path / "a.png")
    long = "a rather long answer of six words"
    rows = [{"image": "a.png", "question": f"What {n}?", "answer": long, "options": ""} for n in range(20)]
    rows[0] |= {"answer": "no", "options": "yes|no"}
    rows.append(rows[0] | {"options": "yes|no|3|4|5|6|7|8|9"})
    questions, _ = read_general(write_csv(tmp_path / "q.csv", rows), 6, 0)
    again, _ = read_general(tmp_path / "q.csv", 6, 0)
    assert [question.row for question in questions] == [question.row for question in again]
    assert len({question.row for question in questions}) == 6
    everything, excluded = read_general(tmp_path / "q.csv", 99, 0)
    assert [(row.id, row.reason) for row in excluded] == [("q.csv:22", "it has 9 options; 8 are the most")]
    assert [kind for kind, *_ in everything[0].tasks()] == ["generation", "cloze", "classification"]
    assert [kind for kind, *_ in everything[1].tasks()] == ["generation"]
    (tmp_path / "a.png").unlink()
    with pytest.raises(SourceError, match="no question with an existing image"):
        read_general(tmp_path / "q.csv", 6, 0)
