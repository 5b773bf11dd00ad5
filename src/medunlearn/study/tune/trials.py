"""Trials of one method, and their table (``trials.parquet``), from which a study resumes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.data.leftovers import problem_of, set_aside
from medunlearn.data.storage import make_folder, read_frame, write_frame
from medunlearn.study.choose import Worth, choose
from medunlearn.study.tune.objective import AxisValues

State = Literal["running", "complete", "pruned", "failed"]
TABLE = "trials.parquet"
_JSON = ("params", "by_epoch", "rungs")


@dataclass(frozen=True)
class TuneTrial:
    """One trial: one unlearning run of a method with given settings.

    Attributes:
        number: index from 0, the untuned settings.
        params: searched settings that differ from the untuned ones; empty for trial 0.
        value: objective after the last epoch, on the choosing half; None if it failed.
        by_epoch: epoch -> objective, None if a number was missing.
        rungs: records of the pruner: name -> objective.
        epochs, planned: trained and planned epochs; 0 for a weight-editing method.
        flops: estimated for the trained epochs; for the whole trial if it failed. None if unknown.
        reason: why it failed or was pruned. problem: why its model is broken.
    """

    method: str
    number: int
    state: State
    params: dict[str, Any] = field(default_factory=dict)
    value: float | None = None
    utility: float | None = None
    forgetting: float | None = None
    ranks: float | None = None
    by_epoch: dict[int, float | None] = field(default_factory=dict)
    rungs: dict[str, float] = field(default_factory=dict)
    epochs: int = 0
    planned: int = 0
    flops: float | None = None
    seconds: float | None = None
    reason: str = ""
    problem: str = ""

    @property
    def worth(self) -> Worth:
        """Worth in a choice; a trial that did not run to its end has none."""
        return Worth(self.value if self.state == "complete" else None, bool(self.problem), self.number)

    @property
    def standing(self) -> AxisValues:
        return AxisValues(self.utility, self.forgetting, self.ranks)


def best_trial(trials: Sequence[TuneTrial]) -> TuneTrial | None:
    """The complete trial with the lowest objective, the first on ties; with a broken model only if all are."""
    best = choose([trial.worth for trial in trials])
    return None if best is None else trials[best]


def trial_table(trials: Sequence[TuneTrial]) -> pd.DataFrame:
    """One row per trial; ``params``, ``by_epoch`` and ``rungs`` as JSON."""
    rows = []
    for trial in trials:
        row = asdict(trial)
        rows.append(row | {name: json.dumps(row[name], sort_keys=True) for name in _JSON})
    table = pd.DataFrame(rows, columns=[item.name for item in fields(TuneTrial)])
    numbers = ("value", "utility", "forgetting", "ranks", "flops", "seconds")
    whole = dict.fromkeys(("number", "epochs", "planned"), "int64")
    return table.astype({**dict.fromkeys(numbers, "Float64"), **whole})


def write_trials(folder: Path, trials: Sequence[TuneTrial]) -> None:
    make_folder(folder)
    write_frame(folder / TABLE, trial_table(trials))


def read_trials(folder: Path) -> list[TuneTrial]:
    """The trials of a folder, in order; empty without a table. An unreadable table is set aside."""
    path = folder / TABLE
    if not path.exists():
        return []
    if problem := problem_of(path, pd.read_parquet):
        set_aside(path, problem)
        return []
    rows = read_frame(path, tuple(item.name for item in fields(TuneTrial))).to_dict("records")
    return [_trial(row) for row in rows]


def _trial(row: dict[Any, Any]) -> TuneTrial:
    values: dict[str, Any] = {
        str(key): None if not isinstance(value, str) and pd.isna(value) else value for key, value in row.items()
    }
    values |= {name: json.loads(values[name]) for name in _JSON}
    values["by_epoch"] = {int(epoch): value for epoch, value in values["by_epoch"].items()}
    return TuneTrial(**values)
