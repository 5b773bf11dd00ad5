"""Differences between epochs, and between methods epoch by epoch, on LUME, with joint bootstrap draws of documents.

The tables of epochs have each number's own interval; a difference of two numbers on the same documents needs the
scores themselves. They are stored with the epochs' evaluations, so nothing is measured again.

Contrasts, per run, task, measure (regurgitation, knowledge) and side; t is the target with the run's training seed,
lowest the epoch after the target with the lowest mean, last the last epoch:

- ``zero``: lowest - t / 10, on forget and retain;
- ``fell``: 9/10 t - lowest, and ``rose``: last - lowest - t / 10, on retain;
- ``slower``: mean over the epochs after the target, minus the same of another run over the epochs both have, on
  forget; of every method by preference against every gradient ascent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES
from medunlearn.errors import InputError
from medunlearn.papers.lume import GROUPING, PAPER
from medunlearn.papers.lume.method_groups import ASCENT, PREFERENCES
from medunlearn.reports.readings import rows_of
from medunlearn.results.contrasts import Draws, Stratum, Term, complete_items
from medunlearn.results.evaluated import Evaluated
from medunlearn.seeds import stable_seed

COLUMNS = ("contrast", "model", "node", "about", "value", "low", "high", "n_subjects", "reason")
LABELS = ("task", "side", "kind", "model", "epoch")

OF_RUN = {
    "zero": (
        SIDES,
        {"lowest": 1.0, "target": -0.1},
        "{measure}, {mean:.3f} after epoch {lowest}, minus a tenth of the target's",
    ),
    "fell": (
        ("retain",),
        {"target": 0.9, "lowest": -1.0},
        "{measure}: 0.9 of the target's minus that after epoch {lowest}",
    ),
    "rose": (
        ("retain",),
        {"last": 1.0, "lowest": -1.0, "target": -0.1},
        "{measure}: rise from epoch {lowest} to {last}, minus t / 10",
    ),
}
"""A run's own contrast -> its sides, weights of its epochs, and description."""

Rows = Iterator[dict[str, Any]]


def training_seed(model: Evaluated) -> int:
    """The seed that a run was trained with."""
    return int(model.run.info["config"].get("seed", 0))


def contrasts(models: Sequence[Evaluated], benchmark: Benchmark | None, replicates: int, seed: int) -> pd.DataFrame:
    """The differences of runs with evaluated epochs; empty without the benchmark, or for another one."""
    rows: list[dict[str, Any]] = []
    if benchmark is not None and benchmark.builder == PAPER.name:
        for target in (model for model in models if model.run.role == "target"):
            runs = [m for m in models if m.run.role == "unlearned" and training_seed(m) == training_seed(target)]
            rows += _of_target(target, runs, benchmark, replicates, seed)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_target(
    target: Evaluated, runs: Sequence[Evaluated], benchmark: Benchmark, replicates: int, seed: int
) -> Rows:
    """All contrasts of the runs that start from one target."""
    epochs = {model.run.label: by_epoch for model in runs if (by_epoch := _epochs(model))}
    if not epochs:
        return
    methods = {model.run.label: str(model.run.info["config"]["method"]) for model in runs}
    slow, fast = ([label for label in epochs if methods[label] in group] for group in (PREFERENCES, ASCENT))
    for measure in _task_measures(_scores(target, epochs, benchmark), benchmark, replicates, seed):
        for label in epochs:
            yield from measure.of_run(label)
        for pair in product(slow, fast):
            yield from measure.slower(*pair)


def _epochs(model: Evaluated) -> dict[int, Evaluated]:
    """A run's evaluated epochs after the target, on the split of its own evaluation."""
    split, evaluated = model.record.info["config"]["split"], {}
    for path in sorted((model.run.folder / "epochs").glob("*/run.json")):
        number = int(path.parent.name)
        try:
            evaluated[number] = Evaluated.find(model.run.epoch(number), split)
        except InputError:
            continue
    return {number: epoch for number, epoch in evaluated.items() if number}


def _scores(target: Evaluated, epochs: Mapping[str, Mapping[int, Evaluated]], benchmark: Benchmark) -> pd.DataFrame:
    """Score table of all epochs, with the target as epoch 0 of every run and the labels of :data:`LABELS`.

    A question without a score in one epoch is excluded from all epochs and runs, so that all means cover the same
    questions.
    """
    grouping = PAPER.grouping
    assert grouping is not None
    tables = [
        evaluated.table.assign(model=label, epoch=number)
        for label, by_epoch in epochs.items()
        for number, evaluated in {0: target, **by_epoch}.items()
    ]
    scores = pd.concat(tables, ignore_index=True)
    measures = [(kind, metric) for kind, (metric, _) in grouping.measures.items()]
    keys = pd.MultiIndex.from_frame(scores[["kind", "measure"]])
    scores = scores[keys.isin(measures) & (scores["fold"] == "train")]
    tasks = {record.record_id: record.groups[grouping.level] for record in benchmark.records}
    return complete_items(scores.assign(task=scores["subject"].map(tasks)), ("model", "epoch"))


@dataclass(frozen=True)
class _TaskMeasure:
    """One measure of one task and side, by run and epoch.

    Attributes:
        place: labels of its cells: task, side and kind.
        means: run -> epoch -> mean; without runs that have no scores here.
        title: measure and side, for descriptions.
    """

    draws: Draws
    place: Mapping[str, str]
    metric: str
    means: Mapping[str, Mapping[int, float]]
    title: str
    seed: int

    def of_run(self, label: str) -> Rows:
        """A run's own contrasts; none without a score of the target or of a later epoch."""
        means = self.means.get(label, {})
        later = {epoch: mean for epoch, mean in means.items() if epoch}
        if 0 not in means or not later:
            return
        epochs = {"target": 0, "lowest": min(later, key=later.__getitem__), "last": max(later)}
        for name, (sides, weights, words) in OF_RUN.items():
            if self.place["side"] in sides:
                about = words.format(measure=self.title, mean=later[epochs["lowest"]], **epochs)
                yield self._row(name, label, about, [(weight, label, epochs[at]) for at, weight in weights.items()])

    def slower(self, slow: str, fast: str) -> Rows:
        """One run's mean on forget over the epochs minus another's, over their common epochs."""
        shared = sorted((self.means.get(slow, {}).keys() & self.means.get(fast, {}).keys()) - {0})
        if shared and self.place["side"] == "forget":
            about = f"{self.title}, mean over epochs, minus that of {fast}"
            weights = ((1 / len(shared), slow), (-1 / len(shared), fast))
            yield self._row("slower", slow, about, [(w, label, epoch) for w, label in weights for epoch in shared])

    def _row(self, name: str, label: str, about: str, terms: Sequence[tuple[float, str, int]]) -> dict[str, Any]:
        """The weighted sum of a run's epochs, each with its weight."""
        task, side = self.place["task"], self.place["side"]
        stratum = Stratum.of(stable_seed("lume", task, side, self.seed), task=task, side=side)
        contrast = self.draws.contrast(
            [
                Term(weight, {**self.place, "model": run, "epoch": epoch}, self.metric, stratum)
                for weight, run, epoch in terms
            ]
        )
        numbers = (contrast.value, contrast.low, contrast.high, contrast.n_subjects, contrast.reason)
        return dict(zip(COLUMNS, (name, label, task, about, *numbers), strict=True))


def _task_measures(
    scores: pd.DataFrame, benchmark: Benchmark, replicates: int, seed: int
) -> Iterator[_TaskMeasure]:
    """Every task, side and measure."""
    draws = Draws(scores, LABELS, seeds=None, replicates=replicates, seed=seed)
    means: dict[tuple[str, ...], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(scores.groupby(list(LABELS))["value"].mean().reset_index()):
        means[row["task"], row["side"], row["kind"]][row["model"]][int(row["epoch"])] = float(row["value"])
    for task, side in product(benchmark.hierarchy.nodes(GROUPING.level), SIDES):
        for kind, (metric, title) in GROUPING.measures.items():
            place = {"task": task, "side": side, "kind": kind}
            yield _TaskMeasure(draws, place, metric, means[task, side, kind], f"{title} on {side}", seed)
