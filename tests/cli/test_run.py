"""``run`` and ``demo``: whole experiments from a file, with overrides, given once and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from medunlearn.methods import METHODS
from medunlearn.models.packaged import PACKAGED, PackagedModel
from medunlearn.paper import from_papers
from medunlearn.papers.amnesia import demo
from medunlearn.papers.amnesia.demo import demo_experiment
from medunlearn.study.experiment import plan, run_experiment
from medunlearn.study.presets import presets

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


class ExperimentRun(NamedTuple):
    """A command with its overrides, its output with ``--plan`` before, and its output."""

    words: tuple[object, ...]
    out: Path
    planned: Any
    planned_made_files: bool
    result: Any


@pytest.fixture(scope="module")
def experiment_run(medunlearn: Medunlearn, bench: Path, tmp_path_factory: pytest.TempPathFactory) -> ExperimentRun:
    folder = tmp_path_factory.mktemp("experiment")
    file, out = folder / "experiment.yaml", folder / "out"
    file.write_text(EXPERIMENT.format(out=out, bench=bench))
    words = ("run", file, *SMALL, "--unlearn.npo.beta=0.3", "--name=Another title")
    planned = medunlearn(*words, "--plan", "--all")
    return ExperimentRun(words, out, planned, out.exists(), medunlearn(*words))


def test_run_with_overrides(experiment_run: ExperimentRun) -> None:
    configs = settings_of(experiment_run.out)
    assert set(configs) == {"target", "retrained", "graddiff", "npo"}
    assert configs["npo"]["arguments"] == {"beta": 0.3}
    assert configs["graddiff"]["lr"] == 1e-4
    assert configs["retrained"]["without"] == "random_10"
    lines = experiment_run.result.stdout.splitlines()
    assert "Another title" in experiment_run.result.stdout
    assert {"target", "retrained", "GradDiff", "NPO"} <= {line.split()[0] for line in lines if line.strip()}
    assert "> memory: about" in experiment_run.result.text
    assert "retrained model: never sees the forget set" in experiment_run.result.text
    assert (experiment_run.out / "report" / "report.html").exists()


@pytest.fixture
def _run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment given again is not gathered and reported again: these tests are about what is printed."""
    finished: list[Any] = []

    def once(*args: Any, **more: Any) -> Any:
        finished[:] = finished or [run_experiment(*args, **more)]
        return finished[0]

    monkeypatch.setattr("medunlearn.study.experiment.run_experiment", once)
    monkeypatch.setattr(demo, "run_experiment", once)


@pytest.mark.usefixtures("_run_once")
def test_quiet_and_json(experiment_run: ExperimentRun, medunlearn: Medunlearn) -> None:
    result = medunlearn(*experiment_run.words, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")
    result = medunlearn(*experiment_run.words, "--json")
    assert json.loads(result.stdout)["report"] == str(experiment_run.out / "report" / "report.html")


def test_out_seed_and_no_retrained_model(medunlearn: Medunlearn, experiment: Path, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "elsewhere", "--seed", 5, "--retrain=false", "--unlearn.methods=[ga]")
    medunlearn("run", experiment, *SMALL, *words, "--quiet")
    configs = settings_of(tmp_path / "elsewhere")
    assert set(configs) == {"target", "ga"}
    assert {config["seed"] for config in configs.values()} == {5}
    assert not (tmp_path / "out").exists()


def test_a_plan_says_what_is_left_and_does_nothing(experiment_run: ExperimentRun, medunlearn: Medunlearn) -> None:
    assert not experiment_run.planned_made_files
    lines = experiment_run.planned.stdout.splitlines()
    rows = [line.split() for line in lines]
    assert ["target", "to", "do"] in [row[:3] for row in rows]
    assert ["evaluate", "graddiff", "to", "do"] in [row[:4] for row in rows]
    # The summary is first.
    assert lines[0].startswith("Another title. Left: 9 of 10 stages, ")
    assert "are free" in " ".join(experiment_run.planned.stdout.split())
    assert medunlearn(*experiment_run.words, "--plan", "--quiet").stdout == ""
    short = medunlearn(*experiment_run.words, "--plan").stdout
    assert "Stages" not in short
    assert "--all belongs to --plan" in medunlearn(*experiment_run.words, "--all", code=2).text
    plan_facts = json.loads(medunlearn(*experiment_run.words, "--plan", "--json").stdout)
    assert {stage["name"] for stage in plan_facts["stages"] if stage["state"] != "done"} == {"report"}
    assert plan_facts["left"]["flops"] == 0


def test_a_device_is_timed_for_the_hours_of_its_plans(
    medunlearn: Medunlearn, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def hours(*words: str) -> float | None:
        shown = medunlearn("run", experiment, *SMALL, "--plan", "--json", *words).stdout
        value: float | None = json.loads(shown)["left"]["hours"]
        return value

    assert hours() is None
    assert "--time-device" in medunlearn("run", experiment, *SMALL, "--plan").stdout
    assert not (tmp_path / "cache").exists()
    timed = hours("--time-device")
    assert timed is not None
    assert 0 < timed < 1
    assert hours() == hours("--time-device") == timed
    assert "--time-device" not in medunlearn("run", experiment, *SMALL, "--plan").stdout
    wrong = medunlearn("run", experiment, *SMALL, "--time-device", code=2).text
    assert "--time-device belongs to --plan" in wrong
    assert not (tmp_path / "out").exists()


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
    result = medunlearn("run", experiment, *SMALL, *words)
    (config,) = (config for config in settings_of(tmp_path / "out").values() if "method" in config)
    assert config["method"] == f"{name}:Outside"
    assert config["arguments"] == {"weight": 0.5}
    assert "report.html" in result.text


TESTED_IN = {
    "memorization-llama3-8b.yaml": "papers/memorization/test_adaptation.py",
    "hospital.yaml": "test_readme.py",
    "own-prompts.yaml": "docs/test_own_prompts.py",
    "lume-small.yaml": "papers/lume/test_experiment.py",
    "amnesia-llama3-8b.yaml": "docs/test_papers_amnesia.py",
    "lume.yaml": "docs/test_unlearn_epochs.py",
    "lume-olmo.yaml": "papers/test_scales.py",
    "lume-new.yaml": "docs/test_lume_tofu_muse.py",
    "sweep-small.yaml": "cli/test_sweep.py",
    "leaderboard.yaml": "cli/test_sweep.py",
    "sweep-amnesia-400.yaml": "study/sweep/test_plan.py",
    "tune-small.yaml": "cli/test_tune.py",
    "medforget-tiny.yaml": "papers/medforget/test_run.py",
    "medforget-tiny-vision.yaml": "papers/medforget/test_run.py",
    "medforget-lingshu.yaml": "papers/medforget/test_run.py",
}


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == set(TESTED_IN)
    for name, test in TESTED_IN.items():
        assert Path(name).stem in (Path(__file__).parents[1] / test).read_text(), name


def test_the_lume_example(medunlearn: Medunlearn, lume_files: Path, tmp_path: Path) -> None:
    """On files made here, for a machine without the released ones."""
    words = (f"--benchmark.released={lume_files}", "--benchmark.documents-per-task=4", "--unlearn.methods=[npo]")
    more = ("--benchmark.nonmember-documents=null", "--attack={}", "--out", tmp_path / "out")
    medunlearn("run", EXAMPLES / "lume-small.yaml", *SMALL, *words, *more)
    payload = json.loads((tmp_path / "out" / "report" / "report.json").read_text())
    assert {model["role"] for model in payload["models"]} == {"target", "retrained", "unlearned"}


@pytest.mark.usefixtures("_run_once")
def test_demo(medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"epochs": 1, "precision": "fp32"}
    tiny = presets()["tiny"]
    small = replace(
        tiny, train={**tiny.train, **short, "tiny_width": 32, "tiny_layers": 2}, unlearn={**tiny.unlearn, **short}
    )
    everything = {**presets(), "tiny": small}
    # Of its methods two: all are known, and each is tested where it is.
    shown = ("graddiff", "npo")
    assert {*shown} < {method.method for method in demo_experiment(tmp_path).methods} <= {*METHODS}
    monkeypatch.setattr(demo, "TINY", {**demo.TINY, "unlearn": {"methods": shown}})
    monkeypatch.setattr("medunlearn.study.presets.presets", lambda: everything)
    few = {"limit": 1, "replicates": 20, "max_new_tokens": 4}
    monkeypatch.setattr(demo, "plan", lambda values: plan({**values, "evaluate": few}))
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    words = ("demo", "--out", tmp_path / "demo", "--synthetic", 20)
    result = medunlearn(*words, "--no-open")
    assert "Demo: forgetting patients of an invented hospital" in result.stdout
    assert all(name in result.stdout for name in ("GradDiff", "NPO", "retrained"))
    assert not opened
    again = medunlearn(*words, "--json")
    assert json.loads(again.stdout)["report"] == str(tmp_path / "demo" / "report" / "report.html")
    assert not opened
    monkeypatch.setattr("sys.platform", "linux")
    for screen, number in (("", 0), (":0", 1)):
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setenv("DISPLAY", screen) if screen else monkeypatch.delenv("DISPLAY", raising=False)
        medunlearn(*words)
        assert opened == [str(tmp_path / "demo" / "report" / "report.html")][:number]


def test_a_demo_refuses_what_only_another_takes(medunlearn: Medunlearn) -> None:
    for words, flag in (
        (("amnesia", "--texts=4"), "--texts"),
        (("audit", "--model=smollm2"), "--model"),
        (("forget", "--texts=4"), "--texts"),
    ):
        assert flag in medunlearn("demo", *words, code=2).stderr


def test_a_pretrained_model_has_a_demo_of_its_size(
    tiny: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan reads the model's config: a small one stands for SmolLM2, whose package need not be there."""
    package = tmp_path / "site" / "some_model"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    tiny().save(package / "model")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setitem(PACKAGED, "smollm2", PackagedModel("some_model", "some-model==1", "model", "Some model"))
    small, pretrained = demo_experiment(tmp_path), demo_experiment(tmp_path, model="smollm2")
    assert (small.target.model, pretrained.target.model) == ("tiny", "smollm2")
    assert (pretrained.target.epochs, pretrained.target.pretrain_epochs) == (16, 0)
    assert {method.epochs for method in pretrained.methods} == {8}
    assert pretrained.settings.benchmark["synthetic"] < small.settings.benchmark["synthetic"]
    assert len(pretrained.methods) < len(small.methods)


def test_the_demo_without_a_word_is_the_first() -> None:
    """`scripts/demo` gives none."""
    assert next(iter(from_papers("demos"))) == "amnesia"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--train.epoch=1", "--unlearn.lr=x", "--evaluate.metric=[em]"), ["3 settings are", "mean 'epochs'?"]),
        (("--unlearn.methods=[npoo, ga]",), ["no method 'npoo'", "Did you mean 'npo'?"]),
        (("--unlearn.methods=[npo, npo]",), ["names 'npo' twice"]),
        (("--unlearn.methods=npoo,ga",), ["no method 'npoo'", "Did you mean 'npo'?"]),
        (("--unlearn.methods={npo: 1}",), ["unlearn.methods is missing: a list"]),
        (("--unlearn.npo.btea=1",), ["no npo setting 'btea'", "Did you mean 'beta'?"]),
        (("--split=randm_10",), ["no split 'randm_10'", "Did you mean 'random_10'?"]),
        (("--split=patient=",), ["forgets nothing"]),
        (("--evaluate.metrics=[rouge]",), ["no measure 'rouge'", "Did you mean 'rouge_l'?"]),
        (("--benchmark={builder: amnesa, synthetic: 20}",), ["no benchmark 'amnesa'", "Did you mean 'amnesia'?"]),
        (("--benchmark={builder: amnesia, synthetic: x}",), ["synthetic='x'"]),
        (("--benchmark={}",), ["benchmark.builder is missing: amnesia, diagnosis, medforget"]),
        (("--benchmark.folder=nowhere",), ["There is no benchmark folder nowhere"]),
        (("--nmae=x",), ["no flag --nmae", "Did you mean --name?"]),
        (("--train=tiny",), ["train='tiny': input should be a valid dictionary"]),
    ],
)
def test_wrong_settings(
    medunlearn: Medunlearn, experiment: Path, tmp_path: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    result = medunlearn("run", experiment, *SMALL, *words, code=2)
    assert all(part in result.text for part in parts), result.text
    # Whatever is wrong is found before anything is trained.
    assert not list((tmp_path / "out").glob("*/run.json"))
