"""A sweep over levels: its splits, models and all numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacked
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.splits import Split
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
        split: its name; of a request, only what level it names.
        level: what is forgotten whole, or ``flat``.
        forget, total: nodes to forget, of all.
        sections: section records to forget.
        questions: of the fold train, to forget.
        partner: the flat split of as many sections that this sweep has; None without one, and of a flat split.
        shared: section records to forget that the partner forgets too.
    """

    split: str
    level: str
    forget: int
    total: int
    sections: int
    questions: int
    partner: str | None = None
    shared: int = 0


def ladder(scopes: Mapping[str, Scope]) -> dict[str, Scope]:
    """One split a level, from the coarsest; of several the one that forgets least."""
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
            n_subjects, by_seed; the role ``flat`` is the model of the partner split, asked about this one.
        contrasts: see :mod:`medunlearn.papers.medforget.contrasts`.
        examples: split, level, question, answer, outputs and thumbnail of Figure 7's questions; empty where no text
            may be shown.
        contexts: the one mode in which the models were asked.
        sequence: see :mod:`medunlearn.papers.medforget.sequence`; empty where requests were not in sequence.
        common: number of sections that every level's split forgets; 0 where there are none, or one level.
    """

    number_labels = ("split", "role", "method", "group", "measure")
    contrast_labels = ("contrast", "split", "method", "group", "measure")

    splits: tuple[Scope, ...]
    examples: tuple[Mapping[str, Any], ...] = ()
    common: int = 0
    sequence: pd.DataFrame = field(default_factory=pd.DataFrame)

    def compared(self, group: str) -> str:
        """The set on which levels are compared: its part that every level forgets, where there is one."""
        return COMMON.get(group, group) if self.common else group

    @cached_property
    def levels(self) -> list[Scope]:
        """One split a level, the coarsest first; of several of a level the one that forgets least."""
        return list(ladder({scope.split: scope for scope in self.splits}).values())

    def measured(self, *measures: LevelMeasure) -> list[LevelMeasure]:
        """Those that some model has a value for, on any of the paper's sets."""
        inside = self.numbers["value"].notna() & ~self.numbers["group"].isin(set(SETS) - {g.name for g in GROUPS})
        names = set(self.numbers.loc[inside, "measure"])
        return [measure for measure in measures if measure.name in names]

    @cached_property
    def tasks(self) -> tuple[LevelMeasure, ...]:
        """Generation, classification, cloze; generation is ROUGE-L where no answer was judged."""
        return (next(iter(self.measured(GEN_SCORE)), ROUGE), CLASSIFICATION, CLOZE)

    @cached_property
    def in_sequence(self) -> Mapping[tuple[str, ...], SweepNumber]:
        """Method, step, measure and set -> its number in :attr:`sequence`."""
        return by_labels(self.sequence, ("method", "step", "measure", "set"))

    @property
    def attacked(self) -> pd.DataFrame:
        """Numbers on the forget set under the attack; ``identifiers`` in place of the group."""
        rows = self.numbers[self.numbers["group"].str.startswith("given ")]
        return rows.assign(group=rows["group"].str.removeprefix("given ")).rename(columns={"group": "identifiers"})


def flat(method: str) -> Who:
    return (FLAT, method)


def _with_names(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Generation and identity questions as one kind; of those measures that both were scored by."""
    names = table[table["kind"].str.startswith("identity of ")]
    for measure in dict.fromkeys(measure.measure for measure in VARIANTS if measure.kind == WITH_NAMES):
        of_names = names[names["measure"] == measure]
        if of_names["value"].notna().any():
            texts = table[(table["kind"] == GEN_SCORE.kind) & (table["measure"] == measure)]
            yield pd.concat([texts, of_names]).assign(kind=WITH_NAMES)


class LevelModels(SweepModels):
    """All models by split and role. The role ``flat`` is a model made for a split without hierarchy, asked about a
    level's split. Further folds (:data:`SETS`) are what both of these forget, and responses under the
    reconstruction attack."""

    def who(self, model: Evaluated) -> Who | None:
        split, made_for = str(model.record.info.split), model.run.info.made_for
        if model.run.role == UNLEARNED and made_for != split:
            forgot, asked_about = (_scope(self.benchmark, name, name) for name in (str(made_for), split))
            stands_for = forgot.level == FLAT and forgot.sections == asked_about.sections
            return flat(model.run.label) if stands_for else None
        return super().who(model)

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        level = model.table["item"].map(self._level_asked).astype(str)
        kind, fold = model.table["kind"], model.table["fold"]
        variant = model.table["item"].map(self._variant_asked)
        fold = fold.mask(variant.isin((WORDS, VIEW)), "rephrase " + variant.astype(str))
        fold = fold.mask(variant.isin((PARAPHRASE, TEXT)), variant)
        table = model.table.assign(kind=kind.where(kind != "identity", "identity of " + level), fold=fold)
        forget = table[(table["side"] == "forget") & (table["fold"] == "train")]
        table = pd.concat([table, *_with_names(table)])
        shared = forget[forget["item"].isin(self._forgotten_flat.get(split, ()))].assign(fold=SHARED)
        return pd.concat([table, shared, *self._common(table), *self._attacked(model, split, forget)])

    def _common(self, table: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Scores on the sections that every level forgets, as sets of their own."""
        table = table[(table["side"] == "forget") & table["item"].isin(self._asked_of_common)]
        for name, fold in COMMON.items():
            yield table[table["fold"] == SETS[name].fold].assign(fold=fold)

    def _attacked(self, model: Evaluated, split: str, forget: pd.DataFrame) -> list[pd.DataFrame]:
        """Scores of the forget set's questions with identifiers in front of them; none without an attack."""
        attacked = Attacked.find(model.run, split, "reconstruction")
        if attacked is None:
            return []
        kinds = forget.drop_duplicates("item").set_index("item")["kind"]
        rows = attacked.scores
        rows = rows[(rows["side"] == "forget") & (rows["fold"] == "train") & rows["item"].isin(kinds.index)]
        if self.common and self.scopes[split].level in LEVELS:
            rows = rows[rows["item"].isin(self._asked_of_common)]
        given = rows.assign(fold="given " + rows["given"].astype(str), kind=rows["item"].map(kinds))
        return [given[[name for name in forget.columns if name in given.columns]]]

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        """Split -> scope; levels from the coarsest to the finest, then the flat splits, then others."""
        shown = shown_splits(self.splits)
        scopes = {name: _scope(self.benchmark, name, shown[name]) for name in self.splits}
        place = {level: rank for rank, level in enumerate([*LEVELS, FLAT])}
        names = sorted(scopes, key=lambda name: (place.get(scopes[name].level, len(place)), scopes[name].sections))
        return {name: scopes[name] for name in names}

    @cached_property
    def common(self) -> frozenset[str]:
        """Nodes of the sections that every level's split forgets; none where there is one level."""
        levels = [
            {record.groups[ITEM] for record in _sections(self.benchmark, self.benchmark.split(name))}
            for name in ladder(self.scopes)
        ]
        return frozenset(set.intersection(*levels)) if len(levels) > 1 else frozenset()

    @cached_property
    def _asked_of_common(self) -> set[str]:
        """Questions on these sections, of every fold."""
        records = {r.record_id for r in self.benchmark.records if r.groups.get(ITEM) in self.common}
        return {q.question_id for q in self.benchmark.questions if q.record_id in records}

    @cached_property
    def partners(self) -> dict[str, str]:
        """Split -> the flat split that forgets as many sections."""
        flats = {s.sections: name for name, s in reversed(self.scopes.items()) if s.level == FLAT}
        levels = {name: scope.sections for name, scope in self.scopes.items() if scope.level != FLAT}
        return {name: flats[sections] for name, sections in levels.items() if sections in flats}

    def shared(self, split: str) -> int:
        """Number of section records that a split and its partner forget."""
        if split not in self.partners:
            return 0
        splits = (self.benchmark.split(name) for name in (split, self.partners[split]))
        level, partner = ({record.record_id for record in _sections(self.benchmark, s)} for s in splits)
        return len(level & partner)

    @cached_property
    def _forgotten_flat(self) -> dict[str, set[str]]:
        """Split -> the trained questions that its partner forgets."""
        return {
            name: {
                question.question_id
                for question in self.benchmark.questions_of(self.benchmark.split(partner), "forget", ("train",))
            }
            for name, partner in self.partners.items()
        }

    @cached_property
    def _variant_asked(self) -> dict[str, str]:
        """Question -> what it varies of a trained one; none of others."""
        variants = {r.record_id: r.groups[VARIANT] for r in self.benchmark.records if VARIANT in r.groups}
        return {q.question_id: variants[q.record_id] for q in self.benchmark.questions if q.record_id in variants}

    @cached_property
    def _level_asked(self) -> dict[str, str]:
        return {question.question_id: question.level for question in self.benchmark.questions}


class LevelSweep(SweepDraws):
    """The splits of a sweep and its models' numbers under shared draws.

    Attributes:
        scopes: name in the benchmark -> scope, in the order of :attr:`LevelModels.scopes`.
    """

    models: LevelModels

    def __init__(self, models: LevelModels, context: str, request: SweepRequest) -> None:
        super().__init__(models, request.replicates, request.seed)
        self.context = context
        shown = {name: scope.split for name, scope in models.scopes.items()}
        self.scopes = {
            name: replace(scope, partner=shown.get(models.partners.get(name, "")), shared=models.shared(name))
            for name, scope in models.scopes.items()
        }

    def has(self, split: str, method: str) -> bool:
        """True if a method was run on a split."""
        return unlearned(method) in self.models.of(self.context, split)

    def level_term(
        self, weight: float, group: str, measure: LevelMeasure, who: Who, split: str, drawn: tuple[str, ...] = ()
    ) -> Term:
        """``weight`` times a model's number on a set of questions, as a share of 1."""
        place = (SETS[group].side, SETS[group].fold, measure.kind)
        return self.term(weight * measure.scale, measure.measure, who, place, self.context, split, drawn=drawn)

    def numbers(self) -> pd.DataFrame:
        """Every model's numbers on every set; no row where no such question was scored."""
        rows: list[dict[str, Any]] = []
        for split, scope in self.scopes.items():
            for who in self.models.of(self.context, split):
                places = [*product(SETS, MEASURES), *product((group.name for group in GROUPS), VARIANTS)]
                for group, measure in places:
                    labels = (scope.split, *who, group, measure.name)
                    if row := self._number([self.level_term(1, group, measure, who, split)]):
                        rows.append(dict(zip(LevelResults.number_labels, labels, strict=True)) | row)
                for measure in MEASURES:
                    labels = (scope.split, *who, GAP, measure.name)
                    sides = ((1, "retain"), (-1, "forget"))
                    if row := self._number([self.level_term(w, name, measure, who, split) for w, name in sides]):
                        rows.append(dict(zip(LevelResults.number_labels, labels, strict=True)) | row)
        fields = ("value", "low", "high", "n_scored", "n_unscored", "n_subjects", "by_seed")
        return pd.DataFrame(rows, columns=[*LevelResults.number_labels, *fields])

    def _number(self, terms: Sequence[Term]) -> dict[str, Any]:
        """The sum of terms of one measure; empty where one of them has no such questions."""
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


def _scope(benchmark: Benchmark, name: str, shown: str) -> Scope:
    split = benchmark.split(name)
    forget = {record.record_id for record in _plain(benchmark, split)}
    return Scope(
        split=shown,
        level=FLAT if split.level == ITEM else split.level,
        forget=len(split.forget),
        total=len(split.forget) + len(split.retain),
        sections=len(_sections(benchmark, split)),
        questions=sum(q.record_id in forget for q in benchmark.questions_of(split, "forget", ("train",))),
    )


def _sections(benchmark: Benchmark, split: Split) -> list[Record]:
    """The sections that a split forgets; of the fold train, without variants."""
    forget = _plain(benchmark, split)
    return [record for record in forget if ITEM in record.groups and sort_of(record) == "section"]


def _plain(benchmark: Benchmark, split: Split) -> list[Record]:
    """Records that a split forgets; of the fold train, without variants."""
    return [r for r in benchmark.records_of(split, "forget") if r.fold == "train" and VARIANT not in r.groups]
