"""Numbers that were drawn at random are marked in every output format, and decide nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from medunlearn.data.origins import DRAWN, Provenance, decisive, drawn_name, marked, read_provenance
from medunlearn.reports.blocks import (
    Block,
    Cell,
    Choice,
    Columns,
    Details,
    Figure,
    Figures,
    Report,
    Section,
    Span,
    Statement,
    Table,
    figures_of,
    tables_of,
)
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, Case, Evidence, Finding
from medunlearn.reports.content import ReportContent
from medunlearn.reports.exports import export_files
from medunlearn.reports.headline import verdict
from medunlearn.reports.html import to_html
from medunlearn.reports.json import to_data
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.provenance import (
    NAME,
    provenance_section,
    undecided,
    watermarked,
    without_drawn,
)
from medunlearn.reports.readings import Place, Results, main_plane, standings
from medunlearn.reports.unlearning import unlearning_report

QUESTIONS = Provenance("questions", "rehearsal", "rehearsal", "q@1", "ab" * 32, "2026-11-28", True)
RATINGS = replace(QUESTIONS, what="factuality ratings", prompt="judge-factuality@1", controls=(1, 6))
GEN_SCORE = drawn_name("gen_score")


def table(title: str) -> Table:
    return Table((Cell("Model"), Cell("Forget set", title)), ((Cell("NPO"), Cell("82.5")),))


def figure(title: str) -> Figure:
    spec = {"data": [], "layout": {"yaxis": {"title": {"text": title}}}, "labels": False}
    return Figure(spec, "Scatter", "By level")


CONTAINERS: dict[str, Callable[[Block], Block]] = {
    "alone": lambda block: block,
    "section": lambda block: Section("Numbers", (block,)),
    "part of a section": lambda block: Section("Numbers", (Section("More", (block,)),)),
    "details": lambda block: Section("Numbers", (Details("All", (block,)),)),
    "statement": lambda block: Statement("open", "open", "Claim", blocks=(block,)),
    "columns": lambda block: Columns((block,), ()),
    "choice": lambda block: Choice("Which", (("one", (block,)),)),
}


def drawings_of(report: Report) -> list[str]:
    """Every drawing of the page, as SVG."""
    return re.findall(r"<svg\b.*?</svg>", to_html(report), flags=re.DOTALL)


def watermarks(figure: Figure) -> list[str]:
    return [note["text"] for note in figure.spec["layout"].get("annotations", ())]


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("title", [marked("Gen Score"), "Gen Score (drawn), %", GEN_SCORE])
def test_a_drawn_number_is_marked_wherever_it_stands(name: str, title: str) -> None:
    report = Report("Title", (CONTAINERS[name](table(title)),))
    assert to_html(report).count(DRAWN) >= 1
    assert DRAWN in to_markdown(report).partition("| Model")[0]
    assert DRAWN in json.dumps(to_data(report)["blocks"])
    for block in (CONTAINERS[name](figure(title)), Figures((figure(title),))):
        own = Report("Title", (block,))
        (shown,) = figures_of(watermarked(own).blocks)
        assert watermarks(shown) == [DRAWN]
        drawings = drawings_of(own)
        assert drawings
        assert all(DRAWN in drawing for drawing in drawings)
    files = export_files(Report("Title", (CONTAINERS[name](table(title)), figure(title))), ["csv", "tex"], ["svg"])
    assert {path.rpartition(".")[2] for path in files} == {"csv", "tex", "svg"}
    assert all("drawn" in text.decode() for text in files.values())
    assert DRAWN in next(text.decode() for path, text in files.items() if path.endswith("svg"))


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_real_number_is_not(name: str) -> None:
    report = Report("Title", (CONTAINERS[name](table("Gen Score")), CONTAINERS[name](figure("Gen Score, %"))))
    assert watermarked(report) == report
    for text in (to_html(report), to_markdown(report), json.dumps(to_data(report))):
        assert DRAWN not in text


def test_marking_twice_is_marking_once() -> None:
    report = Report("Title", (Section("Numbers", (table("x"), figure("x"))),), drawn="questions were drawn")
    once = watermarked(report)
    (section,) = once.blocks
    assert isinstance(section, Section)
    again = watermarked(replace(once, blocks=tuple(b for b in section.blocks if isinstance(b, Table | Figure))))
    assert [b for b in again.blocks if isinstance(b, Table | Figure)] == [
        b for b in section.blocks if isinstance(b, Table | Figure)
    ]


def test_nothing_drawn_is_bold() -> None:
    best = Cell.of(Span("0.1", "lowest"), Span("said", "run"))
    drawn = Report(
        "Title", (Table((Cell("Model"), Cell("LS")), ((Cell("NPO"), best),)),), drawn="questions were drawn"
    )
    assert "**0.1**" in to_markdown(replace(drawn, drawn=""))
    assert "**0.1**" not in to_markdown(drawn)
    assert "<b>0.1</b>" not in to_html(drawn)
    # A quotation's marks are not about better or worse.
    assert "**said**" in to_markdown(drawn)


def with_ratings(content: ReportContent) -> ReportContent:
    """Ratings that were drawn, and that would make GA by far the best."""

    def rated(model: Any) -> Any:
        best = model.label in ("GA", "retrained")
        rows = model.summary[model.summary["measure"] == "rouge_l"].assign(measure=GEN_SCORE)
        rows = rows.assign(value=99.0 if best else 1.0, low=98.0 if best else 0.5, high=100.0 if best else 1.5)
        return replace(model, summary=pd.concat([model.summary, rows], ignore_index=True))

    models = tuple(map(rated, content.models))
    return replace(content, models=models, provenance=(RATINGS,))


def test_drawn_ratings_decide_nothing_on_the_page(content: ReportContent) -> None:
    rated = with_ratings(content)
    before, after = (unlearning_report(one) for one in (content, rated))
    assert after.data["headline"] == before.data["headline"]
    assert after.data["drawn_measures"] == [GEN_SCORE]
    assert [row["drawn"] for row in after.data["provenance"]] == [True]
    text, page = to_markdown(after), to_html(after)
    rows = [line for line in text.splitlines() if GEN_SCORE in line]
    assert rows
    assert DRAWN in text
    assert DRAWN in page
    # Also where there is nothing else to choose.
    alone = replace(
        rated,
        models=tuple(replace(m, summary=m.summary[m.summary["measure"] == GEN_SCORE]) for m in rated.models),
    )
    results = Results(alone)
    assert results.axis(Place("forget", "train", "all")) is None
    plane = main_plane(results)
    assert (plane.utility, plane.forgetting) == (None, None)


def test_on_a_drawn_benchmark_no_model_is_the_closest(content: ReportContent) -> None:
    drawn = replace(
        content,
        benchmark={**content.benchmark, "provenance": [QUESTIONS.to_json()]},
        provenance=(QUESTIONS,),
    )
    assert undecided(drawn.benchmark)
    assert not undecided(content.benchmark)
    ranked = standings(Results(drawn), main_plane(Results(drawn)))
    assert verdict(ranked, drawn.reference)[0] is not None
    report = unlearning_report(drawn)
    assert report.data["headline"]["closest_to_retrained"] is None
    assert to_data(report)["drawn"] == undecided(drawn.benchmark)
    lines = to_markdown(report).splitlines()
    sections, heads, section = set[str](), list[tuple[str, str]](), ""
    for line, below in pairwise(lines):
        section = line if line.startswith("## ") else section
        if set(below) == set("|- "):
            heads.append((section, line))
            sections.add(section)
    unmarked = {section for section, head in heads if DRAWN not in head}
    assert unmarked == {"## Who wrote and who judged", "## What was run"}
    shown = figures_of(watermarked(report).blocks)
    # Losses by step are the training's, whatever the questions are.
    assert {own.spec["layout"]["yaxis"]["title"]["text"] for own in shown if not watermarks(own)} == {"loss"}
    assert any(map(watermarks, shown))
    files = export_files(report, ["csv", "tex"], ["svg"])
    marked_files = {path for path, text in files.items() if DRAWN in text.decode()}
    assert {path.partition("/")[0] for path in marked_files} == {"tables", "figures"}


def test_no_finding_is_read_from_a_drawn_benchmark() -> None:
    evidence = (Evidence("a minus b", 0.3, 0.2, 0.4, 30),)
    cases = (Case({"run": "NPO"}, HOLDS, "it does", evidence), Case({"run": "GA"}, FAILS, "it does not", evidence))
    finding = Finding("f", "Claim", "Rule", cases)
    (read,) = without_drawn([finding], "questions were drawn at random")
    assert [case.verdict for case in read.cases] == [NOT_MEASURABLE] * 2
    assert read.verdict == NOT_MEASURABLE
    assert without_drawn([finding], "") == (finding,)


def test_the_table_says_what_was_not_recorded() -> None:
    part = provenance_section((Provenance("questions", "qwen3"), RATINGS), "scispacy")
    assert part is not None
    assert part.name == NAME
    (rows,) = [block.rows for block in part.blocks if isinstance(block, Table)]
    cells = [[cell.text for cell in row] for row in rows]
    assert cells[0] == ["questions", "qwen3", *["not recorded"] * 5, ""]
    assert (cells[1][2], cells[1][-1]) == (DRAWN, "1 of 6 as expected")
    assert cells[2][:2] == ["keywords of the leakage score", "scispacy"]
    assert provenance_section(()) is None


def test_the_terminal_warns_and_names_the_makers(content: ReportContent) -> None:
    view = with_ratings(content).view()
    assert any(DRAWN in warning for warning in view.warnings)
    assert view.data[NAME][0]["drawn"] is True
    assert any("rehearsal" in str(cell) for shown in tables_of(view.blocks) for row in shown.rows for cell in row)


def test_records_are_read_as_written_and_hostile_ones_as_nothing() -> None:
    assert read_provenance([QUESTIONS.to_json(), RATINGS.to_json()]) == (QUESTIONS, RATINGS)
    assert read_provenance(None) == read_provenance("questions") == read_provenance({"what": "x"}) == ()
    (odd,) = read_provenance([{"what": 3, "drawn": "yes", "controls": [1], "model": None}])
    assert odd == Provenance("")
    assert undecided({"provenance": [{"drawn": True}]})
    assert decisive(["rouge_l", GEN_SCORE]) == ["rouge_l"]
