"""Plug-ins of every kind from a package outside of the tree, through every command that asks for names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from forking import forked_workers
from outside_package import install, write_package

from medunlearn import registry
from medunlearn.errors import InputError
from medunlearn.judging.writing import task_targets
from medunlearn.metrics import get_metric, metric_targets
from medunlearn.paper import watches

TINY = "{model: tiny, tiny_width: 16, tiny_layers: 1, epochs: 1, pretrain_epochs: 0, precision: fp32}"
SMALL = ("--model=tiny", "--tiny-width=16", "--tiny-layers=1", "--epochs=1")
EXPERIMENT = f"""
name: Haiku
out: runs
benchmark: {{builder: BUILDER, poets: 12}}
split: random_10
train: {TINY}
retrain: true
unlearn: {{methods: [mine], epochs: 1, mine.alpha: 2.0, precision: fp32}}
evaluate: {{metrics: [length, rouge_l], max_new_tokens: 4, replicates: 20, allow_broken: true}}
show_text: true
"""
SWEEP = f"""
name: Haiku
out: sweep
seeds: [0]
benchmark: {{builder: BUILDER, poets: 12}}
splits: [random_10, random_25]
train: {TINY}
retrain: true
unlearn: {{methods: [mine], epochs: 1, precision: fp32}}
evaluate: {{metrics: [length, rouge_l], max_new_tokens: 4, replicates: 20, allow_broken: true}}
"""


@pytest.fixture(scope="module")
def run() -> Callable[..., Any]:
    """``run("list", "methods", code=0)``: the command line in process; its output."""
    from medunlearn.cli.main import app

    def command(*words: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.stdout + result.stderr
        return result

    return command


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder beside an installed package of plug-ins."""
    folder = tmp_path_factory.mktemp("outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(write_package(folder / "site"))
        patch.chdir(folder)
        patch.setenv(registry.PLUGINS, "")
        registry._installed.cache_clear()
        yield folder
    registry._installed.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "haiku"]:
        del sys.modules[name]


def names_of(run: Callable[..., Any], what: str) -> set[str]:
    return {row["name"] for row in json.loads(run("list", what, "--json").stdout)}


@pytest.mark.usefixtures("here")
def test_lists_name_them(run: Callable[..., Any]) -> None:
    listed = {
        "benchmarks": "haiku", "methods": "mine", "measures": "length", "attacks": "noise", "sources": "cards",
    }  # fmt: skip
    for what, name in listed.items():
        assert name in names_of(run, what)
    assert "haiku" in run("build", "--help").stdout
    page = run("build", "haiku", "--help").stdout
    assert "poets to invent" in page
    assert "--poets 20 --out bench/" in page


def test_a_paper_is_built_and_checked_like_ours(run: Callable[..., Any], here: Path) -> None:
    run("build", "haiku", "--poets", 12, "--out", "bench")
    assert "Did you mean --poets" in run("build", "haiku", "--poet", 12, "--out", "other", code=2).stderr
    assert "poets" in run("build", "haiku", "--poets", 2, "--out", "other", code=2).stderr
    assert json.loads(run("inspect", "bench", "--json").stdout)["builder"] == "haiku"


def test_an_experiment_has_its_method_measure_and_page(run: Callable[..., Any], here: Path) -> None:
    (here / "experiment.yaml").write_text(EXPERIMENT.replace("BUILDER", "haiku"))
    assert "mine" in run("run", "experiment.yaml", "--plan", "--all").stdout.lower()
    run("run", "experiment.yaml", "--quiet")
    content = json.loads((here / "runs" / "report" / "report.json").read_text())
    assert content["haiku"] == 3
    assert "length" in content["metrics"]
    assert 'id="haiku"' in (here / "runs" / "report" / "report.html").read_text()


def test_default_measures_are_the_papers(run: Callable[..., Any], here: Path) -> None:
    run("build", "haiku", "--poets", 12, "--out", "measured")
    run(
        "train",
        "measured",
        "--out",
        "target",
        *["--model", "tiny", "--tiny-width", "16", "--tiny-layers", "1", "--epochs", "1"],
    )
    result = run("evaluate", "target", "measured", "--split", "random_10", "--max-new-tokens=4", "--allow-broken")
    assert result.stdout
    table = json.loads(
        run("evaluate", "target", "measured", "--split=random_10", "--max-new-tokens=4", "--allow-broken", "--json")
        .stdout
    )["table"]  # fmt: skip
    assert {row["measure"] for row in table} >= {"rouge_l", "exact_match"}
    assert not {"em", "te", "token_f1", "ls"} & {row["measure"] for row in table}


def test_a_sweep_is_planned_run_and_has_the_neutral_page(run: Callable[..., Any], here: Path) -> None:
    (here / "sweep.yaml").write_text(SWEEP.replace("BUILDER", "haiku"))
    assert "mine" in run("sweep", "sweep.yaml", "--plan", "--all").stdout.lower()
    with forked_workers():
        run("sweep", "sweep.yaml", "--jobs=1", "--quiet")
    page = (here / "sweep" / "report" / "report.html").read_text()
    content = json.loads((here / "sweep" / "report" / "report.json").read_text())
    assert set(content["parts"]) == {"random_10", "random_25"}
    assert "AMNESIA" not in page
    assert all(part["haiku"] == 3 for part in content["parts"].values())
    assert run("report", "sweep", "--out", "sweep-again").stderr


def test_an_attack_runs_and_stands_on_the_page(run: Callable[..., Any], here: Path) -> None:
    run("build", "haiku", "--poets", 12, "--out", "attacked")
    run("train", "attacked", "--out", "victim", *SMALL)
    quick = ("--split=random_25", "--allow-broken", "--quiet")
    noise = ("attack", "victim", "attacked", "--attacks=noise", "--noise.max_new_tokens=4")
    run(*noise, "--more-measures=length", *quick)
    run("evaluate", "victim", "attacked", "--max-new-tokens=4", *quick)
    run("report", "victim", "--benchmark", "attacked", "--out", "attacked-report")
    assert "Noise" in (here / "attacked-report" / "report.html").read_text()
    # One measure for what is said, whichever verb asked.
    run("score", "victim", "--measures=length", "--allow-broken", "--quiet")
    for folder in ("attacks", "evaluations"):
        assert "length" in measures_in(here / "victim" / folder)
    said = " ".join(f"On day {day} he had a cough and was given syrup." for day in range(6))
    (here / "said.jsonl").write_text(json.dumps({"record_id": "r", "prefix": "", "suffix": said, "response": said}))
    run("audit", "--responses=said.jsonl", "--out=audited", "--measures=length,run_30", "--quiet")
    assert measures_in(here / "audited") == {"length", "run_30"}
    run("score", "audited", "--measures=haiku.measure:METRIC", "--quiet")
    assert measures_in(here / "audited") == {"length", "run_30"}
    assert "no answer to score" in run(*noise[:3], "--more-measures=length", *quick, code=2).stderr
    assert "Did you mean 'length'" in run(*noise, "--more-measures=lengths", *quick, code=2).stderr


def measures_in(folder: Path) -> set[str]:
    """Measures of the score tables below a folder."""
    return {name for file in folder.rglob("scores.parquet") for name in pd.read_parquet(file)["measure"].unique()}


@pytest.fixture(scope="module")
def cards(here: Path) -> Path:
    """Eight patients' notes in the package's own format."""
    text = "\n\n".join(
        f"{4000 + n}\nName: Poet {n}. Seen on 3 May 2024: cough for {n + 2} days. Given {20 + n} mg of drug {n}."
        for n in range(8)
    )
    path = here / "notes.cards"
    path.write_text(text)
    return path


def test_a_source_is_read_wherever_a_table_is(run: Callable[..., Any], cards: Path) -> None:
    run("build", "notes", cards, "--out", "notes-bench", "--quiet")
    assert json.loads(run("inspect", "notes-bench", "--json").stdout)["counts"]["subjects"] == 8
    assert "There is no file" in run("build", "notes", "nothing.cards", "--out", "x", code=2).stderr


def test_a_deletion_request_takes_source_method_and_attack(
    run: Callable[..., Any], here: Path, cards: Path
) -> None:
    run("build", "notes", cards, "--out", "hospital-bench", "--quiet")
    learned = (
        "--model=tiny",
        "--tiny-width=32",
        "--tiny-layers=1",
        "--tiny-tokenizer=common",
        "--epochs=12",
        "--lr=4e-3",
        "--train-on=records",
    )
    run("train", "hospital-bench", "--out", "hospital", *learned)
    run("export", "hospital", "--out", "model")
    run("case", "key", "--out", "owner/signing.key")
    run(
        *("forget", "model", cards, "--patient=4002", "--key=owner/signing.key", "--out", "case", "--anyway"),
        *("--method=mine", "--battery=noise", "--others=3", "--facts=2", "--unlearn.epochs=1", "--quiet"),
        *("--build.clozes=1", "--build.prefixes=16", "--unlearn.precision=fp32", "--evaluate.max_new_tokens=2"),
        "--evaluate.alternatives=9",
    )
    evidence = json.loads((here / "case" / "evidence.json").read_text())
    assert evidence["method"] == "mine"
    assert "noise" in {check["name"] for check in evidence["battery"]["checks"]}


def test_by_path_it_is_known_by_name_from_then_on(
    run: Callable[..., Any], here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second paper in the working folder, installed by nobody."""
    code = (here / "site" / "haiku" / "__init__.py").read_text().replace('name="haiku"', 'name="tanka"')
    (tmp_path / "tanka.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setenv(registry.PLUGINS, "")
    run("build", "tanka:PAPER", "--poets", 12, "--out", "bench")
    assert "tanka" in names_of(run, "benchmarks")
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT.replace("BUILDER", "tanka:PAPER"))
    run("run", "experiment.yaml", "--quiet")
    assert 'id="haiku"' in (tmp_path / "runs" / "report" / "report.html").read_text()


def test_a_benchmark_whose_paper_is_gone_is_evaluated_and_the_page_says_so(
    run: Callable[..., Any], here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("build", "haiku", "--poets", 12, "--out", tmp_path / "bench")
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [])
    monkeypatch.chdir(tmp_path)
    run("train", "bench", "--out", "target", *SMALL)
    result = run("evaluate", "target", "bench", "--split=random_10", "--max-new-tokens=4", "--allow-broken")
    assert "no paper 'haiku' is installed" in " ".join(result.stdout.split())
    run("report", "target", "--benchmark", "bench", "--out", "report")
    assert "no paper &#39;haiku&#39; is installed" in (tmp_path / "report" / "report.html").read_text()


BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "incomplete": (
        "from medunlearn.paper import Paper\nPAPER = Paper(name='incomplete')",
        "missing 1 required keyword-only argument: 'title'",
    ),
    "misshapen": (
        "from medunlearn.paper import Build, Paper\n"
        "PAPER = Paper(name='misshapen', title='x', builds=(Build(make='build'),))",
        r"builds[0].make must be text of the form 'module:attribute', not 'build'",
    ),
    "another": ("PAPER = print", "it must be a medunlearn.paper.Paper: Paper(name="),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plug_in_is_told_and_others_work(
    run: Callable[..., Any], here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code, message = BROKEN[name]
    (tmp_path / f"{name}.py").write_text(code)
    install(tmp_path, name, {"papers": {name: f"{name}:PAPER"}})
    monkeypatch.syspath_prepend(tmp_path)
    registry._installed.cache_clear()
    said = " ".join(run("build", name, "--out", "x", code=2).stderr.split())
    assert message in said
    assert "Traceback" not in said
    # Whoever does not need it is not kept from work.
    rows = json.loads(run("list", "benchmarks", "--json").stdout)
    assert message in next(row["what"] for row in rows if row["name"] == name)
    run("build", "amnesia", "--synthetic", 4, "--out", tmp_path / "bench")
    registry._installed.cache_clear()


def test_two_packages_with_one_name(
    run: Callable[..., Any], here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "rival", {"papers": {"haiku": "rival:PAPER"}})
    monkeypatch.syspath_prepend(tmp_path)
    registry._installed.cache_clear()
    said = " ".join(run("build", "haiku", "--poets=4", "--out", tmp_path / "x", code=2).stderr.split())
    assert "paper 'haiku' is declared by 2 installed packages" in said
    run("build", "amnesia", "--synthetic", 4, "--out", tmp_path / "bench")
    registry._installed.cache_clear()


def test_a_paper_from_outside_replaces_no_measure_or_task_of_ours(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that cannot be loaded silence what `train` and exact deletion ask of ours."""
    ours = {name: get_metric(name) for name in ("rouge_l", "rouge_l_f.knowmem")}
    taken = "{'rouge_l': 'json:dumps', 'rouge_l_f.knowmem': 'json:dumps', 'of_rival': 'json:dumps'}"
    (tmp_path / "rival_paper.py").write_text(
        "from medunlearn.paper import Paper\n"
        "TASKS = {'sensitive_content': 'json:dumps'}\n"
        f"PAPER = Paper(name='rival', title='Rival', own_measures={taken}, tasks=TASKS)\n"
    )
    install(tmp_path, "rival_paper", {"papers": {"rival": "rival_paper:PAPER"}})
    monkeypatch.syspath_prepend(tmp_path)
    registry._installed.cache_clear()
    assert metric_targets()["of_rival"] == "json:dumps"
    assert {name: get_metric(name) for name in ours} == ours
    assert task_targets()["sensitive_content"].startswith("medunlearn.")
    monkeypatch.setattr(registry, "import_module", refuse_diagnosis)
    with pytest.raises(InputError, match="OSError: gone"):
        watches()
    registry._installed.cache_clear()


def refuse_diagnosis(module: str) -> Any:
    if module.endswith(".diagnosis"):
        raise ImportError("OSError: gone")
    return import_module(module)
