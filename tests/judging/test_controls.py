"""Control cases: judges that tell right from wrong, and judges that do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.judging.controls import control_cases, control_counts, one_answer
from medunlearn.judging.panel_run import JudgingRun
from medunlearn.judging.tasks import TASKS, get_task

Bench = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [(f"t{n}", f"A mass in the lung, number {n}.", group) for n, group in enumerate(["Cancer", "Heart"] * 3)]
    pd.DataFrame(rows, columns=["case_id", "title", "category"]).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def run(judges: list[Any], table: Path, out: Path) -> JudgingRun:
    entries = [judge.settings.model_dump() | {"name": judge.name} for judge in judges]
    return mu.judge(table, llm=entries, task="label", out=out, replicates=20, quiet=True)


def right(model: str, text: str) -> dict[str, str]:
    """Files a control case as expected, and supports everything else."""
    title = text.partition("<title>\n")[2].partition("\n")[0]
    own = text.partition("<assigned_category>\n")[2].partition("\n")[0]
    wrong = any(
        "Unsupported" in control.expected and control.case.fields == {"title": title, "category": own}
        for control in control_cases("label")
    )
    verdict = {"verdict": "Unsupported", "correct_category": "Unclear"} if wrong else {"verdict": "Supported"}
    return {"reasoning": "x", "correct_category": own, **verdict}


def supported(model: str, text: str) -> dict[str, str]:
    own = text.partition("<assigned_category>\n")[2].partition("\n")[0]
    return {"reasoning": "x", "verdict": "Supported", "correct_category": own}


@pytest.mark.parametrize("name", TASKS)
def test_control_cases_are_whole_and_of_both_sorts(name: str) -> None:
    task = get_task(name)
    controls = control_cases(name)
    assert all(set(control.case.fields) == set(task.shows) for control in controls)
    assert all(set(control.expected) <= set(task.verdicts) for control in controls)
    assert len({control.expected for control in controls}) == 2


def test_a_judge_that_supports_everything_is_named(bench: Bench, table: Path, tmp_path: Path) -> None:
    (_, able), (_, easy) = bench(right, "able"), bench(supported, "easy")
    judged = run([*able, *easy], table, tmp_path / "out")
    asked = len(control_cases("label"))
    assert control_counts(judged.table("controls.parquet")) == {"able": (asked, asked), "easy": (asked // 2, asked)}
    assert {entry.model: entry.controls for entry in judged.provenance} == {
        "able": (asked, asked),
        "easy": (asked // 2, asked),
    }
    assert [entry.drawn for entry in judged.provenance] == [False, False]
    named = [line for line in judged.words.splitlines() if line.startswith("easy gave")]
    assert len(named) == 2
    assert any(f"{asked // 2} of {asked} control cases" in line for line in named)
    # The able one supports these six titles too, which is told with their number, and no more.
    assert [line for line in judged.words.splitlines() if line.startswith("able gave")] == [
        "able gave one verdict for everything: Supported on all 6 cases."
    ]
    # They are in no other table.
    assert set(judged.table("judgements.parquet")["case_id"]) == {f"t{n}" for n in range(6)}


def test_a_judge_that_was_not_reached_is_not_blamed(bench: Bench, table: Path, tmp_path: Path) -> None:
    _, judges = bench(right, "able", behave=(*["well"] * 6, "error_500"), retries=0, concurrency=1)
    judged = run(judges, table, tmp_path / "out")
    assert control_counts(judged.table("controls.parquet")) == {}
    assert [entry.controls for entry in judged.provenance] == [None]
    assert "not recorded" in judged.words


def test_a_rehearsed_panel_is_marked(table: Path, tmp_path: Path) -> None:
    judged = mu.judge(table, llm="rehearsal", task="label", out=tmp_path / "out", replicates=20, quiet=True)
    assert judged.drawn
    lines = judged.words.splitlines()
    assert "drawn at random for rehearsal" in lines[0]
    heads = [line for line, below in pairwise(lines) if set(below) <= set("|- ") and "|" in below]
    assert heads
    assert all("drawn at random for rehearsal" in head for head in heads)


def test_a_run_of_an_older_version_says_not_recorded(bench: Bench, table: Path, tmp_path: Path) -> None:
    _, judges = bench(right, "able")
    folder = run(judges, table, tmp_path / "out").run.folder
    record = json.loads((folder / "run.json").read_text())
    for facts in record["results"]["judges"].values():
        del facts["provenance"]
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "controls.parquet").unlink()
    (entry,) = JudgingRun.open(folder).provenance
    assert (entry.model, entry.drawn, entry.prompt_sha256, entry.controls) == ("able", None, "", None)
    record["results"]["judges"]["able"]["settings"]["model"] = "rehearsal-2"
    (folder / "run.json").write_text(json.dumps(record))
    assert JudgingRun.open(folder).drawn


def test_one_answer_needs_several_cases() -> None:
    assert one_answer(["3"] * 5) == "3"
    assert one_answer(["3"] * 4) == one_answer(["3"] * 9 + ["4"]) == one_answer([]) == ""
    assert one_answer(["3", None, "3", "3", "3", "3"]) == "3"
