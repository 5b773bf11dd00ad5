"""Wrong calls end with exit code 2 and the fix before anything is trained, and wait for no file without end."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

Medunlearn = Callable[..., Any]
QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--metrics=rouge_l", "--allow-broken", "--quiet")
LONGEST = 60
"""Seconds of a call, after which it counts as hanging."""


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError("the call hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def evaluated(medunlearn: Medunlearn, bench: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("evaluated") / "target"
    shutil.copytree(target, run, ignore=shutil.ignore_patterns("evaluations", "responses"))
    medunlearn("evaluate", run, bench, "--split", "random_10", *QUICK)
    return run


@pytest.fixture
def copy(evaluated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(evaluated, tmp_path / "run"))


@pytest.fixture(scope="module")
def other(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As large a hospital with other patients."""
    out = tmp_path_factory.mktemp("other") / "bench"
    medunlearn("build", "amnesia", "--synthetic", 20, "--seed", 1, "--out", out)
    return out


UNLEARN = "unlearn {target} {bench} --split random_10 --out {out}"
TRAIN = "train {bench} --model tiny --out {out}"
EVALUATE = "evaluate {target} {bench} --split random_10"
WRONG: dict[str, tuple[str, ...]] = {
    f"{TRAIN} --trainable layers:99": ("trainable='layers:99'", "layers 0 to 3"),
    f"{TRAIN} --trainable layers:0,9": ("trainable='layers:0,9'", "layers 0 to 3"),
    f"{TRAIN} --trainable layers:0-99999999999": ("is not understood",),
    f"{TRAIN} --trainable pattern:zz": ("matches no parameter",),
    f"{TRAIN} --trainable lora:1000000000": ("whole numbers from 1 to 8192",),
    f"{TRAIN} --epochs 1000000000": ("epochs=1000000000: input should be less than or equal to 100000",),
    f"{TRAIN} --tiny-layers 1000000": ("tiny_layers=1000000",),
    f"{TRAIN} --without ''": ("without is empty",),
    "train {bench} --model /nowhere --out {out}": ("There is no model folder /nowhere",),
    "train {bench} --model {bench} --out {out}": ("config.json",),
    f"{UNLEARN} --method rmu --rmu.layer 40": ("rmu.layer=40: the model has layers 0 to 1",),
    f"{UNLEARN} --method rmu --rmu.layer 40 --trainable all": ("rmu.layer=40",),
    f"{UNLEARN} --method chip --chip.layers 22-27": ("layers='22-27': the model has 2 layers",),
    f"{UNLEARN} --method chip --chip.layers 0-99999999999": ("the model has 2 layers",),
    f"{UNLEARN} --method chip --chip.layers last:99999999999": ("the model has 2 layers",),
    f"{UNLEARN} --method npo --trainable pattern:zz": ("matches no parameter",),
    f"{UNLEARN} --method npo --npo.beta -1 --npo.alpha .nan": ("npo.beta must be above 0", "npo.alpha must be"),
    f"{EVALUATE} --folds ''": ("folds is empty",),
    f"{EVALUATE} --metrics nothing_such": ("nothing_such",),
    "evaluate {target} {other} --split random_10": ("was trained on other texts", "--other-texts"),
    "evaluate {target} {bench} --split ''": ("split is empty",),
    "unlearn {target} {other} --split random_10 --method npo --out {out}": ("other texts", "--other-texts"),
    "attack {target} {bench} --split random_10 --attacks min_k --min_k.k -1": ("min_k.k must be above 0",),
    "build amnesia --synthetic 1000000000 --out {out}": ("synthetic=1000000000",),
    "build medforget --synthetic 1000000000 --out {out}": ("synthetic=1000000000",),
    "build options --file {bench} --out {out}": ("file",),
    "report /nowhere --out {out}": ("/nowhere",),
    "report {bench} --out {out}": ("holds no run",),
    "score {bench}": ("holds no run",),
    "inspect /dev/null": ("/dev/null", "notes are read from"),
    "run /dev/zero": ("cannot be read: it is a device",),
    "sweep /dev/zero": ("cannot be read: it is a device",),
    "run {bench}": ("cannot be read: it is a folder",),
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call(
    medunlearn: Medunlearn, bench: Path, target: Path, other: Path, tmp_path: Path, call: str
) -> None:
    places = {"bench": bench, "target": target, "other": other, "out": tmp_path / "out"}
    words = [word.strip("'").format(**places) for word in call.split()]
    text = medunlearn(*words, code=2).text
    assert all(part in text for part in WRONG[call]), text
    assert not list(tmp_path.glob("out/**/*.safetensors"))


EXPERIMENT: dict[str, Any] = {
    "name": "x",
    "split": "random_10",
    "train": {"model": "tiny", "trainable": "layers:99"},
    "unlearn": {"methods": ["rmu", "chip"], "rmu.layer": 40, "chip.layers": "22-27"},
}
LAYERS = ("train: trainable='layers:99'", "rmu.layer=40", "chip.layers='22-27'")


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_layers_are_checked_before_two_trainings(medunlearn: Medunlearn, bench: Path, tmp_path: Path, verb: str):
    values = {**EXPERIMENT, "benchmark": {"folder": str(bench)}, "out": str(tmp_path / "out")}
    if verb == "sweep":
        values["splits"] = [values.pop("split")]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(values))
    text = medunlearn(verb, tmp_path / "plan.yaml", "--quiet", code=2).text
    assert all(part in text for part in LAYERS), text
    assert not (tmp_path / "out").exists()


def test_an_unreachable_hub_id_is_not_measured_first(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    text = medunlearn("train", bench, "--model", "nobody/nothing-70b", "--out", tmp_path / "out", code=2).text
    assert "nobody/nothing-70b cannot be loaded" in text
    assert "fit" not in text
    assert "memory" not in text


YAML = {
    "splits: []": "splits",
    "seeds: []": "seeds=[]",
    "seeds: [1, true]": "seeds",
    "train: {lr: 1, lr: 2}": "the key 'lr' occurs twice (line 1)",
    "unlearn: {methods: []}": "unlearn.methods is missing",
    "name: ''": "name is empty",
    "name: 5": "name=5",
}


@pytest.mark.parametrize("line", YAML)
def test_values_of_a_sweep(medunlearn: Medunlearn, bench: Path, tmp_path: Path, line: str) -> None:
    values = {"name": "x", "out": "x", "benchmark": {"folder": str(bench)}, "splits": ["random_10"], "seeds": [0]}
    values |= {"train": {"model": "tiny"}, "unlearn": {"methods": ["npo"]}}
    del values[line.partition(":")[0]]
    (tmp_path / "sweep.yaml").write_text(f"{line}\n{yaml.safe_dump(values)}")
    assert YAML[line] in medunlearn("sweep", tmp_path / "sweep.yaml", "--plan", code=2).text


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def broken_link(path: Path) -> None:
    path.symlink_to("gone")


def content(text: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(text)

    return write


IRREGULAR: dict[str, Callable[[Path], None]] = {
    "fifo": fifo,
    "device": device,
    "folder": folder,
    "link": broken_link,
}
BROKEN = IRREGULAR | {
    "empty": content(b""),
    "nul": content(b"\0" * 100),
    "latin": content("name: Müller".encode("latin-1")),
    "deep": content(b"[" * 100_000),
}
FILES = {
    "x.yaml": "run {file}",
    "y.yaml": "sweep {file}",
    "z.yaml": f"{EVALUATE} --config {{file}}",
    "t.jinja": f"{EVALUATE} --template {{file}}",
    "k.parquet": f"{EVALUATE} --metrics ls --keywords {{file}}",
    "n.csv": "build amnesia {file} --llm http://127.0.0.1:1/v1 --llm.model x --out {out}",
    "o.jsonl": "build options --file {file} --out {out}",
    "a.parquet": "build diagnosis --admissions {file} --out {out}",
    "tokenizer.json": "inspect {bench} --tokenizer {parent}",
    "i.txt": "verify {target} --benchmark {bench} --subject patient=x --identifiers {file}",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_none(
    medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path, name: str, kind: str
) -> None:
    file = tmp_path / name
    BROKEN[kind](file)
    places = {"file": file, "bench": bench, "target": target, "out": tmp_path / "out", "parent": tmp_path}
    text = medunlearn(*FILES[name].format(**places).split(), code=2).text
    assert name in text or kind == "deep", text
    assert "Cannot write" not in text
    assert len(text) < 2000


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", [*BROKEN, "list"])
def test_a_model_whose_file_is_none(
    medunlearn: Medunlearn, bench: Path, copy: Path, tmp_path: Path, name: str, kind: str
) -> None:
    if not (copy / "model" / name).exists():
        pytest.skip("the model has no such file")
    (copy / "model" / name).unlink()
    (BROKEN | {"list": content(b"[1, 2]")})[kind](copy / "model" / name)
    text = medunlearn("train", bench, "--model", copy / "model", "--out", tmp_path / "out", code=2).text
    assert "Cannot write" not in text


DAMAGE = IRREGULAR | {
    "cut": lambda path: path.write_bytes(b"PAR1"),
    "empty": content(b""),
    "text": content(b"item,value\n1,2\n"),
    "foreign": lambda path: pd.DataFrame({"a": [1]}).to_parquet(path),
    "deep": content(b"[" * 100_000),
    "nothing": content(b"{}"),
    "list": content(b"[]"),
}
STORED = {
    "history.parquet": ("report {run} --out {out}",),
    "evaluations/*/scores.parquet": ("report {run} --out {out}", "score {run} --measures rouge_l"),
    "evaluations/*/summary.parquet": ("report {run} --out {out}",),
    "evaluations/*/run.json": ("report {run} --out {out}", "score {run}"),
    "run.json": ("report {run} --out {out}", f"{EVALUATE.replace('target', 'run')}", "score {run}"),
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_run_whose_file_is_broken(
    medunlearn: Medunlearn, bench: Path, copy: Path, tmp_path: Path, name: str, kind: str
) -> None:
    (path,) = copy.glob(name)
    path.unlink()
    DAMAGE[kind](path)
    for call in STORED[name]:
        words = call.format(run=copy, bench=bench, out=tmp_path / "out").split()
        text = medunlearn(*words, code=2).text
        assert path.name in text or path.suffix == ".json", text
        assert "Cannot write" not in text


CHANGED: tuple[tuple[str, Any], ...] = (
    ("config", []),
    ("results", 3),
    ("lineage", "x"),
    ("lineage", [1]),
    ("status", 1),
    ("label", None),
    ("inputs", None),
    ("schema", "2"),
    ("results.rendering", None),
    ("results.rendering", "x"),
)


@pytest.mark.parametrize(("key", "value"), CHANGED)
def test_fields_of_a_run(medunlearn: Medunlearn, bench: Path, copy: Path, key: str, value: Any) -> None:
    facts = json.loads((copy / "run.json").read_text())
    *above, last = key.split(".")
    part = facts[above[0]] if above else facts
    part.pop(last) if value is None else part.update({last: value})
    (copy / "run.json").write_text(json.dumps(facts))
    text = medunlearn("evaluate", copy, bench, "--split", "random_10", code=2).text
    assert "run.json" in text or "version" in text
    assert last in text


def test_other_texts_are_asked_about_on_request(
    medunlearn: Medunlearn, copy: Path, other: Path, tmp_path: Path
) -> None:
    shutil.rmtree(copy / "evaluations")
    medunlearn("evaluate", copy, other, "--split", "random_10", "--other-texts", *QUICK)
    medunlearn("report", copy, "--out", tmp_path / "r")
    assert "A model was trained on other texts" in (tmp_path / "r" / "report.md").read_text()
