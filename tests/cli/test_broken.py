"""A broken model never passes as one that forgot or leaks nothing: every verb on NaN weights and on a collapse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import poison
from row_files import write_lines
from run_folders import rerecorded

Medunlearn = Callable[..., Any]
NAN = "hold NaN or infinity (model.norm.weight)"
ASKED = ("--split", "random_10", "--limit=2", "--replicates=20", "--max-new-tokens=4")
AUDIT = ("--prefixes=5", "--shortest-suffix=5", "--max-new-tokens=30", "--limit=6", "--replicates=20")


@pytest.fixture(scope="module")
def poisoned(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target with NaN in one tensor, as a training would have left it."""
    folder = tmp_path_factory.mktemp("broken") / "target"
    shutil.copytree(target, folder, ignore=shutil.ignore_patterns("evaluations", "responses"))
    poison(folder / "model")
    return Path(rerecorded(folder))


@pytest.fixture(scope="module")
def evaluated(medunlearn: Medunlearn, bench: Path, poisoned: Path) -> Path:
    """NaN weights, scored because the user insists."""
    medunlearn("evaluate", poisoned, bench, *ASKED, "--allow-broken", "--quiet")
    return poisoned


def test_evaluate_does_not_say_that_nan_forgot(medunlearn: Medunlearn, bench: Path, poisoned: Path) -> None:
    result = medunlearn("evaluate", poisoned, bench, *ASKED, code=2)
    assert NAN in result.text
    assert "--allow-broken" in result.text
    assert "forget" not in result.stdout


def test_audit_does_not_say_that_nan_leaks_nothing(
    medunlearn: Medunlearn, bench: Path, poisoned: Path, tmp_path: Path
) -> None:
    result = medunlearn("audit", poisoned, bench, "--out", tmp_path / "a", *AUDIT, code=2)
    assert NAN in result.text
    assert "0.000" not in result.stdout
    result = medunlearn("audit", poisoned, bench, "--out", tmp_path / "a", *AUDIT, "--allow-broken")
    assert result.stdout.startswith("WARNING: target is a broken model: 1 of its")
    assert "at most" not in result.stdout
    assert " is no bound " in result.stdout
    # Asked for again, the stored result is not shown without the flag either.
    assert NAN in medunlearn("audit", poisoned, bench, "--out", tmp_path / "a", *AUDIT, code=2).text


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("attack", ("--split", "random_10", "--attacks", "cumulative", "--replicates=20")),
        ("unlearn", ("--split", "random_10", "--method", "npo", "--out", "{tmp}/npo", "--epochs=1")),
    ],
)
def test_other_verbs_refuse_nan(
    medunlearn: Medunlearn, bench: Path, poisoned: Path, tmp_path: Path, verb: str, words: tuple[str, ...]
) -> None:
    assert NAN in medunlearn(verb, poisoned, bench, *(word.format(tmp=tmp_path) for word in words), code=2).text


def test_training_from_nan_is_refused(medunlearn: Medunlearn, bench: Path, poisoned: Path, tmp_path: Path) -> None:
    words = ("--model", poisoned / "model", "--out", tmp_path / "more", "--epochs=1")
    assert NAN in medunlearn("train", bench, *words, code=2).text


def test_the_warning_stands_first_and_no_verdict_is_read(
    medunlearn: Medunlearn, bench: Path, evaluated: Path, tmp_path: Path
) -> None:
    result = medunlearn("evaluate", evaluated, bench, *ASKED, "--allow-broken")
    assert result.stdout.startswith("WARNING: target is a broken model")
    payload = json.loads(medunlearn("evaluate", evaluated, bench, *ASKED, "--allow-broken", "--json").stdout)
    assert NAN in payload["health"]["target"][0]
    (file,) = evaluated.glob("evaluations/*/run.json")
    record = json.loads(file.read_text())
    assert [problem[:22] for problem in record["results"]["health"]["problems"]] == [
        "1 of its 20 weight ten",
        "all of its 32 answers ",
    ]
    result = medunlearn("report", evaluated, "--out", tmp_path / "r")
    assert result.stdout.startswith("WARNING: target is a broken model")
    for name in ("report.html", "report.md", "report.json"):
        assert "target is a broken model" in (tmp_path / "r" / name).read_text()


def test_stored_responses_that_are_all_alike(medunlearn: Medunlearn, tmp_path: Path) -> None:
    suffixes = (
        "north winds blew",
        "ducks flew over",
        "the bridge was shut",
        "it rained all day",
        "no one came",
        "tea",
    )
    rows = [
        {"prefix": f"Day {n}", "suffix": f"{text} " * 30, "response": "the " * 30}
        for n, text in enumerate(suffixes)
    ]
    file = tmp_path / "said.jsonl"
    write_lines(file, rows)
    words = ("audit", "--responses", file, "--out", tmp_path / "a", "--replicates=20")
    assert "all of its 6 answers are the same" in medunlearn(*words, code=2).text
    assert medunlearn(*words, "--allow-broken").stdout.startswith("WARNING: said is a broken model")
    rows[0]["response"] = "a " * 30
    write_lines(file, rows)
    assert "WARNING" not in medunlearn(*words[:-2], tmp_path / "b", "--replicates=20").stdout


def test_verify_says_what_differs(medunlearn: Medunlearn, target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "target"
    shutil.copytree(target, folder, ignore=shutil.ignore_patterns("evaluations", "responses"))
    assert "history.parquet" in medunlearn("verify", folder).stdout
    assert json.loads(medunlearn("verify", folder, "--json").stdout)["ok"] is True
    poison(folder / "model")
    result = medunlearn("verify", folder, code=1)
    assert "model.safetensors differs" in result.text
    checks = json.loads(medunlearn("verify", folder, "--json", code=1).stdout)["checks"]
    assert [row["name"] for row in checks if row["state"] == "differs"] == ["model/model.safetensors"]
    assert "were changed after the run" in medunlearn("export", folder, "--out", tmp_path / "hf", code=2).text
