"""Differences between epochs, and between methods epoch by epoch, on LUME: paired, with intervals over documents.

The tables of epochs have each number's own interval; a difference of two numbers on the same documents needs the
scores themselves. They lie in the evaluations of the epochs, so nothing is asked again.

Contrasts, per run, task, measure (regurgitation, knowledge) and side; t is the target, lowest the epoch behind the
target with the lowest mean, last the last epoch:

- ``zero``: lowest - t / 10, on forget and retain;
- ``fell``: 9/10 t - lowest, and ``rose``: last - lowest - t / 10, on retain;
- ``slower``: mean over the epochs behind the target, minus the same of another run over the epochs both have, on
  forget; of NPO against GA, GD and KL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.builders import GROUPINGS
from medunlearn.data.records import SIDES
from medunlearn.errors import InputError
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.bootstrap import Estimate, Statistic, resample_means

BUILDER = "lume"
TO_ZERO = ("ga", "graddiff", "kl_min")
BOUNDED = "npo"
"""Methods whose loss is unbounded, and the one whose is bounded (LUME, Section 3)."""
COLUMNS = ("contrast", "model", "node", "about", "value", "low", "high", "n_subjects", "reason")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Scores:
    """One measure of one run on one task and side: a row a question, a column an epoch.

    Attributes:
        label: of the run.
        measure: as the paper calls it.
        values: index question_id, columns epochs, 0 the target.
        subjects: whose each question is, in the order of the rows.
    """

    label: str
    node: str
    measure: str
    side: str
    values: pd.DataFrame
    subjects: Sequence[str]

    @property
    def what(self) -> str:
        return f"{self.measure} on {self.side}"


def contrasts(models: Sequence[Evaluated], benchmark: Benchmark | None, replicates: int, seed: int) -> pd.DataFrame:
    """The differences of the runs that were evaluated as they went on; no row for other benchmarks.

    Args:
        models: of a report, with distinct labels.
        benchmark: says what task a question is of; without it there is no difference.
    """
    if benchmark is None or benchmark.builder != BUILDER:
        return pd.DataFrame(columns=list(COLUMNS))
    tables = {model.run.label: _epochs(model) for model in models if model.run.role == "unlearned"}
    target = next((model for model in models if model.run.role == "target"), None)
    rows: list[dict[str, Any]] = []
    by_measure: dict[tuple[str, str, str], list[tuple[str, _Scores]]] = {}
    for model in models:
        epochs = tables.get(model.run.label)
        if not epochs or target is None:
            continue
        method = str(model.run.info["config"]["method"])
        for one in _measured(model.run.label, {0: target, **epochs}, target, benchmark):
            rows += _within(one, replicates, seed)
            by_measure.setdefault((one.node, one.measure, one.side), []).append((method, one))
    for (_, _, side), measured in by_measure.items():
        if side == "forget":
            rows += _between(measured, replicates, seed)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _epochs(model: Evaluated) -> dict[int, Evaluated]:
    """A run's evaluated epochs behind the target, on the split of its own evaluation."""
    split, found = model.record.info["config"]["split"], {}
    for path in sorted((model.run.folder / "epochs").glob("*/run.json")):
        number = int(path.parent.name)
        try:
            evaluated = Evaluated.find(model.run.epoch(number), split)
        except InputError:
            continue
        if number:
            found[number] = evaluated
    return found


def _measured(
    label: str, epochs: Mapping[int, Evaluated], target: Evaluated, benchmark: Benchmark
) -> Iterator[_Scores]:
    grouping = GROUPINGS[BUILDER]
    asked = target.questions[target.questions["fold"] == "train"]
    tasks = asked["subject"].map(lambda subject: benchmark.record[subject].groups[grouping.level])
    by_metric = {
        metric: pd.DataFrame({epoch: _values(one, metric) for epoch, one in epochs.items()})
        for metric, _ in grouping.measures.values()
    }
    for node in benchmark.hierarchy.nodes(grouping.level):
        for side in SIDES:
            for kind, (metric, measure) in grouping.measures.items():
                inside = asked[(tasks == node) & (asked["side"] == side) & (asked["kind"] == kind)]
                table = by_metric[metric].reindex(inside["question_id"])
                # A question that an epoch has no score for would make its mean one of other questions.
                whole = table.notna().all(axis=1).to_numpy()
                if whole.any():
                    subjects = inside["subject"][whole].tolist()
                    yield _Scores(label, node, measure, side, table[whole], subjects)


def _values(evaluated: Evaluated, metric: str) -> pd.Series[float]:
    scores = evaluated.scores[evaluated.scores["metric"] == metric]
    return scores.set_index("question_id")["value"].astype("float64")


def _within(one: _Scores, replicates: int, seed: int) -> Iterator[dict[str, Any]]:
    """A run's own contrasts."""
    means = one.values.mean()
    behind = means[means.index > 0]
    if behind.empty:
        return
    columns: list[Any] = list(one.values.columns)
    low, last = columns.index(behind.idxmin()), columns.index(behind.index.max())
    resampled = resample_means(one.values.to_numpy(), one.subjects, replicates=replicates, seed=seed)

    def row(name: str, about: str, statistic: Statistic) -> dict[str, Any]:
        return _row(name, one, about, resampled.estimate([0, low, last], statistic))

    where = f"{one.what}, {behind.min():.3f} after epoch {behind.idxmin()}, minus a tenth of the target's"
    yield row("zero", where, lambda m: np.asarray(m[..., 1] - 0.1 * m[..., 0]))
    if one.side == "retain":
        fell = f"{one.what}: 0.9 of the target's minus that after epoch {behind.idxmin()}"
        yield row("fell", fell, lambda m: np.asarray(0.9 * m[..., 0] - m[..., 1]))
        rose = f"{one.what}: rise from epoch {behind.idxmin()} to {behind.index.max()}, minus t / 10"
        yield row("rose", rose, lambda m: np.asarray(m[..., 2] - m[..., 1] - 0.1 * m[..., 0]))


def _between(found: Sequence[tuple[str, _Scores]], replicates: int, seed: int) -> Iterator[dict[str, Any]]:
    """NPO against each of the others on one measure."""
    for _, slow in (one for one in found if one[0] == BOUNDED):
        for _, fast in (one for one in found if one[0] in TO_ZERO):
            epochs = [epoch for epoch in slow.values.columns if epoch and epoch in fast.values.columns]
            shared = slow.values.index.intersection(fast.values.index)
            if not epochs or shared.empty:
                continue
            both = np.hstack([one.values.loc[shared, epochs].to_numpy() for one in (slow, fast)])
            owner = dict(zip(slow.values.index, slow.subjects, strict=True))
            resampled = resample_means(both, [owner[name] for name in shared], replicates=replicates, seed=seed)
            estimate = resampled.estimate(range(both.shape[1]), _mean_gap)
            yield _row("slower", slow, f"{slow.what}, mean over epochs, minus that of {fast.label}", estimate)


def _mean_gap(means: Array) -> Array:
    """Mean of the first half of the columns minus that of the second, [..., 2k] -> [...]."""
    half = means.shape[-1] // 2
    return np.asarray(means[..., :half].mean(axis=-1) - means[..., half:].mean(axis=-1))


def _row(name: str, one: _Scores, about: str, found: Estimate) -> dict[str, Any]:
    reason = "" if found.low is not None else "a single document"
    numbers = (found.value, found.low, found.high, found.n_clusters, reason)
    return dict(zip(COLUMNS, (name, one.label, one.node, about, *numbers), strict=True))
