"""Figures are drawn as SVG of the numbers that the tables show."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from rendered import data_of, markdown_of, page_of

from medunlearn.attacks.membership.membership_report import areas_part, membership_tables, roc_figures
from medunlearn.attacks.recovery.recovery_report import Recovery, recovery_section
from medunlearn.reports.blocks import Details, Table
from medunlearn.reports.content import Membership, ReportContent
from medunlearn.reports.epochs import epoch_figures, epoch_table
from medunlearn.reports.figures import Spec, colours, symbols
from medunlearn.reports.formatting import count, decimal, duration, flat, signed
from medunlearn.reports.html import asset
from medunlearn.reports.label_places import place_labels
from medunlearn.reports.plots import panels, thinned, tradeoff, training_curves
from medunlearn.reports.readings import Results, main_plane, panel_planes
from medunlearn.reports.scales import scale_of, text_width
from medunlearn.reports.svg import figure_svg
from medunlearn.reports.svg_marks import for_files
from medunlearn.terminal import size

SVG = "{http://www.w3.org/2000/svg}"
COUNTS = {"n_scored": 20, "n_unscored": 0, "n_subjects": 10, "replicates_dropped": 0}
FEW = "not measurable: a false positive rate of 1.0% takes 100 non-members, not 30"


def spec_of(content: ReportContent) -> Spec:
    results = Results(content)
    return tradeoff(results, main_plane(results))


def every_spec(content: ReportContent) -> list[Spec]:
    results = Results(content)
    specs = [*panels(results, panel_planes(results)), *training_curves(content.models)]
    return [spec_of(content), *(spec for _, spec in specs)]


def drawn(spec: Spec, width: float = 640, height: float = 500) -> ElementTree.Element:
    """The drawing on white paper as XML, without a colour that is not resolved."""
    text = figure_svg(spec, width, height, "a <figure>", for_files())
    assert "--" not in text
    assert "nan" not in text
    return ElementTree.fromstring(text)


def texts(drawing: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in drawing.iter(f"{SVG}text")]


def test_every_figure_is_drawn(content: ReportContent) -> None:
    specs = every_spec(content)
    # The main plot, a panel a fold and kind, target and retrained together, one a method.
    assert len(specs) == 1 + 4 + 1 + 6
    for spec in specs:
        assert len(list(drawn(spec))) > 10


def test_every_colour_is_a_variable_of_the_page_in_both_schemes(content: ReportContent) -> None:
    names = set(re.findall(r"'(--[a-z0-9]+)'", str(every_spec(content))))
    assert {"--ink", "--m1", "--m6"} <= names
    style = asset("page.css").decode()
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    assert [name for name in names - {"--sans"} if f"{name}: #" not in light or f"{name}: #" not in dark] == []


def test_a_point_stands_at_its_numbers_with_its_interval(content: ReportContent) -> None:
    points = {trace["name"]: trace for trace in spec_of(content)["data"]}
    npo = points.pop("NPO")
    assert (npo["x"], npo["y"]) == ([0.71], [0.66])
    assert npo["error_x"]["array"] == [pytest.approx(0.028)]
    assert npo["error_x"]["arrayminus"] == [pytest.approx(0.035)]
    shapes = {name: trace["marker"]["symbol"] for name, trace in points.items()}
    assert (shapes.pop("target"), shapes.pop("retrained")) == ("star", "diamond")
    assert len(set(shapes.values())) == len(shapes)


def test_axes_name_the_parts_and_hold_every_interval(content: ReportContent) -> None:
    layout = spec_of(content)["layout"]
    assert "ROUGE-L, exact memorization and token entropy, retain set" in layout["xaxis"]["title"]["text"]
    assert "1 − ROUGE-L and 1 − exact memorization, forget set" in layout["yaxis"]["title"]["text"]
    assert not any("H(" in text or "_" in text for text in texts(drawn(spec_of(content))))
    low, high = layout["xaxis"]["range"]
    assert low < 0.185 < 0.858 < high
    results = Results(content)
    small = panels(results, panel_planes(results))
    assert small[0][0] == "train, factual"
    assert len({str(spec["layout"]["xaxis"]["range"]) for _, spec in small}) == 1


def test_the_cross_lies_on_the_retrained_model(content: ReportContent) -> None:
    upright, level = spec_of(content)["layout"]["shapes"]
    assert (upright["x0"], level["y0"]) == (0.80, 0.62)
    without = replace(content, models=tuple(model for model in content.models if model.role != "retrained"))
    assert spec_of(without)["layout"]["shapes"] == []


def test_curves_show_terms_and_their_total(content: ReportContent) -> None:
    names = {title: [line["name"] for line in spec["data"]] for title, spec in training_curves(content.models)}
    assert names["target and retrained"] == ["target", "retrained"]
    assert (names["GradDiff"], names["GA"]) == (["forget", "retain", "total"], ["loss"])


def test_long_curves_are_thinned_by_means_and_gaps_stay_gaps() -> None:
    steps, values = thinned([(float(step), float(step)) for step in range(1, 1001)])
    assert (len(steps), steps[0], values[0]) == (334, 3.0, 2.0)
    assert thinned([(1.0, float("nan")), (2.0, 0.5)]) == ([1.0, 2.0], [None, 0.5])
    assert thinned([]) == ([], [])


def test_no_two_methods_look_alike(content: ReportContent) -> None:
    models = [replace(content.models[2], label=f"method {number}") for number in range(60)]
    assert len({(colours(models)[model.label], symbols(models)[model.label]) for model in models}) == 60
    few = models[:12]
    assert len(set(colours(few).values())) == len(set(symbols(few).values())) == 12


def test_names_stand_beside_their_points_and_cover_no_other(content: ReportContent) -> None:
    drawing = drawn(spec_of(content))
    names = {model.label for model in content.models}
    placed = {e.text: (float(e.attrib["x"]), float(e.attrib["y"])) for e in drawing.iter(f"{SVG}text")}
    assert names <= placed.keys()
    boxes = {
        name: (x - width / 2, y - 10, x + width / 2, y + 3)
        for name in names
        for x, y in [placed[name]]
        for width in [text_width(name, 12, bold=True)]
    }
    for one, a in boxes.items():
        assert 0 <= a[0] < a[2] <= 640, one
        for other, b in boxes.items():
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert one == other or apart, (one, other)


def test_twenty_points_in_one_place_have_a_name_each() -> None:
    points = [(200.0 + n % 3, 200.0, 60.0) for n in range(20)]
    labels = place_labels(points, [], (0, 0, 400, 400), 12)
    assert len({(label.x, label.y) for label in labels}) == 20
    assert all(30 <= label.x <= 370 and 0 <= label.y <= 400 for label in labels)
    assert sum(label.apart for label in labels) > 10


@pytest.mark.parametrize("width", [370, 640])
def test_no_title_and_no_tick_is_cut(content: ReportContent, width: float) -> None:
    for spec in every_spec(content):
        drawing = drawn(spec, width, 440)
        height = float(drawing.attrib["viewBox"].split()[3])
        for element in drawing.iter(f"{SVG}text"):
            x, y = float(element.attrib["x"]), float(element.attrib["y"])
            length = text_width(element.text or "", float(element.attrib["font-size"]))
            if "rotate(-90" in element.attrib.get("transform", ""):
                assert y - length / 2 >= -4, element.text
                continue
            start = {"start": x, "middle": x - length / 2, "end": x - length}[element.attrib["text-anchor"]]
            assert start >= -4, element.text
            assert 0 <= y <= height


def test_an_interval_is_drawn_to_its_ends(content: ReportContent) -> None:
    """NPO at (.71, .66) with [.675, .738]: the horizontal whisker spans as much as the ticks say."""
    spec = spec_of(content)
    scale = scale_of(spec["layout"]["xaxis"], spec["data"], "x").placed(0, 100)
    low, high = scale(0.71 - 0.035), scale(0.71 + 0.028)
    widths = [abs(float(e.attrib["x2"]) - float(e.attrib["x1"])) for e in drawn(spec).iter(f"{SVG}line")]
    drawing = drawn(spec)
    ticks = {e.text: float(e.attrib["x"]) for e in drawing.iter(f"{SVG}text") if e.text in ("0.4", "0.6")}
    pixels = (ticks["0.6"] - ticks["0.4"]) / 0.2
    assert any(abs(width - 0.063 * pixels) < 0.3 for width in widths)
    assert high - low == pytest.approx(100 * 0.063 / (scale.high - scale.low))


def test_words_of_numbers() -> None:
    assert [decimal(value) for value in (0.5, -0.25, -0.0001)] == ["0.500", "−0.250", "0.000"]
    assert [signed(value) for value in (0.5, -0.25, 0.0)] == ["+0.500", "−0.250", "0.000"]
    assert [duration(value) for value in (4.2, 200, 7500)] == ["4.2 s", "3 min 20 s", "2 h 05 min"]
    assert [size(value) for value in (3 * 2**20, 3 * 2**30)] == ["3 MiB", "3.0 GiB"]
    phrases = [count(1, "patient"), count(2400, "study"), count(3, "disease")]
    assert phrases == ["1 patient", "2,400 studies", "3 diseases"]
    nested = {"a": {"b": [1, 2], "seconds": 90}, "c": None}
    assert flat(nested) == {"a.b": "1, 2", "a.seconds": "1 min 30 s", "c": "none"}


# By epoch.


def epoch_row(value: float | None, **more: Any) -> dict[str, Any]:
    low, high = (None, None) if value is None else (value - 0.1, value + 0.05)
    place = {"side": "forget", "fold": "train", "kind": "completion", "metric": "rouge_l", "parts": ""}
    node = {"level": "task", "node": "Task_1", "measure": "regurgitation"}
    return {"value": value, "low": low, "high": high, **place, **node, **COUNTS, **more}


@pytest.fixture
def watched(content: ReportContent) -> ReportContent:
    """GA and NPO over three epochs on one task; target and retrained model on the same questions."""
    epochs = [
        epoch_row(value, epoch=epoch, model=model)
        for model, values in {"GA": (0.9, 0.4, None), "NPO": (0.9, 0.8, 0.7)}.items()
        for epoch, value in enumerate(values)
    ]
    whole = {"epoch": 1, "model": "NPO", "level": "", "node": "", "kind": "all"}
    epochs += [epoch_row(0.5, **whole, measure="token_f1", metric="token_f1")]
    epochs += [epoch_row(0.5, **whole, measure="membership AUC", metric="loss", side="")]
    groups = [epoch_row(v, model=model) for model, v in (("target", 0.92), ("retrained", 0.2), ("GA", 0.4))]
    return replace(content, epochs=pd.DataFrame(epochs), groups=pd.DataFrame(groups))


def traces(content: ReportContent, place: int = 0) -> dict[str, Any]:
    return {trace["name"]: trace for trace in epoch_figures(content)[place][1]["data"] if "fill" not in trace}


def test_epochs_are_drawn_at_their_numbers_with_their_intervals(watched: ReportContent) -> None:
    lines = traces(watched)
    assert (lines["NPO"]["x"], lines["NPO"]["y"]) == ([0, 1, 2], [0.9, 0.8, 0.7])
    assert lines["GA"]["y"] == [0.9, 0.4, None]
    assert "epoch 2: unscored" in lines["GA"]["text"][2]
    assert (lines["target"]["x"], lines["target"]["y"], lines["target"]["line"]["dash"]) == (
        [0, 2],
        [0.92, 0.92],
        "dash",
    )
    assert (lines["retrained"]["y"], lines["retrained"]["line"]["dash"]) == ([0.2, 0.2], "dot")
    band = next(
        trace for trace in epoch_figures(watched)[0][1]["data"] if trace.get("fill") and trace["name"] == "NPO"
    )
    assert band["x"] == [0, 1, 2, 2, 1, 0]
    assert band["y"] == pytest.approx([0.95, 0.85, 0.75, 0.6, 0.7, 0.8])
    for _, spec in epoch_figures(watched):
        drawn(spec, 370, 280)


def test_single_metrics_of_the_whole_split_are_not_drawn_by_epoch(watched: ReportContent) -> None:
    titles = [title for title, _ in epoch_figures(watched)]
    assert titles == ["Task 1: regurgitation on forget, train fold", "membership AUC, train fold"]
    assert set(traces(watched, 1)) == {"NPO"}


def test_a_model_that_was_asked_other_questions_is_no_reference(watched: ReportContent) -> None:
    fewer = watched.groups.assign(n_scored=[20, 7, 20])
    assert set(traces(replace(watched, groups=fewer))) == {"GA", "NPO", "target"}


def test_the_table_of_epochs_has_the_same_numbers(content: ReportContent, watched: ReportContent) -> None:
    table = epoch_table(watched)
    assert table is not None
    assert [cell.text for cell in table.columns] == ["Epoch", "0", "1", "2"]
    assert [[cell.text for cell in line] for line in table.rows][:2] == [
        ["GA", "0.900", "0.400", "unscored"],
        ["NPO", "0.900", "0.800", "0.700"],
    ]
    assert len(data_of(watched)["epochs"]) == len(watched.epochs)
    assert "## By epoch" in markdown_of(watched)
    assert 'id="epochs"' in page_of(watched)
    assert 'id="epochs"' not in page_of(content)


# Membership.


def membership_row(model: str, measure: str, value: float | None, **more: Any) -> dict[str, Any]:
    edges = (None, None) if value is None else (value - 0.031, value + 0.029)
    about = {"group": "all", "attack": "loss", "n_members": 24, "n_nonmembers": 30, "reading": None, "reason": None}
    return {"model": model, "measure": measure, "value": value, "low": edges[0], "high": edges[1], **about, **more}


@pytest.fixture
def attacked(content: ReportContent) -> ReportContent:
    rows = [
        membership_row("target", "auc", 0.981),
        membership_row("retrained", "auc", 0.507),
        membership_row("GA", "auc", 0.213, reading="over-forgotten"),
        membership_row("GA", "tpr_at_1pct_fpr", None, reason=FEW),
    ]
    gap = {"model": "GA", "against": "retrained", "group": "all", "attack": "loss", "difference": -0.294}
    comparisons = pd.DataFrame([gap | {"low": -0.4, "high": -0.2, "p": 0.002, "reading": "below"}])
    points = {
        "group": "all",
        "attack": "loss",
        "fpr": [0.0, 0.4, 1.0],
        "tpr": [0.0, 0.1, 1.0],
        "threshold": [9, 8, 7],
    }
    curves = pd.concat([pd.DataFrame({**points, "model": label}) for label in ("target", "GA")])
    areas = Membership(pd.DataFrame(rows), comparisons, curves, {"loss": "Loss"})
    return replace(content, membership=areas, attacks=(areas_part(content, areas),))


def test_membership_stands_in_every_format(content: ReportContent, attacked: ReportContent) -> None:
    numbers = ("0.981", "0.507", "0.213", "over-forgotten", FEW, "−0.294", "24 members, 30 non-members")
    for text in (page_of(attacked), markdown_of(attacked)):
        assert [part for part in numbers if part not in text] == []
    data = data_of(attacked)["membership"]
    assert [row["value"] for row in data["table"]] == [0.981, 0.507, 0.213, None]
    assert "threshold" not in data["curves"][0]
    assert "Membership" not in page_of(content) + markdown_of(content)
    assert roc_figures(content) == []


def test_models_that_were_not_attacked_have_no_column(attacked: ReportContent) -> None:
    (table,) = membership_tables(attacked)
    assert [[cell.text for cell in row] for row in (table.columns, *table.rows)] == [
        ["Attack", "target", "retrained", "GA"],
        ["Loss", "0.981", "0.507", "0.213"],
        ["Loss", "–", "–", "unscored"],
    ]
    ((title, spec),) = roc_figures(attacked)
    assert (title, [line["name"] for line in spec["data"]]) == ("Loss", ["target", "GA"])
    assert {"target", "GA", "false positive rate"} <= set(texts(drawn(spec)))


def test_differences_of_recovery_attacks_are_those_that_are_known(content: ReportContent) -> None:
    row = {
        "attack": "relearning.retained",
        "strength": "8 steps",
        "side": "forget",
        "fold": "train",
        "measure": "em",
    }
    values = {"value": 0.4, "low": 0.3, "high": 0.5, "change": 0.1, "reading": None}
    gaps = [("GA", 0.2, 0.1, 0.3), ("NPO", None, None, None)]
    comparisons = pd.DataFrame(
        [{**row, "model": m, "against": "retrained", "difference": d, "low": a, "high": b} for m, d, a, b in gaps]
    )
    table = pd.DataFrame([{**row, **values, "model": "GA"}])
    measures = {"em": ("Exact match", "")}
    recovery = Recovery("relearning", "Relearning", table, comparisons, {}, measures, variant_words="trained on")
    section = recovery_section(content, recovery)
    assert section is not None
    (differences,) = (block for block in section.blocks if isinstance(block, Details))
    (table_of_gaps,) = (block for block in differences.blocks if isinstance(block, Table))
    assert [list(map(str, cells)) for cells in table_of_gaps.rows] == [
        ["GA − retrained", "Exact match, forget, trained on retained", "8 steps", "+0.200 [0.100, 0.300]"]
    ]
