"""Sheets for people, and their labels back."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medunlearn.errors import InputError, SourceError
from medunlearn.judging.sheet import as_csv, as_page, for_script, write_sheet
from medunlearn.judging.tasks import JudgingCase, get_task

LABEL, RATE = get_task("label"), get_task("factuality")
EVIL = '</script><img src=x onerror="hacked=1">&\u2028 \'"'
CASES = [
    JudgingCase("t0", "s", "g", {"title": EVIL, "category": "Cancer"}),
    JudgingCase("=t1", "s", "g", {"title": '=1+1, "quoted"\nand a line', "category": "Cancer"}),
    JudgingCase("t2", "s", "g", {"title": "Plain", "category": "Oral"}),
]
IDS = [case.case_id for case in CASES]
CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture
def csv_of(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "anna.csv", encoding: str = "utf-8") -> Path:
        (tmp_path / name).write_bytes(text.encode(encoding))
        return tmp_path / name

    return write


def test_the_csv_comes_back_as_it_went(csv_of: Callable[..., Path]) -> None:
    text = as_csv(LABEL, CASES)
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    assert [row["title"] for row in rows] == [EVIL, "'" + CASES[1].fields["title"], "Plain"]
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())
    for row, label in zip(rows, ("yes", " No ", ""), strict=True):
        row["label"] = label
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    people = LABEL.sheet.read_people([csv_of("\ufeff" + buffer.getvalue())], IDS)
    assert people == {"anna": {"t0": "Supported", "=t1": "Unsupported"}}


def test_several_files_and_annotators(csv_of: Callable[..., Path]) -> None:
    first = csv_of("case_id,label,annotator\nt0,Yes,Anna\nt2,No,Bob\n", "one.csv")
    second = csv_of("case_id;label\nt0;No\n", "Cleo.csv")
    third = csv_of("annotator,case_id,label\nAnna,t2,Yes\n", "three.csv")
    assert LABEL.sheet.read_people([first, second, third], IDS) == {
        "Anna": {"t0": "Supported", "t2": "Supported"},
        "Bob": {"t2": "Unsupported"},
        "Cleo": {"t0": "Unsupported"},
    }


def test_ratings_of_people(csv_of: Callable[..., Path]) -> None:
    assert RATE.sheet.read_people([csv_of("case_id,label\nt0,10\nt2,1\n")], IDS) == {
        "anna": {"t0": "10", "t2": "1"}
    }


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("id,label\nt0,Yes\n", "lacks the column case_id; it has id, label"),
        ("", "lacks the column case_id, label; it has none"),
        ("case_id,label\nt0,Maybe\n", "line 2: There is no label 'Maybe'. Known: No, Yes"),
        ("case_id,label\nt0,Yes\nt9,No\n", "line 3: case_id 't9' is not among the judged cases"),
        ("case_id,label\nt0,Yes\nt0,No\n", "line 3: case_id 't0' has another label already"),
        ("case_id,label\nt0,\n", "no case has a label"),
        ("case_id,label\n" + "x,Yes\n" * 7, r"line 6: .*\(7 such in all\)"),
        ("case_id\nt0\n", "lacks the column label"),
        ("case_id,label,label\nt0,Yes,No\n", "has the column label twice"),
    ],
)
def test_bad_labels_are_refused(csv_of: Callable[..., Path], text: str, part: str) -> None:
    with pytest.raises(SourceError, match=part):
        LABEL.sheet.read_people([csv_of(text)], IDS)


def test_files_that_are_none(csv_of: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no file"):
        LABEL.sheet.read_people([tmp_path / "no.csv"], IDS)
    with pytest.raises(SourceError, match="cannot be read as CSV in UTF-8"):
        LABEL.sheet.read_people([csv_of("case_id,label\nt0,Yes\u00e9\n", encoding="utf-16")], IDS)


def test_a_sheet_is_private_and_never_overwritten(tmp_path: Path) -> None:
    table, page = write_sheet(tmp_path / "sheet", LABEL, CASES)
    assert (tmp_path / "sheet").stat().st_mode & 0o077 == 0
    assert (table.name, page.name) == ("labels.csv", "annotate.html")
    with pytest.raises(InputError, match="may contain labels"):
        write_sheet(tmp_path / "sheet", LABEL, CASES)


def test_the_page_is_one_file_that_loads_nothing_and_runs_nothing_of_a_record() -> None:
    page = as_page(LABEL, CASES)
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert not re.search(r"<[^>]*\s(?:src|href|on\w+)\s*=", page)
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert "Data protection" in page
    sheets = {re.search(r'"sheet": "(\w+)"', as_page(LABEL, cases)) for cases in (CASES, CASES[:2])}
    assert len({sheet[1] for sheet in sheets if sheet}) == 2  # a browser keeps the labels of each apart
    assert for_script("</script>&") == '"\\u003c/script\\u003e\\u0026"'


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip("no chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    _, address = write_sheet(tmp_path / "sheet", LABEL, CASES)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        tab = opened.new_context(offline=True, accept_downloads=True).new_page()
        tab.said = []
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.goto(address.as_uri())
        yield tab
        opened.close()


def test_the_page_labels_by_keyboard_and_saves_what_can_be_read_back(page: Any, tmp_path: Path) -> None:
    assert page.locator(".text").first.text_content() == EVIL
    page.fill("#annotator", "Anna B")
    page.locator("body").click(position={"x": 2, "y": 2})
    page.keyboard.press("n")
    assert page.locator("#place").text_content() == "Case 2 of 3"
    page.keyboard.press("y")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#choices [aria-pressed=true]").text_content() == "Yes (Y)"
    page.fill("#comment", '=cmd "quoted", y')
    page.locator("#comment").blur()
    assert page.locator("#done").text_content() == "2 of 3 labelled"
    page.reload()
    assert page.locator("#done").text_content() == "2 of 3 labelled"
    with page.expect_download() as download:
        page.keyboard.press("s")
    download.value.save_as(tmp_path / "saved.csv")
    assert download.value.suggested_filename == "labels-label-Anna_B.csv"
    assert LABEL.sheet.read_people([tmp_path / "saved.csv"], IDS) == {
        "Anna B": {"t0": "Unsupported", "=t1": "Supported"}
    }
    rows = list(csv.DictReader(io.StringIO((tmp_path / "saved.csv").read_text(encoding="utf-8"))))
    assert rows[1]["comment"] == '\'=cmd "quoted", y'
    assert page.evaluate("window.hacked") is None
    assert page.said == []
