"""The pipeline: what is done once is not done again, and what depends on a change is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.experiment import Finished, plan, run_experiment

Values = dict[str, Any]


@pytest.fixture(scope="module")
def short(experiment_values: Values) -> Values:
    """An experiment whose training is three steps."""
    return {**experiment_values, "train": {**experiment_values["train"], "train_on": "records"}}


@pytest.fixture
def values(short: Values, tmp_path: Path) -> Values:
    return {**short, "out": tmp_path / "out"}


def go(values: Values, **changes: Any) -> Finished:
    """Run it; a change of a section replaces only the keys that it names."""
    merged = {key: {**old, **changes.get(key, {})} if isinstance(old, dict) else old for key, old in values.items()}
    merged |= {key: new for key, new in changes.items() if not isinstance(values.get(key), dict)}
    return run_experiment(plan(merged), quiet=True)


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder: size and the time that it was written."""
    return {
        str(file.relative_to(folder)): (file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def stages(out: Path) -> dict[str, list[Path]]:
    """Folders of runs by the first part of their names."""
    found: dict[str, list[Path]] = {}
    for path in sorted(out.glob("*/run.json")):
        found.setdefault(path.parent.name.split("-")[0], []).append(path.parent)
    return found


class Done(NamedTuple):
    """An experiment that ran; tests run it again and with changes, so that its folder gets more and more runs."""

    values: Values
    finished: Finished
    lines: list[str]
    names: list[str]


@pytest.fixture(scope="module")
def done(short: Values, tmp_path_factory: pytest.TempPathFactory) -> Done:
    unlearn = {**short["unlearn"], "methods": ["graddiff", "npo"]}
    values = {**short, "unlearn": unlearn, "out": tmp_path_factory.mktemp("done") / "out"}
    lines: list[str] = []
    finished = run_experiment(plan(values), quiet=True, say=lines.append)
    return Done(values, finished, lines, sorted(path.name for path in values["out"].iterdir()))


def test_end_to_end(done: Done) -> None:
    values, finished = done.values, done.finished
    assert [(model.label, model.role) for model in finished.content.models] == [
        *(("target", "target"), ("retrained", "retrained"), ("GradDiff", "unlearned"), ("NPO", "unlearned"))
    ]
    assert finished.report == values["out"] / "report" / "report.html"
    assert all((values["out"] / "report" / f"report.{kind}").exists() for kind in ("html", "md", "json"))
    assert [line.split(":")[0] for line in done.lines] == [
        "benchmark",
        "target model",
        "retrained model",
        "unlearning",
        "unlearning",
        "evaluating every model on the same questions",
        "report",
    ]
    compared = set(finished.content.comparisons[["model", "against"]].itertuples(index=False, name=None))
    assert {("NPO", "target"), ("NPO", "retrained"), ("target", "retrained")} <= compared
    assert len(Benchmark.load(next(values["out"].glob("bench-*"))).records) == 20


def test_given_again_it_does_nothing(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    values = done.values
    first = go(values)
    before = {name: when for name, when in state(values["out"]).items() if not name.startswith("report")}
    for what in ("training.loop._step", "probes.evaluate.score_items", "data.responses.ResponseStore.add"):
        monkeypatch.setattr(f"medunlearn.{what}", lambda *args, what=what, **more: pytest.fail(f"{what} ran"))
    second = go(values)
    after = {name: when for name, when in state(values["out"]).items() if not name.startswith("report")}
    # An evaluation is marked as the one that was asked for last; nothing in it is written.
    touched = {name for name in before if before[name] != after[name]}
    assert all("/evaluations/" in name and name.endswith("run.json") for name in touched)
    assert before.keys() == after.keys()
    assert first.report.read_text() == second.report.read_text()


def test_a_change_of_unlearning_leaves_the_rest(done: Done) -> None:
    out = done.values["out"]

    def rest() -> list[Values]:
        folders = [*stages(out)["target"], *stages(out)["retrained"], *out.glob("bench-*")]
        return [{name: when for name, when in state(f).items() if not name.endswith("run.json")} for f in folders]

    before, old = rest(), stages(out)
    finished = go(done.values, unlearn={"epochs": 2})
    assert [len(model.history) for model in finished.content.models[2:]] == [4, 4]
    go(done.values, retrain=False, unlearn={"npo.beta": 0.5})
    assert before == rest()
    now = stages(out)
    assert {name: len(now[name]) - len(old[name]) for name in now} == {
        "target": 0,
        "retrained": 0,
        "graddiff": 1,
        "npo": 2,
    }
    assert all({*old[name]} <= {*now[name]} for name in old)


def test_a_change_of_scoring_asks_nobody(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medunlearn.training.loop._step", lambda *args, **more: pytest.fail("trained"))
    monkeypatch.setattr("medunlearn.models.load.load_model", lambda *args, **more: pytest.fail("asked"))
    go(done.values, retrain=False, evaluate={"metrics": ["exact_match"]})


def test_the_same_experiment_gives_the_same_summaries(done: Done, tmp_path: Path) -> None:
    finished = done.finished, go(done.values, out=tmp_path)
    for first, second in zip(*(one.content.models for one in finished), strict=True):
        pd.testing.assert_frame_equal(first.summary, second.summary, check_exact=True)
        unequal = ["seconds"]
        pd.testing.assert_frame_equal(
            first.history.drop(columns=unequal), second.history.drop(columns=unequal), check_exact=True
        )
    pd.testing.assert_frame_equal(
        finished[0].content.comparisons, finished[1].content.comparisons, check_exact=True
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == done.names


def test_the_seed_reaches_every_stage_and_every_mistake_is_told_at_once(values: Values) -> None:
    experiment = plan({**values, "seed": 7})
    seeds = [experiment.target, experiment.retrained, experiment.evaluate, *experiment.methods]
    assert {one.seed for one in seeds if one} == {7}
    assert plan({**values, "seed": 7, "train": {**values["train"], "seed": 3}}).target.seed == 3
    wrong = {
        "train": {"model": "tiny", "epoch": 1},
        "unlearn": {"methods": ["npo", "rmuu", "npo"], "npo.btea": 1},
        "evaluate": {"limit": 0},
    }
    with pytest.raises(ConfigError) as caught:
        plan({**values, **wrong})
    problems = "\n".join(caught.value.problems)
    for part in ("'epochs'", "'rmu'", "'beta'", "evaluate: limit=0", "names 'npo' twice"):
        assert part in problems
    assert len(caught.value.problems) == 5


def test_it_goes_on_where_a_stage_failed(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    from medunlearn.study import unlearn

    def stop(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(unlearn, "unlearn", stop)
        with pytest.raises(KeyboardInterrupt):
            go(values)
    target = stages(values["out"])["target"][0]
    before = state(target)
    go(values)
    assert {name: when for name, when in state(target).items() if name in before} == before


def test_evaluations_belong_to_their_runs(done: Done) -> None:
    for folders in stages(done.values["out"]).values():
        found = Evaluated.find(Run.open(folders[0]))
        assert found.record.folder.parent.parent == folders[0]
        assert found.record.info["label"] == found.run.label
