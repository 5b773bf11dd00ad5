"""The section ``judge`` of sweeps and experiments: what it asks, where ratings go, and what it refuses."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.metrics.leakage.keywords import keywords
from medunlearn.probes import keyword_stage
from medunlearn.probes.keyword_stage import find_keywords, interpreter_problem
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.experiment import plan
from medunlearn.study.judge_stage import judge_all, judge_section, judged_runs

DRAWS = {"replicates": 20}


@pytest.fixture
def model(hospital: Benchmark, target: Run, tmp_path: Path) -> Evaluated:
    run = Path(shutil.copytree(target.folder, tmp_path / "target"))
    how = {"split": "random_10", "limit": 1, "max_new_tokens": 4, "metrics": ["rouge_l"], "folds": ["train"]}
    return mu.evaluate(run, hospital, **how, **DRAWS, quiet=True, allow_broken=True).models[0]


def test_ratings_go_into_the_scores_and_verdicts_beside_the_report(
    hospital: Benchmark, model: Evaluated, tmp_path: Path
) -> None:
    section = {"llm": "rehearsal", "question": {"limit": 2}, "factuality": {"allow_broken": True}}
    stage = judge_section(section, DRAWS)
    assert stage is not None
    said: list[str] = []
    assert judge_all(stage, hospital, tmp_path, [model], quiet=True, say=said.append) == []
    assert len(said) == 2
    measures = set(Evaluated(model.run, Run.open(model.record.folder)).table["measure"])
    assert {"factuality.drawn", "gen_score.drawn", "rouge_l"} <= measures
    assert not {"factuality", "gen_score"} & measures
    (panel,) = judged_runs(tmp_path)
    assert panel.panel.task.name == "question"
    assert len(panel.panel.cases) == 4
    # Again: nothing is asked, and nothing fails.
    assert judge_all(stage, hospital, tmp_path, [model], quiet=True) == []


def test_a_server_that_fails_costs_only_its_own(hospital: Benchmark, model: Evaluated, tmp_path: Path) -> None:
    with FakeServer(("error_500",)) as server:
        judge = {"base_url": server.base_url, "model": "a", "retries": 0, "backoff_seconds": 0.01}
        section = {"llm": [judge], "label": {}, "factuality": {"allow_broken": True}}
        stage = judge_section(section, DRAWS)
        assert stage is not None
        failed = judge_all(stage, hospital, tmp_path, [model], quiet=True)
    assert [name.partition(" of")[0] for name, _ in failed] == ["judge labels", "judge responses"]
    assert all("judgements are missing" in reason for _, reason in failed)
    assert judged_runs(tmp_path) == []


def test_all_mistakes_of_the_section_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        judge_section({"factualty": {}, "label": {"limit": 0}, "allow_remote_llm": "yes"}, {})
    words = str(refused.value)
    assert all(
        part in words
        for part in (
            "setting 'factualty'. Did you mean 'factuality'",
            "label: limit=0",
            "allow_remote_llm='yes'",
            "llm is missing",
        )
    )
    with pytest.raises(ConfigError, match="it names no task"):
        judge_section({"llm": "rehearsal"}, {})
    with pytest.raises(ConfigError, match=r"--llm\.model is missing"):
        judge_section({"llm": "http://127.0.0.1:1/v1", "label": {}}, {})
    assert judge_section({}, {}) is None


def test_keys_with_dots_are_those_of_the_section() -> None:
    values = {"llm": "http://127.0.0.1:1/v1", "llm.model": "m", "llm.retries": 0, "factuality.limit": 3}
    stage = judge_section(values, {"seed": 7})
    assert stage is not None
    assert [(judge.name, judge.settings.retries) for judge in stage.judges] == [("m", 0)]
    assert (stage.tasks["factuality"].limit, stage.tasks["factuality"].seed) == (3, 7)
    rehearsed = judge_section({"llm": [{"base_url": "rehearsal", "model": "r"}], "label": {}}, {})
    assert rehearsed is not None
    assert rehearsed.judges[0].settings.base_url == "rehearsal"


def test_a_server_that_may_not_have_the_data_is_refused_before_anything_trains(
    hospital: Benchmark, experiment_values: dict[str, Any], tmp_path: Path
) -> None:
    section = {"llm": "https://judge.example/v1", "llm.model": "m", "label": {}}
    stage = judge_section(section, {})
    assert stage is not None
    (problem,) = stage.why_not(hospital)
    assert "20 records carry identifiers" in problem
    permitted = judge_section({**section, "allow_remote_llm": True}, {})
    assert permitted is not None
    assert permitted.why_not(hospital) == []
    with pytest.raises(ConfigError, match="carry identifiers"):
        mu.run({**experiment_values, "out": tmp_path / "out", "judge": section}, quiet=True)
    assert not list((tmp_path / "out").glob("target-*"))


def test_keywords_by_another_python(hospital: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.config import EvaluateSettings

    settings = EvaluateSettings(split="random_10", metrics=("ls",))
    hospital.save(tmp_path / "bench")
    benchmark, commands = Benchmark.load(tmp_path / "bench"), list[list[str]]()
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no scispacy here >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(MedunlearnError, match=r"build keywords .*failed: no scispacy here"):
        find_keywords(benchmark, settings, str(script))
    with pytest.raises(MedunlearnError, match="there is no such program"):
        find_keywords(benchmark, settings, str(tmp_path / "nowhere"))
    assert interpreter_problem(str(script)) == interpreter_problem(None) == ""

    def run(command: list[str], **how: Any) -> Any:
        commands.append(command)
        keywords(Benchmark.load(command[5]), quiet=True)
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(keyword_stage.subprocess, "run", run)
    find_keywords(benchmark, settings, str(script))
    # What was found once is not looked for again, nor where no measure reads it.
    find_keywords(benchmark, settings, str(script))
    find_keywords(benchmark, EvaluateSettings(split="random_10", metrics=("rouge_l",)), str(script))
    assert [command[1:5] for command in commands] == [["-m", "medunlearn", "build", "keywords"]]


def test_a_bare_python_is_the_one_of_this_environment(
    hospital: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the environment is not activated, as with .venv/bin/medunlearn."""
    from medunlearn.config import EvaluateSettings

    hospital.save(tmp_path / "bench")
    programs = list[str]()

    def run(command: list[str], **how: Any) -> Any:
        programs.append(command[0])
        return type("Done", (), {"returncode": 0})

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(keyword_stage.subprocess, "run", run)
    find_keywords(
        Benchmark.load(tmp_path / "bench"), EvaluateSettings(split="random_10", metrics=("ls",)), "python"
    )
    assert programs == [str(Path(sys.executable).parent / "python")]


def test_an_experiment_adopts_instead_of_training(experiment_values: dict[str, Any], tmp_path: Path) -> None:
    values = {**experiment_values, "out": tmp_path / "out"}
    adopted = plan({**values, "adopt": {"model": "org/released", "template": "plain"}}).adopt
    assert adopted is not None
    assert (adopted[0], adopted[1].template) == ("org/released", "plain")
    assert plan({**values, "adopt": None}).adopt is None
    with pytest.raises(ConfigError) as refused:
        plan(
            {
                **values,
                "adopt": {"role": "retrained", "contxt": "note"},
                "benchmark": {"builder": "lume", "released": "x", "nonmember_documents": 3},
            }
        )
    words = str(refused.value)
    assert all(part in words for part in ("model is missing", "role: the target", "contxt", "nonmember_documents"))
