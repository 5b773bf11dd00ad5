"""The three files: what they hold, what they must never hold, and what a browser would load."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from rendered import data_of, markdown_of, page_of

from medunlearn.reports import Example, ModelResult, Report, ReportContent, write_report
from medunlearn.reports.blocks import Cell, Table, Text, blocks, section
from medunlearn.reports.html import plotly_archive, script_hash, script_json, to_html
from medunlearn.reports.json import plain
from medunlearn.reports.markdown import to_markdown

SECRET = "Quillon Vantreese"


class Tags(HTMLParser):
    """Every element and its attributes, and the text of executed scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if len(data) < 20_000:
            self.text.append(data)


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


def test_three_files_are_written_and_the_page_is_named(content: ReportContent, tmp_path: Path) -> None:
    path = write_report(content, tmp_path / "report")
    assert path == tmp_path / "report" / "report.html"
    assert sorted(one.name for one in path.parent.iterdir()) == ["report.html", "report.json", "report.md"]


def test_what_a_model_said_is_text(content: ReportContent) -> None:
    page = page_of(content)
    assert "<script>window.hacked" not in page
    assert "&lt;script&gt;window.hacked = 1&lt;/script&gt;" in page
    executed = [attrs for tag, attrs in parsed(page).found if tag == "script" and "type" not in attrs]
    assert len(executed) == 1


def test_a_hostile_label_is_text_everywhere(content: ReportContent) -> None:
    label = '</script><img src=x onerror="window.hacked=1">'
    models = tuple(replace(one, label=label) if one.label == "NPO" else one for one in content.models)
    page = page_of(replace(content, models=models))
    assert not [attrs for tag, attrs in parsed(page).found if tag == "img"]
    assert "<img" not in markdown_of(replace(content, models=models))


def test_nothing_is_loaded_from_anywhere(content: ReportContent) -> None:
    found = parsed(page_of(content)).found
    loaded = [attrs[name] for _, attrs in found for name in ("src", "href", "srcset", "data") if name in attrs]
    assert [one for one in loaded if not (one or "").startswith("#")] == ["data:,"]
    assert "@import" not in page_of(content)
    assert "url(" not in page_of(content)


def test_the_policy_of_the_page_allows_its_two_scripts_and_no_connection(content: ReportContent) -> None:
    page = page_of(content)
    policy = next(attrs["content"] for tag, attrs in parsed(page).found if "http-equiv" in attrs) or ""
    assert policy.startswith("default-src 'none'")
    assert script_hash(gzip.decompress(plotly_archive()).decode()) in policy
    assert policy.count("sha256-") == 2
    assert "'unsafe-inline'" not in policy.split("script-src")[1]


def test_pages_stay_small_and_carry_plotly_for_figures_alone(content: ReportContent) -> None:
    page = page_of(content)
    assert page.count(base64.b64encode(plotly_archive()).decode()) == 1
    assert len(page.encode()) < 1_500_000
    page = to_html(Report("Words", (Text("No figure."),)))
    assert len(page) < 50_000
    assert 'id="plotly"' not in page


def test_contents_point_to_every_section(content: ReportContent) -> None:
    tags = parsed(page_of(content)).found
    sections = [attrs["id"] for tag, attrs in tags if tag == "section"]
    links = [attrs["href"] for tag, attrs in tags if tag == "a"]
    assert links == [f"#{anchor}" for anchor in sections]
    assert len(set(sections)) == len(sections) > 5


def test_every_note_is_in_html_and_markdown() -> None:
    table = Table(
        (Cell("Task", "of the head"), Cell("AUC")), ((Cell("story", "of the row"), Cell("0.5", "of the cell")),)
    )
    report = Report("Notes", blocks(section("One", table)))
    for text in (to_html(report), to_markdown(report)):
        assert all(f"of the {place}" in text for place in ("head", "row", "cell"))


def test_every_figure_says_what_it_shows(content: ReportContent) -> None:
    labels = [attrs["aria-label"] for tag, attrs in parsed(page_of(content)).found if attrs.get("role") == "img"]
    assert len(labels) == page_of(content).count('class="figure') > 5
    assert all(labels)


def test_text_is_in_no_file_unless_it_may_be_shown(content: ReportContent, tmp_path: Path) -> None:
    hidden = replace(content, show_text=False)
    for path in write_report(hidden, tmp_path).parent.iterdir():
        text = path.read_text(encoding="utf-8")
        assert SECRET not in text
        assert "q-forget" not in text
        assert "metoprolol" not in text
    assert "--show-text" in markdown_of(hidden)
    assert "--show-text" in page_of(hidden)
    for shown in (page_of(content), markdown_of(content), json.dumps(data_of(content))):
        assert SECRET in shown


def test_a_runs_results_are_not_repeated(content: ReportContent) -> None:
    hidden = replace(content, examples=())
    for text in (page_of(hidden), markdown_of(hidden), json.dumps(data_of(hidden))):
        assert SECRET not in text
        assert "c0ffee1234" in text


def test_examples_come_forget_first(content: ReportContent) -> None:
    assert [example.side for example in content.shown_examples()] == ["forget", "retain"]
    text = markdown_of(content)
    assert text.index("q-forget") < text.index("q-retain")


def test_a_response_in_markdown_is_a_literal_block(content: ReportContent) -> None:
    said = "first\n\n# not a heading ![x](https://example.org/x.png)"
    example = Example("q", "forget", "train", "factual", "What?", "That.", {"NPO": said})
    lines = markdown_of(replace(content, examples=(example,))).splitlines()
    assert "    # not a heading ![x](https://example.org/x.png)" in lines
    assert not [line for line in lines if line.startswith("# not")]


def test_a_null_is_unscored_and_never_0(content: ReportContent) -> None:
    text = markdown_of(content)
    row = next(line for line in text.splitlines() if line.startswith("| es ") and "| target " in line)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[3:] == ["unscored", "", "0", "120", "24"]
    es = next(row for row in data_of(content)["models"][0]["summary"] if row["metric"] == "es")
    assert (es["value"], es["n_unscored"]) == (None, 120)


def test_every_number_is_in_every_format(content: ReportContent) -> None:
    tags = parsed(page_of(content))
    rows = [attrs for tag, attrs in tags.found if tag == "tr" and "data-filters" in attrs]
    assert len(rows) == sum(len(model.summary) for model in content.models)
    text = markdown_of(content)
    assert re.search(
        r"^\| em [^|]*\| NPO +\| retain train, all kinds +\| 0\.690 \[0\.655, 0\.718\] ", text, flags=re.MULTILINE
    )
    values = [row["value"] for model in data_of(content)["models"] for row in model["summary"]]
    assert len(values) == len(rows)


def test_the_json_is_strict_and_complete(content: ReportContent, tmp_path: Path) -> None:
    broken = content.models[2].history.assign(loss=float("nan"))
    models = (*content.models[:2], replace(content.models[2], history=broken))
    path = write_report(replace(content, models=models), tmp_path).with_name("report.json")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    data = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert data["models"][2]["history"]["loss"] == [None] * 60
    assert data["headline"]["utility_metric"] == "H(rouge_l, em, te)"
    assert data["split"] == {"name": "random-10", "level": "patient", "forget": 24, "retain": 216}
    assert len(data["comparisons"]) == len(content.comparisons)


def test_each_number_carries_its_mode_and_caveats_stand_first(content: ReportContent) -> None:
    text = markdown_of(content)
    assert "closed book" in text
    assert text.index("invented hospital and a tiny model") < text.index("## Every model")
    page = page_of(content)
    assert page.index("invented hospital and a tiny model") < page.index('class="lead"')


def test_tables_in_markdown_have_equal_rows(content: ReportContent) -> None:
    labelled = replace(content.models[3], label="a|b\nc")
    text = markdown_of(replace(content, models=(*content.models[:3], labelled)))
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        lines = block.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert len({len(line) for line in lines}) == 1
    assert r"a\|b c" in text


def test_a_report_of_almost_nothing_is_written(content: ReportContent, tmp_path: Path) -> None:
    alone = ModelResult("target", "target", None, content.models[0].summary.iloc[:0], pd.DataFrame(), {})
    empty = replace(content, models=(alone,), comparisons=pd.DataFrame(), examples=(), caveats=(), metrics={})
    page = write_report(empty, tmp_path).read_text(encoding="utf-8")
    assert "nothing to draw" in page
    assert "No scores were given" in page
    assert "No training history" in page
    assert "No examples were kept" in page


def test_other_comparisons_are_listed(content: ReportContent) -> None:
    section = markdown_of(content).split("# Comparisons with models other")[1]
    assert "−0.610 [−0.650, −0.570]" in section


@pytest.mark.parametrize("text", ["</script><script>alert(1)", "<!--", "a & b"])
def test_data_in_a_script_element_cannot_end_it(text: str) -> None:
    written = str(script_json({"x": text}))
    assert "<" not in written
    assert json.loads(written) == {"x": text}


def test_importing_reports_loads_neither_torch_nor_plotly() -> None:
    heavy = "[name for name in ('torch', 'plotly', 'jinja2') if name in sys.modules]"
    code = f"import sys, medunlearn.reports; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("value", [None, pd.NA, pd.NaT, float("nan"), float("inf")])
def test_a_missing_number_is_null_in_json(value: object) -> None:
    assert plain({"rows": pd.DataFrame({"value": pd.Series([value], dtype=object)})}) == {"rows": [{"value": None}]}
