"""``report``: three files of what is in runs, and no text of real records unless asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
TINY = ("--model", "tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=1", "--precision=fp32")
QUICK = ("--replicates=20", "--max-new-tokens=4", "--allow-broken", "--quiet")
FILES = ("report.html", "report.md", "report.json")


@pytest.fixture(scope="module")
def hospital(medunlearn: Medunlearn, bench: Path, target: Path, graddiff: Path) -> tuple[Path, Path]:
    """Both runs, evaluated on ``random_10``."""
    against = ("--against", target, "--limit=2")
    medunlearn("evaluate", graddiff, bench, "--split", "random_10", *against, *QUICK)
    return target, graddiff


@pytest.fixture(scope="module")
def real(medunlearn: Medunlearn, lume: Path) -> Path:
    """A model of records that pass for real, evaluated."""
    out = lume.parent / "target"
    medunlearn("train", lume, *TINY, "--out", out)
    medunlearn("evaluate", out, lume, "--split", "released", *QUICK)
    return out


def text_of(folder: Path) -> str:
    return "\n".join((folder / name).read_text() for name in FILES)


def test_report(medunlearn: Medunlearn, hospital: tuple[Path, Path], bench: Path, tmp_path: Path) -> None:
    words = ("--split", "random_10", "--benchmark", bench, "--title", "Two <b>models</b>")
    result = medunlearn("report", *hospital, *words, "--out", tmp_path / "r")
    assert str(tmp_path / "r" / "report.html") in result.stderr
    assert sorted(file.name for file in (tmp_path / "r").iterdir()) == sorted(FILES)
    payload = json.loads((tmp_path / "r" / "report.json").read_text())
    assert [model["label"] for model in payload["models"]] == ["target", "GradDiff"]
    page = (tmp_path / "r" / "report.html").read_text()
    assert "There is no retrained model" in page
    assert "<b>models</b>" not in page
    # Nobody stands behind an invented patient.
    question = Benchmark.load(bench).questions[0].question.split()[0]
    assert question in text_of(tmp_path / "r")


def test_json_and_quiet(medunlearn: Medunlearn, hospital: tuple[Path, Path], tmp_path: Path) -> None:
    words = ("report", *hospital, "--split", "random_10", "--out", tmp_path / "r")
    payload = json.loads(medunlearn(*words, "--json").stdout)
    # Four tokens of a target that was hardly trained are all the same.
    assert len(payload.pop("broken")) == 1
    assert payload == {"report": str(tmp_path / "r" / "report.html")}
    result = medunlearn(*words, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.parametrize("show_text", [False, True])
def test_text_of_real_records(
    medunlearn: Medunlearn, real: Path, lume: Path, tmp_path: Path, show_text: bool
) -> None:
    words = ("--show-text",) if show_text else ()
    medunlearn("report", real, "--benchmark", lume, "--out", tmp_path / "r", *words)
    benchmark = Benchmark.load(lume)
    secrets = {question.answer for question in benchmark.questions if question.kind == "knowledge"}
    for name in FILES:
        text = (tmp_path / "r" / name).read_text()
        assert ("Quillfeather" in text) == show_text, name
        assert any(secret in text for secret in secrets) == show_text, name


def test_a_request_names_nobody_in_a_report(medunlearn: Medunlearn, real: Path, lume: Path, tmp_path: Path) -> None:
    shutil.copytree(real, tmp_path / "target", ignore=shutil.ignore_patterns("evaluations"))
    split = "document=forget1"
    medunlearn("evaluate", tmp_path / "target", lume, "--split", split, *QUICK)
    words = (
        "unlearn",
        tmp_path / "target",
        lume,
        "--split",
        split,
        "--method",
        "ga",
        "--epochs=1",
        "--precision=fp32",
    )
    medunlearn(*words, "--out", tmp_path / "ga")
    medunlearn("evaluate", tmp_path / "ga", lume, "--split", split, *QUICK)
    runs = (tmp_path / "target", tmp_path / "ga")
    medunlearn("report", *runs, "--out", tmp_path / "r", "--benchmark", lume)
    assert "forget1" not in text_of(tmp_path / "r")
    assert "request by document" in text_of(tmp_path / "r")
    medunlearn("report", *runs, "--out", tmp_path / "shown", "--benchmark", lume, "--show-text")
    assert split in text_of(tmp_path / "shown")


def test_runs_of_one_method_are_told_apart(
    medunlearn: Medunlearn, hospital: tuple[Path, Path], bench: Path, tmp_path: Path
) -> None:
    shutil.copytree(hospital[1], tmp_path / "again")
    words = ("report", *hospital, tmp_path / "again", "--split", "random_10")
    medunlearn(*words, "--out", tmp_path / "r")
    payload = json.loads((tmp_path / "r" / "report.json").read_text())
    assert [model["label"] for model in payload["models"]] == ["target", "GradDiff (graddiff)", "GradDiff (again)"]
    # Two unlearned runs are compared with each other: a copy differs from its original by nothing.
    assert {(row["model"], row["against"]) for row in payload["pair"]} == {
        ("GradDiff (again)", "GradDiff (graddiff)")
    }
    assert {row["difference"] for row in payload["pair"]} == {0.0}
    result = medunlearn(
        "report", hospital[0], hospital[0], "--split", "random_10", "--out", tmp_path / "r2", code=2
    )
    assert "One run is named twice" in result.text


def test_different_splits_are_refused(
    medunlearn: Medunlearn, hospital: tuple[Path, Path], bench: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(hospital[1], other, ignore=shutil.ignore_patterns("evaluations"))
    medunlearn("evaluate", other, bench, "--split", "random_15", "--limit=2", *QUICK)
    result = medunlearn("report", hospital[0], other, "--out", tmp_path / "r", code=2)
    assert "were evaluated on different splits" in result.text
    result = medunlearn("report", hospital[0], other, "--split", "random_10", "--out", tmp_path / "r", code=2)
    assert f"{other} was not evaluated on split 'random_10'" in result.text
    medunlearn("evaluate", other, bench, "--split", "random_10", "--limit=2", *QUICK)
    result = medunlearn("report", other, "--out", tmp_path / "r", code=2)
    assert "several splits: random_10, random_15. Name one: --split NAME" in result.text
    assert not (tmp_path / "r").exists()


def test_a_model_made_for_another_split_is_no_reference(
    medunlearn: Medunlearn, hospital: tuple[Path, Path], bench: Path, tmp_path: Path
) -> None:
    unlearned, retrained = tmp_path / "unlearned", tmp_path / "retrained"
    shutil.copytree(hospital[1], unlearned, ignore=shutil.ignore_patterns("evaluations"))
    medunlearn("train", bench, *TINY, "--without", "random_10", "--out", retrained)
    for run, role in ((unlearned, "unlearned"), (retrained, "retrained")):
        medunlearn("evaluate", run, bench, "--split", "random_15", "--limit=2", *QUICK)
        result = medunlearn("report", run, "--out", tmp_path / "r", code=2)
        assert f"is the {role} model of split 'random_10', but was evaluated on 'random_15'" in result.text
    assert not (tmp_path / "r").exists()


def test_different_benchmarks_are_refused(
    medunlearn: Medunlearn, hospital: tuple[Path, Path], real: Path, tmp_path: Path
) -> None:
    result = medunlearn("report", hospital[0], real, "--out", tmp_path / "r", code=2)
    assert "were evaluated on different benchmarks" in result.text
    assert not (tmp_path / "r").exists()


def test_a_run_that_was_not_evaluated(medunlearn: Medunlearn, target: Path, bench: Path, tmp_path: Path) -> None:
    shutil.copytree(target, tmp_path / "target", ignore=shutil.ignore_patterns("evaluations"))
    result = medunlearn("report", tmp_path / "target", "--out", tmp_path / "r", code=2)
    assert "was not evaluated. `medunlearn evaluate --help` says how." in result.text
    assert "holds no run" in medunlearn("report", bench, "--out", tmp_path / "r", code=2).text


@pytest.mark.parametrize("name", ["report.html", "bench", "target", "file"])
def test_out_that_is_something_else(
    medunlearn: Medunlearn, hospital: tuple[Path, Path], bench: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("mine")
    out = {"bench": bench, "target": hospital[0]}.get(name, tmp_path / name)
    result = medunlearn("report", *hospital, "--split", "random_10", "--out", out, code=2)
    part = {"report.html": f"use --out {tmp_path / 'report'}", "file": "is a file"}.get(
        name, "Choose another --out"
    )
    assert part in result.text
    assert not (bench / "report.html").exists()
