"""Figures carry the numbers of the results, Table 2 marks what is lowest and highest, and no file holds a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sweep_folders import number_of, own_part, tables_of, who

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.figures import bar_rows, disease_figure, opacities, tradeoff_panels
from medunlearn.papers.amnesia.report import report_of
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, SizeResults
from medunlearn.papers.amnesia.tables import (
    leakage_table,
    marked,
    one_token,
    published_results,
    published_statements,
    published_table_2,
    table_2,
)
from medunlearn.papers.sweeps.models import BrokenModel
from medunlearn.papers.sweeps.results import _warnings
from medunlearn.papers.sweeps.tables import search_table
from medunlearn.reports.finding_blocks import measured
from medunlearn.reports.html import to_html
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.write import write_report
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.forgetting_check import Reason

CB = "closed_book"
PAPER = Path(__file__).parents[3] / ".." / "shared" / "papers" / "amnesia.txt"
Gather = Callable[..., SizeResults]


def edges(results: SizeResults, split: str, model: tuple[str, str], *place: Any) -> tuple[float, float, float]:
    number = results.valued(CB, split, model, *place)
    assert number is not None
    assert None not in (number.value, number.high, number.low)
    return (number.value, number.high, number.low)  # type: ignore[return-value]


def test_figure_2_has_a_row_a_measure_and_kind_and_a_panel_a_size(results: SizeResults) -> None:
    rows = dict(bar_rows(results, CB, "random"))
    assert list(rows) == [f"{of}, {kind}" for of in ("MU on retain", "AFE on forget") for kind in results.kinds]
    spec = rows["AFE on forget, reasoning"]
    bars = [trace for trace in spec["data"] if trace["type"] == "bar"]
    assert [(bar["xaxis"], bar["name"]) for bar in bars] == [
        (axis, fold) for axis in ("x", "x2") for fold in ("train", "holdout")
    ]
    for bar in bars:
        split = {"x": "random_10", "x2": "random_25"}[bar["xaxis"]]
        errors = (bar["error_y"][edge] for edge in ("array", "arrayminus"))
        for method, height, up, down in zip(results.methods, bar["y"], *errors, strict=True):
            expected = edges(results, split, who(method), ("forget", bar["name"], "reasoning"), "AFE")
            assert (height, height + up, height - down) == pytest.approx(expected, abs=1e-5)
        assert bar["marker"]["pattern"]["shape"] == ("" if bar["name"] == "train" else "/")
    json.dumps(spec, allow_nan=False)


def test_figure_2_draws_references_as_lines_and_a_dash_where_a_number_is_missing(results: SizeResults) -> None:
    spec = dict(bar_rows(results, CB, "random"))["MU on retain, factual"]
    lines = {(line["name"], line["yref"]): line for line in spec["layout"]["shapes"]}
    assert len(lines) == 8
    for (name, axis), line in lines.items():
        role, fold = name.split(", ")
        split = {"y": "random_10", "y2": "random_25"}[axis]
        expected = edges(results, split, (role, ""), ("retain", fold, "factual"), "MU")[0]
        assert line["y0"] == pytest.approx(expected, abs=1e-5)
    assert len({line["line"]["dash"] for line in lines.values()}) == 4
    missing = (results.numbers["split"] == "random_25") & (results.numbers["method"] == "RMU")
    fewer = replace(results, numbers=results.numbers[~missing])
    spec = dict(bar_rows(fewer, CB, "random"))["MU on retain, factual"]
    assert [len(trace["x"]) for trace in spec["data"]] == [2, 2, 1, 1]
    dashes = [note for note in spec["layout"]["annotations"] if note["text"] == "–"]
    assert [(dash["xref"], dash["x"]) for dash in dashes] == [("x2", 1)]


def test_several_seeds_are_points_and_without_leakage_scores_the_table_says_so(
    seeded: list[Evaluated], gather: Gather
) -> None:
    results = gather([model for model in seeded if model.run.info.config["seed"] < 2], 20)
    assert any("over 2 training seeds" in caveat for caveat in results.caveats)
    spec = dict(bar_rows(results, CB, "random"))["AFE on forget, factual"]
    points = next(trace for trace in spec["data"] if trace["name"] == "seeds")
    number = number_of(results, CB, "random_25", who("RMU"), ("forget", "train", "factual"), "AFE")
    assert points["y"] == pytest.approx(list(number.by_seed), abs=1e-5)
    (table,) = table_2(results, CB)
    assert table.rows[0][1].text.startswith("not measured (")
    assert leakage_table(results, CB) is None
    leaked = results.contrast("leakage below a tenth of target", CB, "random_25", "RMU", "train", "all")
    assert (leaked.value, leaked.reason) == (None, "ls was not measured")


def test_figure_3_traces_each_model_over_the_sizes(results: SizeResults) -> None:
    panels = dict(tradeoff_panels(results, CB, "cancer"))
    assert list(panels) == ["train, factual", "train, reasoning", "holdout, factual", "holdout, reasoning"]
    traces = {trace["name"]: trace for trace in panels["holdout, reasoning"]["data"]}
    assert list(traces) == ["KL-Min", "RMU", "target", "retrained"]
    for side, measure, axis in (("retain", "MU", "x"), ("forget", "AFE", "y")):
        expected = [
            edges(results, split, who("RMU"), (side, "holdout", "reasoning"), measure)[0]
            for split in ("cancer_10", "cancer_20")
        ]
        assert traces["RMU"][axis] == pytest.approx(expected, abs=1e-5)
    assert [traces[role]["marker"]["symbol"] for role in ("target", "retrained")] == ["star", "diamond"]
    assert traces["target"]["mode"] == "markers"
    assert traces["RMU"]["marker"]["opacity"] == [0.35, 1.0]
    steps = results.scopes["random"]
    assert opacities(steps, steps[1:]) == [1.0]


def test_figure_4_sets_same_disease_against_others(results: SizeResults) -> None:
    assert disease_figure(results, CB, "random") is None
    spec = disease_figure(results, CB, "cancer")
    assert spec is not None
    traces = {trace["name"]: trace for trace in spec["data"]}
    assert len(traces) == 8
    for group, dash in ((SAME, "solid"), (OTHER, "dash")):
        trace = traces[f"RMU, {group}"]
        assert (trace["x"], trace["line"]["dash"]) == ([10, 20], dash)
        expected = [
            edges(results, split, who("RMU"), ("retain", "train", MEAN_OF_KINDS), "MU", group)[0]
            for split in ("cancer_10", "cancer_20")
        ]
        assert trace["y"] == pytest.approx(expected, abs=1e-5)


def test_table_2_prints_leakage_and_degradation_in_percent(results: SizeResults) -> None:
    tables = {table.columns[0].text: table for table in table_2(results, CB)}
    assert list(tables) == ["random", "cancer"]
    assert [cell.text for cell in tables["cancer"].columns[1:]] == ["10%", "20%"]
    reasoning = {row[0].text: row for row in tables["cancer"].rows}["RMU"][2].spans[4]
    expected = edges(results, "cancer_20", who("RMU"), ("forget", "train", "reasoning"), "ls")[0]
    assert (reasoning.text, reasoning.mark) == (f"{100 * expected:.1f}", "")
    (marked_table,) = (
        table for table in table_2(replace(results, unproven={}), CB) if table.columns[0].text == "cancer"
    )
    free = {row[0].text: row for row in marked_table.rows}["RMU"][2].spans[4]
    assert (free.text, free.mark) == (reasoning.text, "highest")
    assert "subjects" in reasoning.note
    leaked = leakage_table(results, CB)
    assert leaked is not None
    assert [column.text for column in leaked.columns[3:]] == [
        "Leakage score (LS)", "Degradation score (DS)", "Degenerate", "One token",
    ]  # fmt: skip


def test_responses_of_one_token_are_counted_apart_from_collapse(results: SizeResults) -> None:
    at = (CB, "cancer_20", who("KL-Min"), ("forget", "train", "factual"))
    degradation = results.valued(*at, "DS")
    assert degradation is not None
    assert one_token(degradation, results.valued(*at, "degenerate")) == pytest.approx(0.0, abs=1e-12)
    half = replace(degradation, value=(degradation.value or 0) - 0.25)
    assert one_token(degradation, half) == pytest.approx(0.25)
    assert one_token(degradation, None) is None


@pytest.mark.parametrize(("extractor", "claimed"), [("offline", False), ("scispacy", True), ("", False)])
def test_table_2_is_claimed_with_the_papers_extractor_alone(
    results: SizeResults, extractor: str, claimed: bool
) -> None:
    named = replace(results, extractors=(extractor,) if extractor else ())
    page = to_markdown(report_of(named).report)
    assert ("in the form of Table 2" in page) is not claimed
    assert f"keywords by {extractor}" in page
    assert table_2(named, CB)[0].columns[0].note == (f"keywords by {extractor}" if extractor else "")


def test_neither_one_seed_nor_five_are_called_few(
    results: SizeResults, seeded: list[Evaluated], gather: Gather
) -> None:
    assert not any("training seeds" in caveat for caveat in (*results.caveats, *gather(seeded, 20).caveats))


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
    spans = marked([(value, "") for value in values], [True] * len(values))
    assert [span.mark for span in spans] == marks
    assert [span.text == "not measured" for span in spans] == [value is None for value in values]


def test_a_broken_or_damaged_model_is_neither_marked_nor_counted(results: SizeResults) -> None:
    spans = marked([(value, "") for value in (0.01, 0.2, 0.3, 0.9)], [False, True, True, False])
    assert [span.mark for span in spans] == ["", "lowest", "highest", ""]
    damaged = {(CB, "random_10", "RMU"): (Reason("damage", "It cannot be told apart from damage."),)}
    own = replace(results, unproven=damaged, broken={(CB, "random_10", "KL-Min"): "all answers are empty"})
    assert not own.may_be_best(CB, "random_10", "RMU")
    assert not own.may_be_best(CB, "random_10", "KL-Min")
    assert own.may_be_best(CB, "random_25", "KL-Min")


def test_the_search_is_shown_as_given(results: SizeResults) -> None:
    table = search_table(results.request.search)
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["rmu", "1e-04", "0.200", ""],
        ["rmu", "0.001", "0.400", "chosen"],
    ]


def test_published_numbers_are_those_of_the_paper() -> None:
    rows = published_table_2()
    assert len(rows) == 4 * (5 + 5 + 4 + 3)
    numbers = rows.set_index(["scope", "method", "percent"])
    assert numbers.loc[("cancer", "RMU", 25), "ls_reasoning"] == 12.7
    assert numbers.loc[("cardiovascular", "KL-Min", 5), "ds_factual"] == 7.0
    assert ("infectious", "RMU", 25) not in numbers.index
    assert all(published_statements(figure) for figure in (2, 3, 4))
    cancer = next(table for table in table_2(published_results(), "") if table.columns[0].text == "cancer")
    cell = next(row for row in cancer.rows if row[0].text == "SimNPO")[1]
    assert cell.text.startswith("14.1 (0.5)")
    assert [span.mark for span in cell.spans[:3]] == ["highest", "", ""]
    if not PAPER.exists():
        pytest.skip("the paper's text is not here (../shared/papers/amnesia.txt)")
    text = PAPER.read_text(encoding="utf-8")
    printed = text[text.index("Cancer GradDiff 0.5") : text.index("Table 2: Forget set leakage score")]
    assert numbers.to_numpy().ravel().tolist() == [float(number) for number in re.findall(r"\d+\.\d", printed)]


def test_the_files_hold_findings_and_numbers_and_no_text(
    results: SizeResults, clinic: Benchmark, tmp_path: Path
) -> None:
    report = report_of(results)
    write_report(report.report, tmp_path / "new")
    files = {file.name: own_part(file.read_text("utf-8")) for file in (tmp_path / "new").iterdir()}
    assert set(files) == {"report.html", "report.json", "report.md"}
    texts, html = "".join(files.values()), files["report.html"]
    for question in clinic.questions:
        assert question.question not in texts
        assert len(question.answer) < 12 or question.answer not in texts
    assert not any(i.value in texts for r in clinic.records for i in r.identifiers if len(i.value) > 5)
    assert not any(r.groups["patient"] in texts for r in clinic.records)
    expected = ["A &lt;sweep&gt;", "step &lt;12&gt;", "LLaMA-3-8B, 8,820 patients", "Learning rates tried"]
    decided = {finding.name for finding in measured(report.findings)}
    claims = [finding.claim if finding.name in decided else finding.name for finding in report.findings]
    for part in [*expected, *claims]:
        assert part in html
    assert not any(part in html for part in ("<sweep>", "http://", "https://"))
    assert html.index("Not in this report") < html.rindex("How to read the paper") < html.rindex("Figure 2")
    data = json.loads(files["report.json"])
    assert len(data["numbers"]["value"]) == len(results.numbers)
    assert len(data["contrasts"]["low"]) == len(results.contrasts)
    place = results.numbers["measure"].tolist().index("MU")
    assert data["numbers"]["value"][place] == results.numbers["value"].tolist()[place]
    assert [row["verdict"] for row in data["findings"]] == [finding.verdict for finding in report.findings]
    assert len(data["published"]["table_2"]) == 68
    assert data["missing"][0]["reason"] == "the loss became NaN at step <12>"


def test_a_sweep_without_methods_still_has_a_page(results: SizeResults) -> None:
    alone = results.numbers[results.numbers["role"] == "target"]
    bare = report_of(replace(results, methods=(), numbers=alone, contrasts=results.contrasts.iloc[:0]))
    assert {finding.verdict for finding in bare.findings} == {"not measurable"}
    assert to_html(bare.report)
    assert to_markdown(bare.report)
    assert tables_of(bare.report.blocks)


def test_many_broken_models_are_one_sentence() -> None:
    alike = [
        BrokenModel("note", split, method, method or "target", seed, "all answers are empty")
        for method in ("", "NPO")
        for split in ("random_05", "random_10")
        for seed in (0, 1)
    ]
    other = BrokenModel("note", "random_05", "RMU", "RMU", 0, "NaN")
    together, alone = _warnings([*alike, other])
    assert together == (
        "8 broken models, each: all answers are empty. No verdict is read from them: "
        "target on random_05, random_10; NPO on random_05, random_10."
    )
    assert alone == "A broken model: RMU on random_05, seed 0: NaN. No verdict is read from it."
