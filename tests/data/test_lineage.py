"""Lineage records of every form and version, as literal files, and hostile ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import recorded_use
from medunlearn.data.lineage import Lineage, read_lineage, run_lineage, write_lineage
from medunlearn.errors import InputError
from medunlearn.models.ancestry import model_use
from medunlearn.results.record import RunRecord

TRAINED = """{
  "verb": "train", "label": "retrained", "key": "5d41", "status": "complete",
  "config": {"model": "base-model", "without": "random_10", "seed": 0, "lr": 0.001},
  "inputs": {"benchmark": "b0b0", "model": "f00d"},
  "lineage": ["base-model"],
  "results": {"rendering": {"template": "chat", "context": "closed_book"}, "benchmark_folder": "/data/bench"}
}"""
UNLEARNED = """{
  "schema": 2, "verb": "unlearn", "label": "npo", "key": "7a69", "status": "complete", "data_use": "open",
  "config": {"method": "npo", "split": "patient=4711", "seed": 0},
  "inputs": {"benchmark": "b0b0", "model": "f00d", "reference": "cafe"},
  "lineage": ["tiny", "/runs/target"],
  "results": {
    "rendering": {"template": {"file": "own.txt"}}, "benchmark_folder": null, "reference_model": "/runs/retrained",
    "requests": {"rows": 2, "head": "9c2e"}
  }
}"""
ADOPTED = """{
  "schema": 2, "verb": "adopt", "label": "target", "key": "1b2c", "status": "complete", "data_use": "credentialed",
  "config": {"role": "retrained", "without": "disease=Asthma"},
  "inputs": {"benchmark": "b0b0", "model": "f00d", "base": "ba5e"},
  "lineage": ["org/chat", "/models/adapter"],
  "results": {"source": {"kind": "adapter", "name": "adapter", "files": {}}}
}"""
OLD_AUDIT = """{
  "verb": "audit", "label": "m", "key": "0a", "status": "complete", "config": {}, "inputs": {"model": {"url": "x"}},
  "results": {"data_use": "credentialed", "model": {"kind": "local", "source": "runs/target"}}
}"""
DELTA = """{
  "base": "../../target/model", "base_fingerprint": "f00d", "weights": "fp32", "changed": ["lm_head.weight"],
  "format": 1
}"""
RUNS: tuple[tuple[str, Lineage], ...] = (
    (
        TRAINED,
        Lineage(
            "run", None, "train", "5d41", 1, {"benchmark": "b0b0", "model": "f00d"}, ("base-model",), "base-model",
            "/data/bench", split="random_10", template="chat",
        ),
    ),
    (
        UNLEARNED,
        Lineage(
            "run", "open", "unlearn", "7a69", 2, {"benchmark": "b0b0", "model": "f00d", "reference": "cafe"},
            ("tiny", "/runs/target"), "/runs/target", None, "/runs/retrained", "patient=4711", "9c2e",
        ),
    ),
    (
        ADOPTED,
        Lineage(
            "run", "credentialed", "adopt", "1b2c", 2, {"benchmark": "b0b0", "model": "f00d", "base": "ba5e"},
            ("org/chat", "/models/adapter"), "/models/adapter", split="disease=Asthma",
        ),
    ),
    (OLD_AUDIT, Lineage("run", "credentialed", "audit", "0a", inputs={"model": {"url": "x"}})),
)  # fmt: skip


def write(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("content", "expected"), RUNS)
def test_runs(tmp_path: Path, content: str, expected: Lineage) -> None:
    assert read_lineage(write(tmp_path, "run.json", content)) == expected
    assert recorded_use(tmp_path) == expected.data_use


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("lineage.json", '{"data_use": "open"}', Lineage("model", "open")),
        ("lineage.json", '{"data_use": "unknown", "made_from": {}}', Lineage("model")),
        (
            "lineage.json",
            '{"data_use": "credentialed", "made_from": {"benchmark": "b0", "model": "tiny"}, "template": "plain"}',
            Lineage("model", "credentialed", inputs={"benchmark": "b0", "model": "tiny"}, template="plain"),
        ),
        ("lineage.json", '{"data_use": "open", "template": ["mine"]}', Lineage("model", "open")),
        ("sweep.json", '{"name": "s", "status": "running", "data_use": "open"}', Lineage("study", "open")),
        ("tune.json", '{"name": "t", "status": "complete", "data_use": "open"}', Lineage("study", "open")),
        ("identifiers.json", '{"said": "/a", "data_use": "open", "settings": {}}', Lineage("search", "open")),
        ("settings.json", '{"model": "f00d", "max_new_tokens": 4}', Lineage("responses")),
        ("settings.json", '{"model": "f00d", "data_use": "open"}', Lineage("responses", "open")),
        ("benchmark.yaml", "name: x\nschema_version: 2\ndata_use: open\n", Lineage("benchmark", "open")),
        (
            "adapter_config.json",
            '{"base_model_name_or_path": "org/chat", "peft_type": "LORA", "r": 8}',
            Lineage("model", ancestors=("org/chat",)),
        ),
    ],
)  # fmt: skip
def test_other_records(tmp_path: Path, name: str, content: str, expected: Lineage) -> None:
    assert read_lineage(write(tmp_path, name, content)) == expected


def test_a_benchmark_that_is_saved_now(hospital: Benchmark, tmp_path: Path) -> None:
    assert read_lineage(hospital.save(tmp_path / "bench")) == Lineage("benchmark", "open")


def test_a_folder_without_a_record(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file", tmp_path / "gone", Path("x" * 5000), Path("a\0b")):
        assert read_lineage(place) == Lineage()


def test_bases_of_a_run_and_of_its_model(tmp_path: Path) -> None:
    """The base of a delta is relative to its folder, an adapter's if there is such a folder."""
    run = write(tmp_path / "run", "run.json", UNLEARNED)
    write(run / "model", "delta.json", DELTA)
    assert read_lineage(run).ancestors == ("tiny", "/runs/target", "../../target/model")
    (tmp_path / "target" / "model").mkdir(parents=True)
    expected = ("tiny", "/runs/target", str(run / "model" / "../../target/model"))
    assert read_lineage(run).ancestors == expected
    unnamed = write(tmp_path / "unnamed", "adapter_config.json", {"base_model_name_or_path": None})
    assert (read_lineage(unnamed).ancestors, read_lineage(unnamed).data_use) == ((), None)
    adapter = write(tmp_path / "adapter", "adapter_config.json", {"base_model_name_or_path": "../run"})
    assert read_lineage(adapter).ancestors == (str(adapter / "../run"),)


def test_the_strictest_record_counts(tmp_path: Path) -> None:
    folder = write(tmp_path, "settings.json", {"data_use": "open"})
    assert read_lineage(write(folder, "run.json", TRAINED)).data_use == "open"
    assert read_lineage(write(folder, "identifiers.json", {"data_use": "credentialed"})).data_use == "credentialed"
    # What its model says makes a run stricter, never looser.
    run = write(tmp_path / "run", "run.json", TRAINED)
    assert read_lineage(write(run / "model", "lineage.json", {"data_use": "open"}).parent).data_use is None
    write(run / "model", "lineage.json", {"data_use": "credentialed"})
    assert read_lineage(run).data_use == "credentialed"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    lineage = run_lineage(json.loads(TRAINED))
    write_lineage(tmp_path, lineage)
    content = json.loads((tmp_path / "lineage.json").read_text())
    inputs = {"benchmark": "b0b0", "model": "f00d"}
    assert content == {"data_use": "unknown", "made_from": inputs, "template": "chat"}
    assert read_lineage(tmp_path) == Lineage("model", inputs=inputs, template="chat")
    write_lineage(tmp_path, Lineage(data_use="open"))
    assert json.loads((tmp_path / "lineage.json").read_text()) == {"data_use": "open", "made_from": {}}


LONG = "x" * 300
HOSTILE: tuple[tuple[str, Any], ...] = (
    *(
        ("run.json", {**json.loads(UNLEARNED), **change})
        for change in (
            {"verb": ["unlearn"]}, {"key": 1}, {"config": []}, {"inputs": 3}, {"results": "x"}, {"lineage": {}},
            {"lineage": [1]}, {"lineage": [None]}, {"lineage": [True]}, {"lineage": [LONG]}, {"lineage": ["a\0b"]},
            {"lineage": [""]}, {"schema": "2"}, {"data_use": "public"}, {"data_use": ["open"]}, {"data_use": True},
            {"results": {"requests": []}}, {"results": {"requests": {"head": 1}}}, {"results": {"rendering": 1}},
            {"results": {"benchmark_folder": LONG}}, {"results": {"reference_model": {}}},
            {"results": {"data_use": "public"}},
        )
    ),
    ("run.json", {**json.loads(TRAINED), "lineage": [["base"]]}),
    *(("lineage.json", content) for content in ({"made_from": []}, {"data_use": 0}, [1], "x", "{", "[" * 100_000)),
    *(("delta.json", content) for content in ({}, {"base": None}, {"base": 5}, {"base": f"a/{LONG}"}, "{")),
    *(("adapter_config.json", {"base_model_name_or_path": base}) for base in (3, "", LONG, "\0")),
    ("benchmark.yaml", "a: ["),
    ("settings.json", '"open"'),
)  # fmt: skip


@pytest.mark.parametrize(("name", "content"), HOSTILE)
def test_broken_records_are_refused_and_never_open(tmp_path: Path, name: str, content: Any) -> None:
    write(tmp_path, name, content)
    with pytest.raises(InputError, match=name):
        read_lineage(tmp_path)
    other = "settings.json" if name != "settings.json" else "lineage.json"
    write(tmp_path, other, {"data_use": "open"})
    assert [recorded_use(tmp_path), model_use(tmp_path)] == [None, None]
    write(tmp_path, other, {"data_use": "credentialed"})
    assert [recorded_use(tmp_path), model_use(tmp_path)] == ["credentialed"] * 2


@pytest.mark.parametrize("change", [{"lineage": [LONG]}, {"config": []}, {"results": {"data_use": "public"}}])
def test_a_broken_record_stays_credentialed(tmp_path: Path, change: dict[str, Any]) -> None:
    write(tmp_path, "run.json", {**json.loads(ADOPTED), **change})
    assert [recorded_use(tmp_path), model_use(tmp_path)] == ["credentialed"] * 2


def test_files_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run.json", "lineage.json"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match=f"{name} cannot be read: it is a FIFO"):
            read_lineage(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "delta.json").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"delta\.json is a link to .*gone"):
        read_lineage(tmp_path)
    (tmp_path / "delta.json").unlink()
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(InputError, match="at most"):
        read_lineage(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "delta.json"])
def test_circles_and_long_chains_end(tmp_path: Path, name: str) -> None:
    """Two thousand models, each made from the next, the last from the first: its data was credentialed."""
    for number in range(2000):
        after = str(tmp_path / str((number + 1) % 2000))
        content = {"base": after} if name == "delta.json" else {**json.loads(UNLEARNED), "lineage": [after]}
        write(tmp_path / str(number), name, content)
    assert model_use(tmp_path / "0") == ("open" if name == "run.json" else None)
    write(tmp_path / "1999", "lineage.json", {"data_use": "credentialed"})
    assert model_use(tmp_path / "0") == "credentialed"


def test_a_run_refuses_the_same_records(tmp_path: Path) -> None:
    for content in (content for name, content in HOSTILE if name == "run.json"):
        write(tmp_path, "run.json", content)
        with pytest.raises(InputError, match=r"run\.json"):
            RunRecord.read(tmp_path)
    assert RunRecord.of(json.loads(UNLEARNED)).made_for == "patient=4711"
