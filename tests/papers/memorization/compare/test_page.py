"""The three files of an audit report, and the page in a real browser with no network."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from medunlearn.audit.audit_tables import UNNAMED
from medunlearn.cli.main import app
from medunlearn.config.audit import AuditRelations
from medunlearn.papers.memorization.compare import audit_content, read_tables, write_audit_report
from medunlearn.papers.memorization.compare.gather import caveats
from medunlearn.papers.memorization.report import AuditContent, audit_report, findings
from medunlearn.papers.memorization.report.figures import figure_1, figure_2, figure_3, figure_5, figure_7
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.write import write_report

PLACES = (Path("/usr/bin/chromium"), Path("/usr/bin/chromium-browser"), Path("/usr/bin/google-chrome"))
CHROMIUM = next((path for path in PLACES if path.exists()), None)
SECRETS = ("Tarnwick", "2031-04-05", "two miles to the well", "all rights reserved by the", "patient-3", "n7@50")


@pytest.fixture(scope="module")
def report(content: AuditContent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(audit_report(content), tmp_path_factory.mktemp("report") / "new")


@pytest.fixture(scope="module")
def own_part(report: Path) -> str:
    """The page."""
    return report.read_text(encoding="utf-8")


def test_no_text_of_a_record_and_no_identifier(report: Path, own_part: str):
    assert sorted(path.name for path in report.parent.iterdir()) == ["report.html", "report.json", "report.md"]
    everything = own_part + "".join(
        (report.parent / name).read_text("utf-8") for name in ("report.md", "report.json")
    )
    assert not [secret for secret in SECRETS if secret in everything]
    assert "####-##-##" in own_part
    assert "An &lt;audit&gt;" in own_part
    assert not [word for word in ("<audit>", "http://", "https://") if word in own_part]


def test_with_show_text_spans_are_there_and_escaped(audits: Path, tmp_path: Path):
    page = write_audit_report([audits / "med"], tmp_path, {"clinical": ["notes"]}, show_text=True, replicates=10)
    own, markdown = page.read_text("utf-8"), (tmp_path / "report.md").read_text("utf-8")
    assert "Tarnwick came with &lt;pain&gt;" in own
    assert "<pain>" not in own
    lines = [line for line in markdown.splitlines() if "<pain>" in line]
    assert lines
    assert all(line.startswith("    ") for line in lines)
    with_text = audit_content([audits / "base"], show_text=True, replicates=5)
    assert with_text.examples
    assert replace(with_text, show_text=False).shown_examples() == ()


def test_every_figure_and_table_has_its_place(own_part: str, report: Path):
    markdown = (report.parent / "report.md").read_text(encoding="utf-8")
    places = [*(f"Figure {n}" for n in (1, 2, 3, 5, 7)), *(f"Table {n}" for n in (2, 3, 5, 7, 8, 9))]
    assert not [place for place in places if place not in own_part or place not in markdown]
    assert "retained" in markdown
    assert "Unscored: no encoder was named." in markdown
    assert "not a target" in own_part
    assert "add up to 787" in own_part


def test_figures_hold_the_numbers(content: AuditContent):
    titles = [title for title, _ in figure_1(content)]
    assert titles == ["guidelines", "notes"]
    spec = dict(figure_1(content))["guidelines"]
    line = next(trace for trace in spec["data"] if trace["name"] == "med" and "marker" in trace)
    assert line["x"] == [50, 100, 200]
    assert line["y"][0] == pytest.approx(content.ratio("med", "guidelines", 50, "run_30")["value"], rel=1e-5)
    assert {trace["xaxis"] for trace in spec["data"]} == {"x", "x2"}
    (_, bars), *_ = figure_2(content)
    assert bars["data"][0]["x"] == ["greedy", "temperature_0.7", "top_k_50"]
    places = dict(figure_3(content))["med on notes"]
    assert [trace["name"] for trace in places["data"]] == ["prefix 50", "prefix 100", "prefix 200"]
    assert places["data"][0]["x"] == ["1-100", "101-200", "201-300"]
    (title, pair), *_ = figure_5(content)
    assert title == "med → tuned on guidelines"
    assert {trace["line"].get("dash") for trace in pair["data"] if "marker" in trace} == {"solid", "dash"}
    epochs = figure_7(content)
    assert {trace["name"] for trace in epochs["data"]} == {
        "run 30",
        "run 30 (held out)",
        "validation loss",
        "top 1",
    }
    assert {shape["x0"] for shape in epochs["layout"]["shapes"]} == {3}
    assert len(epochs["layout"]["shapes"]) == 3


def test_json_has_every_number_and_every_verdict(report: Path, content: AuditContent):
    data = json.loads((report.parent / "report.json").read_text(encoding="utf-8"))
    assert len(data["ratios"]["value"]) == len(content.tables["ratios"])
    assert [entry["verdict"] for entry in data["findings"]] == [finding.verdict for finding in findings(content)]
    assert data["persistence"]["measure"]
    assert data["examples"] == []


@pytest.mark.parametrize(("units", "differ"), [("ab", True), ("aa", False)])
def test_different_tokenizers_are_a_caveat(audits: Path, units: str, differ: bool):
    tables = [read_tables(audits / label) for label in ("base", "early")]
    tables = [
        replace(audit, info={**audit.info, "inputs": {"unit": unit}})
        for audit, unit in zip(tables, units, strict=True)
    ]
    sentences = caveats(tables, AuditRelations(), pd.DataFrame({"n_subjects": [], "value": []}))
    assert any("base, early: their tokenizers differ" in sentence for sentence in sentences) is differ


def test_an_audit_alone_says_what_is_missing(audits: Path, tmp_path: Path):
    # Words, not tokens, and no responses.
    for file in ("probes", "scores", "spans"):
        (tmp_path / f"{file}.parquet").symlink_to(audits / "early" / f"{file}.parquet")
    info = json.loads((audits / "early" / "run.json").read_text())
    info["results"] = {"unit": {"name": "words and punctuation marks", "noun": "words"}}
    (tmp_path / "run.json").write_text(json.dumps(info))
    content = audit_content([tmp_path], replicates=5)
    assert {name for name, _ in content.missing} == {
        *("Comparison with baselines", "Table 7, Figure 5", "Table 3", "Table 9", "Table 10", "Table 5, Figure 4"),
        *("Figure 7", "Figure 2", "Table 6", "Figure 6", "Figure 3"),
    }
    assert "early: no baseline was named" in content.caveats[0]
    assert "runs are counted in words, not tokens" in to_markdown(audit_report(content))


@pytest.mark.parametrize(("stage", "exhibit"), [("kinds", "Table 3"), ("identifiers", "Table 9")])
def test_a_search_that_found_nothing_has_its_place(content: AuditContent, stage: str, exhibit: str):
    """With the names of those that were searched; without a search there is no such sentence."""
    none = {name: content.tables[name].head(0) for name in (stage, "agreement")}
    empty = replace(content, tables={**content.tables, **none}, missing=())
    for searched in (("med",), ()):
        page = to_markdown(audit_report(replace(empty, searches={stage: searched})))
        own = page.partition("What the paper published")[0]
        assert (f"({exhibit}" in own) == bool(searched)
        assert ("\nmed: " in own.partition(f"({exhibit}")[2].partition("\n#")[0]) == bool(searched)


def test_a_baseline_on_other_records_is_missing_with_a_reason(audits: Path, tmp_path: Path):
    folder = tmp_path / "elsewhere"
    shutil.copytree(audits / "base", folder)
    for path in (folder / "probes.parquet", folder / "scores.parquet"):
        table = pd.read_parquet(path)
        table.assign(corpus="other " + table["corpus"]).to_parquet(path)
    content = audit_content([audits / "early", folder], {"baselines": {"early": ["base"]}}, replicates=5)
    assert content.tables["differences"].empty
    assert "they share no probe" in dict(content.missing)["early − base"]


def test_a_baseline_of_stored_responses_shares_probes_of_a_corpus_that_it_does_not_name(
    audits: Path, tmp_path: Path
):
    folder = tmp_path / "stored"
    shutil.copytree(audits / "base", folder)
    for path in (folder / "probes.parquet", folder / "scores.parquet"):
        pd.read_parquet(path).assign(corpus=UNNAMED).to_parquet(path)
    content = audit_content([audits / "early", folder], {"baselines": {"early": ["base"]}}, replicates=5)
    rows = content.rows("differences", measure="run_30")
    assert {(row["corpus"], row["n_pairs"]) for row in rows} == {("guidelines", 40), ("notes", 40)}
    assert "early − base" not in dict(content.missing)


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_the_command(audits: Path, tmp_path: Path):
    result = run(audits / "early", audits / "base", "--out", tmp_path / "r", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert Path(data["report"]).exists()
    assert {"finding": "longer prefix", "verdict": "not measurable"}.items() <= data["findings"][2].items()


@pytest.mark.parametrize(
    ("folder", "words", "says"),
    [
        ("med", ("--relations", "none.yaml", "--out", "r"), "There is no file none.yaml"),
        ("med", ("--out", "r.html"), "A report is a folder"),
        ("", ("--relations", "x.yaml", "--out", "r"), "--relations is only for runs of"),
    ],
)
def test_bad_input_ends_with_2(audits: Path, folder: str, words: tuple[str, ...], says: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(audits / folder if folder else tmp_path, *words)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_in_a_browser_every_figure_is_drawn(report: Path):
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.goto(report.as_uri())
        figures = page.locator(".figure")
        assert figures.count() == 2 + 2 + 10 + 1 + 2 + 1
        assert all(figure.locator("svg path, svg rect, svg polygon").count() for figure in figures.all())
        browser.close()
    assert problems == []
