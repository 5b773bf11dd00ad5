"""The sheet for reviewers: private, seeded, harmless to spreadsheets; and the counts that come back."""

from __future__ import annotations

import csv
import stat
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from medunlearn.audit.identifiers.findings import Output
from medunlearn.audit.identifiers.review import CASES, SHEET, read_review, write_review
from medunlearn.audit.identifiers.search import find_identifiers
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError, SourceError

Rows = list[dict[str, str]]
NAMES = {f"r{n}": f"Ada Vane{n}x" for n in range(1, 7)}
RECORDS = [
    Record(one, f"{name} came on 2014-05-0{one[1:]} with cough and fever.", {}, (Identifier("name", name),))
    for one, name in NAMES.items()
]
OUTPUTS = [Output(one.record_id, one.record_id, one.record_id, "greedy", 0, "", one.text) for one in RECORDS[:5]]
OUTPUTS.append(Output("r6", "r6", "r6", "greedy", 0, "", "Something else was said."))


@pytest.fixture
def findings() -> pd.DataFrame:
    return find_identifiers(OUTPUTS, RECORDS)


@pytest.fixture
def sheet(findings: pd.DataFrame, tmp_path: Path) -> Path:
    return write_review(OUTPUTS, RECORDS, findings, tmp_path, seed=1)


def rows_of(sheet: Path) -> Rows:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def fill() -> Callable[[Path, Callable[[dict[str, str]], dict[str, str]]], Path]:
    def write(sheet: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> Path:
        rows = [{**row, **change(row)} for row in rows_of(sheet)]
        with sheet.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        return sheet

    return write


def test_the_sheet_is_private_and_holds_similar_responses_alone(sheet: Path) -> None:
    assert stat.S_IMODE(sheet.stat().st_mode) == 0o600
    rows = rows_of(sheet)
    assert sum(bool(row["response"]) for row in rows) == 5
    assert [row["kind"] for row in rows[:3]] == ["", "name", "date"]
    told = (sheet.parent / CASES).read_text()
    assert "Ada" not in told
    assert "2014" not in told


def test_the_sample_is_seeded(findings: pd.DataFrame, tmp_path: Path) -> None:
    drawn = [
        {
            row["response"]
            for row in rows_of(write_review(OUTPUTS, RECORDS, findings, tmp_path / name, number=2, seed=seed))
        }
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_formulas_stay_text(tmp_path: Path) -> None:
    record = Record("r", "=1+1 is what he said", {})
    output = Output("r", "r", "r", "greedy", 0, "", record.text)
    (row,) = rows_of(write_review([output], [record], find_identifiers([output], [record]), tmp_path))
    assert row["response"] == "'=1+1 is what he said"


def test_verdicts_correct_the_counts(sheet: Path, fill: Callable[..., Path]) -> None:
    dates = iter(["yes", "No", "no", "", "YES"])
    missed = iter(["age: 61; name: Bo", "", "name: X", "", ""])

    def change(row: dict[str, str]) -> dict[str, str]:
        if row["response"]:
            return {"missed": next(missed)}
        return {"label": "yes" if row["kind"] == "name" else next(dates)}

    table = read_review(fill(sheet, change).parent, replicates=50).set_index("kind")
    counts = table[["found", "confirmed", "rejected", "open", "missed", "corrected"]]
    assert counts.loc["name"].tolist() == [5, 5, 0, 0, 2, 7]
    assert counts.loc["date"].tolist() == [5, 2, 2, 1, 0, 2]
    assert counts.loc["age"].tolist() == [0, 0, 0, 0, 1, 1]
    assert counts.loc["all"].tolist() == [10, 7, 2, 1, 3, 10]
    assert table.loc["date", ["precision", "recall"]].tolist() == [0.5, 1.0]
    assert table.loc["name", ["precision", "recall"]].tolist() == [1.0, pytest.approx(5 / 7)]
    assert table.loc["age", "reason"] == "no finding has a verdict"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"label": "perhaps"}, "neither yes nor no"),
        ({"case_id": "x"}, "'x' is not of this review"),
        ({"missed": "shoe: 9"}, "'shoe' is no kind"),
        ({}, "No case has a verdict yet"),
    ],
)
def test_wrong_sheets_are_refused(sheet: Path, fill: Callable[..., Path], change: dict[str, str], why: str) -> None:
    fill(sheet, lambda _: change)
    with pytest.raises(SourceError, match=why):
        read_review(sheet.parent)


def test_two_readers_must_agree(sheet: Path, fill: Callable[..., Path], tmp_path: Path) -> None:
    def with_label(label: str) -> Callable[[dict[str, str]], dict[str, str]]:
        return lambda row: {} if row["response"] else {"label": label}

    other = tmp_path / "other.csv"
    other.write_bytes(sheet.read_bytes())
    fill(sheet, with_label("yes"))
    fill(other, with_label("no"))
    with pytest.raises(SourceError, match="has another verdict already"):
        read_review(sheet.parent, [sheet, other])


def test_a_sheet_is_not_written_over_and_nothing_similar_is_said(sheet: Path, findings: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="may hold verdicts"):
        write_review(OUTPUTS, RECORDS, findings, sheet.parent)
    with pytest.raises(InputError, match="above 1"):
        write_review(OUTPUTS, RECORDS, findings, sheet.parent / "other", least_rouge=1.0)
    assert (sheet.parent / SHEET).exists()
