"""``train``: the target and the retrained model, and what is kept when it is given again."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
TINY = ("--model", "tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=2", "--precision=fp32")


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every file below a folder with its size and the time that it was written."""
    return {
        file: (file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(folder.rglob("*")) if file.is_file()
    }


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step of training fails the test."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a step was trained")

    monkeypatch.setattr("medunlearn.training.loop._step", refuse)


def test_train(target: Path) -> None:
    info = json.loads((target / "run.json").read_text())
    assert (info["verb"], info["label"], info["status"]) == ("train", "target", "complete")
    assert info["results"]["steps"] == 36
    assert (target / "model" / "model.safetensors").exists()
    assert not (target / "checkpoints").exists()


def test_train_without_a_split_is_the_retrained_model(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    said = medunlearn("train", bench, *TINY, "--without", "random_10", "--out", tmp_path / "r", "--epochs=1")
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    assert info["label"] == "retrained"
    assert info["config"]["without"] == "random_10"
    # 18 records and 18 times 6 questions of the train fold, eight in a step.
    assert info["results"]["steps"] == -(-18 * 7 // 8)
    assert "16 steps, final loss" in said.text


def test_a_complete_run_is_not_run_again(
    medunlearn: Medunlearn, bench: Path, target: Path, no_training: None
) -> None:
    before = state(target)
    medunlearn("train", bench, "--out", target, *TINY)
    assert state(target) == before


def test_how_often_a_checkpoint_is_written_makes_no_other_run(
    medunlearn: Medunlearn, bench: Path, target: Path, no_training: None
) -> None:
    medunlearn("train", bench, "--out", target, *TINY, "--checkpoint-seconds=5")


def test_other_settings_in_the_same_folder_are_refused(
    medunlearn: Medunlearn, bench: Path, target: Path, no_training: None
) -> None:
    before = state(target)
    said = medunlearn("train", bench, "--out", target, *TINY, "--lr=0.1", "--epochs=7", code=2)
    assert "epochs: 2 there, 7 here" in said.text
    assert "lr: 0.003 there, 0.1 here" in said.text
    assert "batch_size" not in said.text
    assert "Choose another --out" in said.text
    assert state(target) == before


def test_another_benchmark_in_the_same_folder_is_refused(
    medunlearn: Medunlearn, lume: Path, target: Path, no_training: None
) -> None:
    said = medunlearn("train", lume, "--out", target, *TINY, code=2)
    assert "differs in benchmark: " in said.text


def test_json(medunlearn: Medunlearn, bench: Path, target: Path) -> None:
    said = medunlearn("train", bench, "--out", target, *TINY, "--json")
    assert json.loads(said.stdout) == json.loads((target / "run.json").read_text())


def test_quiet(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    said = medunlearn("train", bench, *TINY, "--out", tmp_path / "r", "--epochs=1", "--quiet")
    assert (said.stdout, said.stderr) == ("", "")


def test_no_epochs_at_all(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    assert "0 steps" in medunlearn("train", bench, *TINY, "--out", tmp_path / "r", "--epochs=0").text


def test_it_goes_on_from_another_run(medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path) -> None:
    words = ("--epochs=1", "--pretrain-epochs=0", "--template=plain", "--context=closed_book", "--precision=fp32")
    medunlearn("train", bench, "--model", target, "--out", tmp_path / "r", *words)
    assert json.loads((tmp_path / "r" / "run.json").read_text())["lineage"] == [str(target)]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--model", "tinny"), ["no model folder tinny", "or tiny"]),
        (("--without", "random_11"), ["Did you mean 'random_1", "no split 'random_11'"]),
        (("--without", "patient="), ["forgets nothing", "Name at least one patient"]),
        (("--device", "nonsense"), ["Device 'nonsense' cannot be used"]),
        (("--trainable=layers:9",), ["trainable='layers:9' matches no parameter"]),
        (("--trainable=some",), ["trainable='some' is not understood"]),
        (("--max-length=16",), ["more than max_length=16", "Raise --max-length"]),
        (("--epochs=many", "--lr=-1", "--precision=fp16", "bogus=1"), ["4 settings are wrong", "no flag --bogus"]),
    ],
)
def test_a_mistake_does_not_take_the_folder(
    medunlearn: Medunlearn, bench: Path, tmp_path: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    out = tmp_path / "r"
    said = medunlearn("train", bench, *TINY, *words, "--out", out, code=2)
    assert all(part in said.text for part in parts), said.text
    medunlearn("train", bench, *TINY, "--out", out, "--epochs=1")
    assert json.loads((out / "run.json").read_text())["status"] == "complete"


def test_a_folder_that_holds_something_else(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    said = medunlearn("train", bench, *TINY, "--out", tmp_path, code=2)
    assert "is not empty and holds no run" in said.text
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_out_that_is_a_file(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said = medunlearn("train", bench, *TINY, "--out", tmp_path / "file", code=2)
    assert "is a file, not a folder" in said.text


@pytest.mark.parametrize("missing", ["tokenizer.json", "config.json", "model.safetensors"])
def test_a_model_folder_with_a_part_missing(
    medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path, missing: str
) -> None:
    shutil.copytree(target / "model", tmp_path / "model")
    (tmp_path / "model" / missing).unlink()
    said = medunlearn("train", bench, "--model", tmp_path / "model", "--out", tmp_path / "r", code=2)
    assert {"tokenizer.json": "no tokenizer", "config.json": "no config.json"}.get(
        missing, "safetensors"
    ) in said.text


@pytest.mark.parametrize(
    ("break_it", "part"),
    [
        (lambda path: path.unlink(), "is missing. Build or copy the folder again."),
        (lambda path: path.write_bytes(path.read_bytes()[:200]), "cut off or broken"),
        (lambda path: path.write_bytes(b""), "cut off or broken"),
    ],
)
def test_a_broken_table(
    medunlearn: Medunlearn, bench: Path, tmp_path: Path, break_it: Callable[[Path], Any], part: str
) -> None:
    shutil.copytree(bench, tmp_path / "bench")
    break_it(tmp_path / "bench" / "questions.parquet")
    said = medunlearn("train", tmp_path / "bench", *TINY, "--out", tmp_path / "r", code=2)
    assert "questions.parquet" in said.text
    assert part in said.text
    assert not (tmp_path / "r").exists()


def test_a_table_of_another_benchmark(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    medunlearn("build", "amnesia", "--synthetic", 20, "--seed", 1, "--out", tmp_path / "bench")
    shutil.copy(bench / "questions.parquet", tmp_path / "bench" / "questions.parquet")
    said = medunlearn("train", tmp_path / "bench", *TINY, "--out", tmp_path / "r", code=2)
    assert "is not the file that benchmark.yaml describes (SHA-256" in said.text
    assert Benchmark.load(bench)


def test_a_full_disk(medunlearn: Medunlearn, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "r"
    with monkeypatch.context() as patch:
        patch.setattr("medunlearn.data.storage.os.fsync", full)
        said = medunlearn("train", bench, *TINY, "--out", out, code=1)
    assert f"error: The disk is full: {out / 'run.json'} was not written. Free some space" in said.text
    medunlearn("train", bench, *TINY, "--out", out, "--epochs=1")
