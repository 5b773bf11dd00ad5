"""Figures carry the numbers of the content, and tables mark what is lowest and highest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.report import SweepContent
from medunlearn.papers.amnesia.report.bars import bar_rows
from medunlearn.papers.amnesia.report.content import MEAN_OF_KINDS, OTHER, SAME
from medunlearn.papers.amnesia.report.published import setting, statements, table_2
from medunlearn.papers.amnesia.report.tables import (
    leak_details,
    leak_tables,
    marked,
    published_tables,
    search_table,
)
from medunlearn.papers.amnesia.report.traces import disease_figure, opacities, tradeoff_panels
from medunlearn.papers.amnesia.swept.results import gather_sweep

CB = "closed_book"
PAPER = Path(__file__).parents[4] / ".." / "shared" / "papers" / "amnesia.txt"


def shown(
    content: SweepContent, split: str, who: tuple[str, str], place: Any, metric: str, group: str = "all"
) -> float:
    found = content.number(CB, split, who, place, metric, group)
    assert found is not None
    assert found.value is not None
    return found.value


def test_figure_2_has_a_row_a_measure_and_kind_and_a_panel_a_size(content: SweepContent) -> None:
    rows = dict(bar_rows(content, CB, "random"))
    assert list(rows) == [
        "MU on retain, factual",
        "MU on retain, reasoning",
        "AFE on forget, factual",
        "AFE on forget, reasoning",
    ]
    spec = rows["AFE on forget, reasoning"]
    bars = [trace for trace in spec["data"] if trace["type"] == "bar"]
    assert [(bar["xaxis"], bar["name"]) for bar in bars] == [
        ("x", "train"),
        ("x", "holdout"),
        ("x2", "train"),
        ("x2", "holdout"),
    ]
    for bar in bars:
        split = {"x": "random_05", "x2": "random_25"}[bar["xaxis"]]
        for method, height, up, down in zip(
            content.methods, bar["y"], bar["error_y"]["array"], bar["error_y"]["arrayminus"], strict=True
        ):
            place = ("forget", bar["name"], "reasoning")
            found = content.number(CB, split, ("unlearned", method), place, "AFE")
            assert found is not None
            assert found.reading.high is not None
            assert found.reading.low is not None
            assert height == pytest.approx(found.value, abs=1e-5)
            assert (height + up, height - down) == pytest.approx((found.reading.high, found.reading.low), abs=1e-5)
        assert bar["marker"]["pattern"]["shape"] == ("" if bar["name"] == "train" else "/")
    json.dumps(spec, allow_nan=False)


def test_figure_2_draws_target_and_retrained_as_lines(content: SweepContent) -> None:
    spec = dict(bar_rows(content, CB, "random"))["MU on retain, factual"]
    lines = {(line["name"], line["yref"]): line for line in spec["layout"]["shapes"]}
    assert len(lines) == 8
    for role in ("target", "retrained"):
        for fold in ("train", "holdout"):
            for axis, split in (("y", "random_05"), ("y2", "random_25")):
                expected = shown(content, split, (role, ""), ("retain", fold, "factual"), "MU")
                assert lines[f"{role}, {fold}", axis]["y0"] == pytest.approx(expected, abs=1e-5)
    assert len({line["line"]["dash"] for line in lines.values()}) == 4


def test_a_method_without_a_number_gets_a_dash_and_no_bar(content: SweepContent) -> None:
    gone = (content.numbers["split"] == "random_25") & (content.numbers["method"] == "RMU")
    fields = {name: getattr(content, name) for name in content.__dataclass_fields__}
    less = SweepContent(**(fields | {"numbers": content.numbers[~gone]}))
    spec = dict(bar_rows(less, CB, "random"))["MU on retain, factual"]
    assert [len(trace["x"]) for trace in spec["data"]] == [2, 2, 1, 1]
    dashes = [note for note in spec["layout"]["annotations"] if note["text"] == "–"]
    assert [(dash["xref"], dash["x"]) for dash in dashes] == [("x2", 1)]


def test_several_seeds_are_points(make_sweep: Callable[..., Any], clinic: Benchmark) -> None:
    models = make_sweep().all(["random_25"], methods=["rmu"], seeds=(0, 1), retrained=False)
    content = gather_sweep("t", models, clinic, replicates=30)
    spec = dict(bar_rows(content, CB, "random"))["AFE on forget, factual"]
    points = next(trace for trace in spec["data"] if trace["name"] == "seeds")
    found = content.number(CB, "random_25", ("unlearned", "RMU"), ("forget", "train", "factual"), "AFE")
    assert found is not None
    assert points["y"] == pytest.approx(list(found.by_seed), abs=1e-5)


def test_figure_3_traces_each_model_over_the_sizes(content: SweepContent) -> None:
    panels = dict(tradeoff_panels(content, CB, "cancer"))
    assert list(panels) == ["train, factual", "train, reasoning", "holdout, factual", "holdout, reasoning"]
    traces = {trace["name"]: trace for trace in panels["holdout, reasoning"]["data"]}
    assert list(traces) == ["KL-Min", "RMU", "target", "retrained"]
    for split, x, y in zip(("cancer_05", "cancer_20"), traces["RMU"]["x"], traces["RMU"]["y"], strict=True):
        who = ("unlearned", "RMU")
        assert x == pytest.approx(shown(content, split, who, ("retain", "holdout", "reasoning"), "MU"), abs=1e-5)
        assert y == pytest.approx(shown(content, split, who, ("forget", "holdout", "reasoning"), "AFE"), abs=1e-5)
    assert traces["target"]["marker"]["symbol"] == "star"
    assert traces["retrained"]["marker"]["symbol"] == "diamond"
    assert traces["target"]["mode"] == "markers"
    assert traces["RMU"]["marker"]["opacity"] == [0.35, 1.0]


def test_a_missing_size_keeps_the_shades_of_the_others(content: SweepContent) -> None:
    steps = content.steps_of("random")
    assert opacities(steps, steps[1:]) == [1.0]


def test_figure_4_sets_same_disease_against_others(content: SweepContent) -> None:
    spec = disease_figure(content, CB, "cancer")
    assert spec is not None
    assert disease_figure(content, CB, "random") is None
    traces = {trace["name"]: trace for trace in spec["data"]}
    assert len(traces) == 8
    for group, dash in ((SAME, "solid"), (OTHER, "dash")):
        trace = traces[f"RMU, {group}"]
        assert trace["x"] == [5, 20]
        assert trace["line"]["dash"] == dash
        expected = [
            shown(content, split, ("unlearned", "RMU"), ("retain", "train", MEAN_OF_KINDS), "MU", group)
            for split in ("cancer_05", "cancer_20")
        ]
        assert trace["y"] == pytest.approx(expected, abs=1e-5)


def test_table_2_prints_leakage_and_degradation_in_percent(content: SweepContent) -> None:
    tables = {table.scope: table for table in leak_tables(content, CB)}
    assert list(tables) == ["random", "cancer"]
    assert tables["cancer"].sizes == ("5%", "20%")
    rows = dict(tables["cancer"].rows)
    (factual, reasoning) = rows["RMU"][1].parts
    place = ("forget", "train", "reasoning")
    expected = shown(content, "cancer_20", ("unlearned", "RMU"), place, "ls")
    assert reasoning[0].text == f"{100 * expected:.1f}"
    assert reasoning[0].mark == "highest"
    assert factual[1].mark == "lowest"
    assert dict(tables["cancer"].rows)["KL-Min"][1].parts[0][1].mark == "highest"
    assert "subjects" in reasoning[0].note
    assert "[" in reasoning[0].note
    details = leak_details(content, CB)
    assert details is not None
    assert len(details.rows) == 4 * 4 * 2 * 3


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([0.1, 0.3, 0.2], ["lowest", "highest", ""]),
        ([0.1, 0.1001, 0.2], ["lowest", "lowest", "highest"]),
        ([0.1, 0.1], ["", ""]),
        ([0.1, None, 0.2], ["lowest", "", "highest"]),
        ([None, None], ["", ""]),
    ],
)
def test_lowest_and_highest_are_marked(values: list[float | None], marks: list[str]) -> None:
    parts = marked([(value, "") for value in values])
    assert [part.mark for part in parts] == marks
    assert [part.text == "not measured" for part in parts] == [value is None for value in values]


def test_without_leakage_scores_the_table_says_so(make_sweep: Callable[..., Any], clinic: Benchmark) -> None:
    models = make_sweep(leakage=False).all(["random_25"], methods=["rmu"], retrained=False)
    content = gather_sweep("t", models, clinic, replicates=20)
    (table,) = leak_tables(content, CB)
    assert str(table.rows[0][1][0]).startswith("not measured (")
    assert leak_details(content, CB) is None
    found = content.contrast("leakage below a tenth of target", CB, "random_25", "RMU", "train", "all")
    assert found.value is None
    assert found.reason == "ls was not measured"


def test_the_search_is_shown_as_given(content: SweepContent) -> None:
    table = search_table(content)
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["rmu", "1e-04", "0.200", ""],
        ["rmu", "0.001", "0.400", "chosen"],
    ]


def test_published_numbers_have_the_papers_shape() -> None:
    found = table_2()
    assert len(found) == 4 * (5 + 5 + 4 + 3)
    assert setting() == "LLaMA-3-8B, 8,820 patients"
    assert found["cancer", "RMU", 25].ls_reasoning == 12.7
    assert found["cardiovascular", "KL-Min", 5].ds_factual == 7.0
    assert ("infectious", "RMU", 25) not in found
    assert {figure: len(statements(figure)) > 0 for figure in (2, 3, 4)} == {2: True, 3: True, 4: True}
    cancer = next(table for table in published_tables() if table.scope == "cancer")
    assert str(dict(cancer.rows)["SimNPO"][0]).startswith("_14.1_ (_0.5_)") is False
    assert str(dict(cancer.rows)["SimNPO"][0]).startswith("_14.1_ (0.5)")


def test_published_numbers_are_those_of_the_paper() -> None:
    if not PAPER.exists():
        pytest.skip("the paper's text is not here (../shared/papers/amnesia.txt)")
    text = PAPER.read_text(encoding="utf-8")
    rows = text[text.index("Cancer GradDiff 0.5") : text.index("Table 2: Forget set leakage score")]
    printed = [float(one) for one in re.findall(r"\d+\.\d", rows)]
    ours = [
        n
        for row in table_2().values()
        for n in (row.ls_factual, row.ds_factual, row.ls_reasoning, row.ds_reasoning)
    ]
    assert ours == printed
