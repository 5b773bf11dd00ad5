"""The table of worst cases in a real browser, with no network: menus, search, a phone's width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medunlearn.audit.extraction import Extraction
from medunlearn.audit.first_screen import FirstScreen
from medunlearn.audit.screen_blocks import answers, cases_section, missing_section
from medunlearn.audit.worst_cases import RESPONSE_SHOWN, WorstCase
from medunlearn.reports.blocks import Report, blocks
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.write import write_report

PLACES = (Path("/usr/bin/chromium"), Path("/usr/bin/chromium-browser"), Path("/usr/bin/google-chrome"))
CHROMIUM = next((path for path in PLACES if path.exists()), None)
HOSTILE = "<img src=x onerror=alert(1)> | said"


def case(number: int, kinds: tuple[str, ...], prefixes: tuple[int, ...], **more: Any) -> WorstCase:
    place = {"prefix": prefixes[0], "decoding": "greedy", "in_response": 0, "in_suffix": 0, "responses": 1, "of": 2}
    row: dict[str, Any] = {"patient": f"P{number:04d}", "model": "m", "corpus": "notes", "unseen": False, **place}
    row |= {"length": 40 + number, "identifiers": len(kinds), "kinds": kinds, "prefixes": prefixes}
    row["prompts"] = tuple(map(str, prefixes))
    return WorstCase(**{**row, "decodings": ("greedy", "top_k=10")[: number % 2 + 1], "baseline": None, **more})


@pytest.fixture
def report() -> Report:
    cases = (
        case(1, ("Names", "Dates"), (50, 100), response=((HOSTILE, "run"),), prompt=(("given", ""),)),
        case(2, ("Dates",), (100,)),
        case(3, (), (50,), unseen=True),
    )
    extraction = Extraction("m", "greedy", ("greedy", "top_k=10"), (50, 100), "tokens", (), reason="not measured")
    screen = FirstScreen(extraction, None, ("identifiers (--identifiers)",), cases)
    return Report("Audit", blocks(answers([screen]), missing_section([screen]), cases_section([screen])))


def test_a_response_is_escaped_in_every_format(report: Report, tmp_path: Path) -> None:
    page = write_report(report, tmp_path)
    assert "<mark>&lt;img src=x" in page.read_text()
    assert "<img" not in page.read_text() + to_markdown(report)
    # A bar in what was said does not make a cell of its own.
    line = next(line for line in to_markdown(report).splitlines() if "onerror" in line)
    assert line.replace("\\|", "").count("|") == next(
        other for other in to_markdown(report).splitlines() if "P0002" in other
    ).count("|")


def test_what_no_audit_looked_for_is_said_once() -> None:
    def screen(label: str, *missing: str) -> FirstScreen:
        of = Extraction(label, "greedy", ("greedy",), (50,), "tokens", (), reason="not measured")
        return FirstScreen(of, None, missing, ())

    page = to_markdown(
        Report("A", blocks(missing_section([screen("m", "kinds", "options"), screen("n", "kinds")])))
    )
    assert [line for line in page.splitlines() if line.startswith("- ")] == ["- kinds", "- m: options"]


def test_a_page_of_1000_patients_stays_below_one_and_a_half_megabytes(tmp_path: Path) -> None:
    extraction = Extraction("m", "greedy", ("greedy",), (10, 20), "tokens", (), reason="not measured")
    words = " ".join(f"w{place}" for place in range(200))[:RESPONSE_SHOWN]
    for more in ({}, {"response": ((words, "run"), ("900-11-1000", "identifier")), "prompt": ((words[:160], ""),)}):
        cases = tuple(case(number, ("Social security numbers",), (10, 20), **more) for number in range(1000))
        section = cases_section([FirstScreen(extraction, None, (), cases)])
        page = write_report(Report("Audit", blocks(section)), tmp_path)
        text = page.read_text()
        assert text.count('data-label="responses"') == 1000
        assert ("<mark" in text) is bool(more)
        assert page.stat().st_size < 1_500_000


@pytest.fixture
def page(report: Report, tmp_path: Path) -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_context(viewport={"width": 390, "height": 844}, offline=True).new_page()
        opened.goto(write_report(report, tmp_path).as_uri())
        yield opened
        browser.close()


def test_menus_and_search_narrow_the_rows_on_a_phone(page: Any) -> None:
    patients = page.locator("table.cards tbody tr:not([hidden]) th")
    assert [text[:5] for text in patients.all_text_contents()] == ["P0001", "P0002", "P0003"]
    page.select_option("select[name=kind]", "Dates")
    assert patients.all_text_contents() == ["P0001", "P0002"]
    page.select_option("select[name=prefix]", "50")
    assert patients.all_text_contents() == ["P0001"]
    page.select_option("select[name=prefix]", "")
    page.select_option("select[name=kind]", "")
    page.select_option("select[name=decoding]", "top_k=10")
    assert [text[:5] for text in patients.all_text_contents()] == ["P0001", "P0003"]
    page.select_option("select[name=decoding]", "")
    page.fill("input[type=search]", "p0002 dates")
    assert patients.all_text_contents() == ["P0002"]
    assert page.locator("form.filters output").text_content() == "1 of 3 rows"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
