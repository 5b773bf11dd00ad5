"""The script that measures verdicts on control models, in its smallest form."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks_perf"))
import case_verdicts
import verdict_simulations
from chat_hospital import IDENTIFIERS, SHARED, ChatTraining, training_texts, write_hospital
from control_models import CONTROLS, FOUND, NONE, ControlModels
from verdict_simulations import ALWAYS, EVERYTHING, SimulatedModel, SimulatedRule

from medunlearn.request import measuring_models

SMALLEST = ("--size", "tiny", "--patients", "2", "--others", "3", "--unseen", "3", "--facts", "4", "--draws", "2")


def test_controls_are_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [rule for rule in verdict_simulations.rules() if rule.patients == 1][:2]
    monkeypatch.setattr(verdict_simulations, "rules", lambda: iter(few))
    monkeypatch.setattr(measuring_models, "ALTERNATIVES", 9)
    names = ("did nothing", "output filtered", "simulations")
    words = [str(tmp_path), *SMALLEST, "--requests", "1-01", "--baselines", "real", "--only", *names]
    case_verdicts.main(words)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("tiny, request 1-01, real strangers, ") for line in lines) == 2
    assert sum(line.startswith("| tiny | ") for line in lines) == 2
    cells = [json.loads(file.read_text()) for file in sorted((tmp_path / "tiny" / "cells").glob("*.json"))]
    assert {cell["control"] for cell in cells} == {*names[:2]}
    filtered = next(cell for cell in cells if cell["control"] == "output filtered")
    assert {check["after"] for check in filtered["checks"] if check["check"].startswith("said")} == {0.0}
    # A second call measures and draws nothing, and makes the same tables.
    case_verdicts.main(words)
    again = capsys.readouterr().out.splitlines()
    assert again == [line for line in lines if line.startswith("|")]


def test_twins_share_what_others_do_not(tmp_path: Path) -> None:
    table = pd.read_csv(write_hospital(tmp_path / "notes.csv", 4, twins=True), dtype=str)
    people = table.drop_duplicates("patient_id").set_index("patient_id")
    *_, first, second = people.index
    for name in IDENTIFIERS:
        assert (people[name][first] == people[name][second]) == (name in SHARED), name
        assert people[name].nunique() == (3 if name in SHARED else 4)
    notes = table[table["patient_id"] == second]["note"]
    assert all(any(people[name][first] in note for note in notes) for name in SHARED)
    texts = [*training_texts(table)]
    assert len({text.patient for text in texts}) == 4
    assert len(texts) == 4 * (2 + 2 + 6)
    models = ControlModels(tmp_path, ChatTraining(table, 32, 2, 1, 1e-3), askers=2)
    assert [models.patients_of(request) for request in ("1-02", "2", "twin")] == [
        [*people.index[1:2]],
        [*people.index[:2]],
        [first],
    ]


@pytest.mark.parametrize(
    ("control", "verdict", "others", "right"),
    [
        ("did nothing", NONE, "kept", False),
        ("did nothing", "inconclusive", "kept", None),
        ("retrained", NONE, "kept", True),
        ("retrained", NONE, "not kept", False),
        ("never seen", FOUND, "kept", False),
        ("noise 0.35", NONE, "kept", False),
        ("noise 0.35", NONE, "not kept", True),
        ("twin destroyed", NONE, "kept", False),
    ],
)
def test_the_right_verdict(control: str, verdict: str, others: str, right: bool | None) -> None:
    assert CONTROLS[control].is_right(verdict, others) is right


def test_a_goal_is_met_to_three_standard_errors() -> None:
    rule = SimulatedRule("did nothing", SimulatedModel(EVERYTHING, EVERYTHING), 1, 12, found=ALWAYS)
    draws = np.random.default_rng(0)
    assert {*rule.counts("identifiers", draws)} == {4}
    assert {*rule.counts("values", draws)} == {8}
    uneven = replace(rule, of_strangers=(1, 2)).counts("values", draws)
    assert ({*uneven[:-1]}, uneven[-1]) == ({1}, 8)
    met = [verdict_simulations.row_of(rule, {FOUND: n, NONE: 100 - n})["met"] for n in (88, 89, 100)]
    assert met == ["**no**", "yes", "yes"]
    assert rule.goal == "found ≥ 95%"
    assert dict(verdict_simulations.verdicts_of(rule, 3)) == {FOUND: 3}
