"""A sweep's report written again from its folder, by Python and by the command of docs/papers.md."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import Page

from medunlearn.cli.main import app
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.sweeps.report import folder_report

PAGE = Page.read("papers/amnesia.md", "AMNESIA report")


@pytest.fixture(scope="module")
def swept(make_sweep: Callable[..., Any], clinic: Benchmark) -> Path:
    """A sweep's folder, its benchmark in it; cells name their folders from two folders above."""
    sweep = make_sweep()
    cells: list[dict[str, Any]] = [
        {
            "name": f"evaluate {model.run.folder.name}",
            "kind": "evaluate",
            "status": "done",
            "folder": f"runs/sweep/{model.run.folder.name}",
            "evaluation": f"runs/sweep/{model.record.folder.relative_to(sweep.folder)}",
            "reason": None,
        }
        for model in sweep.all(["random_25"], ["rmu"])
    ]
    cells.append({"name": "unlearn npo on random_25", "kind": "unlearn", "status": "failed", "reason": "NaN"})
    trials = [{"method": "rmu", "lr": 0.001, "utility": 0.5, "forgetting": 0.5, "score": 0.5, "chosen": True}]
    info = {"name": "A sweep", "cells": cells, "search": {"rule": "the best", "tried": trials}}
    info["settings"] = {"benchmark": {"builder": "amnesia"}, "evaluate": {"replicates": 40}}
    (sweep.folder / "sweep.json").write_text(json.dumps(info), encoding="utf-8")
    clinic.save(sweep.folder / "bench-12345678")
    return sweep.folder


@pytest.fixture
def workplace(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``runs/sweep``."""
    shutil.copytree(swept, tmp_path / "runs" / "sweep")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_folder_holds_all_that_the_report_needs(workplace: Path) -> None:
    results = folder_report(Path("runs/sweep")).results
    request = results.request
    assert (request.title, results.methods, request.replicates) == ("A sweep", ("RMU",), 40)
    assert request.missing == [("unlearn npo on random_25", "NaN")]
    assert request.search["lr"].tolist() == [0.001]
    moved = workplace / "elsewhere"
    (workplace / "runs" / "sweep").rename(moved)
    assert folder_report(moved).results.numbers.equals(results.numbers)


def test_commands_of_the_docs_run(workplace: Path) -> None:
    (line,) = PAGE.commands
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    assert "Forgetting patients drawn at random fails or collapses" in result.output
    assert {path.suffix for path in (workplace / "report").iterdir()} == {".html", ".json", ".md"}
    result = CliRunner().invoke(app, ["report", "runs/sweep", "--out", "r", "--json", "--title", "Mine"])
    data = json.loads(result.stdout)
    expected = folder_report(Path("runs/sweep")).findings
    assert [row["verdict"] for row in data["findings"]] == [finding.verdict for finding in expected]
    assert "# Mine" in (workplace / "r" / "report.md").read_text(encoding="utf-8")


def test_what_is_no_sweep_is_refused(workplace: Path) -> None:
    with pytest.raises(InputError, match=r"holds no sweep \(no sweep.json\)"):
        folder_report(workplace)
    result = CliRunner().invoke(app, ["report", "runs/sweep", "runs/none", "--out", "r"])
    assert result.exit_code == 2
    shutil.rmtree(workplace / "runs" / "sweep" / "bench-12345678")
    with pytest.raises(InputError, match="holds 0 benchmarks"):
        folder_report(Path("runs/sweep"))
    (workplace / "runs" / "sweep" / "sweep.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="lists no cells"):
        folder_report(Path("runs/sweep"))
