"""The evaluated models of a sweep, sorted by what they are: context, split, role, method, seed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.report.content import OTHER, RANDOM, SAME, UNLEARNED, Step
from medunlearn.pipeline.report.gather import check_made_for_this, shown_split
from medunlearn.results.composites import DEGRADATION_PART, degraded
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.matrix import ALL_KINDS, Array

DISEASE = "disease"
COLLAPSED = "collapsed"
"""A column of zeros and ones, the mean of which is DS."""

_SIZED = re.compile(r"(?P<scope>.+)_(?P<percent>\d{1,2})")


@dataclass(frozen=True)
class Cell:
    """One model, evaluated on one split in one context.

    Attributes:
        split: as the benchmark knows it.
        who: role, and the method's title (``""`` for target and retrained).
        seed: of its training.
    """

    context: str
    split: str
    who: tuple[str, str]
    seed: int
    evaluated: Evaluated

    @cached_property
    def columns(self) -> dict[str, int]:
        """A metric's name -> its column in ``values``."""
        names = list(self.evaluated.scores["metric"].unique())
        return {name: place for place, name in enumerate([*names, COLLAPSED])}

    @cached_property
    def values(self) -> Array:
        """Scores, shape [questions, metrics + 1], rows as ``questions``; NaN = unscored."""
        names = list(self.evaluated.scores["metric"].unique())
        by_question = self.evaluated.scores.pivot(index="question_id", columns="metric", values="value")[names]
        scored = by_question.reindex(self.questions["question_id"]).to_numpy(dtype=np.float64, na_value=np.nan)
        te = scored[:, names.index(DEGRADATION_PART)] if DEGRADATION_PART in names else np.full(len(scored), np.nan)
        return np.column_stack([scored, degraded(te)])

    @property
    def questions(self) -> pd.DataFrame:
        return self.evaluated.questions

    @cached_property
    def subjects(self) -> npt.NDArray[np.object_]:
        """Whose each question is, shape [questions]."""
        return self.questions["subject"].to_numpy(dtype=object)

    @cached_property
    def _places(self) -> dict[tuple[str, str, str], npt.NDArray[np.intp]]:
        asked = self.questions[["side", "fold", "kind"]].itertuples(index=False, name=None)
        found: dict[tuple[str, str, str], list[int]] = {}
        for row, (side, fold, kind) in enumerate(asked):
            found.setdefault((side, fold, kind), []).append(row)
            found.setdefault((side, fold, ALL_KINDS), []).append(row)
        return {key: np.array(rows, dtype=np.intp) for key, rows in found.items()}

    def places(self, side: str) -> dict[tuple[str, str], npt.NDArray[np.intp]]:
        """Fold and kind -> places of one side's questions; the kind ``all`` is every kind."""
        return {(fold, kind): rows for (of, fold, kind), rows in self._places.items() if of == side}


class Cells:
    """All cells of a sweep.

    Raises:
        InputError: none; another benchmark's; one made for another split than it was asked about; two models of one
            method, split, seed and context; models that were asked different questions on one split.
    """

    def __init__(self, models: Sequence[Evaluated], benchmark: Benchmark) -> None:
        if not models:
            raise InputError("There is nothing to report: no model of the sweep was evaluated.")
        self.benchmark = benchmark
        self._by: dict[tuple[str, str], dict[tuple[str, str], dict[int, Cell]]] = defaultdict(dict)
        for model in models:
            self._add(model)
        for (context, split), found in self._by.items():
            self._check_same_questions(
                context, split, [cell for seeds in found.values() for cell in seeds.values()]
            )

    def _add(self, model: Evaluated) -> None:
        if model.record.info["inputs"]["benchmark"] != self.benchmark.fingerprint:
            raise InputError(f"{model.run.folder} was evaluated on another benchmark than the sweep's.")
        check_made_for_this(model)
        role, config = model.run.role, model.run.info["config"]
        who = (role, model.run.label if role == UNLEARNED else "")
        split, seed = str(model.record.info["config"]["split"]), int(config["seed"])
        seeds = self._by[model.context, split].setdefault(who, {})
        if seed in seeds:
            raise InputError(
                f"{seeds[seed].evaluated.run.folder} and {model.run.folder} are both the {who[1] or role} of split "
                f"{split!r} with seed {seed}. Report them in two sweeps."
            )
        seeds[seed] = Cell(model.context, split, who, seed, model)

    @staticmethod
    def _check_same_questions(context: str, split: str, cells: Sequence[Cell]) -> None:
        asked = set(cells[0].questions["question_id"])
        for cell in cells[1:]:
            if set(cell.questions["question_id"]) != asked:
                raise InputError(
                    f"{cells[0].evaluated.run.folder} and {cell.evaluated.run.folder} were asked different "
                    f"questions about split {split!r} ({context}). Evaluate them with the same folds, subjects and "
                    "seed."
                )

    @property
    def contexts(self) -> tuple[str, ...]:
        """The modes in which models were asked."""
        return tuple(dict.fromkeys(context for context, _ in self._by))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of training, in order."""
        return tuple(sorted({cell.seed for cell in self}))

    @property
    def methods(self) -> tuple[str, ...]:
        """Titles of the unlearning methods, as they come."""
        return tuple(dict.fromkeys(cell.who[1] for cell in self if cell.who[1]))

    def __iter__(self) -> Iterator[Cell]:
        for found in self._by.values():
            for seeds in found.values():
                yield from seeds.values()

    def of(self, context: str, split: str) -> dict[tuple[str, str], dict[int, Cell]]:
        """Role and method -> seed -> cell; empty where nothing was evaluated."""
        return self._by.get((context, split), {})

    def any(self, context: str, split: str) -> Cell:
        """Any cell of a split: they all were asked the same questions."""
        return next(cell for seeds in self.of(context, split).values() for cell in seeds.values())

    @cached_property
    def subjects_by_disease(self) -> dict[str, set[str]]:
        """Subjects of each disease; of several diseases, in each."""
        found: dict[str, set[str]] = defaultdict(set)
        for record in self.benchmark.records:
            if DISEASE in record.groups:
                found[record.groups[DISEASE]].add(self.benchmark.subject(record.record_id))
        return found

    @cached_property
    def steps(self) -> dict[str, Step]:
        """Split -> its step: random first, then scopes as the benchmark lists them, each by size."""
        names = list(dict.fromkeys(split for _, split in self._by))
        listed = [name for name in self.benchmark.splits if name in names]
        found: dict[str, Step] = {}
        for name in [*listed, *(name for name in names if name not in listed)]:
            found[name] = self._step(name, [step.split for step in found.values()])
        scopes = list(dict.fromkeys(step.scope for step in found.values()))
        order = sorted(
            found,
            key=lambda name: (
                found[name].scope != RANDOM,
                scopes.index(found[name].scope),
                found[name].percent or 0,
            ),
        )
        return {name: found[name] for name in order}

    def _step(self, name: str, taken: Sequence[str]) -> Step:
        split = self.benchmark.split(name)
        sides = self.benchmark.sides(split)
        subjects = {
            side: {self.benchmark.subject(record) for record, on in sides.items() if on == side} for side in SIDES
        }
        # A disease's split is a size of its trace; "random" names no disease, though few patients may share one.
        sized = _SIZED.fullmatch(name) if "=" not in name else None
        # Requests on the desk are shown by level alone, and told apart by number.
        shown = plain = str(shown_split(name, may_show=False))
        while shown in taken:
            shown = f"{plain} ({2 + sum(one.startswith(f'{plain} (') for one in taken)})"
        scope = sized["scope"] if sized else shown
        disease = None if scope == RANDOM else self._shared_disease(subjects["forget"])
        same = self.subjects_by_disease[disease] & subjects["retain"] if disease else set()
        return Step(
            shown,
            scope,
            int(sized["percent"]) if sized else None,
            disease,
            split.level,
            len(split.forget),
            len(split.retain),
            len(same),
        )

    def _shared_disease(self, forgotten: set[str]) -> str | None:
        return next((name for name, members in self.subjects_by_disease.items() if forgotten <= members), None)

    def group(self, split: str, group: str) -> set[str] | None:
        """The subjects with the split's disease, or with another; None for everybody.

        A subject whose disease is not known is in neither group.
        """
        disease = self.steps[split].disease
        if group not in (SAME, OTHER) or disease is None:
            return None
        same = self.subjects_by_disease[disease]
        if group == SAME:
            return same
        return {subject for members in self.subjects_by_disease.values() for subject in members} - same
