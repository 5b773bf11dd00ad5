"""``tune``: the page's commands on the example, its plan, and how it ends when a file is wrong."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forking import forked_workers
from pages import Page

from medunlearn.config import TuneSettings, check, read_yaml
from medunlearn.input_files import parse_yaml

pytest.importorskip("optuna")
Medunlearn = Callable[..., Any]
ROOT = Path(__file__).parents[2]
PAGE = Page.read("tune.md", "Tune methods alike")
EXAMPLE = ROOT / "examples" / "tune-small.yaml"
SMALL = (
    "--benchmark.synthetic=20",
    "--train.tiny-width=32",
    "--train.epochs=1",
    "--train.precision=fp32",
    "--train.train-on=questions",
    "--unlearn.methods=[graddiff]",
    "--unlearn.precision=fp32",
    "--unlearn.train-on=questions",
    "--space={lr: [1e-4, 1e-2]}",
    "--runs=2",
    "--evaluate.limit=2",
    "--evaluate.ranked=1",
    "--evaluate.alternatives=9",
    "--evaluate.replicates=20",
    "--evaluate.max-new-tokens=4",
    "--evaluate.allow-broken=true",
)


@pytest.fixture(scope="module")
def tuned(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The page's commands in a folder of their own: the plan, then the tuning."""
    folder = tmp_path_factory.mktemp("tune")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "examples").symlink_to(ROOT / "examples")
        with forked_workers():
            results = [medunlearn(*shlex.split(line)[1:], *SMALL) for line in PAGE.commands]
        yield (*results, folder / "runs" / "tune-small")


def test_the_commands_of_the_page(tuned: Any) -> None:
    planned, finished, out = tuned
    assert "2 trials a method, 1 methods" in planned.stdout
    assert "Choosing half: 3 forget and 8 retain subjects" in planned.stdout
    lines = [line for line in finished.stderr.splitlines() if line.startswith("> ")]
    assert any(line.startswith("> graddiff trial 0: 0.") for line in lines)
    assert "Reporting half, fold train" in finished.stdout
    assert "report" in finished.stdout
    assert json.loads((out / "tune.json").read_text())["status"] == "complete"
    assert {path.stat().st_mode & 0o077 for path in out.rglob("*")} == {0}


def test_its_report_is_written_again(tuned: Any, medunlearn: Medunlearn, tmp_path: Path) -> None:
    out = tuned[-1]
    result = medunlearn("report", out, "--out", tmp_path / "page", "--title", "Again")
    assert "Closest to the goal" in result.stdout
    first, second = (
        json.loads((place / "report.json").read_text()) for place in (out / "report", tmp_path / "page")
    )
    assert {key: second[key] for key in ("ranking", "results", "trials", "best")} == {
        key: first[key] for key in ("ranking", "results", "trials", "best")
    }
    assert "Again" in (tmp_path / "page" / "report.md").read_text()
    assert "give only its folder" in medunlearn("report", out, out, "--out", tmp_path / "p2", code=2).text
    (tmp_path / "tune.json").write_text('{"status": "running"}')
    result = medunlearn("report", tmp_path, "--out", tmp_path / "p3", code=2)
    assert "contains an unfinished tuning" in result.text


def test_every_setting_that_the_page_names_is_one(medunlearn: Medunlearn) -> None:
    (table,) = [part for part in PAGE.text.split("\n\n") if part.startswith("| key |")]
    named = {word for line in table.splitlines()[2:] for word in line.split("|")[1].split("`")[1::2]}
    assert named == {*TuneSettings.model_fields}
    check(TuneSettings, read_yaml(EXAMPLE))


def test_the_space_of_the_page_is_one(tmp_path: Path, medunlearn: Medunlearn) -> None:
    (block,) = PAGE.blocks("yaml")
    space = json.dumps(parse_yaml(block)["space"])
    words = (f"--space={space}", "--unlearn.methods=[graddiff, npo, simnpo]", "--out", tmp_path / "out", "--runs=6")
    small = [word for word in SMALL if not word.startswith(("--space", "--runs", "--unlearn.methods"))]
    result = medunlearn("tune", EXAMPLE, *small, *words, "--plan", "--json")
    searched = {of["method"]: of["space"] for of in json.loads(result.stdout)["methods"]}
    assert "beta 0.02 to 1;" in searched["npo"] + ";"
    assert "variant paper or openunlearning" in searched["simnpo"]
    assert "alpha" not in searched["graddiff"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--runs=0",), "runs=0"),
        (("--space.npo.bta=[0.1, 1]",), "npo"),
        (("--space={lr: null, epochs: null, gamma: null, alpha: null}",), "nothing is searched for graddiff"),
        (("--evaluate.subjects=all",), "leave it out"),
        (("--jobs=-1",), "--jobs must be at least 1"),
    ],
)
def test_wrong_settings_end_with_2(
    medunlearn: Medunlearn, tmp_path: Path, words: tuple[str, ...], part: str
) -> None:
    result = medunlearn("tune", EXAMPLE, *SMALL, "--out", tmp_path / "out", *words, code=2)
    assert part in result.text
    assert not (tmp_path / "out").exists()
