"""The commands of docs/unlearn.md on epochs run as they stand but for the size of the training."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest
import yaml
from forking import torchrun
from pages import Page, run_line

from medunlearn.config import EpochFields, UnlearnSettings
from medunlearn.results.runs import Run
from medunlearn.study.experiment import plan
from medunlearn.study.presets import presets

ROOT = Path(__file__).parents[2]
PAGE = Page.read("unlearn.md", "Evaluate after every epoch")
ASKED = ["--evaluate.max-new-tokens=4", "--evaluate.limit=2", "--evaluate.replicates=20"]
SMALL = {
    "train": ["--epochs=1", "--train-on=records", "--tiny-width=32", "--tiny-layers=2"],
    "unlearn": ["--epochs=2", "--precision=fp32", *ASKED],
    "evaluate": ["--allow-broken", "--max-new-tokens=4", "--limit=1", "--replicates=20"],
}


def run(line: str, *more: str) -> None:
    words = shlex.split(line)
    added = [*SMALL.get(words[words.index("medunlearn") + 1], []), *more]
    if words[0] == "torchrun":
        torchrun([*words[1:], *added])
    else:
        run_line(line, added)


def numbers(folder: str) -> pd.DataFrame:
    return pd.read_parquet(f"{folder}/epochs.parquet")


def test_commands_run_and_several_processes_find_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 5
    for line in lines:
        run(line)
    two = Run.open("runs/npo")
    assert two.info["hardware"]["processes"] == 2
    assert len(list((two.epoch(1).folder / "responses").glob("*/part-*.parquet"))) > 1
    one_process = lines[-1].partition("-m ")[2].replace("runs/npo", "runs/one")
    run(one_process)
    sharded = lines[-1].replace("runs/npo", "runs/sharded")
    run(sharded, "--sharding=fsdp2", "--epochs=1", "--trainable=lora:2")
    run(one_process.replace("runs/one", "runs/whole"), "--epochs=1", "--trainable=lora:2")
    for ours, theirs in (("runs/npo", "runs/one"), ("runs/sharded", "runs/whole")):
        pd.testing.assert_frame_equal(numbers(ours), numbers(theirs), rtol=1e-3)
        assert Run.open(ours).info["results"]["epochs"]["done"] == numbers(ours)["epoch"].max()


def test_every_setting_that_the_page_names_is_one() -> None:
    named = {name.partition(".")[0] for name in PAGE.flags}
    assert named <= set(UnlearnSettings.model_fields)
    assert set(EpochFields.__annotations__) - {"evaluate", "attack", "utility"} <= named


def test_the_example_is_the_papers_experiment() -> None:
    values = yaml.safe_load((ROOT / "examples" / "lume.yaml").read_text())
    methods = values["unlearn"].pop("methods")
    assert methods == ["ga", "graddiff", "kl_min", "npo", "ngdiff"]
    preset = presets()["lume-1b"]
    alpha = values["unlearn"].pop("npo.alpha")
    assert preset.methods == {"npo": {"arguments": {"alpha": alpha}}}
    assert values["unlearn"].items() <= preset.unlearn.items()
    values["unlearn"] |= {"methods": methods, "npo.alpha": alpha}
    experiment = plan(values)
    assert [one.method for one in experiment.methods] == methods
    assert next(one for one in experiment.methods if one.method == "npo").arguments == {"alpha": 0.0}
    assert all(
        (one.epochs, one.lr, one.batch_size, one.evaluate) == (10, 1e-5, 32, {"folds": ["train", "holdout"]})
        for one in experiment.methods
    )
