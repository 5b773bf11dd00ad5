"""The evaluated models of a sweep, and their numbers under draws of subjects that the models share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.pipeline.report.gather import check_made_for_this, shown_split
from medunlearn.reports.readings import Reading, number, reading_of, rows_of
from medunlearn.results.contrasts import CellDraws, Contrast, Draws, Stratum, Term
from medunlearn.results.evaluated import COMPOSITES, Evaluated
from medunlearn.seeds import stable_seed

Who = tuple[str, str]
"""Role, and the method's title (``""`` for target and retrained)."""
TARGET, RETRAINED, UNLEARNED = "target", "retrained", "unlearned"
TARGET_MODEL: Who = (TARGET, "")
RETRAINED_MODEL: Who = (RETRAINED, "")
REFERENCES = (TARGET_MODEL, RETRAINED_MODEL)
EVERYONE = "all"
LABELS = ("context", "split", "role", "method", "side", "fold", "kind")
"""Labels of the score table that tell the cells of a sweep apart, training seeds aside."""
NOT_MEASURED = Contrast(None, reason="not measured")

Seeds = dict[int, Evaluated]


def unlearned(method: str) -> Who:
    return (UNLEARNED, method)


@dataclass(frozen=True, slots=True)
class SweepNumber(Reading):
    """A number with its interval, averaged over training seeds; ``by_seed`` has the number of each."""

    by_seed: tuple[float, ...] = ()

    @property
    def percent(self) -> SweepNumber:
        """The same times 100."""
        value, low, high = (None if edge is None else 100 * edge for edge in (self.value, self.low, self.high))
        seeds = tuple(100 * seed for seed in self.by_seed)
        return SweepNumber(value, low, high, self.n_scored, self.n_unscored, self.n_subjects, seeds)


class SweepModels:
    """All evaluated models of a sweep, by context, split, role and method, and training seed.

    Raises:
        InputError: none; another benchmark's; one made for another split than it was asked about; two models of one
            method, split, seed and context; models that were asked different questions on one split.
    """

    def __init__(self, models: Sequence[Evaluated], benchmark: Benchmark) -> None:
        if not models:
            raise InputError("There is nothing to report: no model of the sweep was evaluated.")
        self.benchmark = benchmark
        self._by: dict[tuple[str, str], dict[Who, Seeds]] = defaultdict(dict)
        for model in models:
            if model.record.info.benchmark != benchmark.fingerprint:
                raise InputError(f"{model.run.folder} was evaluated on another benchmark than the sweep's.")
            who = self.who(model)
            if who is not None:
                self._add(model, who)
        if not self._by:
            raise InputError("There is nothing to report: every model was made for another split.")
        for (context, split), group in self._by.items():
            _check_same_questions(context, split, [model for seeds in group.values() for model in seeds.values()])

    def who(self, model: Evaluated) -> Who | None:
        """Role and method under which a model is reported; None leaves it out."""
        check_made_for_this(model)
        return (model.run.role, model.run.label if model.run.role == UNLEARNED else "")

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        """The score table of one model."""
        return model.table

    def _add(self, model: Evaluated, who: Who) -> None:
        split, seed = str(model.record.info.split), int(model.run.info.config["seed"])
        seeds = self._by[model.context, split].setdefault(who, {})
        if seed in seeds:
            raise InputError(
                f"{seeds[seed].run.folder} and {model.run.folder} are both the {who[1] or who[0]} of split "
                f"{split!r} with seed {seed}. Report them in two sweeps."
            )
        seeds[seed] = model

    def __iter__(self) -> Iterator[tuple[str, str, Who, Seeds]]:
        """Context, split, role and method, and the models by seed."""
        for (context, split), group in self._by.items():
            for who, seeds in group.items():
                yield context, split, who, seeds

    def of(self, context: str, split: str) -> dict[Who, Seeds]:
        """Role and method -> seed -> model; empty where nothing was evaluated."""
        return self._by.get((context, split), {})

    @property
    def contexts(self) -> tuple[str, ...]:
        """The modes in which models were asked."""
        return tuple(dict.fromkeys(context for context, _ in self._by))

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split for _, split in self._by))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of training, in order."""
        return tuple(sorted({seed for *_, seeds in self for seed in seeds}))

    @property
    def methods(self) -> tuple[str, ...]:
        """Titles of the unlearning methods, as they come."""
        return tuple(dict.fromkeys(who[1] for _, _, who, _ in self if who[1]))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One score table of all models, with the labels of :data:`LABELS` and the training seed."""
        tables = [
            self.scores(model, split).assign(context=context, split=split, role=who[0], method=who[1], seed=seed)[
                [*LABELS, "seed", "item", "subject", "measure", "value", "reason"]
            ]
            for context, split, who, seeds in self
            for seed, model in seeds.items()
        ]
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def asked(self) -> dict[tuple[str, str, str], dict[str, list[str]]]:
        """Context, split and side -> fold -> kinds that some model was asked."""
        found: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(dict)
        names = ["context", "split", "side", "fold", "kind"]
        for context, split, side, fold, kind in self.table[names].drop_duplicates().itertuples(index=False):
            found[context, split, side].setdefault(fold, []).append(kind)
        return dict(found)


def shown_splits(names: Sequence[str]) -> dict[str, str]:
    """Split -> the name that a report shows: requests on the desk by level alone, told apart by number."""
    shown: dict[str, str] = {}
    for name in names:
        plain = label = str(shown_split(name, may_show=False))
        number = 1
        while label in shown.values():
            number += 1
            label = f"{plain} ({number})"
        shown[name] = label
    return shown


def _check_same_questions(context: str, split: str, models: Sequence[Evaluated]) -> None:
    first, *others = models
    asked = set(first.table["item"])
    for other in others:
        if set(other.table["item"]) != asked:
            raise InputError(
                f"{first.run.folder} and {other.run.folder} were asked different questions about split {split!r} "
                f"({context}). Evaluate them with the same folds, subjects and seed."
            )


class SweepDraws:
    """Numbers of a sweep, each stratum's subjects drawn once for all models.

    Strata hold different subjects and are drawn independently: forget set, retain set, groups of the retained.
    """

    def __init__(self, models: SweepModels, replicates: int, seed: int) -> None:
        self.models, self.replicates, self.seed = models, replicates, seed
        self._draws = Draws(
            models.table, LABELS, rollup="kind", composites=COMPOSITES, replicates=replicates, seed=seed
        )

    def stratum(
        self,
        context: str,
        splits: tuple[str, ...],
        side: str,
        group: str = EVERYONE,
        subjects: Collection[str] | None = None,
    ) -> Stratum:
        """Subjects of one side that are drawn together.

        Args:
            splits: one; or two, one forget set inside the other, whose subjects are drawn once for both.
            group: name of the subjects, if these are not all.
        """
        drawn = stable_seed("sweep", side, group, self.seed)
        return Stratum.of(drawn, subjects=subjects, context=context, split=splits, side=side)

    def seeds(self, term: Term) -> dict[object, CellDraws]:
        """Training seed -> means and draws of a term's cell."""
        return self._draws.cell(term.stratum, term.cell)

    def contrast(self, terms: Sequence[Term]) -> Contrast:
        """The weighted sum of the terms; one that cannot be had says which model is missing."""
        for term in terms:
            if not self.seeds(term):
                role, method = term.cell["role"], term.cell["method"]
                if role == UNLEARNED:
                    return Contrast(None, reason=f"{method} was not asked such questions on this split")
                return Contrast(None, reason=f"no {role} model was asked such questions on this split")
        return self._draws.contrast(terms) if terms else Contrast(None, reason="no such questions")


def cell(split: str, who: Who, fold: str, kind: str) -> dict[str, object]:
    """Labels of one cell within its stratum."""
    return {"split": split, "role": who[0], "method": who[1], "fold": fold, "kind": kind}


def numbers_by(table: pd.DataFrame, *labels: str) -> dict[tuple[str, ...], SweepNumber]:
    """Labels -> number, of a table with value, low, high, counts and by_seed."""
    return {tuple(str(row[name]) for name in labels): _number(row) for row in rows_of(table)}


def contrasts_by(table: pd.DataFrame, *labels: str) -> dict[tuple[str, ...], Contrast]:
    """Labels -> contrast, of a table with value, low, high, n_subjects, reason and measure."""
    return {tuple(str(row[name]) for name in labels): _contrast(row) for row in rows_of(table)}


def _contrast(row: Mapping[str, Any]) -> Contrast:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    return Contrast(value, low, high, int(row["n_subjects"]), str(row["reason"]), str(row["measure"]))


def _number(row: Mapping[str, Any]) -> SweepNumber:
    read = reading_of(row)
    return SweepNumber(
        read.value, read.low, read.high, read.n_scored, read.n_unscored, read.n_subjects, tuple(row["by_seed"])
    )
