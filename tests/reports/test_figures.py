"""Figures are specifications that plotly accepts, of the numbers that the tables show."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from medunlearn.reports import ReportContent
from medunlearn.reports.curves import thinned, training_curves
from medunlearn.reports.figures import TEMPLATE, Spec, colours, symbols
from medunlearn.reports.headline import main_plane, panel_planes
from medunlearn.reports.html import asset
from medunlearn.reports.readings import Results
from medunlearn.reports.tradeoff import panels, tradeoff
from medunlearn.reports.words import count, decimal, duration, flat, signed, size


def spec_of(content: ReportContent) -> Spec:
    results = Results(content)
    return tradeoff(results, main_plane(results))


def every_spec(content: ReportContent) -> list[Spec]:
    results = Results(content)
    drawn = [*panels(results, panel_planes(results)), *training_curves(content.models)]
    return [spec_of(content), *(spec for _, spec in drawn)]


def coloured(value: Any) -> Any:
    """The specification as the page draws it: a real value for each CSS variable."""
    if isinstance(value, dict):
        return {key: coloured(item) for key, item in value.items()}
    if isinstance(value, list):
        return [coloured(item) for item in value]
    return "#123456" if isinstance(value, str) and value.startswith("--") else value


def test_plotly_accepts_every_figure(content: ReportContent) -> None:
    from plotly.graph_objects import Figure

    specs = every_spec(content)
    # The main plot, a panel a fold and kind, target and retrained together, one a method.
    assert len(specs) == 1 + 4 + 1 + 6
    for spec in specs:
        Figure(coloured({"data": spec["data"], "layout": {"template": TEMPLATE, **spec["layout"]}}))


def test_every_colour_is_a_variable_of_the_page_in_both_schemes(content: ReportContent) -> None:
    names = set(re.findall(r"'(--[a-z0-9]+)'", str([*every_spec(content), TEMPLATE])))
    assert {"--ink", "--m1", "--m6"} <= names
    style = asset("page.css").decode()
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    for name in names - {"--sans"}:
        assert f"{name}: #" in light
        assert f"{name}: #" in dark


def test_a_point_stands_at_its_numbers_with_its_interval(content: ReportContent) -> None:
    points = {trace["name"]: trace for trace in spec_of(content)["data"]}
    npo = points["NPO"]
    assert (npo["x"], npo["y"]) == ([0.71], [0.66])
    assert npo["error_x"]["array"] == [pytest.approx(0.028)]
    assert npo["error_x"]["arrayminus"] == [pytest.approx(0.035)]
    assert {name: trace["marker"]["symbol"] for name, trace in points.items()} == {
        "target": "star",
        "retrained": "diamond",
    } | dict.fromkeys(("GA", "GradDiff", "KL-Min", "NPO", "SimNPO", "RMU"), "circle")


def test_axes_name_the_parts_and_hold_every_interval(content: ReportContent) -> None:
    layout = spec_of(content)["layout"]
    assert "H(rouge_l, em, te) on retain" in layout["xaxis"]["title"]["text"]
    assert "H(1-rouge_l, 1-em) on forget" in layout["yaxis"]["title"]["text"]
    assert layout["xaxis"]["range"][0] < 0.185
    assert layout["xaxis"]["range"][1] > 0.858


def test_the_cross_lies_on_the_retrained_model(content: ReportContent) -> None:
    upright, level = spec_of(content)["layout"]["shapes"]
    assert (upright["x0"], level["y0"]) == (0.80, 0.62)
    without = replace(content, models=tuple(one for one in content.models if one.role != "retrained"))
    assert spec_of(without)["layout"]["shapes"] == []


def test_panels_share_their_axes(content: ReportContent) -> None:
    results = Results(content)
    found = panels(results, panel_planes(results))
    assert found[0][0] == "train, factual"
    assert len({str(spec["layout"]["xaxis"]["range"]) for _, spec in found}) == 1


def test_curves_show_terms_and_their_total(content: ReportContent) -> None:
    found = dict(training_curves(content.models))
    assert [line["name"] for line in found["target and retrained"]["data"]] == ["target", "retrained"]
    assert [line["name"] for line in found["GradDiff"]["data"]] == ["forget", "retain", "total"]
    assert [line["name"] for line in found["GA"]["data"]] == ["loss"]


def test_long_curves_are_thinned_by_means_and_gaps_stay_gaps() -> None:
    steps, values = thinned([(float(step), float(step)) for step in range(1, 1001)])
    assert len(steps) == 334
    assert (steps[0], values[0]) == (3.0, 2.0)
    assert thinned([(1.0, float("nan")), (2.0, 0.5)]) == ([1.0, 2.0], [None, 0.5])
    assert thinned([]) == ([], [])


def test_no_two_methods_look_alike(content: ReportContent) -> None:
    models = [replace(content.models[2], label=f"method {number}") for number in range(20)]
    looks = {(colours(models)[one.label], symbols(models)[one.label]) for one in models}
    assert len(looks) == 20


def test_words_of_numbers() -> None:
    assert [decimal(value) for value in (0.5, -0.25, -0.0001)] == ["0.500", "−0.250", "0.000"]
    assert [signed(value) for value in (0.5, -0.25, 0.0)] == ["+0.500", "−0.250", "0.000"]
    assert [duration(value) for value in (4.2, 200, 7500)] == ["4.2 s", "3 min 20 s", "2 h 05 min"]
    assert [size(value) for value in (3 * 2**20, 3 * 2**30)] == ["3 MiB", "3.0 GiB"]
    counted = [count(1, "patient"), count(2400, "study"), count(3, "disease")]
    assert counted == ["1 patient", "2,400 studies", "3 diseases"]
    nested = {"a": {"b": [1, 2], "seconds": 90}, "c": None}
    assert flat(nested) == {"a.b": "1, 2", "a.seconds": "1 min 30 s", "c": "none"}
