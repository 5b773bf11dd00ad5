"""The figures of epochs show the numbers of the table of epochs, and nothing that cannot be compared with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from rendered import data_of, markdown_of, page_of

from medunlearn.reports import ReportContent
from medunlearn.reports.epochs import epoch_figures, epoch_table

COUNTS = {"n_scored": 20, "n_unscored": 0, "n_subjects": 10, "replicates_dropped": 0}


def row(value: float | None, **more: Any) -> dict[str, Any]:
    low, high = (None, None) if value is None else (value - 0.1, value + 0.05)
    place = {"side": "forget", "fold": "train", "kind": "completion", "metric": "rouge_l", "parts": ""}
    of_node = {"level": "task", "node": "Task_1", "measure": "regurgitation"}
    return {"value": value, "low": low, "high": high, **place, **of_node, **COUNTS, **more}


@pytest.fixture
def watched(content: ReportContent) -> ReportContent:
    """GA and NPO over three epochs on one task; target and retrained model on the same questions."""
    epochs = [
        row(value, epoch=epoch, model=model)
        for model, values in {"GA": (0.9, 0.4, None), "NPO": (0.9, 0.8, 0.7)}.items()
        for epoch, value in enumerate(values)
    ]
    whole = {"level": "", "node": "", "kind": "all"}
    epochs += [row(0.5, epoch=1, model="NPO", **whole, measure="token_f1", metric="token_f1")]
    epochs += [row(0.5, epoch=1, model="NPO", **whole, measure="membership AUC", metric="loss", side="")]
    groups = [row(0.92, model="target"), row(0.2, model="retrained"), row(0.4, model="GA")]
    return replace(content, epochs=pd.DataFrame(epochs), groups=pd.DataFrame(groups))


def traces(content: ReportContent, place: int = 0) -> dict[str, Any]:
    return {trace["name"]: trace for trace in epoch_figures(content)[place][1]["data"] if "fill" not in trace}


def test_lines_stand_at_their_numbers(watched: ReportContent) -> None:
    found = traces(watched)
    assert (found["NPO"]["x"], found["NPO"]["y"]) == ([0, 1, 2], [0.9, 0.8, 0.7])
    assert found["GA"]["y"] == [0.9, 0.4, None]
    assert "epoch 2: unscored" in found["GA"]["text"][2]
    assert {
        name: (trace["y"], trace["line"]["dash"]) for name, trace in found.items() if "dash" in trace["line"]
    } == {
        "target": ([0.92, 0.92], "dash"),
        "retrained": ([0.2, 0.2], "dot"),
    }
    assert found["target"]["x"] == [0, 2]


def test_a_band_is_the_interval(watched: ReportContent) -> None:
    band = next(one for one in epoch_figures(watched)[0][1]["data"] if one.get("fill") and one["name"] == "NPO")
    assert band["x"] == [0, 1, 2, 2, 1, 0]
    assert band["y"] == pytest.approx([0.95, 0.85, 0.75, 0.6, 0.7, 0.8])


def test_what_is_drawn(watched: ReportContent) -> None:
    """Nodes, and measures with a name of their own; single metrics of the whole split are in the tables."""
    assert [title for title, _ in epoch_figures(watched)] == [
        "Task 1: regurgitation on forget, train fold",
        "membership AUC, train fold",
    ]
    assert set(traces(watched, 1)) == {"NPO"}


def test_a_model_that_was_asked_other_questions_is_no_reference(watched: ReportContent) -> None:
    fewer = watched.groups.assign(n_scored=[20, 7, 20])
    assert set(traces(replace(watched, groups=fewer))) == {"GA", "NPO", "target"}


def test_the_table_has_the_same_numbers(watched: ReportContent) -> None:
    table = epoch_table(watched)
    assert table is not None
    assert [cell.text for cell in table.columns] == ["Epoch", "0", "1", "2"]
    assert [[cell.text for cell in line] for line in table.rows][:2] == [
        ["GA", "0.900", "0.400", "unscored"],
        ["NPO", "0.900", "0.800", "0.700"],
    ]
    assert "## By epoch" in markdown_of(watched)
    assert len(data_of(watched)["epochs"]) == len(watched.epochs)


def test_the_page_has_them_where_there_are_any(content: ReportContent, watched: ReportContent) -> None:
    from plotly.graph_objects import Figure

    assert 'id="epochs"' in page_of(watched)
    assert 'id="epochs"' not in page_of(content)
    assert epoch_table(content) is None
    for _, spec in epoch_figures(watched):
        Figure(_painted({"data": spec["data"], "layout": spec["layout"]}))


def _painted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _painted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_painted(item) for item in value]
    return "#123456" if isinstance(value, str) and value.startswith("--") else value
