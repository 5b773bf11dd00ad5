"""Figures carry the numbers of the results, Table 2 marks what is lowest and highest, and no file holds a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sweep_folders import own_part, tables_of, who

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.figures import bar_rows, disease_figure, opacities, tradeoff_panels
from medunlearn.papers.amnesia.report import report_of
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, SweepResults
from medunlearn.papers.amnesia.tables import (
    leakage_table,
    marked,
    published,
    published_table_2,
    published_tables,
    statements,
    table_2,
)
from medunlearn.papers.sweeps.report import search_table
from medunlearn.reports import write_report
from medunlearn.reports.html import to_html
from medunlearn.reports.markdown import to_markdown

CB = "closed_book"
PAPER = Path(__file__).parents[3] / ".." / "shared" / "papers" / "amnesia.txt"


def shown(results: SweepResults, split: str, model: tuple[str, str], *place: Any) -> float:
    found = results.valued(CB, split, model, *place)
    assert found is not None
    assert found.value is not None
    return found.value


def test_figure_2_has_a_row_a_measure_and_kind_and_a_panel_a_size(results: SweepResults) -> None:
    rows = dict(bar_rows(results, CB, "random"))
    assert list(rows) == [f"{of}, {kind}" for of in ("MU on retain", "AFE on forget") for kind in results.kinds]
    spec = rows["AFE on forget, reasoning"]
    bars = [trace for trace in spec["data"] if trace["type"] == "bar"]
    assert [(bar["xaxis"], bar["name"]) for bar in bars] == [
        (axis, fold) for axis in ("x", "x2") for fold in ("train", "holdout")
    ]
    for bar in bars:
        split = {"x": "random_05", "x2": "random_25"}[bar["xaxis"]]
        edges = zip(
            results.methods, bar["y"], *(bar["error_y"][edge] for edge in ("array", "arrayminus")), strict=True
        )
        for method, height, up, down in edges:
            found = results.number(CB, split, who(method), ("forget", bar["name"], "reasoning"), "AFE")
            assert found is not None
            expected = (found.value, found.high, found.low)
            assert (height, height + up, height - down) == pytest.approx(expected, abs=1e-5)
        assert bar["marker"]["pattern"]["shape"] == ("" if bar["name"] == "train" else "/")
    json.dumps(spec, allow_nan=False)


def test_figure_2_draws_target_and_retrained_as_lines(results: SweepResults) -> None:
    spec = dict(bar_rows(results, CB, "random"))["MU on retain, factual"]
    lines = {(line["name"], line["yref"]): line for line in spec["layout"]["shapes"]}
    assert len(lines) == 8
    for role in ("target", "retrained"):
        for fold in ("train", "holdout"):
            for axis, split in (("y", "random_05"), ("y2", "random_25")):
                expected = shown(results, split, (role, ""), ("retain", fold, "factual"), "MU")
                assert lines[f"{role}, {fold}", axis]["y0"] == pytest.approx(expected, abs=1e-5)
    assert len({line["line"]["dash"] for line in lines.values()}) == 4


def test_a_method_without_a_number_gets_a_dash_and_no_bar(results: SweepResults) -> None:
    gone = (results.numbers["split"] == "random_25") & (results.numbers["method"] == "RMU")
    spec = dict(bar_rows(replace(results, numbers=results.numbers[~gone]), CB, "random"))["MU on retain, factual"]
    assert [len(trace["x"]) for trace in spec["data"]] == [2, 2, 1, 1]
    dashes = [note for note in spec["layout"]["annotations"] if note["text"] == "–"]
    assert [(dash["xref"], dash["x"]) for dash in dashes] == [("x2", 1)]


def test_several_seeds_are_points(make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]) -> None:
    results = gather(make_sweep().all(["random_25"], ["rmu"], seeds=(0, 1), retrained=False), 30)
    spec = dict(bar_rows(results, CB, "random"))["AFE on forget, factual"]
    points = next(trace for trace in spec["data"] if trace["name"] == "seeds")
    found = results.number(CB, "random_25", who("RMU"), ("forget", "train", "factual"), "AFE")
    assert found is not None
    assert points["y"] == pytest.approx(list(found.by_seed), abs=1e-5)


def test_figure_3_traces_each_model_over_the_sizes(results: SweepResults) -> None:
    panels = dict(tradeoff_panels(results, CB, "cancer"))
    assert list(panels) == ["train, factual", "train, reasoning", "holdout, factual", "holdout, reasoning"]
    traces = {trace["name"]: trace for trace in panels["holdout, reasoning"]["data"]}
    assert list(traces) == ["KL-Min", "RMU", "target", "retrained"]
    for split, x, y in zip(("cancer_05", "cancer_20"), traces["RMU"]["x"], traces["RMU"]["y"], strict=True):
        for value, side, measure in ((x, "retain", "MU"), (y, "forget", "AFE")):
            expected = shown(results, split, who("RMU"), (side, "holdout", "reasoning"), measure)
            assert value == pytest.approx(expected, abs=1e-5)
    assert [traces[role]["marker"]["symbol"] for role in ("target", "retrained")] == ["star", "diamond"]
    assert traces["target"]["mode"] == "markers"
    assert traces["RMU"]["marker"]["opacity"] == [0.35, 1.0]
    steps = results.steps_of("random")
    assert opacities(steps, steps[1:]) == [1.0]


def test_figure_4_sets_same_disease_against_others(results: SweepResults) -> None:
    spec = disease_figure(results, CB, "cancer")
    assert spec is not None
    assert disease_figure(results, CB, "random") is None
    traces = {trace["name"]: trace for trace in spec["data"]}
    assert len(traces) == 8
    for group, dash in ((SAME, "solid"), (OTHER, "dash")):
        trace = traces[f"RMU, {group}"]
        assert (trace["x"], trace["line"]["dash"]) == ([5, 20], dash)
        expected = [
            shown(results, split, who("RMU"), ("retain", "train", MEAN_OF_KINDS), "MU", group)
            for split in ("cancer_05", "cancer_20")
        ]
        assert trace["y"] == pytest.approx(expected, abs=1e-5)


def test_table_2_prints_leakage_and_degradation_in_percent(results: SweepResults) -> None:
    tables = {table.columns[0].text: table for table in table_2(results, CB)}
    assert list(tables) == ["random", "cancer"]
    assert [cell.text for cell in tables["cancer"].columns[1:]] == ["5%", "20%"]
    rows = {row[0].text: row for row in tables["cancer"].rows}
    reasoning = rows["RMU"][2].spans[4]
    expected = shown(results, "cancer_20", who("RMU"), ("forget", "train", "reasoning"), "ls")
    assert (reasoning.text, reasoning.mark) == (f"{100 * expected:.1f}", "highest")
    assert "subjects" in reasoning.note
    assert leakage_table(results, CB) is not None


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([0.1, 0.2, 0.3], ["lowest", "", "highest"]),
        ([0.1, 0.1001, 0.3], ["lowest", "lowest", "highest"]),
        ([0.1, 0.1, 0.1], ["", "", ""]),
        ([None, 0.2, 0.3], ["", "lowest", "highest"]),
        ([None, None], ["", ""]),
    ],
)
def test_lowest_and_highest_are_marked(values: list[float | None], marks: list[str]) -> None:
    spans = marked([(value, "") for value in values])
    assert [span.mark for span in spans] == marks
    assert [span.text == "not measured" for span in spans] == [value is None for value in values]


def test_without_leakage_scores_the_table_says_so(
    make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]
) -> None:
    results = gather(make_sweep(leakage=False).all(["random_25"], ["rmu"], retrained=False), 20)
    (table,) = table_2(results, CB)
    assert table.rows[0][1].text.startswith("not measured (")
    assert leakage_table(results, CB) is None
    found = results.contrast("leakage below a tenth of target", CB, "random_25", "RMU", "train", "all")
    assert (found.value, found.reason) == (None, "ls was not measured")


def test_the_search_is_shown_as_given(results: SweepResults) -> None:
    table = search_table(results.facts.search)
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["rmu", "1e-04", "0.200", ""],
        ["rmu", "0.001", "0.400", "chosen"],
    ]


def test_published_numbers_have_the_papers_shape() -> None:
    found = published_table_2()
    assert len(found) == 4 * (5 + 5 + 4 + 3)
    assert published()["setting"] == "LLaMA-3-8B, 8,820 patients"
    assert found["cancer", "RMU", 25].ls_reasoning == 12.7
    assert found["cardiovascular", "KL-Min", 5].ds_factual == 7.0
    assert ("infectious", "RMU", 25) not in found
    assert all(statements(figure) for figure in (2, 3, 4))
    cancer = next(table for table in published_tables() if table.columns[0].text == "cancer")
    cell = next(row for row in cancer.rows if row[0].text == "SimNPO")[1]
    assert cell.text.startswith("14.1 (0.5)")
    assert [span.mark for span in cell.spans[:3]] == ["highest", "", ""]


def test_published_numbers_are_those_of_the_paper() -> None:
    if not PAPER.exists():
        pytest.skip("the paper's text is not here (../shared/papers/amnesia.txt)")
    text = PAPER.read_text(encoding="utf-8")
    rows = text[text.index("Cancer GradDiff 0.5") : text.index("Table 2: Forget set leakage score")]
    ours = [
        number
        for row in published_table_2().values()
        for number in (row.ls_factual, row.ds_factual, row.ls_reasoning, row.ds_reasoning)
    ]
    assert ours == [float(number) for number in re.findall(r"\d+\.\d", rows)]


@pytest.fixture(scope="module")
def page(results: SweepResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(report_of(results).report, tmp_path_factory.mktemp("report") / "new")


def test_no_text_of_a_record_is_in_any_file(page: Path, clinic: Benchmark) -> None:
    assert sorted(file.name for file in page.parent.iterdir()) == ["report.html", "report.json", "report.md"]
    texts = "".join(own_part(file.read_text("utf-8")) for file in page.parent.iterdir())
    for question in clinic.questions:
        assert question.question not in texts
        assert len(question.answer) < 12 or question.answer not in texts
    assert not any(i.value in texts for r in clinic.records for i in r.identifiers if len(i.value) > 5)
    assert not any(r.groups["patient"] in texts for r in clinic.records)


def test_the_page_holds_findings_and_the_papers_numbers_and_loads_nothing(
    page: Path, results: SweepResults
) -> None:
    html = own_part(page.read_text("utf-8"))
    assert "A &lt;sweep&gt;" in html
    assert "<sweep>" not in html
    assert "step &lt;12&gt;" in html
    assert "http://" not in html
    assert "https://" not in html
    for finding in report_of(results).findings:
        assert finding.claim in html
    assert html.index("Not in this report") < html.rindex("How to read this") < html.rindex("Figure 2")
    assert "LLaMA-3-8B, 8,820 patients" in html
    assert "Learning rates tried" in html


def test_the_json_holds_every_number(page: Path, results: SweepResults) -> None:
    data = json.loads((page.parent / "report.json").read_text("utf-8"))
    assert len(data["numbers"]["value"]) == len(results.numbers)
    assert len(data["contrasts"]["low"]) == len(results.contrasts)
    place = results.numbers["measure"].tolist().index("MU")
    assert data["numbers"]["value"][place] == results.numbers["value"].tolist()[place]
    assert [one["verdict"] for one in data["findings"]] == [one.verdict for one in report_of(results).findings]
    assert len(data["published"]["table_2"]) == 68
    assert data["missing"][0]["reason"] == "the loss became NaN at step <12>"


def test_a_sweep_without_methods_still_has_a_page(results: SweepResults) -> None:
    alone = results.numbers[results.numbers["role"] == "target"]
    facts = replace(results.facts, methods=())
    bare = replace(results, facts=facts, numbers=alone, contrasts=results.contrasts.iloc[:0])
    made = report_of(bare)
    assert {finding.verdict for finding in made.findings} == {"not measurable"}
    assert to_html(made.report)
    assert to_markdown(made.report)
    assert tables_of(made.report.blocks)
