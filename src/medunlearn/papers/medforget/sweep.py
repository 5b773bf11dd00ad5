"""A sweep over levels: its splits, models and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacked
from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.measures import (
    CLASSIFICATION,
    CLOZE,
    COMMON,
    GAP,
    GEN_SCORE,
    GROUPS,
    MEASURES,
    ROUGE,
    SETS,
    SHARED,
    VARIANTS,
    WITH_NAMES,
    LevelMeasure,
)
from medunlearn.papers.medforget.partitions import ITEM, LEVELS, PARAPHRASE, TEXT, VARIANT, VIEW, WORDS, sort_of
from medunlearn.papers.sweeps.contrasts import SweepDraws
from medunlearn.papers.sweeps.models import UNLEARNED, SweepModels, Who, shown_splits, unlearned
from medunlearn.papers.sweeps.results import SweepNumber, SweepRequest, SweepResults, by_labels
from medunlearn.results.contrasts import Term
from medunlearn.results.evaluated import Evaluated

FLAT = "flat"
"""The level of a split without hierarchy; as a role, an unlearned model of one, asked about a level's split."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One split of the sweep.

    Attributes:
        split: its name; for a request, only the level that it names.
        level: level of the forgotten nodes, or ``flat``.
        forget, total: number of nodes to forget, and of all.
        sections: number of section records to forget.
        questions: number of questions of the fold train to forget.
        partner: the sweep's flat split with as many sections; None without one, and for a flat split.
        shared: number of section records that the partner forgets too.
    """

    split: str
    level: str
    forget: int
    total: int
    sections: int
    questions: int
    partner: str | None = None
    shared: int = 0


def flat(method: str) -> Who:
    return (FLAT, method)


def ladder(scopes: Mapping[str, Scope]) -> dict[str, Scope]:
    """One split per level, from the coarsest; the one with the smallest forget set if there are several."""
    splits: dict[str, str] = {}
    for name, scope in scopes.items():
        if scope.level in LEVELS:
            splits.setdefault(scope.level, name)
    return {name: scopes[name] for name in splits.values()}


@dataclass(frozen=True, kw_only=True)
class LevelResults(SweepResults):
    """All numbers and contrasts of a sweep over levels, as shares of 1.

    Attributes:
        splits: levels from the coarsest to the finest, then the flat splits.
        numbers: split, role, method, group (:data:`SETS`), measure, value, low, high, n_scored, n_unscored,
            n_subjects, by_seed; the role ``flat`` is the model of the partner split, evaluated on this one.
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
        return COMMON.get(group, group) if self.common else group

    @cached_property
    def levels(self) -> list[Scope]:
        """One split per level, the coarsest first; the one with the smallest forget set if a level has several."""
        return list(ladder({scope.split: scope for scope in self.splits}).values())

    def measured(self, *measures: LevelMeasure) -> list[LevelMeasure]:
        """Measures with a value for some model, on any of the paper's sets."""
        inside = self.numbers["value"].notna() & ~self.numbers["group"].isin(set(SETS) - {g.name for g in GROUPS})
        names = set(self.numbers.loc[inside, "measure"])
        return [measure for measure in measures if measure.name in names]

    @cached_property
    def tasks(self) -> tuple[LevelMeasure, ...]:
        """Generation, classification, cloze; generation uses ROUGE-L if no answer was judged."""
        return (next(iter(self.measured(GEN_SCORE)), ROUGE), CLASSIFICATION, CLOZE)

    @cached_property
    def in_sequence(self) -> Mapping[tuple[str, ...], SweepNumber]:
        """Method, step, measure and set -> its number in :attr:`sequence`."""
        return by_labels(self.sequence, ("method", "step", "measure", "set"))

    @property
    def attacked(self) -> pd.DataFrame:
        """Numbers on the forget set under the attack; the column ``identifiers`` replaces the group."""
        rows = self.numbers[self.numbers["group"].str.startswith("given ")]
        return rows.assign(group=rows["group"].str.removeprefix("given ")).rename(columns={"group": "identifiers"})


class LevelModels(SweepModels):
    """All models by split and role. The role ``flat`` is a model of a flat split, evaluated on a level's split.
    Further folds (:data:`SETS`) are the questions that both of these forget, and responses under the reconstruction
    attack.
    """

    def who(self, model: Evaluated) -> Who | None:
        split, made_for = str(model.record.info.split), str(model.run.info.made_for)
        if model.run.role == UNLEARNED and made_for != split:
            amounts = {len(forgotten_sections(self.benchmark, name)) for name in (made_for, split)}
            stands_for = self.benchmark.split(made_for).level == ITEM and len(amounts) == 1
            return flat(model.run.label) if stands_for else None
        return super().who(model)

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        items, kind, fold = model.table["item"], model.table["kind"], model.table["fold"]
        variant = items.map(self._variant_of)
        fold = fold.mask(variant.isin((WORDS, VIEW)), "rephrase " + variant.astype(str))
        fold = fold.mask(variant.isin((PARAPHRASE, TEXT)), variant)
        level = items.map(self._level_of).astype(str)
        table = model.table.assign(kind=kind.where(kind != "identity", "identity of " + level), fold=fold)
        table = pd.concat([table, *_with_names(table)])
        forget = table[table["side"] == "forget"]
        trained = forget[(forget["fold"] == "train") & (forget["kind"] != WITH_NAMES)]
        common = forget[forget["item"].isin(self._questions_on_common)]
        return pd.concat(
            [
                table,
                trained[trained["item"].isin(self._forgotten_by_partner.get(split, ()))].assign(fold=SHARED),
                *(common[common["fold"] == SETS[name].fold].assign(fold=fold) for name, fold in COMMON.items()),
                *self._attacked(model, split, trained),
            ]
        )

    def _attacked(self, model: Evaluated, split: str, trained: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Scores of the forget set's questions with identifiers before them; empty without an attack."""
        attacked = Attacked.find(model.run, split, "reconstruction")
        if attacked is not None:
            kinds = trained.drop_duplicates("item").set_index("item")["kind"]
            rows = attacked.scores
            rows = rows[(rows["side"] == "forget") & (rows["fold"] == "train") & rows["item"].isin(kinds.index)]
            if self.common and self.scopes[split].level in LEVELS:
                rows = rows[rows["item"].isin(self._questions_on_common)]
            rows = rows.assign(fold="given " + rows["given"].astype(str), kind=rows["item"].map(kinds))
            yield rows[[name for name in trained.columns if name in rows.columns]]

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        """Split -> scope; first levels from coarse to fine, then flat splits, then others."""
        scopes = {name: _scope(self.benchmark, name, label) for name, label in shown_splits(self.splits).items()}
        ranks = {level: rank for rank, level in enumerate([*LEVELS, FLAT])}
        order = {name: (ranks.get(scope.level, len(ranks)), scope.sections) for name, scope in scopes.items()}
        names = sorted(scopes, key=order.__getitem__)
        flats = {scopes[name].sections: name for name in reversed(names) if scopes[name].level == FLAT}
        for name, scope in scopes.items():
            partner = flats.get(scope.sections)
            if scope.level != FLAT and partner is not None:
                shared = self._sections[name] & self._sections[partner]
                scopes[name] = replace(scope, partner=scopes[partner].split, shared=len(shared))
        return {name: scopes[name] for name in names}

    @cached_property
    def _sections(self) -> dict[str, frozenset[str]]:
        return {name: forgotten_sections(self.benchmark, name) for name in self.splits}

    @cached_property
    def common(self) -> frozenset[str]:
        """Nodes of the sections that every level's split forgets; empty with a single level."""
        levels = [self._sections[name] for name in ladder(self.scopes)]
        return frozenset.intersection(*levels) if len(levels) > 1 else frozenset()

    @cached_property
    def _questions_on_common(self) -> set[str]:
        """Questions on the common sections, from every fold."""
        records = {r.record_id for r in self.benchmark.records if r.groups.get(ITEM) in self.common}
        return {q.question_id for q in self.benchmark.questions if q.record_id in records}

    @cached_property
    def _forgotten_by_partner(self) -> dict[str, set[str]]:
        """Split -> the trained questions that its partner forgets."""
        splits = {scope.split: self.benchmark.split(name) for name, scope in self.scopes.items()}
        return {
            name: {q.question_id for q in self.benchmark.questions_of(splits[scope.partner], "forget", ("train",))}
            for name, scope in self.scopes.items()
            if scope.partner
        }

    @cached_property
    def _variant_of(self) -> dict[str, str]:
        """Question -> its variation of a training question; empty for others."""
        variants = {r.record_id: r.groups[VARIANT] for r in self.benchmark.records if VARIANT in r.groups}
        return {q.question_id: variants[q.record_id] for q in self.benchmark.questions if q.record_id in variants}

    @cached_property
    def _level_of(self) -> dict[str, str]:
        return {question.question_id: question.level for question in self.benchmark.questions}


def _with_names(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Merge generation and identity questions into one kind, for measures that scored both."""
    names = table[table["kind"].str.startswith("identity of ")]
    for measure in dict.fromkeys(measure.measure for measure in VARIANTS if measure.kind == WITH_NAMES):
        of_names = names[names["measure"] == measure]
        if of_names["value"].notna().any():
            texts = table[(table["kind"] == GEN_SCORE.kind) & (table["measure"] == measure)]
            yield pd.concat([texts, of_names]).assign(kind=WITH_NAMES)


def _scope(benchmark: Benchmark, name: str, label: str) -> Scope:
    split = benchmark.split(name)
    trained = benchmark.questions_of(split, "forget", ("train",))
    return Scope(
        split=label,
        level=FLAT if split.level == ITEM else split.level,
        forget=len(split.forget),
        total=len(split.forget) + len(split.retain),
        sections=len(forgotten_sections(benchmark, name)),
        questions=sum(VARIANT not in benchmark.record[q.record_id].groups for q in trained),
    )


def forgotten_sections(benchmark: Benchmark, split: str) -> frozenset[str]:
    """Nodes of the sections that a split forgets, in the fold train without variants."""
    return frozenset(
        record.groups[ITEM]
        for record in benchmark.records_of(benchmark.split(split), "forget")
        if record.fold == "train" and VARIANT not in record.groups
        if ITEM in record.groups and sort_of(record) == "section"
    )


class LevelSweep(SweepDraws):
    """The numbers of a sweep's models with shared bootstrap draws, in one context mode."""

    models: LevelModels

    def __init__(self, models: LevelModels, context: str, request: SweepRequest) -> None:
        super().__init__(models, request.replicates, request.seed)
        self.context, self.scopes = context, models.scopes

    def has(self, split: str, method: str) -> bool:
        """True if a method was run on a split."""
        return unlearned(method) in self.models.of(self.context, split)

    def level_term(
        self, weight: float, group: str, measure: LevelMeasure, who: Who, split: str, joint: tuple[str, ...] = ()
    ) -> Term:
        """``weight`` times a model's number on a question set, as a share of 1."""
        place = (SETS[group].side, SETS[group].fold, measure.kind)
        return self.term(weight * measure.scale, measure.measure, who, place, self.context, split, joint=joint)

    def numbers(self) -> pd.DataFrame:
        """Every model's numbers on every set; no row for sets without scored questions."""
        rows: list[dict[str, Any]] = []
        single = (*product(SETS, MEASURES), *product((group.name for group in GROUPS), VARIANTS))
        places = [(group, measure, {group: 1}) for group, measure in single]
        places += [(GAP, measure, {"retain": 1, "forget": -1}) for measure in MEASURES]
        for split, scope in self.scopes.items():
            for who in self.models.of(self.context, split):
                for group, measure, weights in places:
                    terms = [self.level_term(weight, name, measure, who, split) for name, weight in weights.items()]
                    if row := self._number(terms):
                        labels = (scope.split, *who, group, measure.name)
                        rows.append(dict(zip(LevelResults.number_labels, labels, strict=True)) | row)
        fields = ("value", "low", "high", "n_scored", "n_unscored", "n_subjects", "by_seed")
        return pd.DataFrame(rows, columns=[*LevelResults.number_labels, *fields])

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
