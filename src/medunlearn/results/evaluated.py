"""What an evaluation leaves on disk, and how evaluations are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from medunlearn.data.responses import Response, ResponseStore
from medunlearn.errors import InputError
from medunlearn.results.runs import Run
from medunlearn.results.summary import compare

FOLDER = "evaluations"
SCORES, SUMMARY, QUESTIONS = "scores.parquet", "summary.parquet", "questions.parquet"
GROUPS = "groups.parquet"


@dataclass(frozen=True)
class Evaluated:
    """One model, scored on one split.

    Attributes:
        run: the run whose model it is.
        record: the evaluation's own run, in a folder below it.
    """

    run: Run
    record: Run

    @staticmethod
    def find(run: Run, split: str | None = None) -> Evaluated:
        """The complete evaluation in a run's folder that was asked for last, on the split named or on any.

        Raises:
            InputError: there is none, or splits differ and none is named.
        """
        found = run.complete_below(FOLDER)
        splits = sorted({one.info["config"]["split"] for one in found})
        if split is None and len(splits) > 1:
            raise InputError(
                f"{run.folder} was evaluated on several splits: {', '.join(splits)}. Name one: --split."
            )
        matching = [one for one in found if split in (None, one.info["config"]["split"])]
        if not matching:
            which = f" on split {split!r}" if split else ""
            raise InputError(f"{run.folder} was not evaluated{which}. `medunlearn evaluate --help` says how.")
        return Evaluated(run, matching[-1])

    @property
    def context(self) -> str:
        """The mode in which the model was asked."""
        return str(self.record.info["results"]["context"])

    @cached_property
    def scores(self) -> pd.DataFrame:
        """question_id, metric, value, reason."""
        return pd.read_parquet(self.record.folder / SCORES)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals (:func:`medunlearn.results.summary.summarize`)."""
        return pd.read_parquet(self.record.folder / SUMMARY)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """The benchmark's own measures by node of its grouping's level; empty where it has no grouping."""
        path = self.record.folder / GROUPS
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()

    @cached_property
    def questions(self) -> pd.DataFrame:
        """One row a question: question_id, subject, side, fold, kind."""
        return pd.read_parquet(self.record.folder / QUESTIONS)

    @cached_property
    def responses(self) -> dict[str, Response]:
        """What the model said, by question id."""
        folder = self.run.folder / self.record.info["results"]["responses"]
        store = ResponseStore(folder, ResponseStore.settings_of(folder))
        return {question: response for (question, _, _), response in store.read().items()}


@dataclass(frozen=True)
class Evaluation:
    """Models scored on the same questions: the one in question first, then those it is compared with."""

    models: tuple[Evaluated, ...]
    replicates: int
    seed: int

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences of the first model and each other, with intervals."""
        return compared(self.models[0], self.models[1:], self.replicates, self.seed)

    def table(self) -> pd.DataFrame:
        """One row a model, side, fold, kind and metric; every mean with its interval and counts."""
        return pd.concat(
            [one.summary.assign(model=one.run.label, context=one.context) for one in self.models],
            ignore_index=True,
        )


def distinct(models: Sequence[Evaluated]) -> list[Evaluated]:
    """The same models with labels that tell them apart (:func:`distinct_runs`).

    Raises:
        InputError: one run is named twice.
    """
    runs = distinct_runs([model.run for model in models])
    return [replace(model, run=run) for model, run in zip(models, runs, strict=True)]


def distinct_runs(runs: Sequence[Run]) -> list[Run]:
    """The same runs with labels that tell them apart: two runs of NPO are also called by their folders.

    Raises:
        InputError: one run is named twice.
    """
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise InputError("One run is named twice. Name each run once.")
    labels = Counter(run.label for run in runs)
    tails = Counter((run.label, run.folder.name) for run in runs)
    named = []
    for run in runs:
        label, folder = run.label, run.folder
        if labels[label] > 1:
            label = f"{label} ({folder.name if tails[label, folder.name] == 1 else folder})"
        named.append(Run(folder, {**run.info, "label": label}))
    return named


def compared(model: Evaluated, against: Sequence[Evaluated], replicates: int, seed: int) -> pd.DataFrame:
    """Paired differences ``model - other`` on the questions that both were asked; empty without others."""
    tables = [
        compare(model.scores, other.scores, model.questions, replicates=replicates, seed=seed).assign(
            model=model.run.label, against=other.run.label
        )
        for other in against
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
