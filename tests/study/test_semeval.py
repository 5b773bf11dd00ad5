"""The SemEval-2025 Task 4 score of a run: from what was evaluated and attacked, and not without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from row_files import write_lines

import medunlearn as mu
from medunlearn.errors import InputError
from medunlearn.papers.lume.semeval import PARTS, task_aggregate
from medunlearn.results.runs import Run


@pytest.fixture(scope="module")
def lume(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Run]:
    """Three documents a task and side, two biographies of them held out; a model that saw them once."""
    folder = tmp_path_factory.mktemp("lume")
    for side in ("forget", "retain"):
        rows = [
            {"id": f"{side}{task}{n}{form}", "input": f"{side} {n} of {task} lived", "output": word, "task": task}
            for task in ("Task1", "Task2", "Task3")
            for n in range(3)
            for form, word in (("sc0", f"in house {n}."), ("qa0", f"{n}"))
        ]
        write_lines(folder / f"{side}.jsonl", rows)
    bench = mu.build.lume(released=folder, nonmember_documents=2)
    shape = {"tiny_width": 32, "tiny_layers": 2, "epochs": 1, "precision": "fp32"}
    return bench, mu.train(bench, model="tiny", out=folder / "target", quiet=True, **shape)


def test_a_part_at_a_time(lume: tuple[Any, Run], tmp_path: Path) -> None:
    bench, run = lume
    with pytest.raises(InputError, match="was not evaluated"):
        mu.semeval(run, "released")
    found = mu.evaluate(
        run, bench, split="released", quiet=True, max_new_tokens=4, replicates=20, allow_broken=True
    )
    before = mu.semeval(run, "released")
    rows = found.models[0].groups
    means = {
        (row["node"], row["side"], row["measure"]): row["value"]
        for row in rows[rows["fold"] == "train"].to_dict("records")
    }
    assert before.task_aggregate == task_aggregate({key: means[key] for key in PARTS})
    assert before.membership_score is None
    assert "medunlearn attack" in before.missing["membership score"]
    attacks = mu.attack(run, bench, split="released", attacks="loss", quiet=True, replicates=20)
    table = attacks.table()
    assert set(table["group"]) == {"public_biography"}
    assert table["n_members"].tolist() == [3, 3, 3]
    assert table["n_nonmembers"].tolist() == [2, 2, 2]
    after = mu.semeval(run, "released")
    assert after.membership_score == pytest.approx(1 - abs(2 * table["value"].iloc[0] - 1))
    assert after.final is None
    assert list(after.missing) == ["utility"]
    assert mu.semeval(run, "released", utility=0.3).final is not None
    page = mu.report([run], out=tmp_path / "report", split="released")
    text = (page.parent / "report.md").read_text()
    assert all(part in text for part in ("SemEval-2025 Task 4", "membership score", "utility"))


def test_another_benchmark_has_no_such_score(hospital: Any, target: Run) -> None:
    mu.evaluate(
        target, hospital, split="random_10", quiet=True, limit=1, max_new_tokens=2, replicates=20, allow_broken=True
    )
    with pytest.raises(InputError, match="LUME"):
        mu.semeval(target, "random_10")
