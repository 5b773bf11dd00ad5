"""One small sweep from end to end: a method fails, is mended, and only what it stopped is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from forking import Forked, command, forked_workers

from medunlearn.errors import InputError
from medunlearn.results.composites import harmonic_mean
from medunlearn.study.experiment import plan as experiment
from medunlearn.study.experiment import run_experiment
from medunlearn.study.graph_run import slug
from medunlearn.study.slots.slot import local_slots, slots_of
from medunlearn.study.sweep.jobs import JobOutput
from medunlearn.study.sweep.result import Swept
from medunlearn.study.sweep.sequence_counts import SequenceCounts
from medunlearn.study.sweep.survey import costs, foresee
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan
from medunlearn.study.sweep.sweep_run import run_sweep

Values = dict[str, Any]
POISON = """
import os
from dataclasses import dataclass

@dataclass(frozen=True)
class Poisoned:
    def loss(self, forget, retain):
        bad = float("nan") if "POISON" in os.environ else 1.0
        return {"forget": -bad * forget.nll(), "retain": retain.nll()}


def _raise(items, tools):
    raise KeyError


from medunlearn.metrics import Measure

FAILS = Measure("fails", "Fails", ("response",), "0 or 1, higher = knows more", "ours", _raise)
"""
NAME = "sweep_poison"
METHOD = f"{NAME}:Poisoned"


class Twice(NamedTuple):
    """A sweep with a method that fails, and the same once more after it was mended."""

    values: Values
    first: Swept
    first_record: Values
    kept: dict[str, int]
    second: Swept
    lines: list[str]


def written(out: Path, kinds: tuple[str, ...]) -> dict[str, int]:
    """When the models of some runs were written."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in sorted(out.glob("*/model/*"))
        if path.parts[-3].startswith(kinds)
    }


def record(swept: Swept) -> Values:
    found: Values = json.loads((swept.folder / "sweep.json").read_text())
    return found


@pytest.fixture(scope="session")
def twice(sweep_values: Values, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("plug-in")
    (folder / f"{NAME}.py").write_text(POISON)
    unlearn = {**sweep_values["unlearn"], "methods": ["graddiff", METHOD]}
    values = {**sweep_values, "seeds": [0], "unlearn": unlearn}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        with pytest.MonkeyPatch.context() as poison, forked_workers():
            poison.setenv("POISON", "1")
            first = run_sweep(plan(values), jobs=2, quiet=True)
        old, kept = record(first), written(values["out"], ("target", "retrained", "graddiff"))
        lines: list[str] = []
        # Its worker is started, as a user's is.
        second = run_sweep(plan(values), jobs=1, quiet=True, say=lines.append)
        yield Twice(values, first, old, kept, second, lines)


def test_a_failing_method_stops_only_what_needs_it(twice: Twice) -> None:
    states = {(cell["kind"], cell["method"]): cell["status"] for cell in twice.first_record["cells"]}
    assert twice.first_record["status"] == "failed"
    assert {state for (_, method), state in states.items() if method != METHOD} == {"done"}
    assert {kind: state for (kind, method), state in states.items() if method == METHOD} == {
        "search": "failed",
        "choose": "failed",
        "unlearn": "not run",
        "evaluate": "not run",
    }
    reasons = dict(twice.first.failed)
    assert "became nan" in reasons[f"search {METHOD} 0.001"]
    assert reasons[f"choose {METHOD}"].startswith("No learning rate of the search has a score (0.0001: The loss")
    assert reasons[f"{METHOD} random_10"] == f"not run, because choose {METHOD} failed"
    assert len(twice.first.models) == 2 + 1 + 2
    missing = twice.first.search[twice.first.search["method"] == METHOD]
    assert missing["score"].isna().all()
    assert not missing["chosen"].any()
    assert twice.first.report is not None


def test_given_again_it_does_what_is_missing(twice: Twice) -> None:
    assert record(twice.second)["status"] == "complete"
    assert not twice.second.failed
    ran = [line.partition(":")[0] for line in twice.lines[2:-1]]
    for name in ran:
        assert METHOD.partition(":")[0] in name, name
    # Two searches and their choice, a model for each split and its evaluation.
    assert len(ran) == 2 + 1 + 2 + 2
    assert twice.kept
    assert written(twice.values["out"], ("target", "retrained", "graddiff")) == twice.kept


def test_given_a_third_time_it_does_nothing(twice: Twice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medunlearn.study.slots.pool.Pool.start", lambda *args: pytest.fail("it ran"))
    before = written(twice.values["out"], ("",))
    third = run_sweep(plan(twice.values), jobs=2, quiet=True)
    assert written(twice.values["out"], ("",)) == before
    pd.testing.assert_frame_equal(third.table(), twice.second.table())
    pd.testing.assert_frame_equal(third.search, twice.second.search)
    assert {cell["status"] for cell in record(third)["cells"]} == {"done"}
    table = third.table()
    assert [*table.columns][:7] == ["model", "method", "split", "seed", "context", "side", "fold"]
    counts = Counter(table.drop_duplicates(["model", "split"])["model"])
    assert counts == {"target": 2, "retrained": 1, "GradDiff": 2, METHOD: 2}
    assert table[table["model"] == "retrained"]["split"].unique().tolist() == ["random_25"]
    found = foresee(plan(twice.values))
    assert found.left == 0
    assert found.seconds_left() == (0.0, 0)


FINISHED = """
import json, sys
import medunlearn as mu

values = json.loads(sys.argv[1])
swept = mu.sweep(values, quiet=True)
checks = mu.verify([values["out"]])
heavy = {"torch", "transformers", "peft", "safetensors.torch", "matplotlib"} & set(sys.modules)
print(json.dumps([len(swept.table()), checks.ok, sorted(heavy)]))
"""


def test_a_finished_sweep_and_its_verification_load_no_torch(twice: Twice) -> None:
    plug_in = find_spec(NAME)
    assert plug_in is not None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(str(plug_in.origin)).parent), *sys.path])}
    values = json.dumps({**twice.values, "out": str(twice.values["out"])})
    ended = subprocess.run(
        [sys.executable, "-c", FINISHED, values], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout.splitlines()[-1]) == [len(twice.second.table()), True, []]


def test_the_rate_is_the_best_of_the_table_and_the_runs_have_it(twice: Twice) -> None:
    table = twice.second.search
    assert len(table) == 4
    for method, rows in table.groupby("method"):
        healthy = rows[rows["problem"] == ""]
        fair = healthy if len(healthy) else rows
        scores = {row.lr: harmonic_mean([row.utility, row.forgetting]) for row in fair.itertuples()}
        best = max(scores.values())
        (chosen,) = rows[rows["chosen"]]["lr"]
        assert chosen == min(rate for rate, score in scores.items() if score == best)
        folders = twice.second.cells.query("kind == 'unlearn' and method == @method")["folder"]
        assert [json.loads((Path(f) / "run.json").read_text())["config"]["lr"] for f in folders] == [chosen] * 2
        assert record(twice.second)["search"]["chosen"][method] == chosen


def test_a_sweep_and_a_run_share_their_cells(twice: Twice) -> None:
    rate = record(twice.second)["search"]["chosen"]["graddiff"]
    same = {
        key: value for key, value in twice.values.items() if key not in ("seeds", "splits", "retrain", "unlearn")
    }
    unlearn = {"methods": ["graddiff"], "epochs": 1, "precision": "fp32", "lr": rate}
    before = {path.parent for path in twice.values["out"].glob("*/run.json")}
    run_experiment(experiment({**same, "split": "random_25", "unlearn": unlearn}), quiet=True)
    assert {path.parent for path in twice.values["out"].glob("*/run.json")} == before


def test_a_measure_that_scores_nothing_fails_its_cells_each_time(twice: Twice) -> None:
    rate = record(twice.second)["search"]["chosen"]["graddiff"]
    unlearn = {"methods": ["graddiff"], "epochs": 1, "precision": "fp32", "lr": rate}
    evaluate = {**twice.values["evaluate"], "metrics": ["rouge_l", f"{NAME}:FAILS"]}
    changes = {"splits": ["random_25"], "retrain": [], "unlearn": unlearn, "evaluate": evaluate}
    with forked_workers():
        swept = run_sweep(plan({**twice.values, **changes}), jobs=1, quiet=True)
    again = run_sweep(plan({**twice.values, **changes}), jobs=1, quiet=True)
    for found in (swept, again):
        assert {name for name, _ in found.failed} == set(found.evaluated)
        assert all("fails scored none of" in reason for _, reason in found.failed)
        assert found.table().query("measure == 'rouge_l'")["value"].notna().any()
    one = {key: value for key, value in changes.items() if key not in ("splits", "retrain")}
    rest = {key: value for key, value in twice.values.items() if key not in ("seeds", "splits", "retrain")}
    finished = run_experiment(experiment({**rest, **one, "split": "random_25", "retrain": False}), quiet=True)
    assert {name for name, _ in finished.failed} == {"target", "GradDiff"}
    assert "fails scored none of" in finished.view().failure


def test_costs_come_from_cells_that_are_done(twice: Twice) -> None:
    sweep = plan({**twice.values, "out": twice.values["out"] / "nothing"})
    benchmark = sweep.opened
    assert benchmark is not None
    stages, counts = sweep_graph(sweep, benchmark), SequenceCounts.of(benchmark)
    nothing = costs(stages, counts)
    # 20 patients with 8 questions, 6 of them of the train fold: what a quarter less is follows.
    assert nothing["retrained random_25"] == pytest.approx(0.75 * nothing["target"])
    (cell,) = [cell for cell in stages.cells if cell.name == "graddiff random_10"]
    stages.graph.succeed(cell, JobOutput(Path("run"), None, nothing[cell.name] / 2))
    half = costs(stages, counts)
    assert half["graddiff random_25"] == pytest.approx(nothing["graddiff random_25"] / 2)
    assert half["target"] == pytest.approx(nothing["target"] / 2)


def test_an_interrupt_ends_all_and_keeps_the_checkpoint(sweep_values: Values, tmp_path: Path) -> None:
    out = tmp_path / "out"
    train = {**sweep_values["train"], "epochs": 1000, "checkpoint_seconds": 0}
    file = tmp_path / "sweep.yaml"
    file.write_text(json.dumps({**sweep_values, "out": str(out), "seeds": [0], "train": train}))
    with forked_workers():
        started = Forked(command("sweep", file, "--jobs", 2))
    limit = time.monotonic() + 120
    while not list(out.glob("target-*/checkpoints/*/*/state.json")):
        assert time.monotonic() < limit
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)
    with pytest.raises(InputError, match=r"`sweep`, process \d+ on .* writes to"):
        run_sweep(plan({**sweep_values, "out": out}), quiet=True)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate()
    assert started.returncode == 130, said
    assert "interrupted." in said
    assert "Traceback" not in said
    states = {cell["name"]: cell["status"] for cell in json.loads((out / "sweep.json").read_text())["cells"]}
    assert states["target"] == states["retrained random_25"] == "interrupted"
    assert set(states.values()) == {"interrupted", "to do"}
    (run,) = out.glob("target-*/run.json")
    assert json.loads(run.read_text())["status"] == "interrupted"
    assert list(out.glob("target-*/checkpoints/*/*/state.json"))
    assert (out / "sweep.json").stat().st_mode & 0o077 == 0 or out.stat().st_mode & 0o077 == 0


def test_slots_and_names_of_logs(sweep_values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medunlearn.study.slots.slot.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [(p.device, p.threads) for p in local_slots(None, "cpu", 100, 1)] == [("cpu", 1)] * 8
    assert [(p.device, p.threads) for p in local_slots(2, "cpu", 100, 1)] == [("cpu", 4)] * 2
    assert [(p.device, p.threads) for p in local_slots(None, "cpu", 3, 1)] == [("cpu", 2)] * 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert local_slots(1, "cpu", 9, 1)[0].threads == 2
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [p.device for p in local_slots(None, "auto", 100, 1)] == ["cuda:0", "cuda:1"]
    assert [p.device for p in local_slots(3, "cuda", 100, 1)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [p.device for p in local_slots(None, "auto", 1, 1)] == ["cuda:0"]
    with pytest.raises(InputError, match="at least 1"):
        slots_of(plan(sweep_values).settings, 0, "cpu", 3)
    assert slug("evaluate npo random_05 in note, seed 1") == "evaluate-npo-random_05-in-note-seed-1"
    assert slug("search my:Method 1e-05") != slug("search my-Method 1e-05")
    assert "/" not in slug("../a/b")
