"""The splits of a sweep over levels, and all its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacked
from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.partitions import ITEM, LEVELS, sort_of
from medunlearn.papers.sweeps.models import (
    NOT_MEASURED,
    UNLEARNED,
    SweepDraws,
    SweepModels,
    SweepNumber,
    Who,
    cell,
    contrasts_by,
    numbers_by,
    shown_splits,
)
from medunlearn.papers.sweeps.report import SweepFacts
from medunlearn.results.contrasts import Contrast, Term
from medunlearn.results.evaluated import Evaluated

FLAT = "flat"
"""The level of a split without hierarchy; as a role, an unlearned model of one, asked about a level's split."""
IDENTIFIERS = ("none", "study", "patient", "institution")
"""Steps of the reconstruction attack: each puts one more level's name in front of the question."""


@dataclass(frozen=True, slots=True)
class Group:
    """A set of questions.

    Attributes:
        side, fold: of its questions; general questions are everybody's, and so on the side that is retained.
        lower: whether lower is better.
    """

    name: str
    title: str
    side: str
    fold: str
    lower: bool

    @property
    def head(self) -> str:
        """The title with the better direction."""
        return f"{self.title} {'↓' if self.lower else '↑'}"


FORGET = Group("forget", "Forget set", "forget", "train", True)
RETAIN = Group("retain", "Retain set", "retain", "train", False)
REPHRASE = Group("rephrase", "Forget rephrase set", "forget", "rephrase", True)
GENERAL = Group("general", "General med set", "retain", "utility", False)
GROUPS = (FORGET, RETAIN, REPHRASE, GENERAL)
"""The paper's four sets."""
GIVEN = {name: Group(f"given {name}", name, "forget", f"given {name}", True) for name in IDENTIFIERS}
"""Step of the attack -> the forget set with these names in front; no fold of a benchmark is called so."""


@dataclass(frozen=True, slots=True)
class LevelMeasure:
    """A number of the paper: one measure on one kind of question.

    Attributes:
        kind: of question; identity questions by level are ``identity of patient`` and so on.
        scale: what a score is multiplied with to be a share of 1.
    """

    name: str
    title: str
    measure: str
    kind: str
    scale: float = 1.0


GEN_SCORE = LevelMeasure("gen_score", "Gen Score", "gen_score", "generation", 0.01)
ROUGE = LevelMeasure("rouge_l", "ROUGE-L", "rouge_l_f", "generation")
FACTUALITY = LevelMeasure("factuality", "Factuality", "factuality", "generation")
CLASSIFICATION = LevelMeasure("classification", "Class. Acc", "option_accuracy", "classification")
CLOZE = LevelMeasure("cloze", "Cloze Acc", "exact_match", "cloze")
IDENTITIES = tuple(
    LevelMeasure(f"{level} name", f"{level.capitalize()} name", "exact_match", f"identity of {level}")
    for level in LEVELS[:3]
)
MEASURES = (GEN_SCORE, ROUGE, FACTUALITY, CLASSIFICATION, CLOZE, *IDENTITIES)


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
class LevelExample:
    """A question of Figure 7 with every model's response.

    Attributes:
        level: whose identifier, or content, is asked for.
        outputs: a model's name -> its response.
        thumbnail: of the image as a data URI; empty where there is none or it must not be shown.
    """

    split: str
    level: str
    question: str
    answer: str
    outputs: Mapping[str, str]
    thumbnail: str = ""


@dataclass(frozen=True)
class LevelResults:
    """All numbers and contrasts of a sweep over levels, as shares of 1.

    Attributes:
        scopes: levels from the coarsest to the finest, then the flat splits.
        numbers: split, role, method, group, measure, value, low, high, n_scored, n_unscored, n_subjects, by_seed;
            the role ``flat`` is the model of the partner split, asked about this one.
        attacked: the same with the identifiers that were given in place of the group; on the forget set.
        contrasts: see :mod:`medunlearn.papers.medforget.contrasts`.
        examples: questions with responses (Figure 7); empty where no text may be shown.
        context: the mode in which the models were asked.
    """

    facts: SweepFacts
    scopes: tuple[Scope, ...]
    numbers: pd.DataFrame
    attacked: pd.DataFrame
    contrasts: pd.DataFrame
    examples: tuple[LevelExample, ...] = ()
    context: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        return self.facts.methods

    @cached_property
    def levels(self) -> list[Scope]:
        """One split a level, the coarsest first; of several of a level the one that forgets least."""
        return list(ladder({scope.split: scope for scope in self.scopes}).values())

    def number(self, split: str, who: Who, group: str, measure: str) -> SweepNumber | None:
        """A number; None where there is no such row."""
        return self._numbers.get((split, *who, group, measure))

    def attack(self, split: str, who: Who, identifiers: str, measure: str) -> SweepNumber | None:
        """A number under the attack."""
        return self._attacked.get((split, *who, identifiers, measure))

    def contrast(self, name: str, split: str, method: str, group: str, measure: str) -> Contrast:
        """A contrast; one without a value where it was not made."""
        return self._contrasts.get((name, split, method, group, measure), NOT_MEASURED)

    def has(self, split: str, who: Who) -> bool:
        """Whether such a model was evaluated on a split."""
        return any(key[:3] == (split, *who) for key in self._numbers)

    def measured(self, *measures: LevelMeasure) -> list[LevelMeasure]:
        """Those that some model has a value for, on any set."""
        names = set(self.numbers.loc[self.numbers["value"].notna(), "measure"])
        return [measure for measure in measures if measure.name in names]

    @cached_property
    def tasks(self) -> tuple[LevelMeasure, ...]:
        """Generation, classification, cloze; generation is ROUGE-L where no answer was judged."""
        return (next(iter(self.measured(GEN_SCORE)), ROUGE), CLASSIFICATION, CLOZE)

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], SweepNumber]:
        return numbers_by(self.numbers, "split", "role", "method", "group", "measure")

    @cached_property
    def _attacked(self) -> dict[tuple[str, ...], SweepNumber]:
        return numbers_by(self.attacked, "split", "role", "method", "identifiers", "measure")

    @cached_property
    def _contrasts(self) -> dict[tuple[str, ...], Contrast]:
        return contrasts_by(self.contrasts, "contrast", "split", "method", "group", "measure")


def flat(method: str) -> Who:
    return (FLAT, method)


class LevelModels(SweepModels):
    """All models by split and role. The role ``flat`` is a model made for a split without hierarchy, asked about a
    level's split. Responses under the reconstruction attack are further folds (:data:`GIVEN`)."""

    def who(self, model: Evaluated) -> Who | None:
        split, made_for = str(model.record.info.split), model.run.info.made_for
        if model.run.role == UNLEARNED and made_for != split:
            other, own = (_scope(self.benchmark, name, name) for name in (str(made_for), split))
            stands_for = other.level == FLAT and other.sections == own.sections
            return flat(model.run.label) if stands_for else None
        return super().who(model)

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        table = model.table
        level = table["item"].map(self._level_asked).astype(str)
        table = table.assign(kind=table["kind"].where(table["kind"] != "identity", "identity of " + level))
        kinds = table.loc[table["side"] == "forget"].drop_duplicates("item").set_index("item")["kind"]
        attacked = Attacked.find(model.run, split, "reconstruction")
        if attacked is None:
            return table
        scores = attacked.scores
        asked = (scores["side"] == "forget") & (scores["fold"] == "train") & scores["item"].isin(kinds.index)
        scores = scores[asked]
        given = scores.assign(fold="given " + scores["given"].astype(str), kind=scores["item"].map(kinds))
        return pd.concat([table, given[[name for name in table.columns if name in given.columns]]])

    @cached_property
    def _level_asked(self) -> dict[str, str]:
        return {question.question_id: question.level for question in self.benchmark.questions}


def scopes_of(models: SweepModels) -> dict[str, Scope]:
    """Split -> what it forgets: levels from the coarsest to the finest, then the flat ones, then others."""
    shown = shown_splits(models.splits)
    scopes = {name: _scope(models.benchmark, name, shown[name]) for name in models.splits}
    order = [*LEVELS, FLAT]

    def place(name: str) -> tuple[int, int]:
        level = scopes[name].level
        return (order.index(level) if level in order else len(order), scopes[name].sections)

    names = sorted(scopes, key=place)
    flats = [scopes[name] for name in names if scopes[name].level == FLAT]
    return {name: _with_partner(scopes[name], flats) for name in names}


def _scope(benchmark: Benchmark, name: str, shown: str) -> Scope:
    split = benchmark.split(name)
    forgotten = {record.record_id for record in benchmark.records_of(split, "forget") if record.fold == "train"}
    own = [benchmark.record[record] for record in forgotten]
    asked = [q for q in benchmark.questions_of(split, "forget", ("train",)) if q.record_id in forgotten]
    return Scope(
        split=shown,
        level=FLAT if split.level == ITEM else split.level,
        forget=len(split.forget),
        total=len(split.forget) + len(split.retain),
        sections=sum(ITEM in record.groups and sort_of(record) == "section" for record in own),
        questions=len(asked),
    )


def _with_partner(scope: Scope, flats: Sequence[Scope]) -> Scope:
    if scope.level == FLAT:
        return scope
    return replace(scope, partner=next((one.split for one in flats if one.sections == scope.sections), None))


def ladder(scopes: Mapping[str, Scope]) -> dict[str, Scope]:
    """One split a level, from the coarsest; of several the one that forgets least."""
    splits: dict[str, str] = {}
    for name, scope in scopes.items():
        if scope.level in LEVELS:
            splits.setdefault(scope.level, name)
    return {name: scopes[name] for name in splits.values()}


def level_numbers(
    draws: SweepDraws, context: str, scopes: Mapping[str, Scope], groups: Mapping[str, Group], label: str
) -> pd.DataFrame:
    """Every model's numbers on some groups of questions, whose names stand in the column ``label``."""
    rows = [
        {"split": scope.split, "role": who[0], "method": who[1], label: name, "measure": measure.name, **row}
        for split, scope in scopes.items()
        for who in draws.models.of(context, split)
        for name, group in groups.items()
        for measure in MEASURES
        for row in _number(draws, level_term(draws, context, (split,), 1, split, who, group, measure))
    ]
    counts = ("n_scored", "n_unscored", "n_subjects", "by_seed")
    return pd.DataFrame(
        rows, columns=["split", "role", "method", label, "measure", "value", "low", "high", *counts]
    )


def level_term(
    draws: SweepDraws,
    context: str,
    drawn: tuple[str, ...],
    weight: float,
    split: str,
    who: Who,
    group: Group,
    measure: LevelMeasure,
) -> Term:
    """``weight`` times a model's number on a split, drawn with the patients of all splits in ``drawn``."""
    stratum = draws.stratum(context, drawn, group.side)
    return Term(weight * measure.scale, cell(split, who, group.fold, measure.kind), measure.measure, stratum)


def _number(draws: SweepDraws, term: Term) -> Iterator[dict[str, Any]]:
    """One row, or none where no such question was scored."""
    cells = [one for one in draws.seeds(term).values() if term.measure in one.columns]
    if cells:
        number = draws.contrast([term])
        scored = [one.means.observed[:, one.columns[term.measure]] for one in cells]
        yield {
            **{name: getattr(number, name) for name in ("value", "low", "high", "n_subjects", "by_seed")},
            "n_scored": sum(int(observed.sum()) for observed in scored),
            "n_unscored": sum(int((~observed).sum()) for observed in scored),
        }
