"""The page in a real browser, with no network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from medunlearn.reports.blocks import Cell, Choice, Headline, Report, Span, Table, Text, blocks, section
from medunlearn.reports.content import ReportContent
from medunlearn.reports.html import to_html
from medunlearn.reports.write import write_report

PLACES = (Path("/usr/bin/chromium"), Path("/usr/bin/chromium-browser"), Path("/usr/bin/google-chrome"))
CHROMIUM = next((path for path in PLACES if path.exists()), None)
HOSTILE = "</script><script>window.hacked = 1</script> \u0085 <!-- <script>"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(content: ReportContent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(content, tmp_path_factory.mktemp("report"))


def test_the_page_draws_filters_and_fits_with_no_network(
    content: ReportContent, browser: Any, page_file: Path
) -> None:
    page = browser.new_context(viewport={"width": 390, "height": 844}, offline=True).new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    visible = page.locator(".figure.large svg:visible")
    assert visible.count() == 1
    names = visible.locator("text").all_text_contents()
    assert {model.label for model in content.models} <= set(names)
    page.wait_for_function("document.fonts.status === 'loaded'")
    box_of = "all => all.map((one) => one.getBoundingClientRect().toJSON())"
    boxes = visible.locator("text").evaluate_all(box_of)
    frame = visible.bounding_box()
    assert all(box["left"] >= -1 and box["right"] <= frame["x"] + frame["width"] + 1 for box in boxes)
    # The table of the first screen is a card for each model here.
    cards = page.locator("table.cards").first.locator("tbody tr")
    assert cards.count() == len(content.models)
    assert all(card.bounding_box()["width"] <= 390 for card in cards.all())

    visible_rows = page.locator("tr[data-filters]:not([hidden])")
    total = sum(len(model.summary) for model in content.models)
    assert 0 < visible_rows.count() < total
    for name in ("fold", "kind"):
        page.select_option(f".filters [name={name}]", "")
    assert visible_rows.count() == total
    page.select_option(".filters [name=model]", "NPO")
    page.select_option(".filters [name=metric]", "em")
    assert visible_rows.count() == 12
    assert page.locator(".filters output").text_content() == f"12 of {total} rows"

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("window.hacked") is None
    assert errors == []
    assert [url for url in requests if url != page_file.as_uri() and not url.startswith("data:")] == []


def test_tables_fit_the_printed_page_and_the_verdict_is_its_largest_line(browser: Any, tmp_path: Path) -> None:
    notes = [f"{n} subjects (of unequal size, they count as 4.5: too few for an interval)" for n in range(5)]
    row = (Cell("a model"), *(Cell("0.857", note) for note in notes))
    table = Table(tuple(Cell(f"Number {n}", notes[0]) for n in range(6)), (row,))
    for brief in (False, True):
        verdict = Headline("Verdict", "Inconclusive", ("Nothing is told.",))
        report = Report("Print", blocks(verdict, section("One", table)), brief=brief)
        path = tmp_path / "print.html"
        path.write_text(to_html(report), encoding="utf-8")
        page = browser.new_context(viewport={"width": 680, "height": 990}).new_page()
        page.emulate_media(media="print")
        page.goto(path.as_uri())
        assert page.locator("table").bounding_box()["width"] <= 680
        sizes = page.locator(".verdict p").evaluate_all("all => all.map((one) => getComputedStyle(one).fontSize)")
        label, name, sentence = (float(size.removesuffix("px")) for size in sizes)
        assert name > 1.5 * max(label, sentence)


def test_the_policy_stops_a_script_that_got_in(browser: Any, page_file: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "report.html", page_file.read_text(encoding="utf-8")
    path.write_text(whole.replace("</body>", "<script>window.hacked = 1</script></body>"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.hacked") is None


def test_the_tables_are_all_there_without_scripts(content: ReportContent, browser: Any, page_file: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(page_file.as_uri())
    rows = page.locator("tr[data-filters]")
    assert rows.count() == sum(len(model.summary) for model in content.models)
    assert rows.last.is_visible()
    assert not page.locator(".filters").is_visible()
    assert page.locator(".figure.large svg:visible text").count() > len(content.models)


def test_a_figure_is_saved_with_its_colours(browser: Any, page_file: Path, tmp_path: Path) -> None:
    page = browser.new_context(viewport={"width": 1300, "height": 900}, accept_downloads=True).new_page()
    page.goto(page_file.as_uri())
    with page.expect_download() as download:
        page.locator(".figure.large button").click()
    assert download.value.suggested_filename == "trade-off.svg"
    download.value.save_as(tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "var(" not in text
    assert "#1d2024" in text
    assert {"NPO", "retrained"} <= {e.text for e in ElementTree.fromstring(text).iter() if e.text}


@pytest.mark.parametrize("scripts", [True, False])
def test_a_choice_shows_one_option_at_a_time(browser: Any, tmp_path: Path, scripts: bool) -> None:
    """Without scripts, as in print, all options are there."""
    options = tuple((name, (Text(f"body of {name}"),)) for name in ("first", "second", "third"))
    address = write_report(Report("Choice", (Choice("Level", options, selected=1),)), tmp_path).as_uri()
    page = browser.new_context(java_script_enabled=scripts).new_page()
    page.goto(address)

    def visible() -> list[str]:
        return [name for name, _ in options if page.get_by_text(f"body of {name}").is_visible()]

    assert visible() == (["second"] if scripts else ["first", "second", "third"])
    if scripts:
        page.select_option("select", label="third")
        assert visible() == ["third"]


def test_choices_of_one_label_go_together(browser: Any, tmp_path: Path) -> None:
    """Splits of a sweep: what is chosen above is chosen in every section."""

    def choice(label: str, of: str) -> Choice:
        return Choice(label, tuple((name, (Text(f"{name} of {of}"),)) for name in ("first", "second")))

    blocks = (choice("Split", "one"), choice("Number", "other"), choice("Split", "two"))
    page = browser.new_page()
    page.goto(write_report(Report("Choices", blocks), tmp_path).as_uri())
    page.locator("select").first.select_option(label="second")
    words = [f"{name} of {of}" for of in ("one", "other", "two") for name in ("first", "second")]
    assert [word for word in words if page.get_by_text(word).is_visible()] == [
        "second of one",
        "first of other",
        "second of two",
    ]


def test_a_table_of_fifteen_numbers_with_intervals_fits_1300_pixels(browser: Any, tmp_path: Path) -> None:
    """MedForget's Table 3: five sets of three measures."""
    heads = [
        Cell(group, measure)
        for group in ("Forget rephrase set ↓",) * 5
        for measure in ("Gen Score", "Class. Acc", "ROUGE-L")
    ]
    row = (Cell("NPO, retain-only reference"), Cell("institution_25"), *[Cell("100.0", "[100.0, 100.0]")] * 15)
    table = Table((Cell("Model"), Cell("Split"), *heads), (row,) * 3)
    page = browser.new_context(viewport={"width": 1300, "height": 800}).new_page()
    page.goto(write_report(Report("Levels", (table,)), tmp_path).as_uri())
    inside, outside = page.evaluate(
        "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(document.querySelector('.scroll'))"
    )
    assert inside <= outside


def test_a_large_table_is_drawn_in_parts_that_the_filters_choose(browser: Any, tmp_path: Path) -> None:
    rows = tuple(
        (Cell(f"em-{n}", HOSTILE), Cell(f"model {n % 7}"), Cell.of(Span(f"{n / 9:.2f}", "lowest")))
        for n in range(2401)
    )
    models = tuple(f"model {n % 7}" for n in range(2401))
    folds = tuple(("train", "all") if n % 2 else ("test",) for n in range(2401))
    table = Table(tuple(map(Cell, ("Measure", "Model", "Value"))), rows, filters={"model": models, "fold": folds})
    path = write_report(Report("Large", (replace(table, search="Find"),)), tmp_path / "out")
    data = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', path.read_text())[0])
    assert len(data["rows"]) == 2401
    assert len(data["cells"]) == 2401 + 7 + len({str(row[2]) for row in rows})
    assert path.read_text().count("<tr>") == 201
    errors: list[str] = []
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.on("console", lambda message: errors.append(message.text))
    page.goto(path.as_uri())
    lines, told = page.locator("tbody tr"), page.locator(".filters output")
    first = [lines.nth(row).inner_html() for row in (0, 199)]
    assert (lines.count(), told.text_content()) == (200, "1–200 of 2,401 rows")
    page.get_by_role("button", name="further rows").click()
    assert lines.first.locator("th").text_content().startswith("em-200")
    for _ in range(11):
        page.get_by_role("button", name="further rows").click()
    assert (lines.count(), told.text_content()) == (1, "2,401–2,401 of 2,401 rows")
    assert page.get_by_role("button", name="further rows").is_disabled()
    page.select_option("[name=model]", "model 3")
    assert told.text_content() == "1–200 of 343 rows (2,401 in all)"
    page.select_option("[name=fold]", "all")
    assert told.text_content() == "1–172 of 172 rows (2,401 in all)"
    page.select_option("[name=model]", "")
    page.select_option("[name=fold]", "")
    page.fill("[name=search]", "EM-24")
    assert told.text_content() == "1–12 of 12 rows (2,401 in all)"
    page.fill("[name=search]", "nothing such")
    assert (lines.count(), told.text_content()) == (0, "0 rows (2,401 in all)")
    page.fill("[name=search]", "")
    # Drawn by the script a row is what it is in the page that was written.
    written = re.findall(r"<tr>\n(.*?)</tr>", path.read_text(), re.DOTALL)[1]
    assert re.sub(r"\s", "", first[0]) == re.sub(r"\s", "", written).replace("&#39;", "'").replace("&#34;", '"')
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert errors == []
