"""The sheet for reviewers: private, seeded, harmless to spreadsheets; and the counts that come back."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from row_files import read_csv, write_csv

from medunlearn.audit.identifiers.finding_shares import find_identifiers
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.review import CASES, read_review, write_review
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError, SourceError

RECORDS = [
    Record(
        f"r{n}",
        f"Ada Vane{n}x came on 2014-05-0{n} with cough and fever.",
        {},
        (Identifier("name", f"Ada Vane{n}x"),),
    )
    for n in range(1, 7)
]
TEXTS = [*(record.text for record in RECORDS[:5]), "Something else was said."]


def review(out: Path, records: list[Record] = RECORDS, texts: list[str] = TEXTS, **sampling: Any) -> Path:
    pairs = zip(records, texts, strict=True)
    outputs = [RecordResponse(*[own.record_id] * 3, "greedy", 0, "", text) for own, text in pairs]
    return write_review(outputs, records, find_identifiers(outputs, records, quiet=True), out, **sampling)


def fill(sheet: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    write_csv(sheet, [{**row, **change(row)} for row in read_csv(sheet)])


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    return review(tmp_path, seed=1)


def test_the_sheet_is_private_and_holds_similar_responses_alone(sheet: Path) -> None:
    assert stat.S_IMODE(sheet.stat().st_mode) == 0o600
    rows = read_csv(sheet)
    assert sum(bool(row["response"]) for row in rows) == 5
    assert [row["kind"] for row in rows[:3]] == ["", "name", "date"]
    cases = (sheet.parent / CASES).read_text()
    assert "Ada" not in cases
    assert "2014" not in cases
    with pytest.raises(InputError, match="exists, and it may contain"):
        review(sheet.parent)
    with pytest.raises(InputError, match="above 1"):
        review(sheet.parent / "other", least_rouge=1.0)


def test_the_sample_is_seeded_and_formulas_stay_text(tmp_path: Path) -> None:
    sheets = [review(tmp_path / name, number=2, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    samples = [{row["response"] for row in read_csv(sheet)} for sheet in sheets]
    assert samples[0] == samples[1] != samples[2]
    text = "=1+1 is what he said"
    (row,) = read_csv(review(tmp_path, [Record("r", text, {})], [text]))
    assert row["response"] == f"'{text}"


def test_verdicts_correct_the_counts(sheet: Path) -> None:
    dates = iter(["yes", "No", "no", "", "YES"])
    missed = iter(["age: 61; name: Bo", "", "name: X", "", ""])

    def change(row: dict[str, str]) -> dict[str, str]:
        if row["response"]:
            return {"missed": next(missed)}
        return {"label": "yes" if row["kind"] == "name" else next(dates)}

    fill(sheet, change)
    table = read_review(sheet.parent, replicates=50).set_index("kind")
    counts = table[["found", "confirmed", "rejected", "open", "missed", "corrected"]]
    assert counts.loc[["name", "date", "age", "all"]].to_numpy().tolist() == [
        [5, 5, 0, 0, 2, 7],
        [5, 2, 2, 1, 0, 2],
        [0, 0, 0, 0, 1, 1],
        [10, 7, 2, 1, 3, 10],
    ]
    assert table.loc["date", ["precision", "recall"]].tolist() == [0.5, 1.0]
    assert table.loc["name", ["precision", "recall"]].tolist() == [1.0, pytest.approx(5 / 7)]
    assert table.loc["age", "reason"] == "no finding has a verdict"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"label": "perhaps"}, "There is no label 'perhaps'"),
        ({"case_id": "x"}, "'x' is not of this review"),
        ({"missed": "shoe: 9"}, "'shoe' is no kind"),
        ({}, "No case has a verdict yet"),
    ],
)
def test_wrong_sheets_are_refused(sheet: Path, change: dict[str, str], why: str) -> None:
    fill(sheet, lambda _: change)
    with pytest.raises(SourceError, match=why):
        read_review(sheet.parent)


def test_two_readers_must_agree(sheet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_bytes(sheet.read_bytes())
    fill(sheet, lambda row: {} if row["response"] else {"label": "yes"})
    fill(other, lambda row: {} if row["response"] else {"label": "no"})
    with pytest.raises(SourceError, match="has another label already"):
        read_review(sheet.parent, [sheet, other])
