"""The commands of docs/papers.md on AMNESIA run; its experiment is checked, its preset runs on two processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from forking import torchrun
from pages import Page, run_line

import medunlearn as mu
from medunlearn.config import ExperimentSettings, read_yaml
from medunlearn.config import TrainSettings as Train
from medunlearn.config import UnlearnSettings as Unlearn
from medunlearn.results.runs import Run
from medunlearn.study.experiment import plan
from medunlearn.study.presets import presets

ROOT = Path(__file__).parents[2]
PAGE = Page.read("papers/amnesia.md", "AMNESIA benchmark", "AMNESIA training")
SMALL = ("--tiny-width=32", "--tiny-layers=2", "--pretrain-epochs=1", "--precision=fp32")


def test_the_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 8
    for line in lines:
        more = SMALL if " train " in line else ("--epochs=1", "--precision=fp32") if " unlearn " in line else ()
        more = ("--allow-broken",) if " evaluate " in line else more  # hardly trained here
        run_line(line, more)
    run = Run.open("runs/target")
    assert (run.info["config"]["pack_records"], run.info["results"]["rendering"]["context"]) == (True, "note")
    assert 'mu.inspect("bench/").tables()' in PAGE.text
    assert mu.inspect("bench/").tables()["groups"]["subjects"].iloc[-1] == 40
    graddiff = Run.open("runs/graddiff")
    assert graddiff.info["results"]["trainable"] == "layers:1"
    assert graddiff.info["results"]["rendering"]["long_notes"] == "cut"


def test_every_preset_and_setting_that_the_page_names_is_one() -> None:
    settings = {*Train.model_fields, *Unlearn.model_fields}
    table = PAGE.text.partition("| setting |")[2].partition("The paper gives no learning rate")[0]
    named = set(re.findall(r"`(\w+)`", table)) - {"layers"}
    assert {"batch_size", "pack_records", "long_notes"} <= named <= settings
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert all(f"`{name}`" in PAGE.text for name in presets() if name.startswith("amnesia-"))
    assert [
        name
        for name in presets()
        if f"`{name}`" not in pages and f"preset {name}" not in pages and f"={name}" not in pages
    ] == []


def one_split(sweep: dict[str, Any]) -> dict[str, Any]:
    """The sweep's file as an experiment on its first split, which torchrun can start as it is."""
    known = {key: value for key, value in sweep.items() if key in ExperimentSettings.model_fields}
    sharded = {key: {k: v for k, v in known[key].items() if k != "sharding"} for key in ("train", "unlearn")}
    return {**known, **sharded, "split": sweep["splits"][0], "seed": 0, "retrain": True, "judge": {}}


def test_the_papers_experiment_is_one(tmp_path: Path) -> None:
    experiment = plan(one_split(read_yaml(ROOT / "examples" / "amnesia-llama3-8b.yaml")))
    for settings in (experiment.target, *experiment.methods):
        assert (settings.sharding, settings.micro_batch_size, settings.batch_size) == ("fsdp2", 2, 64)
        assert (settings.lr, settings.epochs, settings.max_length) == (2e-5, 3, 2048)
    assert experiment.retrained is not None
    assert {method.method: method.trainable for method in experiment.methods} == {
        "rmu": "default", "graddiff": "layers:7", "kl_min": "layers:7", "simnpo": "layers:7",
    }  # fmt: skip


def test_its_preset_runs_sharded_on_two_processes(tmp_path: Path) -> None:
    """The example itself, scaled down by keys that are given beside the preset."""
    scaled = (
        "--benchmark={builder: amnesia, synthetic: 12}", "--split=random_10", "--train.model=tiny",
        "--train.tiny-width=32",
        "--train.tiny-layers=2", "--train.epochs=1", "--train.max-length=1024", "--unlearn.max-length=1024",
        "--unlearn.epochs=1", "--unlearn.methods=[graddiff]", "--unlearn.graddiff.trainable=layers:1",
        "--retrain=false",
        "--unlearn.lr=1e-3",
        "--evaluate={limit: 1, folds: [train], max_new_tokens: 2, replicates: 10}",
    )  # fmt: skip
    example = tmp_path / "amnesia.yaml"
    values = one_split(read_yaml(ROOT / "examples" / "amnesia-llama3-8b.yaml"))
    example.write_text(yaml.safe_dump({**values, "extractor_python": None}))
    words = [
        "--nproc_per_node",
        "2",
        "-m",
        "medunlearn",
        "run",
        str(example),
        "--out",
        str(tmp_path),
        "--quiet",
        *scaled,
    ]
    torchrun(words)
    runs = {path.parent.name.split("-")[0]: Run.open(path.parent) for path in tmp_path.glob("*/run.json")}
    assert set(runs) == {"target", "graddiff"}
    for run in runs.values():
        assert run.info["hardware"]["processes"] == 2
        assert (run.info["config"]["sharding"], run.info["config"]["gradient_checkpointing"]) == ("fsdp2", True)
    phases = runs["target"].history().groupby("phase")["step"].count().to_dict()
    # Twelve notes fill three rows or so, one step of 64 rows; 12 notes and 72 questions are two steps of 64.
    assert phases == {"pretrain": 1, "finetune": 2}
