"""The sheet that a person fills in goes out blind and private, and comes back checked."""

from __future__ import annotations

import csv
import stat
from pathlib import Path

import pytest

from medunlearn.audit.kinds import MemorizedSpan
from medunlearn.audit.kinds.sheet import read_sheet, write_sheet
from medunlearn.errors import InputError, SourceError

SPANS = {
    "r1@50/greedy/0/0": MemorizedSpan("=SUM(A1) of\nsome words", "notes"),
    "-r2": MemorizedSpan("more words", "notes"),
}


def filled(path: Path, kinds: dict[str, str], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerow(["span_id", "kind"])
        rows.writerows(kinds.items())
    return path


def test_out_and_in(tmp_path: Path):
    path = tmp_path / "sheet.csv"
    write_sheet(path, SPANS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    assert [row["span"] for row in rows] == ["'=SUM(A1) of some words", "more words"]
    assert [row["kind"] for row in rows] == ["", ""]
    # A spreadsheet takes a leading minus for a formula, so the id went out guarded and comes back so.
    back = filled(tmp_path / "back.csv", {rows[0]["span_id"]: "Drug", rows[1]["span_id"]: "unclear"}, ";")
    found = read_sheet(back, list(SPANS))
    assert [found[name].kind for name in SPANS] == ["drug", None]
    assert found["-r2"].reason


def test_a_sheet_is_not_written_over(tmp_path: Path):
    write_sheet(tmp_path / "s.csv", SPANS)
    with pytest.raises(InputError, match="may hold kinds"):
        write_sheet(tmp_path / "s.csv", SPANS)


def test_all_mistakes_with_their_lines(tmp_path: Path):
    path = filled(tmp_path / "s.csv", {"-r2": "drugs", "nobody": "drug"})
    with pytest.raises(SourceError, match=r"line 2: .*'drugs'.*'drug'.*line 3: span_id 'nobody'"):
        read_sheet(path, list(SPANS))


def test_a_file_that_is_no_sheet(tmp_path: Path):
    (tmp_path / "s.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match="lacks the column span_id, kind"):
        read_sheet(tmp_path / "s.csv", [])
    with pytest.raises(SourceError, match="no file"):
        read_sheet(tmp_path / "none.csv", [])
