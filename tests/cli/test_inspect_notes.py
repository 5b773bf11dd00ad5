"""`medunlearn inspect NOTES`: what is read, what is left out and why, and ids that may be one person's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from row_files import write_csv

ROWS = [
    ("4711", "Ada Vane", "Letter", "2020-01-02", "Ada Vane has fever."),
    ("0004711", "VANE, ADA", "Letter", "2020-02-05", "VANE, ADA has a cough."),
    ("12", "Cy Ray", "Report", "", "Cy Ray is well."),
    ("12", "Cy Ray", "Report", "", " "),
    ("", "", "Report", "", "Nobody's."),
]
COLUMNS = ("Pat-Nr", "name", "category", "date", "note")


def test_what_is_read_and_left_out(medunlearn: Any, tmp_path: Path) -> None:
    notes = write_csv(tmp_path / "n.csv", [dict(zip(COLUMNS, row, strict=True)) for row in ROWS], ";", "cp1252")
    notes.write_bytes(notes.read_bytes() + "12;Cy Ray;Report;2021-03-04;Müde.\n13;x\n".encode("cp1252"))
    words = ("inspect", notes, "--patient-column", "Pat-Nr")
    facts = json.loads(medunlearn(*words, "--json").stdout)
    counts = {name: facts["counts"][name] for name in ("form", "notes", "patients", "first date", "last date")}
    assert counts == {
        "form": "table", "notes": 4, "patients": 3, "first date": "2020-01-02", "last date": "2021-03-04",
    }  # fmt: skip
    assert facts["counts"]["files that are not UTF-8"] == 1
    assert facts["columns"] == {"patient": "Pat-Nr", "text": "note", "date": "date"}
    assert sum(facts["left_out"].values()) == 3
    assert facts["bad_rows"] == ["n.csv:8: has 2 cells, and the header 5"]
    assert facts["kinds"] == {"category": {"Letter": 2, "Report": 2}}
    assert facts["identifiers"][0] == {"column": "name", "kind": "name", "notes": 4, "in_text": 3}
    (double,) = facts["possible_doubles"]
    assert ({double["id"], double["other"]}, len(double["why"])) == ({"4711", "0004711"}, 2)
    text = medunlearn(*words).stdout
    assert all(word in text for word in ("without text", "n.csv:8", "0004711", "--same-person"))
    said = json.loads(medunlearn(*words, "--same-person", "4711,0004711", "--json").stdout)
    assert said["possible_doubles"] == []


def test_a_table_without_patients_says_so(medunlearn: Any, tmp_path: Path) -> None:
    notes = write_csv(tmp_path / "n.csv", [{"text": "One."}, {"text": "Two."}])
    facts = json.loads(medunlearn("inspect", notes, "--json").stdout)
    assert "no column of patients" in facts["counts"]["patients"]
    assert "There is no file" in medunlearn("inspect", tmp_path / "none.csv", code=2).text
    assert "--patient-column" in medunlearn("inspect", notes, "--patient-column", "who", code=2).text


def test_files_of_a_folder_that_are_not_read_are_counted(medunlearn: Any, tmp_path: Path) -> None:
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "a.txt").write_text("Fever.")
    write_csv(tmp_path / "list.csv", [{"patient": "4711", "file": "a.txt"}])
    counts = json.loads(medunlearn("inspect", tmp_path, "--json").stdout)["counts"]
    assert (counts["form"], counts["notes"], counts["files not read"]) == ("text files", 1, "1 .csv")
