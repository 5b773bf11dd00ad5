"""Weights that were changed after training are noticed, and ``verify`` finds whatever else has changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from broken import scramble
from pages import run_line

import medunlearn as mu
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import RESPONSES
from medunlearn.data.storage import read_table, write_table
from medunlearn.errors import InputError, ModelError
from medunlearn.models import folders
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.record import record_digest
from medunlearn.results.runs import Run, RunRecord
from medunlearn.results.verify import Verification
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

OTHER = "were changed after the run"


class TestLoading:
    def test_changed_weights_are_refused(self, copy: Callable[..., Run]) -> None:
        run = copy()
        scramble(run.model)
        with pytest.raises(ModelError, match=OTHER):
            load_model(run.model, device="cpu")
        (run.model / "model.safetensors").unlink()
        with pytest.raises(ModelError, match=r"model\.safetensors of the run is missing"):
            load_model(run.model, device="cpu")

    def test_a_copy_is_hashed_and_an_untouched_file_is_not(
        self, copy: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, read = copy(), list[str]()
        weights, before = run.model / "model.safetensors", run.fingerprint
        sha256_of = folders.sha256_of
        monkeypatch.setattr(folders, "sha256_of", lambda path: (read.append(path.name), sha256_of(path))[1])
        load_model(run.model, device="cpu")
        assert run.fingerprint == before
        assert read == []
        os.utime(weights, ns=(1, 1))  # as of a file that was copied without its times
        load_model(run.model, device="cpu")
        assert read == ["model.safetensors"]
        assert run.fingerprint == before

    def test_a_fingerprint_does_not_trust_another_size(self, copy: Callable[..., Run]) -> None:
        run = copy()
        before, weights = run.fingerprint, run.model / "model.safetensors"
        state = weights.stat()
        weights.write_bytes(weights.read_bytes() + b"x")
        os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert fingerprint(run.model) != before

    def test_a_run_of_an_older_version_is_not_checked(self, copy: Callable[..., Run]) -> None:
        run = copy()
        forget(run, "model_files")
        scramble(run.model)
        assert load_model(run.model, device="cpu").problems == ()

    def test_a_delta_and_its_base(self, hospital: Benchmark, copy: Callable[..., Run], tmp_path: Path) -> None:
        target = copy("target")
        values = {"method": "npo", "split": "random_10", "epochs": 1, "trainable": "layers:1", "precision": "fp32"}
        settings = unlearn_settings(values, tiny=None, shared=False)
        run = unlearn(target, hospital, settings, tmp_path / "npo", quiet=True)
        assert set(run.info.model_files or {}) == {"delta.safetensors"}
        load_model(run.model, device="cpu")
        assert states(run)["base"] == {"ok"}
        scramble(target.model)
        with pytest.raises(ModelError, match="it is another model, or was changed"):
            load_model(run.model, device="cpu")
        assert {(one.what, one.state) for one in mu.verify([run.folder]).wrong} == {
            ("base", "differs"),
            ("target", "differs"),
        }


def forget(run: Run, *fields: str) -> None:
    """Take fields out of ``run.json``, and the digest, which older versions did not write either."""
    path = run.folder / "run.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in content.items() if name not in (*fields, "digest")}))


def states(run: Run) -> dict[str, set[str]]:
    """What -> its states."""
    rows = mu.verify([run.folder]).table()
    return {str(what): set(part["state"]) for what, part in rows.groupby("what")}


@pytest.fixture(scope="module")
def original(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bench/``, and ``run/`` on it, evaluated once; tests change copies."""
    folder = tmp_path_factory.mktemp("original")
    bench = Benchmark.load(hospital.save(folder / "bench"))
    run = train(bench, train_settings({**small, "epochs": 1}), folder / "run", quiet=True)
    values = {"split": "random_10", "replicates": 20, "limit": 2, "max_new_tokens": 4}
    evaluate_one(run, bench, check(EvaluateSettings, values), quiet=True)
    return folder


@pytest.fixture
def evaluated(original: Path, tmp_path: Path) -> Run:
    """A copy of the evaluated run and of its benchmark, which its records name."""
    own = Path(shutil.copytree(original, tmp_path / "own"))
    for record in own.rglob("run.json"):
        content = json.loads(record.read_text().replace(str(original), str(own)))
        record.write_text(json.dumps({**content, "digest": record_digest(content)}))
    return Run.open(own / "run")


def test_a_run_that_is_as_it_was(evaluated: Run) -> None:
    verified = mu.verify([evaluated.folder])
    assert verified.wrong == []
    assert states(evaluated) == {
        "record": {"ok"},
        "weights": {"ok"},
        "model file": {"ok"},
        "table": {"ok"},
        "responses": {"ok"},
        "benchmark": {"ok"},
        "base": {"not checked"},
    }
    names = set(verified.table().query("what == 'table'")["name"])
    assert names == {"facts.parquet", "history.parquet", "scores.parquet", "summary.parquet"}


def test_moved_and_copied_it_is_still_as_it_was(evaluated: Run, tmp_path: Path) -> None:
    shutil.copytree(evaluated.folder, tmp_path / "copy", copy_function=shutil.copyfile)
    assert mu.verify([tmp_path / "copy"]).wrong == []


def test_moved_with_its_benchmark_it_finds_it(
    evaluated: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, target and benchmark are copied together, and the originals are gone."""
    target, place = Path(evaluated.info.lineage[-1]), tmp_path / "elsewhere"
    benchmark = Path(str(evaluated.info.results["benchmark_folder"]))
    for folder in {evaluated.folder, target} - {Path("tiny")}:
        if folder.is_dir():
            shutil.copytree(folder, place / "runs" / folder.name, copy_function=shutil.copyfile)
    shutil.copytree(benchmark, place / benchmark.name)
    aside = benchmark.rename(benchmark.with_name("gone"))
    monkeypatch.chdir(place)
    try:
        copied = place / "runs" / evaluated.folder.name
        checks = mu.verify([copied])
        assert checks.wrong == []
        assert {check.name for check in checks.checks if check.what == "benchmark"} == {str(place / benchmark.name)}
        (place / benchmark.name / "benchmark.yaml").unlink()
        assert {check.what for check in mu.verify([copied]).wrong} == {"benchmark"}
    finally:
        aside.rename(benchmark)


def test_a_sweep_is_verified_run_by_run(evaluated: Run, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    for name in ("a", "b"):
        shutil.copytree(evaluated.folder, sweep / name, copy_function=shutil.copyfile)
    with pytest.raises(InputError, match="holds no run"):
        mu.verify([sweep])
    (sweep / "sweep.json").write_text("{}")
    assert mu.verify([sweep]).wrong == []
    change_scores(Run.open(sweep / "b"))
    (wrong,) = mu.verify([sweep]).wrong
    assert (wrong.run.is_relative_to(sweep / "b"), wrong.what) == (True, "table")


def test_what_several_runs_name_is_read_once_a_call(
    evaluated: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, hashed, loaded = tmp_path / "sweep", list[str](), list[Path]()
    for name in ("a", "b", "c"):
        shutil.copytree(evaluated.folder, sweep / name, copy_function=shutil.copyfile)
    (sweep / "sweep.json").write_text("{}")
    digest, load = hashlib.file_digest, Benchmark.load
    monkeypatch.setattr(
        hashlib, "file_digest", lambda file, name: (hashed.append(str(file.name)), digest(file, name))[1]
    )
    monkeypatch.setattr(Benchmark, "load", lambda folder: (loaded.append(folder), load(folder))[1])
    for change, state in ((lambda run: None, "ok"), (change_benchmark, "differs")):
        change(evaluated)
        hashed.clear()
        loaded.clear()
        rows = mu.verify([sweep]).table().query("what == 'benchmark'")
        assert (set(rows["state"]), len(rows)) == ({state}, 6)
        assert len(loaded) == 1
        assert len(hashed) == len(set(hashed)) > 10


def test_scoring_again_is_recorded(evaluated: Run) -> None:
    mu.score(evaluated, measures="em,token_f1", allow_broken=True)
    assert mu.verify([evaluated.folder]).wrong == []


def change_weights(run: Run) -> None:
    scramble(run.model)


def change_tokenizer(run: Run) -> None:
    path = run.model / "tokenizer_config.json"
    path.write_text(path.read_text() + "\n")


def change_scores(run: Run) -> None:
    (path,) = run.folder.glob("evaluations/*/scores.parquet")
    table = pd.read_parquet(path)
    table.assign(value=table["value"] * 0).to_parquet(path)


def change_responses(run: Run) -> None:
    # The store of what was asked, not that of likelihoods for ranks, which stands beside it.
    store = next(Run.open(path.parent) for path in run.folder.glob("evaluations/*/run.json"))
    path = next((run.folder / store.info.results["responses"]).glob("part-*.parquet"))
    rows = read_table(path, RESPONSES)
    write_table(path, [{**rows[0], "response": "x"}, *rows[1:]], RESPONSES)


def drop_responses(run: Run) -> None:
    for path in run.folder.glob("responses/*/part-*.parquet"):
        path.unlink()


def drop_history(run: Run) -> None:
    (run.folder / "history.parquet").unlink()


def change_benchmark(run: Run) -> None:
    path = run.folder.parent / "bench" / "records.parquet"
    path.write_bytes(path.read_bytes() + b"x")


def drop_benchmark(run: Run) -> None:
    shutil.rmtree(run.folder.parent / "bench")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (change_weights, {("weights", "differs"), ("model", "differs")}),
        (change_tokenizer, {("model file", "differs"), ("model", "differs")}),
        (change_scores, {("table", "differs")}),
        (change_responses, {("responses", "differs")}),
        (drop_responses, {("responses", "differs")}),
        (drop_history, {("table", "missing")}),
        (change_benchmark, {("benchmark", "differs")}),
        (drop_benchmark, {("benchmark", "missing")}),
    ],
)
def test_what_has_changed(evaluated: Run, change: Callable[[Run], None], wrong: set[tuple[str, str]]) -> None:
    change(evaluated)
    assert {(one.what, one.state) for one in mu.verify([evaluated.folder]).wrong} == wrong


def test_orphans(evaluated: Run) -> None:
    folder = evaluated.folder
    (folder / "checkpoints").mkdir()
    for name in (".scores.parquet.12345.part", "checkpoints/step.bin", "stray.parquet", "model/more.safetensors"):
        (folder / name).write_bytes(b"x")
    verified = mu.verify([folder])
    assert {one.name for one in verified.checks if one.state == "orphan"} == {
        ".scores.parquet.12345.part",
        "checkpoints/step.bin",
        "stray.parquet",
        "model/more.safetensors",
    }
    # More weights than its run made are another model.
    assert {(one.what, one.name) for one in verified.wrong if one.what != "model"} == {
        ("model file", "model/more.safetensors")
    }


def test_an_older_run_says_what_it_did_not_record(evaluated: Run) -> None:
    forget(evaluated, "model_files", "tables")
    verified = mu.verify([evaluated.folder])
    assert verified.wrong == []
    found = {(one.what, one.state) for one in verified.checks if one.run == evaluated.folder}
    assert {("weights", "not recorded"), ("table", "not recorded"), ("record", "not recorded")} <= found
    (note,) = (one.note for one in verified.checks if one.what == "record" and one.state == "not recorded")
    assert note.startswith("not covered")
    # It writes no digest of what it did not see.
    RunRecord.read(evaluated.folder).write(evaluated.folder)
    assert "digest" not in json.loads((evaluated.folder / "run.json").read_text())


@pytest.mark.parametrize("path", [("config", "lr"), ("config", "epochs"), ("results", "steps"), ("label",)])
def test_a_record_that_was_changed_by_hand(evaluated: Run, path: tuple[str, ...]) -> None:
    file = evaluated.folder / "run.json"
    content = json.loads(file.read_text())
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = 77 if path != ("label",) else "another"
    file.write_text(json.dumps(content))
    wrong = [one for one in mu.verify([evaluated.folder]).wrong if one.what == "record"]
    assert [(one.run, one.state) for one in wrong] == [(evaluated.folder, "differs")]
    # What writes the record later does not cover up for it.
    RunRecord.read(evaluated.folder).write(evaluated.folder)
    assert any(one.what == "record" for one in mu.verify([evaluated.folder]).wrong)


@pytest.mark.parametrize(
    "name",
    ["old/model.safetensors", "pytorch_model.bin", "more.gguf", "modeling_own.py", "added_tokens.json", "x.pt"],
)
def test_a_file_that_the_run_did_not_make(evaluated: Run, name: str) -> None:
    before = fingerprint(evaluated.model)
    (evaluated.model / name).parent.mkdir(exist_ok=True)
    (evaluated.model / name).write_text("{}")
    assert fingerprint(evaluated.model) != before
    wrong = {(one.what, one.name) for one in mu.verify([evaluated.folder]).wrong}
    assert ("model file", f"model/{name}") in wrong


def test_a_run_of_an_older_version_lacks_settings_of_its_model(evaluated: Run) -> None:
    """It recorded some names alone; weights and code that it did not write are wrong all the same."""
    forget(evaluated)
    for name in ("added_tokens.json", "old.bin"):
        (evaluated.model / name).write_text("{}")
    states = {one.name: one.state for one in mu.verify([evaluated.folder]).checks if one.what == "model file"}
    assert (states["model/added_tokens.json"], states["model/old.bin"]) == ("not recorded", "differs")


def test_ids_of_a_tokenizer_that_were_swapped(evaluated: Run) -> None:
    """Also by somebody who puts the file's time back."""
    path = evaluated.model / "tokenizer.json"
    time, content = path.stat().st_mtime_ns, json.loads(path.read_text())
    words = content["model"]["vocab"]
    first, second = [word for word, number in words.items() if 20 <= number < 22]
    words[first], words[second] = words[second], words[first]
    size = path.stat().st_size
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2).ljust(size))
    os.utime(path, ns=(time, time))
    assert ("model file", "model/tokenizer.json") in {
        (one.what, one.name) for one in mu.verify([evaluated.folder]).wrong
    }


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere"])
def test_responses_outside_of_the_run_are_refused(evaluated: Run, name: str) -> None:
    (record,) = evaluated.folder.glob("evaluations/*/run.json")
    content = json.loads(record.read_text())
    store = evaluated.folder / content["results"]["responses"]
    elsewhere = Path(shutil.copytree(store, evaluated.folder.parent / "elsewhere"))
    content["results"]["responses"] = name if name.startswith(".") else str(elsewhere)
    record.write_text(json.dumps({**content, "digest": record_digest(content)}))
    (wrong,) = mu.verify([evaluated.folder]).wrong
    assert (wrong.what, "which is not in" in wrong.note) == ("responses", True)
    with pytest.raises(InputError, match="which is not in"):
        mu.score(evaluated, measures="em", allow_broken=True)


def test_tables_outside_of_the_run_are_not_its_own(evaluated: Run) -> None:
    content = json.loads((evaluated.folder / "run.json").read_text())
    shutil.copy(evaluated.folder / "history.parquet", evaluated.folder.parent)
    content["tables"]["../history.parquet"] = content["tables"]["history.parquet"]
    (evaluated.folder / "run.json").write_text(json.dumps({**content, "digest": record_digest(content)}))
    (wrong,) = mu.verify([evaluated.folder]).wrong
    assert (wrong.name, "outside of the run" in wrong.note) == ("../history.parquet", True)


def test_nothing_is_verified_where_nothing_was_checked(copy: Callable[..., Run]) -> None:
    run = copy()
    forget(run, "model_files", "tables")
    path = run.folder / "run.json"
    content = json.loads(path.read_text())
    del content["inputs"]["benchmark"]
    path.write_text(json.dumps(content))
    verified = mu.verify([run.folder])
    assert verified.wrong == []
    assert not verified.ok
    assert not Verification(()).ok
    assert "Nothing could be checked" in run_line(f"medunlearn verify {run.folder}", code=1).output


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        mu.verify([tmp_path])
