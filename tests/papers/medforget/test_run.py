"""A sweep over levels: its cells, what is refused, and from a file to the report with models that learn nothing."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from pages import Page

from medunlearn.cli.main import app
from medunlearn.config import read_yaml
from medunlearn.data.storage import write_json
from medunlearn.errors import ConfigError
from medunlearn.papers.medforget.report import level_results, report_of
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.reports.markdown import to_markdown
from medunlearn.study.graph_run import COLUMNS, evaluated_models
from medunlearn.study.slots.call import run_here
from medunlearn.study.slots.slot import Slot
from medunlearn.study.sweep.jobs import JobOutput, perform
from medunlearn.study.sweep.sweep_graph import SweepGraph, sweep_graph
from medunlearn.study.sweep.sweep_plan import Sweep, plan

ROOT = Path(__file__).parents[3]
PAGE = Page.read("papers/medforget.md", "MedForget experiment and report")
Values = dict[str, Any]


def by_name(sweep: Sweep) -> dict[str, Any]:
    return {cell.name: cell for cell in sweep_graph(sweep).cells}


def needs(cell: Any) -> tuple[str, ...]:
    return tuple(other.name for other in cell.needs)


def test_every_model_is_attacked_and_flat_ones_are_asked_about_levels(tmp_path: Path) -> None:
    cells = by_name(plan(values(tmp_path) | {"unlearn": {"methods": ["npo"]}}))
    attacks = [name.removeprefix("attack ") for name in cells if name.startswith("attack")]
    on_splits = ["target on section_25", "target on flat_25"]
    assert attacks == [*on_splits, "retrained section_25", "npo section_25", "npo flat_25"]
    across = cells["evaluate npo flat_25 on section_25"]
    assert (across.split, needs(across), across.method) == ("section_25", ("npo flat_25",), "npo")
    # They write to one store of responses, so that they must never run at the same time.
    assert across.alone == cells["evaluate npo flat_25"].alone == cells["attack npo flat_25"].alone


def test_a_method_whose_reference_is_the_retrained_model_waits_for_it(tmp_path: Path) -> None:
    settings = values(tmp_path)
    settings["unlearn"] = {"methods": ["npo", "manu"], "npo.reference": "retrained", "train_on": "questions"}
    with pytest.raises(ConfigError, match="retrain lacks flat_25"):
        plan(settings)
    sweep = plan(settings | {"retrain": True})
    graph = sweep_graph(sweep).graph
    npo, manu = (cast(Any, graph.stages[f"{name} section_25"]) for name in ("npo", "manu"))
    assert needs(npo) == ("target", "retrained section_25")
    assert needs(manu) == ("target",)
    assert npo.unlearning().arguments["reference"] == "retrained"
    graph.succeed(graph.stages["retrained section_25"], JobOutput(tmp_path / "there", None, None))
    assert npo.unlearning(graph.inputs).arguments["reference"] == str(tmp_path / "there")


def test_requests_in_sequence_go_on_from_the_model_before(tmp_path: Path) -> None:
    a, b, c = splits = ["section_25", "flat_25", "patient_25"]
    ordered = {"splits": splits, "sequence": True, "asked_about": {}, "unlearn": {"methods": ["npo"]}}
    cells = by_name(plan(values(tmp_path) | ordered))
    assert [needs(cells[f"npo {split}"]) for split in splits] == [("target",), (f"npo {a}",), (f"npo {b}",)]
    evaluations = [name.removeprefix("evaluate npo ") for name in cells if name.startswith("evaluate npo")]
    assert evaluations == [a, b, c, f"{b} on {a}", f"{c} on {a}", f"{c} on {b}"]
    wrong = values(tmp_path) | {"sequence": True}
    with pytest.raises(ConfigError, match="all earlier requests"):
        plan(wrong)
    with pytest.raises(ConfigError, match="two splits or more"):
        plan({**wrong, "asked_about": {}, "splits": ["section_25"]})


def values(out: Path) -> Values:
    return {
        "name": "Levels",
        "out": str(out),
        "benchmark": {"builder": "medforget", "synthetic": 4, "institutions": 2, "studies": 1}
        | {"sections": 1, "text_only": True, "rephrase": "none"},
        "splits": ["section_25", "flat_25"],
        "asked_about": {"flat_25": ["section_25"]},
        "train": {"model": "tiny", "train_on": "questions", "epochs": 1, "tiny_width": 16, "tiny_layers": 1},
        "retrain": ["section_25"],
        "unlearn": {"methods": ["manu"], "train_on": "questions"},
        "evaluate": {"folds": ["train"], "max_new_tokens": 1, "replicates": 2},
        "attack": {"attacks": ["cumulative"], "cumulative.max_new_tokens": 1, "replicates": 2},
    }


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    wrong = values(tmp_path)
    wrong["asked_about"] = {"flat_25": ["section_52", "flat_25"], "flat_50": []}
    wrong["attack"] = {"attacks": ["reconstuction"], "split": "section_25"}
    with pytest.raises(ConfigError) as refused:
        plan(wrong)
    message = str(refused.value)
    for part in ("section_52", "names 'flat_25' itself", "flat_50", "reconstuction", "attack.split"):
        assert part in message


def performed(sweep: Sweep) -> SweepGraph:
    """Every stage in this process, one after the other."""
    stages = sweep_graph(sweep, sweep.benchmark())
    graph = stages.graph
    for cell in graph.stages.values():
        graph.succeed(cell, run_here(perform, cast(Any, cell).job(graph.inputs), Slot("cpu", 1)))
    for cell in [*graph.stages.values()][-2:]:
        again = cell.read(graph.inputs)
        assert again is not None
        assert again[:2] == graph.inputs[cell][:2]
    return stages


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep, as the command leaves it."""
    folder = tmp_path_factory.mktemp("place") / "runs" / "medforget-tiny"
    sweep = plan(values(folder))
    graph = performed(sweep).graph
    done = {**COLUMNS, "status": "done"}
    cells = [done | stage.facts(graph.inputs[stage]) for stage in graph.stages.values()]
    write_json(
        folder / "sweep.json",
        {"name": "Levels", "cells": cells, "settings": sweep.settings.model_dump(mode="json")},
    )
    return folder


@pytest.mark.parametrize(
    ("name", "model", "splits", "seeds"),
    # At the paper's size NPO reads the retrained model of every split, of the flat one too.
    [("medforget-tiny-vision", "tiny-vision", 4, 2), ("medforget-lingshu", "Lingshu-7B", 5, 1)],
)
def test_the_examples_on_images_have_the_methods_of_the_tiny_one(
    name: str, model: str, splits: int, seeds: int
) -> None:
    """Planned alone: what they take to run is more than a test has."""
    sweep = plan(read_yaml(ROOT / "examples" / f"{name}.yaml"))
    cells = by_name(sweep).values()
    kinds = Counter(cell.kind for cell in cells)
    assert {kind: kinds[kind] for kind in ("target", "retrained", "unlearn")} == {
        "target": seeds,
        "retrained": splits * seeds,
        "unlearn": 5 * splits * seeds,
    }
    assert {cell.method for cell in cells if cell.method} == {"graddiff", "kl_min", "npo", "manu", "chip"}
    assert str(sweep.settings.train["model"]).endswith(model)
    npo = next(cell for cell in cells if (cell.kind, cell.method) == ("unlearn", "npo"))
    of_paper = {} if name == "medforget-tiny-vision" else {"alpha": 0.0, "reference": "retrained"}
    assert npo.unlearning().arguments == {"beta": 0.9} | of_paper


def test_the_example_on_drawn_x_rays_runs_in_small(tmp_path: Path) -> None:
    """Two patients, one method of the five, one seed: every kind of cell, question and table that it has."""
    settings = read_yaml(ROOT / "examples" / "medforget-tiny-vision.yaml")
    settings["benchmark"] |= {"synthetic": 2, "sections": 1, "image_size": 32}
    settings["train"] |= {"epochs": 1, "tiny_width": 16, "tiny_layers": 1, "tiny_pixels": 32}
    settings["unlearn"]["methods"] = ["chip"]
    settings["evaluate"] |= {"max_new_tokens": 1, "replicates": 2, "allow_broken": True}
    settings["attack"] |= {"cumulative.max_new_tokens": 1, "replicates": 2, "allow_broken": True}
    small = {
        "out": str(tmp_path / "out"),
        "seeds": [0],
        "splits": ["patient_50", "section_50"],
        "retrain": False,
    }
    sweep = plan(settings | small)
    stages = performed(sweep)
    benchmark = sweep.benchmark()
    models = [*evaluated_models(stages.graph, stages.evaluations).values()]
    results = level_results(models, benchmark, SweepRequest("Small", replicates=2))
    assert results.common == 1
    groups = set(results.numbers["group"])
    assert {"gap", "common", "rephrase words", "rephrase view", "paraphrase", "given institution"} <= groups
    page = to_markdown(report_of(results).report)
    for title in ("Words and views apart", "Retain minus forget", "brought back"):
        assert title in page


def test_commands_of_the_page_run(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(swept.parents[1])
    if not Path("examples").exists():
        Path("examples").symlink_to(ROOT / "examples")
    lines = PAGE.commands
    assert lines == [
        "medunlearn sweep examples/medforget-tiny.yaml",
        "medunlearn report runs/medforget-tiny --out report",
    ]
    for line, more in zip(lines, (["--plan", "--json"], []), strict=True):
        result = CliRunner().invoke(app, [*shlex.split(line)[1:], *more])
        assert result.exit_code == 0, result.output
        if more:
            kinds = {row["kind"]: row["left"] for row in json.loads(result.stdout)["counts"]}
            # Five methods on six splits; the target is asked about each, four levels have a retrained model, and
            # flat models are asked about the level that forgets as much.
            assert kinds == {"target": 1, "retrained": 4, "unlearn": 30, "evaluate": 60, "attack": 40}
    assert "open" in result.output.lower()
    data = json.loads(Path("report/report.json").read_text(encoding="utf-8"))
    assert set(data["attacked"]["identifiers"]) == {"none", "study", "patient", "institution"}
    roles = set(zip(data["numbers"]["split"], data["numbers"]["role"], strict=True))
    assert {("section_25", "flat"), ("section_25", "retrained"), ("flat_25", "unlearned")} <= roles
    assert any("Fewer than 5 patients" in caveat for caveat in data["caveats"])
