"""A sweep's record keeps the names, labels and order of its rows: older sweeps resume, and their pages open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forking import forked_workers

from medunlearn.study.graph_run import COLUMNS
from medunlearn.study.sweep.jobs import JobOutput
from medunlearn.study.sweep.result import Swept
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan
from medunlearn.study.sweep.sweep_run import run_sweep

Values = dict[str, Any]
ROWS = """
target | target | - | - | -
search graddiff 0.0001 | search | graddiff | random_05 | 0.0001
search graddiff 0.001 | search | graddiff | random_05 | 0.001
choose graddiff | choose | graddiff | random_05 | -
retrained random_25 | retrained | - | random_25 | -
graddiff random_10 | unlearn | graddiff | random_10 | -
manu random_10 | unlearn | manu | random_10 | -
graddiff random_25 | unlearn | graddiff | random_25 | -
manu random_25 | unlearn | manu | random_25 | -
evaluate target on random_10 | evaluate | - | random_10 | -
evaluate target on random_25 | evaluate | - | random_25 | -
evaluate retrained random_25 | evaluate | - | random_25 | -
evaluate graddiff random_10 | evaluate | graddiff | random_10 | -
evaluate manu random_10 | evaluate | manu | random_10 | -
evaluate graddiff random_25 | evaluate | graddiff | random_25 | -
evaluate manu random_25 | evaluate | manu | random_25 | -
evaluate graddiff random_25 on random_10 | evaluate | graddiff | random_10 | -
evaluate manu random_25 on random_10 | evaluate | manu | random_10 | -
attack target on random_10 | attack | - | random_10 | -
attack target on random_25 | attack | - | random_25 | -
attack retrained random_25 | attack | - | random_25 | -
attack graddiff random_10 | attack | graddiff | random_10 | -
attack manu random_10 | attack | manu | random_10 | -
attack graddiff random_25 | attack | graddiff | random_25 | -
attack manu random_25 | attack | manu | random_25 | -
"""


def test_rows_of_every_kind(sweep_values: Values) -> None:
    several = {"asked_about": {"random_25": ["random_10"]}, "attack": {"attacks": "quantization"}}
    unlearn = {**sweep_values["unlearn"], "methods": ["graddiff", "manu"]}
    stages = sweep_graph(plan({**sweep_values, **several, "seeds": [0], "unlearn": unlearn}))
    rows = [stage.facts() for stage in stages.graph.stages.values()]
    shown = [[row[key] for key in ("name", "kind", "method", "split", "lr")] for row in rows]
    lines = [" | ".join("-" if value is None else str(value) for value in row) for row in shown]
    assert lines == ROWS.strip().splitlines()
    assert {*rows[0]} <= {*COLUMNS}


def test_attacks_that_compare_models_wait_for_them(sweep_values: Values) -> None:
    """random_10 has no retrained model; no model is beside itself."""
    attacked = {**sweep_values, "seeds": [0], "attack": {"attacks": "patching,quantization"}}
    stages = {stage.name: stage for stage in sweep_graph(plan(attacked)).attacks}
    expected = {
        "graddiff random_25": ["target", "retrained random_25"],
        "graddiff random_10": ["target"],
        "retrained random_25": ["target"],
        "target on random_25": ["retrained random_25"],
        "target on random_10": [],
    }
    for name, beside in expected.items():
        stage = stages[f"attack {name}"]
        assert {need.name for need in stage.needs} == {stage.model.name, *beside}
        job = stage.job({need: JobOutput(Path(need.name), None, None) for need in stage.needs})
        assert (job.model, job.beside) == (Path(stage.model.name), tuple(map(Path, beside)))
    alone = sweep_graph(plan({**attacked, "attack": {"attacks": "quantization"}})).attacks
    assert {len(stage.needs) for stage in alone} == {1}


def test_a_folder_with_an_older_record_resumes(sweep_values: Values, tmp_path: Any) -> None:
    """A killed sweep has rows without results, and may have columns that this version does not write."""
    small = {"seeds": [0], "splits": ["random_10"], "retrain": False, "unlearn": {"methods": ["manu"]}}
    values = {**sweep_values, **small, "out": tmp_path / "out"}
    with forked_workers():
        first = record(run_sweep(plan(values), jobs=1, quiet=True))
    killed = [{**row, "status": "running", "folder": None, "note": "of another version"} for row in first["cells"]]
    (tmp_path / "out" / "sweep.json").write_text(json.dumps({**first, "status": "running", "cells": killed}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medunlearn.study.slots.pool.Pool.start", lambda *args: pytest.fail("it ran"))
        again = record(run_sweep(plan(values), jobs=1, quiet=True))
    timeless = [[{**row, "seconds": 0} for row in cells["cells"]] for cells in (first, again)]
    assert timeless[0] == timeless[1]
    assert list(again) == list(first)
    assert [list(row) for row in again["cells"]] == [[*COLUMNS]] * len(again["cells"])


def record(swept: Swept) -> Values:
    content: Values = json.loads((swept.folder / swept.record).read_text())
    return content
