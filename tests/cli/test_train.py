"""``train``: the target and the retrained model, and what is kept when it is given again."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Medunlearn = Callable[..., Any]
Train = Callable[..., Any]
TINY = ("--model", "tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=2", "--precision=fp32")


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every file below a folder with its size and the time that it was written."""
    return {
        file: (file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(folder.rglob("*")) if file.is_file()
    }


@pytest.fixture
def train(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> Train:
    """``train(*words)``: the tiny model on the hospital, into ``tmp_path/run``."""

    def command(*words: object, out: Path | None = None, on: Path = bench, code: int = 0) -> Any:
        return medunlearn("train", on, *TINY, "--out", out or tmp_path / "run", *words, code=code)

    return command


def info(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return read


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step of training fails the test."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a step was trained")

    monkeypatch.setattr("medunlearn.training.loop._step", refuse)


def test_the_target_model(target: Path) -> None:
    run = info(target)
    assert (run["verb"], run["label"], run["status"]) == ("train", "target", "complete")
    assert run["results"]["steps"] == 36
    assert (target / "model" / "model.safetensors").exists()
    assert not (target / "checkpoints").exists()


def test_without_a_split_it_is_the_retrained_model(train: Train, tmp_path: Path) -> None:
    text, run = train("--without", "random_10", "--epochs=1").text, info(tmp_path / "run")
    assert (run["label"], run["config"]["without"]) == ("retrained", "random_10")
    # 20 records and 20 times 6 questions of the train fold, eight in a step: the target's steps.
    assert run["results"]["steps"] == -(-20 * 7 // 8)
    # An epoch without two patients has 16 of these 18 steps.
    assert run["results"]["trained_epochs"]["finetune"] == 2
    assert "18 steps, final loss" in text


def test_a_complete_run_is_not_run_again(train: Train, target: Path, no_training: None) -> None:
    before = state(target)
    train(out=target)
    train("--checkpoint-seconds=5", out=target)
    assert json.loads(train("--json", out=target).stdout) == info(target)
    assert state(target) == before


def test_another_run_in_the_same_folder_is_refused(
    train: Train, lume: Path, target: Path, no_training: None
) -> None:
    before = state(target)
    text = train("--lr=0.1", "--epochs=7", out=target, code=2).text
    parts = ("epochs: 2 there, 7 here", "lr: 0.003 there, 0.1 here", "Choose another --out")
    assert [part for part in parts if part not in text] == []
    assert "batch_size" not in text
    assert "differs in benchmark: " in train(out=target, on=lume, code=2).text
    assert state(target) == before


def test_quiet(train: Train) -> None:
    result = train("--epochs=1", "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


def test_no_epochs_at_all(train: Train) -> None:
    assert "0 steps" in train("--epochs=0").text


def test_it_goes_on_from_another_run(medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path) -> None:
    words = ("--epochs=1", "--pretrain-epochs=0", "--template=plain", "--context=closed_book", "--precision=fp32")
    medunlearn("train", bench, "--model", target, "--out", tmp_path / "r", *words)
    assert info(tmp_path / "r")["lineage"] == [str(target)]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--model", "tinny"), ["no model folder tinny", "or tiny"]),
        (("--without", "random_11"), ["Did you mean 'random_1", "no split 'random_11'"]),
        (("--without", "patient="), ["forgets nothing", "Name at least one patient"]),
        (("--device", "nonsense"), ["Device 'nonsense' is not available"]),
        (("--trainable=layers:9",), ["trainable='layers:9': a LlamaForCausalLM with layers 0 to 1."]),
        (("--trainable=some",), ["trainable='some' is not understood"]),
        (("--max-length=16",), ["more than max_length=16", "Raise --max-length"]),
        (("--epochs=many", "--lr=-1", "--precision=fp16", "bogus=1"), ["4 settings are wrong", "no flag --bogus"]),
    ],
)
def test_a_mistake_does_not_take_the_folder(
    train: Train, tmp_path: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    text = train(*words, code=2).text
    assert [part for part in parts if part not in text] == [], text
    train("--epochs=1")
    assert info(tmp_path / "run")["status"] == "complete"


def test_an_out_that_holds_something_else(train: Train, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert "is not empty and contains no run" in train(out=tmp_path, code=2).text
    assert "is a file, not a folder" in train(out=tmp_path / "thesis.txt", code=2).text
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_a_full_disk(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("medunlearn.data.storage.os.fsync", full)
        text = train(code=1).text
    file = tmp_path / "run" / "run.json"
    assert f"error: The disk is full: {file} was not written. Free some space" in text
    train("--epochs=1")
