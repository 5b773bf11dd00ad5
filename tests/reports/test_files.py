"""The three files: what they hold, what they must never hold, and what a browser would load."""

from __future__ import annotations

import html
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

from medunlearn.reports.blocks import Bullets, Cell, Choice, Report, Table, Text, blocks, section
from medunlearn.reports.content import Example, ModelResult, ReportContent
from medunlearn.reports.html import to_html
from medunlearn.reports.json import plain
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.write import write_report

SECRET = "Quillon Vantreese"
Tag = tuple[str, dict[str, str | None]]


class Tags(HTMLParser):
    """Every element and its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[Tag] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(content: ReportContent) -> str:
    return page_of(content)


@pytest.fixture(scope="module")
def tags(page: str) -> list[Tag]:
    return Tags(page).tags


@pytest.fixture(scope="module")
def text(content: ReportContent) -> str:
    return markdown_of(content)


def test_three_files_are_written_and_the_page_is_named(content: ReportContent, tmp_path: Path) -> None:
    path = write_report(content, tmp_path / "report")
    assert path == tmp_path / "report" / "report.html"
    assert sorted(file.name for file in path.parent.iterdir()) == ["report.html", "report.json", "report.md"]


def test_what_a_model_said_is_text(page: str, tags: list[Tag]) -> None:
    assert "<script>window.hacked" not in page
    assert "&lt;script&gt;window.hacked = 1&lt;/script&gt;" in page
    assert len([attrs for tag, attrs in tags if tag == "script" and "type" not in attrs]) == 1


def test_a_hostile_label_is_text_everywhere(content: ReportContent) -> None:
    label = '</script><img src=x onerror="window.hacked=1">'
    models = tuple(replace(model, label=label) if model.label == "NPO" else model for model in content.models)
    hostile = replace(content, models=models)
    assert "img" not in {tag for tag, _ in Tags(page_of(hostile)).tags}
    assert "<img" not in markdown_of(hostile)


def test_nothing_is_loaded_from_anywhere(page: str, tags: list[Tag]) -> None:
    loaded = [attrs[name] for _, attrs in tags for name in ("src", "href", "srcset", "data") if name in attrs]
    assert [address for address in loaded if not (address or "").startswith("#")] == ["data:,"]
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_of_the_page_allows_its_two_scripts_and_no_connection(tags: list[Tag]) -> None:
    policy = next(attrs["content"] for _, attrs in tags if "http-equiv" in attrs) or ""
    assert policy.startswith("default-src 'none'")
    assert policy.count("sha256-") == 1
    assert "'unsafe-inline'" not in policy.split("script-src")[1]


def test_pages_stay_small_and_draw_without_a_script(page: str) -> None:
    assert page.count("<svg") >= page.count('<figure class="figure') > 5
    assert len(page.encode()) < 700_000
    words = to_html(Report("Words", (Text("No figure."),)))
    assert len(words) < 50_000
    assert "<svg" not in words.partition("<script>")[0]


def test_contents_point_to_every_section(tags: list[Tag]) -> None:
    sections = [attrs["id"] for tag, attrs in tags if tag == "section"]
    assert [attrs["href"] for tag, attrs in tags if tag == "a"] == [f"#{anchor}" for anchor in sections]
    assert len(set(sections)) == len(sections) > 5


def test_every_note_and_option_is_in_html_and_markdown() -> None:
    row = (Cell("story", "of the row"), Cell("0.5", "of the cell"))
    table = Table((Cell("Task", "of the head"), Cell("AUC")), (row,))
    options = Choice("Level", (("A", (Text("of the first"),)), ("B", (Text("of the second"),))))
    report = Report("Notes", blocks(section("One", table, options)))
    for text in (to_html(report), to_markdown(report)):
        places = ("head", "row", "cell", "first", "second")
        assert [place for place in places if f"of the {place}" not in text] == []


def test_a_command_in_a_sentence_is_code_whose_flags_do_not_break_and_others_words_stay() -> None:
    sentence = "Test again: `medunlearn verify <MODEL> --work FOLDER`, with another --out."
    table = Table((Cell("Task"), Cell("Note")), ((Cell("story", "--limit 4"), Cell("a `tick` of a record")),))
    page = to_html(Report("Steps", blocks(section("Next", Text(sentence), Bullets((sentence,)), table))))
    tags = [tag if tag == "code" else attrs.get("class") for tag, attrs in Tags(page).tags]
    assert (tags.count("code"), tags.count("flag")) == (2, 5)
    assert "&lt;MODEL&gt;" in page
    assert page.partition("<script>")[0].count("`") == 2


def test_every_figure_says_what_it_shows(page: str, tags: list[Tag]) -> None:
    labels = [attrs["aria-label"] for _, attrs in tags if attrs.get("role") == "img"]
    # The first figure is drawn twice, for wide screens and for narrow ones.
    assert len(labels) == page.count('<figure class="figure') + 1 > 6
    assert all(labels)


def test_text_is_in_no_file_unless_it_may_be_shown(
    content: ReportContent, page: str, text: str, tmp_path: Path
) -> None:
    hidden = replace(content, show_text=False)
    for path in write_report(hidden, tmp_path).parent.iterdir():
        hidden_text = path.read_text(encoding="utf-8")
        assert [secret for secret in (SECRET, "q-forget", "metoprolol") if secret in hidden_text] == []
        assert path.suffix == ".json" or "--show-text" in hidden_text
    assert all(SECRET in content_text for content_text in (page, text, json.dumps(data_of(content))))


def test_a_runs_results_are_not_repeated(content: ReportContent) -> None:
    hidden = replace(content, examples=())
    for text in (page_of(hidden), markdown_of(hidden), json.dumps(data_of(hidden))):
        assert SECRET not in text
        assert "c0ffee1234" in text


def test_examples_come_forget_first_as_literal_blocks(content: ReportContent, text: str) -> None:
    assert text.index("q-forget") < text.index("q-retain")
    response = "first\n\n# not a heading ![x](https://example.org/x.png)"
    example = Example("q", "forget", "train", "factual", "What?", "That.", {"NPO": response})
    lines = markdown_of(replace(content, examples=(example,))).splitlines()
    assert "    # not a heading ![x](https://example.org/x.png)" in lines
    assert not [line for line in lines if line.startswith("# not")]


def test_a_null_is_unscored_and_never_0(content: ReportContent, text: str) -> None:
    row = next(line for line in text.splitlines() if line.startswith("| es ") and "| target " in line)
    assert [cell.strip() for cell in row.split("|")[4:-1]] == ["unscored", "", "0", "120", "24"]
    es = next(row for row in data_of(content)["models"][0]["summary"] if row["measure"] == "es")
    assert (es["value"], es["n_unscored"]) == (None, 120)


def test_every_number_is_in_every_format(content: ReportContent, tags: list[Tag], text: str) -> None:
    total = sum(len(model.summary) for model in content.models)
    assert len([attrs for tag, attrs in tags if tag == "tr" and "data-filters" in attrs]) == total
    assert sum(len(model["summary"]) for model in data_of(content)["models"]) == total
    row = r"^\| em [^|]*\| NPO +\| retain train, all kinds +\| 0\.690 \[0\.655, 0\.718\] "
    assert re.search(row, text, flags=re.MULTILINE)
    assert "−0.610 [−0.650, −0.570]" in text.split("# Comparisons with models other")[1]


def test_the_json_is_strict_and_complete(content: ReportContent, tmp_path: Path) -> None:
    broken = replace(content.models[2], history=content.models[2].history.assign(loss=float("nan")))
    models = (*content.models[:2], broken)
    path = write_report(replace(content, models=models), tmp_path).with_name("report.json")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    data = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert data["models"][2]["history"]["loss"] == [None] * 60
    assert data["headline"]["utility_metric"] == "H(rouge_l, em, te)"
    assert data["split"] == {"name": "random-10", "level": "patient", "forget": 24, "retain": 216}
    assert len(data["comparisons"]) == len(content.comparisons)


def test_the_mode_is_named_and_caveats_stand_first(page: str, text: str) -> None:
    assert "closed book" in text
    caveat = "invented hospital and a tiny model"
    assert text.index(caveat) < text.index("## Every model")
    assert page.index(caveat) < page.index('class="verdict"')


def test_tables_in_markdown_have_equal_rows(content: ReportContent) -> None:
    labelled = replace(content.models[3], label="a|b\nc")
    text = markdown_of(replace(content, models=(*content.models[:3], labelled)))
    for table in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        lines = table.splitlines()
        assert len({(len(line), len(re.findall(r"(?<!\\)\|", line))) for line in lines}) == 1
    assert r"a\|b c" in text


def test_a_report_of_almost_nothing_is_written(content: ReportContent, tmp_path: Path) -> None:
    alone = ModelResult("target", "target", None, content.models[0].summary.iloc[:0], pd.DataFrame(), {})
    empty = replace(content, models=(alone,), comparisons=pd.DataFrame(), examples=(), caveats=(), metrics={})
    text = write_report(empty, tmp_path).read_text(encoding="utf-8")
    parts = ("nothing to draw", "No scores were given", "No training history", "No examples were kept")
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize("hostile", ["</svg><script>alert(1)</script>", "<!--", "a & b"])
def test_a_name_in_a_drawing_cannot_end_it(content: ReportContent, hostile: str) -> None:
    renamed = replace(content.models[3], label=hostile)
    page = page_of(replace(content, models=(*content.models[:3], renamed)))
    assert hostile not in page.partition("<script>")[0] or hostile == "<!--"
    assert "<!--" not in page
    assert html.escape(hostile, quote=False) in page


def test_importing_reports_loads_neither_torch_nor_jinja() -> None:
    heavy = "[name for name in ('torch', 'jinja2') if name in sys.modules]"
    code = f"import sys, medunlearn.reports; print({heavy})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize("value", [None, pd.NA, pd.NaT, float("nan"), float("inf")])
def test_a_missing_number_is_null_in_json(value: object) -> None:
    assert plain({"rows": pd.DataFrame({"value": pd.Series([value], dtype=object)})}) == {"rows": [{"value": None}]}
