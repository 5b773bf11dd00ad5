"""What the report of a sweep over levels is made of. The caller gathers it from run folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.papers.amnesia.report.content import RETRAINED, TARGET, UNLEARNED, Contrast, Measured
from medunlearn.reports.readings import Reading, number, reading_of, rows_of

LEVELS = ("institution", "patient", "study", "section")
"""From the coarsest to the finest."""
FLAT = "flat"
"""The scope of a split without hierarchy; as a role, an unlearned model of one, asked about a level's split."""

Who = tuple[str, str]
TARGET_MODEL: Who = (TARGET, "")
RETRAINED_MODEL: Who = (RETRAINED, "")


@dataclass(frozen=True, slots=True)
class Group:
    """One of the paper's four sets.

    Attributes:
        side, fold: of its questions; general questions are everybody's, and so on the side that is retained.
        lower: whether lower is better.
    """

    name: str
    title: str
    side: str
    fold: str
    lower: bool


GROUPS: tuple[Group, ...] = (
    Group("forget", "Forget set", "forget", "train", True),
    Group("retain", "Retain set", "retain", "train", False),
    Group("rephrase", "Forget rephrase set", "forget", "rephrase", True),
    Group("general", "General med set", "retain", "utility", False),
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of the paper: one metric on one kind of question.

    Attributes:
        kind: of question; identity questions by level are ``identity of patient`` and so on.
        scale: what a score is multiplied with to be a share of 1.
    """

    name: str
    title: str
    metric: str
    kind: str
    scale: float = 1.0


GEN_SCORE = Measure("gen_score", "Gen Score", "gen_score", "generation", 0.01)
ROUGE = Measure("rouge_l", "ROUGE-L", "rouge_l_f", "generation")
FACTUALITY = Measure("factuality", "Factuality", "factuality", "generation")
CLASSIFICATION = Measure("classification", "Class. Acc", "option_accuracy", "classification")
CLOZE = Measure("cloze", "Cloze Acc", "exact_match", "cloze")
IDENTITIES: tuple[Measure, ...] = tuple(
    Measure(f"{level} name", f"{level.capitalize()} name", "exact_match", f"identity of {level}")
    for level in LEVELS[:3]
)
MEASURES: tuple[Measure, ...] = (GEN_SCORE, ROUGE, FACTUALITY, CLASSIFICATION, CLOZE, *IDENTITIES)
BY_NAME: Mapping[str, Measure] = {one.name: one for one in MEASURES}

IDENTIFIERS = ("none", "study", "patient", "institution")
"""Steps of the reconstruction attack: each puts one more level's name in front of the question."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One split of the sweep.

    Attributes:
        split: its name; of a request, only what level it names.
        level: what is forgotten whole, or ``flat``.
        forget, total: nodes to forget, of all.
        sections: section records to forget.
        questions: of the fold train, to forget.
        partner: the flat split of as many sections that this sweep has; None without one, and of a flat split.
    """

    split: str
    level: str
    forget: int
    total: int
    sections: int
    questions: int
    partner: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A question of Figure 7 and what two models say.

    Attributes:
        level: whose identifier, or content, is asked for.
        thumbnail: of the image as a data URI; empty where there is none or it must not be shown.
        outputs: a model's name -> what it says.
    """

    split: str
    level: str
    question: str
    answer: str
    outputs: Mapping[str, str]
    thumbnail: str = field(default="", repr=False)


@dataclass(frozen=True)
class LevelContent:
    """Everything that the report shows.

    Attributes:
        scopes: levels from the coarsest to the finest, then the flat splits.
        methods: names of the unlearning methods.
        numbers: split, role, method, group, measure, value, low, high, n_scored, n_unscored, n_subjects, by_seed;
            the role ``flat`` is the model of the partner split, asked about this one. Values are shares of 1.
        attacked: the same with the identifiers that were given in place of the group; on the forget set.
        contrasts: contrast, split, method, group, measure, value, low, high, n_subjects, reason
            (:mod:`medunlearn.papers.medforget.levels.contrasts` says which there are).
        said: questions with what models say (Figure 7); empty where no text may be shown.
        context: the mode in which the models were asked.
        search: as of any sweep; None where nothing was searched.
    """

    title: str
    benchmark: Mapping[str, Any]
    scopes: tuple[Scope, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    numbers: pd.DataFrame
    attacked: pd.DataFrame
    contrasts: pd.DataFrame
    said: tuple[Said, ...] = ()
    context: str = ""
    caveats: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    search: pd.DataFrame | None = None
    replicates: int = 1000

    @property
    def levels(self) -> list[Scope]:
        """One split a level, the coarsest first; of several of a level the one that forgets least."""
        found: dict[str, Scope] = {}
        for scope in self.scopes:
            if scope.level in LEVELS:
                found.setdefault(scope.level, scope)
        return list(found.values())

    @property
    def flat(self) -> list[Scope]:
        return [scope for scope in self.scopes if scope.level == FLAT]

    def number(self, split: str, who: Who, group: str, measure: str) -> Measured | None:
        """A number; None where there is no such row."""
        return self._numbers.get((split, *who, group, measure))

    def attack(self, split: str, who: Who, identifiers: str, measure: str) -> Measured | None:
        """A number under the attack."""
        return self._attacked.get((split, *who, identifiers, measure))

    def contrast(self, name: str, split: str, method: str, group: str, measure: str) -> Contrast:
        """A difference; one without a value where it was not made."""
        return self._contrasts.get((name, split, method, group, measure), Contrast(None, reason="not measured"))

    def has(self, split: str, who: Who) -> bool:
        """Whether such a model was evaluated on a split."""
        return any(key[:3] == (split, *who) for key in self._numbers)

    def measured(self, *measures: Measure) -> list[Measure]:
        """Those that some model has a value for, on any set."""
        there = set(self.numbers.loc[self.numbers["value"].notna(), "measure"])
        return [one for one in measures if one.name in there]

    @property
    def generation(self) -> Measure:
        """Gen Score where answers were judged; else its part that needs no judge, by its own name."""
        return next(iter(self.measured(GEN_SCORE)), ROUGE)

    @property
    def tasks(self) -> tuple[Measure, ...]:
        """Generation, classification, cloze."""
        return (self.generation, CLASSIFICATION, CLOZE)

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], Measured]:
        return _by_key(self.numbers, "group")

    @cached_property
    def _attacked(self) -> dict[tuple[str, ...], Measured]:
        return _by_key(self.attacked, "identifiers")

    @cached_property
    def _contrasts(self) -> dict[tuple[str, ...], Contrast]:
        key = ("contrast", "split", "method", "group", "measure")
        return {tuple(str(row[name]) for name in key): _contrast(row) for row in rows_of(self.contrasts)}


def unlearned(method: str) -> Who:
    return (UNLEARNED, method)


def flat(method: str) -> Who:
    return (FLAT, method)


def reading(found: Measured | None) -> Reading | None:
    return None if found is None else found.reading


def _by_key(table: pd.DataFrame, place: str) -> dict[tuple[str, ...], Measured]:
    key = ("split", "role", "method", place, "measure")
    return {
        tuple(str(row[name]) for name in key): Measured(reading_of(row), tuple(row["by_seed"]))
        for row in rows_of(table)
    }


def _contrast(row: Mapping[str, Any]) -> Contrast:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    return Contrast(value, low, high, int(row["n_subjects"]), str(row["reason"]), str(row["measure"]))
