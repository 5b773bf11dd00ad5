"""The three files of a sweep's report, and the page in a real browser with no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.report import SweepContent, findings, write_sweep_report
from medunlearn.papers.amnesia.report.markdown import to_markdown
from medunlearn.papers.amnesia.report.page import to_html
from medunlearn.papers.amnesia.report.payload import payload
from medunlearn.reports.page import plotly_source

PLACES = (Path("/usr/bin/chromium"), Path("/usr/bin/chromium-browser"), Path("/usr/bin/google-chrome"))
CHROMIUM = next((path for path in PLACES if path.exists()), None)


@pytest.fixture(scope="module")
def report(content: SweepContent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep_report(content, tmp_path_factory.mktemp("report") / "new")


@pytest.fixture(scope="module")
def own_part(report: Path) -> str:
    """The page without plotly's source, which holds words of every kind."""
    return report.read_text(encoding="utf-8").replace(plotly_source(), "")


def test_three_files_are_written(report: Path) -> None:
    assert sorted(one.name for one in report.parent.iterdir()) == ["report.html", "report.json", "report.md"]


def test_no_text_of_a_record_is_in_any(report: Path, own_part: str, clinic: Benchmark) -> None:
    texts = own_part + "".join((report.parent / name).read_text("utf-8") for name in ("report.md", "report.json"))
    for question in clinic.questions:
        assert question.question not in texts
        assert len(question.answer) < 12 or question.answer not in texts
    assert not any(i.value in texts for r in clinic.records for i in r.identifiers if len(i.value) > 5)
    assert not any(r.groups["patient"] in texts for r in clinic.records)


def test_the_page_loads_nothing_and_escapes_what_it_is_told(own_part: str) -> None:
    assert "A &lt;sweep&gt;" in own_part
    assert "<sweep>" not in own_part
    assert "step &lt;12&gt;" in own_part
    assert "http://" not in own_part
    assert "https://" not in own_part


def test_findings_missing_cells_and_the_papers_numbers_are_there(own_part: str, content: SweepContent) -> None:
    for found in findings(content):
        assert found.claim in own_part
    assert "unlearn simnpo cancer_20" in own_part
    assert own_part.index("Not in this report") < own_part.index("Findings") < own_part.index("Figure 2")
    assert "LLaMA-3-8B, 8,820 patients" in own_part
    assert "not a target" in own_part
    assert "Learning rates tried" in own_part


def test_the_json_holds_every_number(report: Path, content: SweepContent) -> None:
    data = json.loads((report.parent / "report.json").read_text("utf-8"))
    assert len(data["numbers"]["value"]) == len(content.numbers)
    assert len(data["contrasts"]["low"]) == len(content.contrasts)
    place = content.numbers["metric"].tolist().index("MU")
    assert data["numbers"]["value"][place] == content.numbers["value"].tolist()[place]
    assert [found["verdict"] for found in data["findings"]] == [found.verdict for found in findings(content)]
    assert len(data["published"]["table_2"]) == 68
    assert data["missing"][0]["reason"] == "the loss became NaN at step <12>"
    assert data == json.loads(json.dumps(payload(content), allow_nan=False))


def test_the_markdown_has_the_same_parts(content: SweepContent) -> None:
    text = to_markdown(content)
    heads = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert heads[:3] == ["Read this first", "Not in this report", "Findings"]
    assert "Leakage and degradation: closed book (the record is not in the prompt)" in heads
    assert text.count("### holds: ") + text.count("### does not hold: ") + text.count("### not measurable") == 5


def test_a_sweep_with_a_single_method_and_no_findings_still_has_a_page(content: SweepContent) -> None:
    fields = {name: getattr(content, name) for name in content.__dataclass_fields__}
    alone = content.numbers[content.numbers["role"] == "target"]
    bare = SweepContent(**(fields | {"numbers": alone, "contrasts": content.contrasts.iloc[:0], "methods": ()}))
    page = to_html(bare)
    assert "The sweep has no case for it." in page
    assert to_markdown(bare)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")
def test_the_page_draws_and_fits_a_telephone_with_no_network(report: Path) -> None:
    playwright: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        page = browser.new_context(viewport={"width": 390, "height": 844}, offline=True).new_page()
        page.set_default_timeout(120_000)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(report.as_uri(), wait_until="commit")
        shown = "[...document.querySelectorAll('.figure')].filter((one) => one.clientWidth)"
        drawn = f"() => {shown}.every((one) => one.querySelector('.main-svg'))"
        page.wait_for_selector(".figure .main-svg")
        page.wait_for_function(drawn)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        first = page.locator(".by-scope").first
        assert first.locator(".scope:visible").count() == 1
        first.locator("select").select_option("cancer")
        assert first.locator(".scope:visible").get_attribute("data-scope") == "cancer"
        page.wait_for_selector(".scope[data-scope=cancer] .figure.wide .main-svg")
        assert said == []
        browser.close()
