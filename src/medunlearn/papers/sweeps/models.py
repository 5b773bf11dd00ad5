"""The evaluated models of a sweep, and a score table of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, tightest
from medunlearn.errors import InputError
from medunlearn.results.evaluated import Evaluated, one_vocabulary
from medunlearn.results.forgetting_check import UNCHECKED, Reason
from medunlearn.results.forgetting_numbers import check_forgetting
from medunlearn.results.reference_check import check_reference
from medunlearn.results.scores import COLUMNS
from medunlearn.study.report.gather import check_made_for_this, shown_split

Who = tuple[str, str]
"""Role, and the method's title (``""`` for target and retrained)."""
TARGET, RETRAINED, UNLEARNED = "target", "retrained", "unlearned"
TARGET_MODEL: Who = (TARGET, "")
RETRAINED_MODEL: Who = (RETRAINED, "")
REFERENCES = (TARGET_MODEL, RETRAINED_MODEL)
LABELS = ("context", "split", "role", "method", "side", "fold", "kind")
"""Labels of the score table that tell the cells of every sweep apart, training seeds aside."""

Seeds = dict[int, Evaluated]


class BrokenModel(NamedTuple):
    """A model that a report decides nothing by.

    Attributes:
        split: as reports show it.
        method: ``""`` of target and retrained model.
        problem: why it is broken.
    """

    context: str
    split: str
    method: str
    name: str
    seed: int
    problem: str

    @property
    def reason(self) -> str:
        return f"{self.name} on {self.split}, seed {self.seed}: {self.problem}"


def unlearned(method: str) -> Who:
    return (UNLEARNED, method)


class SweepModels:
    """All evaluated models of a sweep, by context, split, role and method, and training seed.

    Attributes:
        labels: labels of the score table that tell cells apart.

    Raises:
        InputError: no models; models of another benchmark; a model evaluated on another split than it was made for;
            two models of one method, split, seed and context; models with different questions on one split.
    """

    labels: ClassVar[tuple[str, ...]] = LABELS

    def __init__(self, models: Sequence[Evaluated], benchmark: Benchmark) -> None:
        if not models:
            raise InputError("There is nothing to report: no model of the sweep was evaluated.")
        self.benchmark = benchmark
        self._by: dict[tuple[str, str], dict[Who, Seeds]] = {}
        for model in models:
            if model.record.info.benchmark != benchmark.fingerprint:
                raise InputError(f"{model.run.folder} was evaluated on another benchmark than the sweep's.")
            if (who := self.who(model)) is not None:
                self._add(model, who)
        if not self._by:
            raise InputError("There is nothing to report: every model was made for another split.")
        if not one_vocabulary([model for *_, seeds in self for model in seeds.values()]):
            raise InputError(
                "The sweep's models have different tokenizers, and its report compares measures counted in tokens. "
                "Train them with tiny_tokenizer: shared, or common."
            )
        self._check_same_questions()

    def who(self, model: Evaluated) -> Who | None:
        """Role and method of a model in the report; None excludes it.

        A model evaluated again on an earlier request of a sequence appears in the sequence's table instead.
        """
        if str(model.record.info.split) in model.run.info.results.get("forgotten_before", ()):
            return None
        check_made_for_this(model)
        return (model.run.role, model.run.label if model.run.role == UNLEARNED else "")

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        """The score table of one model, with the labels of :attr:`labels` that are its questions'."""
        return model.table

    def _add(self, model: Evaluated, who: Who) -> None:
        split, seed = str(model.record.info.split), int(model.run.info.config["seed"])
        seeds = self._by.setdefault((model.context, split), {}).setdefault(who, {})
        if seed in seeds:
            raise InputError(
                f"{seeds[seed].run.folder} and {model.run.folder} are both the {who[1] or who[0]} of split "
                f"{split!r} with seed {seed}. Report them in two sweeps."
            )
        seeds[seed] = model

    def _check_same_questions(self) -> None:
        for (context, split), group in self._by.items():
            first, *others = (model for seeds in group.values() for model in seeds.values())
            items = set(first.table["item"].unique())
            for other in others:
                if set(other.table["item"].unique()) != items:
                    raise InputError(
                        f"{first.run.folder} and {other.run.folder} have different questions on split "
                        f"{split!r} ({context}). Evaluate them with the same folds, subjects and seed."
                    )

    def __iter__(self) -> Iterator[tuple[str, str, Who, Seeds]]:
        """Context, split, role and method, and the models by seed."""
        for (context, split), group in self._by.items():
            for who, seeds in group.items():
                yield context, split, who, seeds

    def of(self, context: str, split: str) -> dict[Who, Seeds]:
        """Role and method -> seed -> model; empty if nothing was evaluated."""
        return self._by.get((context, split), {})

    def refused(self, replicates: int, seed: int) -> dict[tuple[str, str], tuple[str, ...]]:
        """(Context, displayed split) -> why its retrained models are not valid references.

        Only for splits with a retrained model whose reference check failed.
        """
        labels, reasons = shown_splits(self.splits), {}
        for (context, split), group in self._by.items():
            if RETRAINED_MODEL in group and TARGET_MODEL in group:
                target, retrained = (
                    pd.concat([model.table.assign(training=number) for number, model in group[who].items()])
                    for who in (TARGET_MODEL, RETRAINED_MODEL)
                )
                check = check_reference(target, retrained, seeds="training", replicates=replicates, seed=seed)
                if not check.passed:
                    reasons[context, labels[split]] = check.reasons
        return reasons

    def unproven(self, replicates: int, seed: int) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
        """(Context, displayed split, method) -> why an unlearned model's forgetting is not shown, if it is not."""
        labels, unproven = shown_splits(self.splits), {}
        for (context, split), group in self._by.items():
            tables = {
                who: pd.concat([model.table.assign(training=number) for number, model in seeds.items()])
                for who, seeds in group.items()
            }
            for who, own in tables.items():
                if who[0] != UNLEARNED:
                    continue
                reasons: tuple[Reason, ...] = (UNCHECKED,)
                if TARGET_MODEL in tables and RETRAINED_MODEL in tables:
                    three = own, tables[TARGET_MODEL], tables[RETRAINED_MODEL]
                    how: dict[str, Any] = {"seeds": "training", "replicates": replicates, "seed": seed}
                    reasons = check_forgetting(*three, **how).reasons
                if reasons:
                    unproven[context, labels[split], who[1]] = reasons
        return unproven

    def broken(self) -> list[BrokenModel]:
        """Broken models, in the order of the sweep."""
        labels = shown_splits(self.splits)
        return [
            BrokenModel(context, labels[split], who[1], who[1] or who[0], seed, "; ".join(problems))
            for context, split, who, seeds in self
            for seed, model in seeds.items()
            if (problems := model.record.info.problems)
        ]

    @property
    def data_use(self) -> DataUse | None:
        """Data use of the benchmark and of all data that the models were made from."""
        every = (model.data_use for *_, seeds in self for model in seeds.values())
        return tightest([self.benchmark.data_use, *every])

    @property
    def contexts(self) -> tuple[str, ...]:
        """The context modes of the evaluations."""
        return tuple(dict.fromkeys(context for context, _ in self._by))

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split for _, split in self._by))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({seed for *_, seeds in self for seed in seeds}))

    @property
    def methods(self) -> tuple[str, ...]:
        """Titles of the unlearning methods, in order of occurrence."""
        return tuple(dict.fromkeys(who[1] for _, _, who, _ in self if who[1]))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One score table of all models, with the labels of :attr:`labels` and the training seed."""
        tables = [
            self.scores(model, split).assign(context=context, split=split, role=who[0], method=who[1], seed=seed)[
                [*self.labels, "seed", *COLUMNS]
            ]
            for context, split, who, seeds in self
            for seed, model in seeds.items()
        ]
        return pd.concat(tables, ignore_index=True)


def shown_splits(names: Sequence[str]) -> dict[str, str]:
    """Split -> its displayed name: deletion requests only by level, distinguished by number."""
    labels: dict[str, str] = {}
    for name in names:
        plain = label = str(shown_split(name, may_show=False))
        number = 1
        while label in labels.values():
            number += 1
            label = f"{plain} ({number})"
        labels[name] = label
    return labels
