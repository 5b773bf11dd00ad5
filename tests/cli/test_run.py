"""``run`` and ``demo``: whole experiments from a file, with overrides, given once and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medunlearn.pipeline.experiment import plan
from medunlearn.pipeline.presets import presets

Medunlearn = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = (
    *("--train.tiny-width=32", "--train.tiny-layers=2", "--train.epochs=1", "--train.precision=fp32"),
    *("--unlearn.epochs=1", "--unlearn.precision=fp32"),
    *("--evaluate.limit=2", "--evaluate.replicates=20", "--evaluate.max-new-tokens=4"),
)
EXPERIMENT = """
name: A small experiment
out: {out}
benchmark: {{folder: {bench}}}
split: random_10
train: {{model: tiny}}
unlearn:
  methods: [graddiff, npo]
  lr: 1e-4
"""


@pytest.fixture
def experiment(bench: Path, tmp_path: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT.format(out=tmp_path / "out", bench=bench))
    return path


def settings_of(out: Path) -> dict[str, dict[str, Any]]:
    """Each stage's settings, by the first part of its folder's name."""
    return {
        path.parent.name.split("-")[0]: json.loads(path.read_text())["config"] for path in out.glob("*/run.json")
    }


def test_run_with_overrides(medunlearn: Medunlearn, experiment: Path, tmp_path: Path) -> None:
    said = medunlearn("run", experiment, *SMALL, "--unlearn.npo.beta=0.3", "--name=Another title")
    configs = settings_of(tmp_path / "out")
    assert set(configs) == {"target", "retrained", "graddiff", "npo"}
    assert configs["npo"]["arguments"] == {"beta": 0.3}
    assert configs["graddiff"]["lr"] == 1e-4
    assert configs["retrained"]["without"] == "random_10"
    assert "Another title" in said.stdout
    table = [line.split()[0] for line in said.stdout.splitlines() if line.strip()]
    assert {"target", "retrained", "GradDiff", "NPO"} <= set(table)
    assert max(len(line) for line in said.stdout.splitlines()) <= 80
    assert "retrained model: never sees the forget set" in said.text
    assert (tmp_path / "out" / "report" / "report.html").exists()


def test_out_seed_and_no_retrained_model(medunlearn: Medunlearn, experiment: Path, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "elsewhere", "--seed", 5, "--retrain=false", "--unlearn.methods=[ga]")
    medunlearn("run", experiment, *SMALL, *words, "--quiet")
    configs = settings_of(tmp_path / "elsewhere")
    assert set(configs) == {"target", "ga"}
    assert {config["seed"] for config in configs.values()} == {5}
    assert not (tmp_path / "out").exists()


def test_json_and_quiet(medunlearn: Medunlearn, experiment: Path, tmp_path: Path) -> None:
    words = ("run", experiment, *SMALL, "--unlearn.methods=[ga]")
    said = medunlearn(*words, "--json")
    assert json.loads(said.stdout)["report"] == str(tmp_path / "out" / "report" / "report.html")
    said = medunlearn(*words, "--quiet")
    assert (said.stdout, said.stderr) == ("", "")


def test_a_plan_says_what_is_left_and_does_nothing(
    medunlearn: Medunlearn, experiment: Path, tmp_path: Path
) -> None:
    words = ("run", experiment, *SMALL, "--unlearn.methods=[ga]", "--retrain=false")
    said = medunlearn(*words, "--plan")
    assert not (tmp_path / "out").exists()
    rows = [line.split() for line in said.stdout.splitlines()]
    assert ["target", "to", "do"] in [row[:3] for row in rows]
    assert ["evaluate", "ga", "to", "do"] in [row[:4] for row in rows]
    assert "This machine has" in " ".join(said.stdout.split())
    assert max(len(line) for line in said.stdout.splitlines()) <= 80
    assert medunlearn(*words, "--plan", "--quiet").stdout == ""
    assert "> memory: about" in medunlearn(*words).text
    left = json.loads(medunlearn(*words, "--plan", "--json").stdout)
    assert {stage["name"] for stage in left["stages"] if stage["state"] != "done"} == {"report"}
    assert left["left"]["flops"] == 0


def test_a_plug_in(
    medunlearn: Medunlearn, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"outside_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Outside:\n"
        "    weight: float = 1.0\n"
        "    def loss(self, forget, retain):\n"
        "        return {'up': -self.weight * forget.nll()}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = (f"--unlearn.methods=[{name}:Outside]", f"--unlearn.{name}:Outside.weight=0.5", "--retrain=false")
    said = medunlearn("run", experiment, *SMALL, *words)
    (config,) = (config for config in settings_of(tmp_path / "out").values() if "method" in config)
    assert config["method"] == f"{name}:Outside"
    assert config["arguments"] == {"weight": 0.5}
    assert "report.html" in said.text


ELSEWHERE = {
    "amnesia-llama3-8b.yaml": "docs/test_amnesia.py",
    "lume.yaml": "docs/test_unlearn_epochs.py",
    "lume-new.yaml": "docs/test_lume_tofu_muse.py",
    "sweep-small.yaml": "cli/test_sweep.py",
    "sweep-amnesia-400.yaml": "pipeline/sweep/test_plan.py",
    "medforget-tiny.yaml": "papers/medforget/test_run.py",
    "medforget-tiny-vision.yaml": "papers/medforget/test_run.py",
    "medforget-lingshu.yaml": "papers/medforget/test_run.py",
}
HERE = {
    "hospital.yaml": ("--benchmark.synthetic=20",),
    "lume-small.yaml": (
        *("--benchmark.released=LUME", "--benchmark.documents-per-task=4"),
        *("--benchmark.nonmember-documents=null", "--attack={}"),
    ),
}


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {*HERE, *ELSEWHERE}
    for name, test in ELSEWHERE.items():
        assert Path(name).stem in (Path(__file__).parents[1] / test).read_text(), name


@pytest.mark.parametrize("name", HERE)
def test_the_examples(medunlearn: Medunlearn, lume_files: Path, tmp_path: Path, name: str) -> None:
    own = [word.replace("LUME", str(lume_files)) for word in HERE[name]]
    medunlearn("run", EXAMPLES / name, *SMALL, *own, "--out", tmp_path / "out")
    payload = json.loads((tmp_path / "out" / "report" / "report.json").read_text())
    assert {model["role"] for model in payload["models"]} == {"target", "retrained", "unlearned"}


def test_demo(medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"epochs": 1, "precision": "fp32"}
    tiny = presets()["tiny"]
    small = replace(
        tiny, train={**tiny.train, **short, "tiny_width": 32, "tiny_layers": 2}, unlearn={**tiny.unlearn, **short}
    )
    everything = {**presets(), "tiny": small}
    monkeypatch.setattr("medunlearn.pipeline.presets.presets", lambda: everything)
    few = {"limit": 2, "replicates": 20, "max_new_tokens": 4}
    monkeypatch.setattr("medunlearn.pipeline.experiment.plan", lambda values: plan({**values, "evaluate": few}))
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    words = ("demo", "--out", tmp_path / "demo", "--synthetic", 20)
    said = medunlearn(*words, "--no-open")
    assert "Demo: forgetting patients of an invented hospital" in said.stdout
    assert all(name in said.stdout for name in ("GradDiff", "KL", "NPO", "SimNPO", "RMU", "retrained"))
    assert not opened
    again = medunlearn(*words, "--json")
    assert json.loads(again.stdout)["report"] == str(tmp_path / "demo" / "report" / "report.html")
    assert not opened
    medunlearn(*words)
    assert opened == [str(tmp_path / "demo" / "report" / "report.html")]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--train.epoch=1", "--unlearn.lr=x", "--evaluate.metric=[em]"), ["3 settings are", "mean 'epochs'?"]),
        (("--unlearn.methods=[npoo, ga]",), ["no method 'npoo'", "Did you mean 'npo'?"]),
        (("--unlearn.methods=[npo, npo]",), ["names 'npo' twice"]),
        (("--unlearn.methods=npo",), ["unlearn.methods is missing: a list"]),
        (("--unlearn.npo.btea=1",), ["no npo setting 'btea'", "Did you mean 'beta'?"]),
        (("--split=randm_10",), ["no split 'randm_10'", "Did you mean 'random_10'?"]),
        (("--split=patient=",), ["forgets nothing"]),
        (("--evaluate.metrics=[rouge]",), ["no metric 'rouge'", "Did you mean 'rouge_l'?"]),
        (("--benchmark={builder: amnesa, synthetic: 20}",), ["no benchmark 'amnesa'", "Did you mean 'amnesia'?"]),
        (("--benchmark={builder: amnesia, synthetic: x}",), ["synthetic='x'"]),
        (("--benchmark={}",), ["benchmark.builder is missing: amnesia, diagnosis, lume"]),
        (("--benchmark.folder=nowhere",), ["There is no benchmark folder nowhere"]),
        (("--nmae=x",), ["no flag --nmae", "Did you mean --name?"]),
        (("--train=tiny",), ["train='tiny': input should be a valid dictionary"]),
    ],
)
def test_wrong_settings(
    medunlearn: Medunlearn, experiment: Path, tmp_path: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    said = medunlearn("run", experiment, *SMALL, *words, code=2)
    assert all(part in said.text for part in parts), said.text
    # Whatever is wrong is found before anything is trained.
    assert not list((tmp_path / "out").glob("*/run.json"))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "There is no file"),
        ("name: [", "cannot be read as YAML"),
        ("- a\n- b\n", "must hold keys and values"),
        ("", "must hold keys and values"),
        ("name: x\n", "out is missing"),
        (b"\xff\xfe\x00bad", "cannot be read as YAML"),
    ],
)
def test_broken_experiment_files(
    medunlearn: Medunlearn, tmp_path: Path, content: str | bytes | None, part: str
) -> None:
    path = tmp_path / "experiment.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert part in medunlearn("run", path, code=2).text
