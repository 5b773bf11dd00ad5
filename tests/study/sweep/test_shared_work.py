"""Cells that share a worker's work get the numbers that they have alone, bit for bit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medunlearn.config import EvaluateSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import sha256_of
from medunlearn.errors import NonFiniteLossError
from medunlearn.models.memo import Memo, TextMemo
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.probes.shared_work import SharedWork
from medunlearn.results.runs import Run
from medunlearn.results.scores import FILE as SCORES
from medunlearn.study.slots.call import run_here
from medunlearn.study.slots.slot import Slot
from medunlearn.study.sweep.jobs import Job, JobOutput, perform
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import plan
from medunlearn.study.unlearn import unlearn

CHANGES: tuple[dict[str, Any], ...] = (
    {"lr": 1e-3},
    # A delta on the target, an adapter on it, and whole weights again.
    {"lr": 1e-3, "trainable": "layers:1"},
    {"lr": 1e-3, "trainable": "lora:2"},
    {"lr": 3e-3},
)


def by_commands(job: Job, out: Path) -> JobOutput:
    """A job as single commands do it, which share nothing."""
    assert isinstance(job.settings, UnlearnSettings)
    assert isinstance(job.measure, EvaluateSettings)
    assert job.model is not None
    benchmark = Benchmark.load(job.benchmark)
    run = unlearn(Run.open(job.model), benchmark, job.settings, out, device="cpu", quiet=True)
    evaluated = evaluate_one(run, benchmark, job.measure, device="cpu", quiet=True)
    return JobOutput(run.folder, evaluated.record.folder, None)


@pytest.fixture(autouse=True)
def heap() -> Iterator[None]:
    """A worker keeps what it has loaded aside; this process is none."""
    yield
    gc.unfreeze()


def outcome(output: JobOutput) -> dict[str, Any]:
    assert output.evaluation is not None
    stores = sorted((output.folder / "responses").iterdir())
    return {
        "scores": pd.read_parquet(output.evaluation / SCORES).to_csv(),
        "responses": [ResponseStore.read_complete(store) for store in stores],
        "weights": {path.name: sha256_of(path) for path in (output.folder / "model").glob("*.safetensors")},
    }


@pytest.fixture(scope="module")
def jobs(sweep_values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """One target's models by NPO, which reads it as a reference, each with its evaluation."""
    out = tmp_path_factory.mktemp("shared") / "out"
    unlearn = {"methods": ["npo"], "epochs": 1, "precision": "fp32"}
    few = {"splits": ["random_10"], "retrain": False, "evaluate": {**sweep_values["evaluate"], "limit": 1}}
    sweep = plan({**sweep_values, **few, "out": out, "seeds": [0], "unlearn": unlearn})
    stages = sweep_graph(sweep, sweep.benchmark())
    cells: dict[str, Any] = {cell.kind: cell for cell in stages.cells}
    stages.graph.succeed(cells["target"], run_here(perform, cells["target"].job(stages.graph.inputs), Slot()))
    job = cells["unlearn"].job(stages.graph.inputs)
    evaluated = replace(job, measure=cells["evaluate"].settings)
    return [replace(evaluated, settings=job.settings.model_copy(update=change)) for change in CHANGES]  # type: ignore[union-attr]


def test_shared_work_changes_no_number(jobs: list[Job], tmp_path: Path) -> None:
    work = SharedWork()
    alone = [outcome(by_commands(job, tmp_path / f"alone-{place}")) for place, job in enumerate(jobs)]
    shared = [outcome(run_here(perform, replace(job, out=tmp_path / "shared"), Slot(work=work))) for job in jobs]
    for one, other in zip(alone, shared, strict=True):
        assert one == other
    assert len({str(one["weights"]) for one in alone}) == len(jobs)
    # The first cell's is let go, and the base of LoRA's training; all others take another one's place.
    assert work.base.loads == 3


def test_a_failed_cell_leaves_no_model_behind(jobs: list[Job], tmp_path: Path) -> None:
    work, slot = SharedWork(), Slot()
    diverging = jobs[0].settings.model_copy(update={"lr": 1e30})  # type: ignore[union-attr]
    with pytest.raises(NonFiniteLossError):
        run_here(
            perform, replace(jobs[0], out=tmp_path, settings=diverging, measure=None), replace(slot, work=work)
        )
    assert work.base.empty


def test_memo_is_bounded() -> None:
    memo, made = Memo(10), list[str]()

    def get(key: str, size: int) -> str:
        return memo.get(key, lambda: made.append(key) or key, lambda _: size)

    assert [get(key, 4) for key in "abaab"] == list("abaab")
    assert made == ["a", "b"]
    get("c", 4)  # Too much with both of them: they are dropped.
    get("c", 4)
    get("a", 4)
    assert made == ["a", "b", "c", "a"]
    get("large", 11)
    get("large", 11)
    assert made[-2:] == ["large", "large"]


def test_a_guess_goes_on_from_what_is_known() -> None:
    memo = TextMemo()
    memo.add_answer((1,), (5, 6, 7))
    memo.add_answer((1,), (5, 8))
    assert memo.answer((1,), (5,)) == (5, 8)
    assert memo.answer((1,), (5, 6)) == (5, 6, 7)
    assert memo.answer((1,), (9,)) == () == memo.answer((2,), ())
