"""The three files: what they hold, what they must never hold, and what a browser would load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from medunlearn.reports import Example, ModelResult, ReportContent, write_report
from medunlearn.reports.content_markdown import to_markdown
from medunlearn.reports.page import plotly_source, script_hash, script_json, to_html
from medunlearn.reports.payload import payload

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


def without_plotly(page: str) -> str:
    """The page's own part: plotly's source holds words of every kind."""
    return page.replace(plotly_source(), "")


def test_three_files_are_written_and_the_page_is_named(content: ReportContent, tmp_path: Path) -> None:
    path = write_report(content, tmp_path / "report")
    assert path == tmp_path / "report" / "report.html"
    assert sorted(one.name for one in path.parent.iterdir()) == ["report.html", "report.json", "report.md"]


def test_what_a_model_said_is_text(content: ReportContent) -> None:
    page = to_html(content)
    assert "<script>window.hacked" not in page
    assert "&lt;script&gt;window.hacked = 1&lt;/script&gt;" in page
    executed = [attrs for tag, attrs in parsed(page).found if tag == "script" and "type" not in attrs]
    assert len(executed) == 2


def test_a_hostile_label_is_text_everywhere(content: ReportContent) -> None:
    label = '</script><img src=x onerror="window.hacked=1">'
    models = tuple(replace(one, label=label) if one.label == "NPO" else one for one in content.models)
    page = to_html(replace(content, models=models))
    assert not [attrs for tag, attrs in parsed(page).found if tag == "img"]
    assert "<img" not in to_markdown(replace(content, models=models))


def test_nothing_is_loaded_from_anywhere(content: ReportContent) -> None:
    found = parsed(to_html(content)).found
    loaded = [attrs[name] for _, attrs in found for name in ("src", "href", "srcset", "data") if name in attrs]
    assert loaded == ["data:,"]
    assert "@import" not in without_plotly(to_html(content))
    assert "url(" not in without_plotly(to_html(content))


def test_the_policy_of_the_page_allows_its_two_scripts_and_no_connection(content: ReportContent) -> None:
    page = to_html(content)
    policy = next(attrs["content"] for tag, attrs in parsed(page).found if "http-equiv" in attrs) or ""
    assert policy.startswith("default-src 'none'")
    assert script_hash(plotly_source()) in policy
    assert policy.count("sha256-") == 2
    assert "'unsafe-inline'" not in policy.split("script-src")[1]


def test_plotly_is_there_once(content: ReportContent) -> None:
    page = to_html(content)
    assert page.count(plotly_source()) == 1
    assert len(page) < len(plotly_source()) + 1_000_000


def test_text_is_in_no_file_unless_it_may_be_shown(content: ReportContent, tmp_path: Path) -> None:
    hidden = replace(content, show_text=False)
    for path in write_report(hidden, tmp_path).parent.iterdir():
        text = path.read_text(encoding="utf-8")
        assert SECRET not in text
        assert "q-forget" not in text
        assert "metoprolol" not in text
    assert "--show-text" in to_markdown(hidden)
    assert "--show-text" in without_plotly(to_html(hidden))
    for shown in (to_html(content), to_markdown(content), json.dumps(payload(content))):
        assert SECRET in shown


def test_a_runs_results_are_not_repeated(content: ReportContent) -> None:
    hidden = replace(content, examples=())
    for text in (to_html(hidden), to_markdown(hidden), json.dumps(payload(hidden))):
        assert SECRET not in text
        assert "c0ffee1234" in text


def test_examples_come_forget_first(content: ReportContent) -> None:
    assert [example.side for example in content.shown_examples()] == ["forget", "retain"]
    text = to_markdown(content)
    assert text.index("q-forget") < text.index("q-retain")


def test_a_response_in_markdown_is_a_literal_block(content: ReportContent) -> None:
    said = "first\n\n# not a heading ![x](https://example.org/x.png)"
    example = Example("q", "forget", "train", "factual", "What?", "That.", {"NPO": said})
    lines = to_markdown(replace(content, examples=(example,))).splitlines()
    assert "    # not a heading ![x](https://example.org/x.png)" in lines
    assert not [line for line in lines if line.startswith("# not")]


def test_a_null_is_unscored_and_never_0(content: ReportContent) -> None:
    text = to_markdown(content)
    row = next(line for line in text.splitlines() if line.startswith("| es ") and "| target " in line)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells == ["es", "target", "unscored", "", "0", "120", "24"]
    es = next(row for row in payload(content)["models"][0]["summary"] if row["metric"] == "es")
    assert (es["value"], es["n_unscored"]) == (None, 120)


def test_every_number_is_in_every_format(content: ReportContent) -> None:
    tags = parsed(to_html(content))
    rows = [attrs for tag, attrs in tags.found if tag == "tr" and "data-metric" in attrs]
    assert len(rows) == sum(len(model.summary) for model in content.models)
    text = to_markdown(content)
    assert re.search(r"^\| em +\| NPO +\| 0\.690 \[0\.655, 0\.718\] ", text, flags=re.MULTILINE)
    values = [row["value"] for model in payload(content)["models"] for row in model["summary"]]
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
    text = to_markdown(content)
    assert "closed book" in text
    assert text.index("invented hospital and a tiny model") < text.index("## Utility and forgetting")
    page = without_plotly(to_html(content))
    assert page.index("invented hospital and a tiny model") < page.index('id="trade-off"')


def test_tables_in_markdown_have_equal_rows(content: ReportContent) -> None:
    labelled = replace(content.models[3], label="a|b\nc")
    text = to_markdown(replace(content, models=(*content.models[:3], labelled)))
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        lines = block.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert len({len(line) for line in lines}) == 1
    assert r"a\|b c" in text


def test_a_report_of_almost_nothing_is_written(content: ReportContent, tmp_path: Path) -> None:
    alone = ModelResult("target", "target", None, content.models[0].summary.iloc[:0], pd.DataFrame(), {})
    empty = replace(content, models=(alone,), comparisons=pd.DataFrame(), examples=(), caveats=(), metrics={})
    page = without_plotly(write_report(empty, tmp_path).read_text(encoding="utf-8"))
    assert "nothing to draw" in page
    assert "No scores were given" in page
    assert "No training history" in page
    assert "No examples were kept" in page


def test_other_comparisons_are_listed(content: ReportContent) -> None:
    section = to_markdown(content).split("## Other comparisons")[1]
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
