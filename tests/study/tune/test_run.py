"""One small tuning from end to end: a method that diverges, a kill, and the report."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from forking import forked_workers

from medunlearn.errors import InputError
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.slots.pool import Pool
from medunlearn.study.tune.trials import read_trials, write_trials
from medunlearn.study.tune.tune_plan import plan
from medunlearn.study.tune.tune_result import Tuned
from medunlearn.study.tune.tune_run import run_tuning

Values = dict[str, Any]
NAME = "tune_poison"
METHOD = f"{NAME}:Poisoned"
POISON = """
from dataclasses import dataclass
from typing import Annotated
from pydantic import Field

@dataclass(frozen=True)
class Poisoned:
    title = "Poisoned"
    dose: Annotated[float, Field(gt=0)] = 1.0

    def loss(self, forget, retain):
        bad = float("nan") if self.dose != 1.0 else 1.0
        return {"forget": -bad * forget.nll(), "retain": retain.nll()}
"""


class Done(NamedTuple):
    values: Values
    result: Tuned
    record: Values
    lines: list[str]


@pytest.fixture(scope="module")
def done(tune_values: Values, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """GradDiff, and a method that diverges whenever it is tuned, three trials each."""
    folder = tmp_path_factory.mktemp("plug-in")
    (folder / f"{NAME}.py").write_text(POISON)
    unlearn = {**tune_values["unlearn"], "methods": ["graddiff", METHOD]}
    values = {**tune_values, "unlearn": unlearn, "seeds": [0, 1]}
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch, forked_workers():
        patch.syspath_prepend(folder)
        result = run_tuning(plan(values), jobs=2, quiet=True, say=lines.append)
        yield Done(values, result, json.loads((result.folder / "tune.json").read_text()), lines)


def test_every_method_has_its_budget_and_begins_untuned(done: Done) -> None:
    trials = done.result.trials
    assert trials.groupby("method")["number"].apply(list).to_dict() == {"graddiff": [0, 1, 2], METHOD: [0, 1, 2]}
    assert set(trials[trials["number"] == 0]["params"]) == {"{}"}
    drawn = [json.loads(params) for params in trials[trials["number"] > 0]["params"]]
    assert all(1e-4 <= params["lr"] <= 1e-2 for params in drawn)
    assert trials["flops"].notna().all()
    assert not done.result.failed
    assert done.record["status"] == "complete"


def test_a_trial_that_diverges_has_failed_and_costs_its_budget(done: Done) -> None:
    poisoned = done.result.trials[done.result.trials["method"] == METHOD].set_index("number")
    assert list(poisoned["state"]) == ["complete", "failed", "failed"]
    assert poisoned.loc[1, "reason"].startswith("The loss")
    assert poisoned.loc[[1, 2], "value"].isna().all()
    assert done.record["best"][METHOD]["trial"] == 0
    row = done.result.best.set_index("method").loc[METHOD]
    assert (row["trials"], row["failed"]) == (3, 2)


def test_the_best_trial_is_that_of_the_table(done: Done) -> None:
    trials = done.result.trials.query("method == 'graddiff' and state == 'complete'")
    healthy = trials[trials["problem"] == ""]
    fair = healthy if len(healthy) else trials
    assert done.record["best"]["graddiff"]["value"] == fair["value"].min()


def test_results_are_of_the_other_half(done: Done) -> None:
    """No subject that a trial was asked about is in a result."""
    cells = done.result.cells
    chosen, reported = set[str](), set[str]()
    for trial in sorted(done.result.folder.glob("trials-*/[0-9]*")):
        for folder in trial.glob("epochs/*/evaluations/*"):
            chosen |= set(pd.read_parquet(folder / "scores.parquet")["subject"])
    for row in cells[cells["half"] == "reporting"].itertuples():
        reported |= set(Evaluated(Run.open(row.folder), Run.open(row.evaluation)).questions["subject"])
    assert chosen
    assert reported
    assert not chosen & reported


def test_the_result_table_and_its_references(done: Done) -> None:
    results = done.result.results
    counts = results[results["fold"] == "train"].groupby(["model", "setting"])["seed"].apply(list).to_dict()
    models = [("graddiff", "best"), ("graddiff", "untuned"), (METHOD, "best"), (METHOD, "untuned")]
    assert counts == {model: [0, 1] for model in [*models, ("target", ""), ("retrained", "")]}
    retrained = results[results["model"] == "retrained"]
    assert (retrained["value"] == 0.0).all()
    # The best trial of the poisoned method is the untuned one, and so are its results.
    own = results[results["model"] == METHOD].set_index(["setting", "seed", "fold"])["value"]
    pd.testing.assert_series_equal(own.loc["best"], own.loc["untuned"])


def test_a_killed_process_is_a_failure_and_diverging_untuned_settings_are_none(done: Done) -> None:
    assert not done.result.failed
    cells, trials = done.result.cells.copy(), done.result.trials.copy()
    of_untuned = (cells["method"] == "graddiff") & (cells["setting"] == "untuned") & (cells["kind"] == "evaluate")
    name = cells[of_untuned]["name"].iloc[0]
    cells.loc[cells["name"] == name, ["status", "reason"]] = ["failed", "its process ended"]
    killed = replace(done.result, cells=cells)
    assert killed.failed == [(name, "its process ended")]
    trials.loc[(trials["method"] == "graddiff") & (trials["number"] == 0), "state"] = "failed"
    assert not replace(killed, trials=trials).failed


def test_only_untuned_and_best_trials_keep_their_models(done: Done) -> None:
    (folder,) = done.result.folder.glob("trials-graddiff-*")
    best = done.record["best"]["graddiff"]["trial"]
    assert {path.parent.name for path in folder.glob("*/model")} == {"000", f"{best:03d}"}


def test_the_report_has_tables_a_curve_and_no_text_of_a_record(done: Done) -> None:
    assert done.result.report is not None
    payload = json.loads((done.result.report.parent / "report.json").read_text())
    assert len(payload["trials"]) == 6
    assert {row["method"] for row in payload["best"]} == {"graddiff", METHOD}
    page = (done.result.report.parent / "report.md").read_text()
    assert "Reporting half, fold train" in page
    assert "Best settings and budget" in page
    assert "least objective so far" in done.result.report.read_text()
    names = {subject for _, subject in _subjects(done)}
    assert not any(name in page for name in names)


def _subjects(done: Done) -> set[tuple[str, str]]:
    from medunlearn.data.benchmark import Benchmark

    (folder,) = done.result.folder.glob("bench-*")
    benchmark = Benchmark.load(folder)
    return {(record.record_id, benchmark.subject(record.record_id)) for record in benchmark.records}


def test_given_again_it_does_nothing(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "start", lambda *args: pytest.fail("it ran"))
    again = run_tuning(plan(done.values), jobs=2, quiet=True)
    pd.testing.assert_frame_equal(again.trials, done.result.trials)
    pd.testing.assert_frame_equal(again.results, done.result.results)
    assert not again.failed


def test_a_kill_between_and_within_trials_changes_nothing(
    done: Done, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Cut off after the second trial was written down and before it ended: the rest comes out the same."""
    out = tmp_path / "out"
    shutil.copytree(done.result.folder, out)
    (folder,) = out.glob("trials-graddiff-*")
    trials = read_trials(folder)
    running = replace(trials[1], state="running", value=None, by_epoch={}, rungs={}, seconds=None)
    write_trials(folder, [trials[0], running])
    for number in ("001", "002"):
        shutil.rmtree(folder / number)
    with forked_workers():
        result = run_tuning(plan({**done.values, "out": out}), jobs=1, quiet=True)
    columns = ["method", "number", "state", "params", "value", "by_epoch"]
    pd.testing.assert_frame_equal(result.trials[columns], done.result.trials[columns])


def test_more_runs_go_on_from_the_table(done: Done, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(done.result.folder, out)
    with forked_workers():
        result = run_tuning(plan({**done.values, "out": out, "runs": 8, "seeds": [0]}), jobs=1, quiet=True)
    assert result.trials.groupby("method")["number"].max().to_dict() == {"graddiff": 3, METHOD: 3}
    columns = ["method", "number", "params", "value"]
    before = result.trials[result.trials["number"] < 3][columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(before, done.result.trials[columns])


def test_an_edit_is_chosen_by_the_objective_too(done: Done, tmp_path: Path) -> None:
    """CHIP on the same target, over how many units it edits and in which layers."""
    out = tmp_path / "out"
    shutil.copytree(done.result.folder, out)
    unlearn = {"methods": ["chip"], "train_on": "questions"}
    space = {"chip.energy": None, "chip.vision": None}
    values = {**done.values, "out": out, "unlearn": unlearn, "space": space, "runs": 3, "seeds": [0]}
    tuning = plan(values)
    assert [dimension.name for dimension in tuning.spaces["chip"]] == ["top", "layers"]
    with forked_workers():
        result = run_tuning(tuning, jobs=1, quiet=True)
    ended = result.trials.query("state == 'complete'")
    healthy = ended[ended["problem"] == ""]
    best = (healthy if len(healthy) else ended).sort_values(["value", "number"]).iloc[0]
    assert json.loads((out / "tune.json").read_text())["best"]["chip"]["trial"] == best["number"]
    # Settings matter: not all trials come equally close.
    assert len(ended) == 3
    assert ended["value"].nunique() > 1


def test_a_broken_target_is_refused(done: Done, tmp_path: Path) -> None:
    evaluate = {key: value for key, value in done.values["evaluate"].items() if key != "allow_broken"}
    values = {**done.values, "out": tmp_path / "out", "evaluate": evaluate, "seeds": [0], "retrain": False}
    values["train"] = {**values["train"], "epochs": 0}  # it says the same to every question
    values["unlearn"] = {**values["unlearn"], "methods": ["graddiff"]}
    with forked_workers():
        result = run_tuning(plan(values), jobs=1, quiet=True)
    reasons = dict(result.failed)
    assert "its model is broken" in reasons["evaluate target on the choosing half"]
    assert "not run" in reasons["tune graddiff"]
    assert result.trials.empty


def test_another_file_at_out_is_refused(tune_values: Values, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        run_tuning(plan({**tune_values, "out": tmp_path / "out"}), quiet=True)
