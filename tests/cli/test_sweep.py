"""``sweep``: the example, its plan, and how it ends when a cell fails or a file is wrong."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from forking import forked_workers
from pages import Page

Medunlearn = Callable[..., Any]
ROOT = Path(__file__).parents[2]
PAGE = Page.read("scale.md", "Sweeps")
EXAMPLE = ROOT / "examples" / "sweep-small.yaml"
SMALL = (
    "--benchmark.synthetic=20",
    "--splits=[random_25]",
    "--train.tiny-width=32",
    "--train.epochs=1",
    "--train.precision=fp32",
    "--unlearn.methods=[graddiff]",
    "--unlearn.precision=fp32",
    "--evaluate.limit=2",
    "--evaluate.replicates=20",
    "--evaluate.max-new-tokens=4",
)


@pytest.fixture(scope="module")
def swept(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The page's commands in a folder of their own: the plan, then the sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "examples").symlink_to(ROOT / "examples")
        lines = PAGE.commands
        with forked_workers():
            results = [medunlearn(*shlex.split(line)[1:], *SMALL) for line in lines]
        yield (*results, folder / "runs" / "sweep-small")


def test_the_commands_of_the_page(swept: Any) -> None:
    planned, finished, elsewhere, out = swept
    # By torchrun the same cells are there already.
    assert "9 cells, 9 of them done" in elsewhere.stderr
    assert re.search(r"Left: 9 cells, \d[\d.]*[GT] FLOPs", planned.stdout)
    assert "fits" in planned.stdout
    assert "Kind" not in planned.stdout
    lines = [line for line in finished.stderr.splitlines() if line.startswith("> ")]
    assert any(re.fullmatch(r"> graddiff random_25: \d+\.\d s", line) for line in lines)
    assert any(
        re.fullmatch(r"> choose graddiff: 0\.000?\d \(the (largest|smallest) rate tried: .*\)", line)
        for line in lines
    )
    assert re.search(r"evaluate +done +3", finished.stdout)
    assert "report" in finished.stdout
    assert json.loads((out / "sweep.json").read_text())["status"] == "complete"


def test_json_quiet_and_a_plan_of_what_is_done(swept: Any, medunlearn: Medunlearn) -> None:
    *_, out = swept
    words = ("sweep", EXAMPLE, *SMALL, "--out", out)
    facts = json.loads(medunlearn(*words, "--json").stdout)
    assert {cell["status"] for cell in facts["cells"]} == {"done"}
    assert facts["report"].endswith("report.html")
    assert len(facts["search"]["tried"]) == 2
    assert "Everything is done." in medunlearn(*words, "--plan").stdout
    assert re.search(r"search +2 +0", medunlearn(*words, "--plan", "--all").stdout)
    assert medunlearn(*words, "--plan", "--quiet").stdout == ""
    result = medunlearn(*words, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")
    pending = json.loads(medunlearn(*words, "--plan", "--json", "--splits=[random_25, random_10]").stdout)
    todo = {cell["name"]: cell["seconds"] for cell in pending["cells"] if cell["state"] == "to do"}
    # The model of random_10 is there: the search made it at the rate that was chosen.
    assert [*todo] == ["evaluate target on random_10", "evaluate graddiff random_10"]
    assert pending["seconds_left"] == pytest.approx(sum(todo.values()))
    assert min(todo.values()) > 0


def test_another_seed_replaces_those_of_the_file(medunlearn: Medunlearn, tmp_path: Path) -> None:
    words = ("sweep", EXAMPLE, *SMALL, "--out", tmp_path / "out", "--seed", 7, "--plan", "--json")
    assert {cell["seed"] for cell in json.loads(medunlearn(*words).stdout)["cells"]} == {7}
    assert not (tmp_path / "out").exists()


def test_a_failing_cell_is_said_and_ends_with_1(swept: Any, medunlearn: Medunlearn) -> None:
    *_, out = swept
    words = ("--unlearn.search.lr=[1e-3, 1e30]", "--out", out, "--jobs", 1)
    with forked_workers():
        result = medunlearn("sweep", EXAMPLE, *SMALL, *words, code=1)
    assert "1 of 9 cells have no result; the others are done. - search graddiff 1e+30: The gradient" in result.text
    assert "sweep.json lists them" in result.text
    assert re.search(r"search +failed +1", result.stdout)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (
            ("--splits=[randm_10]", "--unlearn.methods=[npoo]"),
            ["3 settings are wrong", "'npo'", "mean 'random_10'", "sweep 'random_25'"],
        ),
        (("--trian.epochs=1",), ["Did you mean --train?"]),
        (("--unlearn.search.splt=random_10",), ["no setting 'splt'", "Did you mean 'split'?"]),
        (("--retrain=[random_10]",), ["no split of this sweep 'random_10'"]),
        (("--jobs", "0"), ["--jobs"]),
        (("--device", "cuda:77"), ["cuda:77"]),
        (("--seeds=[1, 1]",), ["seeds names 1 twice"]),
    ],
)
def test_wrong_settings(medunlearn: Medunlearn, tmp_path: Path, words: tuple[str, ...], parts: list[str]) -> None:
    result = medunlearn("sweep", EXAMPLE, *SMALL, "--out", tmp_path / "out", *words, code=2)
    assert all(part in result.text for part in parts), result.text
    assert not list((tmp_path / "out").glob("*/run.json"))


def test_out_that_is_a_file(medunlearn: Medunlearn, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    assert "is a file, not a folder" in medunlearn("sweep", EXAMPLE, *SMALL, "--out", tmp_path / "out", code=2).text


def test_the_python_of_the_page(
    swept: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import medunlearn as mu

    *_, out = swept
    monkeypatch.chdir(out.parents[1])
    (code,) = PAGE.blocks("python")
    small = {key: json.loads(value.replace("[", '["').replace("]", '"]')) if value[0] == "[" else value
             for key, value in (word[2:].replace("-", "_").split("=") for word in SMALL)}  # fmt: skip
    small |= {key: int(value) for key, value in small.items() if isinstance(value, str) and value.isdecimal()}
    sweep = mu.sweep
    monkeypatch.setattr("medunlearn.sweep", lambda *args, **more: sweep(*args, **more, **small), raising=False)
    with pd.option_context("display.max_columns", None, "display.max_rows", None):
        exec(code, {})
    assert "rouge_l" in capsys.readouterr().out


def test_the_page_names_every_key() -> None:
    from medunlearn.config import SweepSettings

    named = set(re.findall(r"`\"?(\w+)\"?`", PAGE.text))
    assert set(SweepSettings.model_fields) <= named


def test_the_leaderboard_is_planned(medunlearn: Medunlearn, tmp_path: Path) -> None:
    """Every method of leaderboard.yaml is there, at its quick scale with one seed and a folder of its own."""
    file = ROOT / "examples" / "leaderboard.yaml"
    methods = yaml.safe_load(file.read_text())["unlearn"]["methods"]
    plan = json.loads(medunlearn("sweep", file, "--quick", "--plan", "--json").stdout)
    unlearned = [cell for cell in plan["cells"] if cell["kind"] == "unlearn"]
    assert [(cell["method"], cell["seed"]) for cell in unlearned] == [(method, 0) for method in methods]
