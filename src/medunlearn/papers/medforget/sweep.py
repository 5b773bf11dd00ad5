"""A sweep over levels: its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import pandas as pd

from medunlearn.papers.medforget.measures import (
    CLASSIFICATION,
    CLOZE,
    DRAWN_GEN_SCORE,
    GEN_SCORE,
    MEASURES,
    ROUGE,
    SHOWN,
    VARIANTS,
    LevelMeasure,
)
from medunlearn.papers.medforget.models import LevelModels
from medunlearn.papers.medforget.question_sets import GAP, GROUPS, ON_COMMON, SETS
from medunlearn.papers.medforget.scopes import Scope, ladder
from medunlearn.papers.sweeps.contrasts import SweepDraws
from medunlearn.papers.sweeps.models import Who, unlearned
from medunlearn.papers.sweeps.results import SweepNumber, SweepRequest, SweepResults, by_labels
from medunlearn.results.contrasts import Term

FIELDS = ("value", "low", "high", "n_scored", "n_unscored", "n_subjects", "by_seed")


@dataclass(frozen=True, kw_only=True)
class LevelResults(SweepResults):
    """All numbers and contrasts of a sweep over levels, as shares of 1.

    Attributes:
        splits: levels from the coarsest to the finest, then the flat splits.
        numbers: split, role, method, group (:data:`~.question_sets.SETS`), measure and :data:`FIELDS`; the role
            ``flat`` is the model of the partner split, evaluated on this one.
        contrasts: see :mod:`medunlearn.papers.medforget.contrasts`.
        examples: split, level, question, answer, outputs and thumbnail of Figure 7's questions; empty if no text
            may be shown.
        contexts: the context mode of the evaluation.
        sequence: see :mod:`medunlearn.papers.medforget.sequence`; empty if requests were not in sequence.
        common: number of sections that every level's split forgets; 0 if there are none, or one level.
    """

    number_labels = ("split", "role", "method", "group", "measure")
    contrast_labels = ("contrast", "split", "method", "group", "measure")

    splits: tuple[Scope, ...]
    examples: tuple[Mapping[str, Any], ...] = ()
    common: int = 0
    sequence: pd.DataFrame = field(default_factory=pd.DataFrame)

    def compared(self, group: str) -> str:
        """The set on which levels are compared: its part that every level forgets, if there is one."""
        return ON_COMMON.get(group, group) if self.common else group

    @cached_property
    def levels(self) -> list[Scope]:
        """One split per level, the coarsest first; the one with the smallest forget set if a level has several."""
        return list(ladder({scope.split: scope for scope in self.splits}).values())

    def measured(self, *measures: LevelMeasure) -> list[LevelMeasure]:
        """Measures with a value for some model, on any of the paper's sets."""
        inside = self.numbers["value"].notna() & self.numbers["group"].isin([group.name for group in GROUPS])
        names = set(self.numbers.loc[inside, "measure"])
        return [measure for measure in measures if measure.name in names]

    @cached_property
    def tasks(self) -> tuple[LevelMeasure, ...]:
        """Generation, classification, cloze, by which findings are decided; generation uses ROUGE-L if no answer
        was judged, or ratings were drawn.
        """
        return (next(iter(self.measured(GEN_SCORE)), ROUGE), CLASSIFICATION, CLOZE)

    @cached_property
    def shown_tasks(self) -> tuple[LevelMeasure, ...]:
        """The same for tables and figures, which show drawn ratings with their mark."""
        return (next(iter(self.measured(GEN_SCORE, DRAWN_GEN_SCORE)), ROUGE), CLASSIFICATION, CLOZE)

    @cached_property
    def in_sequence(self) -> Mapping[tuple[str, ...], SweepNumber]:
        """Method, step, measure and set -> its number in :attr:`sequence`."""
        return by_labels(self.sequence, ("method", "step", "measure", "set"))

    @property
    def attacked(self) -> pd.DataFrame:
        """Numbers on the forget set under the attack; the column ``identifiers`` replaces the group."""
        given = {name: group.given for name, group in SETS.items() if group.given}
        rows = self.numbers[self.numbers["group"].isin(given)]
        return rows.assign(group=rows["group"].map(given)).rename(columns={"group": "identifiers"})


class LevelSweep(SweepDraws):
    """The numbers of a sweep's models with shared bootstrap draws, in one context mode."""

    models: LevelModels

    def __init__(self, models: LevelModels, context: str, request: SweepRequest) -> None:
        super().__init__(models, request.replicates, request.seed)
        self.context, self.scopes, self.common = context, models.forget_sets.scopes, models.forget_sets.common

    @cached_property
    def variants(self) -> set[str]:
        """Variations of trained questions that were asked."""
        return set(self.models.table["variant"])

    def has(self, split: str, method: str) -> bool:
        """True if a method was run on a split."""
        return unlearned(method) in self.models.of(self.context, split)

    def level_term(
        self, weight: float, group: str, measure: LevelMeasure, who: Who, split: str, joint: tuple[str, ...] = ()
    ) -> Term:
        """``weight`` times a model's number on a question set, as a share of 1."""
        labels = {**SETS[group].labels, **measure.labels}
        return self.term(weight * measure.scale, measure.measure, who, labels, self.context, split, joint=joint)

    def numbers(self) -> pd.DataFrame:
        """Every model's numbers on every set; no row for sets without scored questions."""
        rows = []
        for split, scope in self.scopes.items():
            for who, (group, measure, weights) in product(self.models.of(self.context, split), _sums()):
                terms = [self.level_term(weight, name, measure, who, split) for name, weight in weights.items()]
                if number := self._number(terms):
                    labels = (scope.split, *who, group, measure.name)
                    rows.append(dict(zip(LevelResults.number_labels, labels, strict=True)) | number)
        return pd.DataFrame(rows, columns=[*LevelResults.number_labels, *FIELDS])

    def _number(self, terms: Sequence[Term]) -> dict[str, Any]:
        """The sum of terms of one measure; empty if one of them has no questions."""
        measure = terms[0].measure
        by_term = [[cell for cell in self.seeds(term).values() if measure in cell.columns] for term in terms]
        if not all(by_term):
            return {}
        number = self.contrast(terms)
        scored = [cell.means.observed[:, cell.columns[measure]] for cells in by_term for cell in cells]
        return {
            **{name: getattr(number, name) for name in ("value", "low", "high", "n_subjects", "by_seed")},
            "n_scored": sum(int(observed.sum()) for observed in scored),
            "n_unscored": sum(int((~observed).sum()) for observed in scored),
        }


def _sums() -> Iterator[tuple[str, LevelMeasure, Mapping[str, int]]]:
    """Group, measure, and the weight of each question set in the group's number."""
    for group, measure in (*product(SETS, SHOWN), *product((group.name for group in GROUPS), VARIANTS)):
        yield group, measure, {group: 1}
    for measure in MEASURES:
        yield GAP, measure, {"retain": 1, "forget": -1}
