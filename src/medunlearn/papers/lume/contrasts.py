"""Differences between epochs, and between methods epoch by epoch, on LUME, with joint bootstrap draws of documents.

The tables of epochs have each number's own interval; a difference of two numbers on the same documents needs the
scores themselves. They are stored with the epochs' evaluations, so nothing is measured again.

Contrasts, per run, task, measure (regurgitation, knowledge) and side; t is the target with the run's training seed,
lowest the epoch after the target with the lowest mean, last the last epoch:

- ``zero``: lowest - t / 10, on forget and retain;
- ``fell``: 9/10 t - lowest, and ``rose``: last - lowest - t / 10, on retain;
- ``slower``: mean over the epochs after the target, minus the same of another run over the epochs both have, on
  forget; of NPO against GA, GD and KL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES
from medunlearn.errors import InputError
from medunlearn.papers.lume import PAPER
from medunlearn.results.contrasts import Contrast, Draws, Stratum, Term, complete_items
from medunlearn.results.evaluated import Evaluated
from medunlearn.seeds import stable_seed

TO_ZERO = ("ga", "graddiff", "kl_min")
BOUNDED = "npo"
"""Methods whose loss is unbounded, and the one whose is bounded (LUME, Section 3)."""
COLUMNS = ("contrast", "model", "node", "about", "value", "low", "high", "n_subjects", "reason")
LABELS = ("task", "side", "kind", "model", "epoch")

Rows = Iterator[dict[str, Any]]


def training_seed(model: Evaluated) -> int:
    """The seed that a run was trained with."""
    return int(model.run.info["config"].get("seed", 0))


def contrasts(models: Sequence[Evaluated], benchmark: Benchmark | None, replicates: int, seed: int) -> pd.DataFrame:
    """The differences of runs with evaluated epochs; empty without the benchmark, or for another one."""
    rows: list[dict[str, Any]] = []
    if benchmark is not None and benchmark.builder == PAPER.name:
        for target in (model for model in models if model.run.role == "target"):
            unlearned = [
                model
                for model in models
                if model.run.role == "unlearned" and training_seed(model) == training_seed(target)
            ]
            epochs = {model.run.label: table for model in unlearned if (table := _epochs(model))}
            if epochs:
                rows += _differences(target, epochs, unlearned, benchmark, replicates, seed)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _differences(
    target: Evaluated,
    epochs: Mapping[str, Mapping[int, Evaluated]],
    unlearned: Sequence[Evaluated],
    benchmark: Benchmark,
    replicates: int,
    seed: int,
) -> Rows:
    """All contrasts of the runs that start from one target."""
    methods = {model.run.label: str(model.run.info["config"]["method"]) for model in unlearned}
    grouping = PAPER.grouping
    assert grouping is not None
    scores = _scores(target, epochs, benchmark)
    draws = Draws(scores, LABELS, seeds=None, replicates=replicates, seed=seed)
    for task in benchmark.hierarchy.nodes(grouping.level):
        for side in SIDES:
            for kind, (metric, measure) in grouping.measures.items():
                place = _Place(draws, scores, task, side, kind, metric, f"{measure} on {side}", seed)
                for label in epochs:
                    yield from place.within(label)
                for slow in (label for label in epochs if methods[label] == BOUNDED and side == "forget"):
                    for fast in (label for label in epochs if methods[label] in TO_ZERO):
                        yield from place.slower(slow, fast)


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
class _Place:
    """One task, side and measure, with draws of its documents."""

    draws: Draws
    scores: pd.DataFrame
    task: str
    side: str
    kind: str
    metric: str
    words: str
    seed: int

    def means(self, label: str) -> dict[int, float]:
        """Epoch -> a run's mean here; empty if nothing was scored."""
        here = self.scores[(self.scores["task"] == self.task) & (self.scores["side"] == self.side)]
        here = here[(here["kind"] == self.kind) & (here["model"] == label)]
        means = here.groupby("epoch")["value"].mean()
        return {int(str(epoch)): float(mean) for epoch, mean in means.items()}

    def term(self, weight: float, label: str, epoch: int) -> Term:
        stratum = Stratum.of(stable_seed("lume", self.task, self.side, self.seed), task=self.task, side=self.side)
        cell = {"task": self.task, "side": self.side, "kind": self.kind, "model": label, "epoch": epoch}
        return Term(weight, cell, self.metric, stratum)

    def within(self, label: str) -> Rows:
        """A run's own contrasts."""
        means = self.means(label)
        behind = {epoch: mean for epoch, mean in means.items() if epoch}
        if 0 not in means or not behind:
            return
        lowest, last = min(behind, key=behind.__getitem__), max(behind)
        at = {"t": 0, "lowest": lowest, "last": last}
        sums: dict[str, tuple[str, dict[str, float]]] = {
            "zero": (
                f"{self.words}, {behind[lowest]:.3f} after epoch {lowest}, minus a tenth of the target's",
                {"lowest": 1.0, "t": -0.1},
            ),
            "fell": (
                f"{self.words}: 0.9 of the target's minus that after epoch {lowest}",
                {"t": 0.9, "lowest": -1.0},
            ),
            "rose": (
                f"{self.words}: rise from epoch {lowest} to {last}, minus t / 10",
                {"last": 1.0, "lowest": -1.0, "t": -0.1},
            ),
        }
        for name, (about, weights) in sums.items():
            if name == "zero" or self.side == "retain":
                terms = [self.term(weight, label, at[epoch]) for epoch, weight in weights.items()]
                yield self.row(name, label, about, self.draws.contrast(terms))

    def slower(self, slow: str, fast: str) -> Rows:
        """One run's mean over the epochs minus another's, over their common epochs."""
        shared = sorted((self.means(slow).keys() & self.means(fast).keys()) - {0})
        if shared:
            terms = [self.term(1 / len(shared), slow, epoch) for epoch in shared]
            terms += [self.term(-1 / len(shared), fast, epoch) for epoch in shared]
            about = f"{self.words}, mean over epochs, minus that of {fast}"
            yield self.row("slower", slow, about, self.draws.contrast(terms))

    def row(self, name: str, label: str, about: str, contrast: Contrast) -> dict[str, Any]:
        numbers = (contrast.value, contrast.low, contrast.high, contrast.n_subjects, contrast.reason)
        return dict(zip(COLUMNS, (name, label, self.task, about, *numbers), strict=True))
