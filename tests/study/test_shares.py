"""Two processes share an evaluation and an attack; what comes out is what one process finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from forking import together

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.training.processes import join, leave

HOW = {
    "split": "random_10",
    "limit": 2,
    "max_new_tokens": 6,
    "replicates": 20,
    "ranked": 2,
    "facts": 1,
    "allow_broken": True,
}
METRICS = ["rouge_l", "answer_probability", "rank"]


def evaluated(run: Path, benchmark: Benchmark) -> mu.Evaluation:
    return mu.evaluate(run, benchmark, **HOW, metrics=METRICS, device="cpu", quiet=True)


def in_both(run: Path, benchmark: Benchmark, out: Path) -> None:
    """One of two processes: its share, and the questions and records that it asked about itself."""
    asked: set[str] = set()
    keep = ResponseStore.add

    def counted(self: ResponseStore, responses: object) -> None:
        rows = list(responses)  # type: ignore[call-overload]
        asked.update(row.question_id for row in rows)
        keep(self, rows)

    ResponseStore.add = counted  # type: ignore[method-assign, assignment]
    error: BaseException | None = None
    try:
        evaluated(run, benchmark)
        mu.attack(
            run,
            benchmark,
            split="random_10",
            attacks="loss",
            replicates=20,
            allow_broken=True,
            device="cpu",
            quiet=True,
        )
        (out / f"asked-{join().rank}").write_text("\n".join(asked))
    except BaseException as raised:
        error = raised
    leave(error, lambda error: print(error))
    if error is not None:
        raise error


@pytest.fixture(scope="module")
def ward() -> Benchmark:
    """Twenty patients, and six that no model is trained on."""
    return build(AmnesiaSettings(synthetic=20, nonmember_patients=6))


@pytest.fixture(scope="module")
def shared(ward: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shares")
    mu.train(ward, **{**small, "epochs": 1}, out=out / "one", quiet=True)
    shutil.copytree(out / "one", out / "two")
    both = together(lambda: in_both(out / "two", ward, out))
    streams = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], streams
    return out


def test_each_process_asks_a_share_and_the_scores_are_those_of_one(ward: Benchmark, shared: Path) -> None:
    first, second = ({*(shared / f"asked-{rank}").read_text().split()} for rank in (0, 1))
    assert first
    assert second
    assert not first & second
    alone, both = (evaluated(shared / name, ward).models[0] for name in ("one", "two"))
    told = {name: response.response for name, response in alone.responses.items()}
    assert {name: response.response for name, response in both.responses.items()} == told
    assert len(told) == len(alone.questions)
    pd.testing.assert_frame_equal(_sorted(alone.table), _sorted(both.table), rtol=1e-4, atol=1e-5)
    assert alone.table["measure"].nunique() == len(METRICS)


def test_so_are_those_of_an_attack(ward: Benchmark, shared: Path) -> None:
    how = {
        "split": "random_10",
        "attacks": "loss",
        "replicates": 20,
        "allow_broken": True,
        "device": "cpu",
        "quiet": True,
    }
    alone, both = (mu.attack(shared / name, ward, **how).models[0] for name in ("one", "two"))
    columns = ["measure", "group", "value"]
    pd.testing.assert_frame_equal(alone.summary[columns], both.summary[columns], rtol=1e-4)


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["item", "measure"]).reset_index(drop=True)
