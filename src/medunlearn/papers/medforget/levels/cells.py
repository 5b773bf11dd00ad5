"""The evaluated models of a sweep over levels, with what they said under the reconstruction attack beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.report.content import UNLEARNED
from medunlearn.papers.amnesia.swept.cells import Cell, Cells
from medunlearn.papers.medforget.partitions import ITEM, sort_of
from medunlearn.papers.medforget.report.content import FLAT, LEVELS, Scope
from medunlearn.pipeline.report.gather import check_made_for_this, shown_split
from medunlearn.results.evaluated import Evaluated

Attacks = Mapping[tuple[Path, str], pd.DataFrame]
"""Folder of a run and split -> question_id, identifiers, metric, value: scores on the questions of the forget set
with identifiers in front of them."""

_COLUMNS = ["question_id", "subject", "side", "fold", "kind"]


@dataclass(frozen=True)
class OnLevel(Evaluated):
    """A model's evaluation: identity questions told apart by level, attacked questions as further folds.

    Attributes:
        levels: question -> level that it asks for.
        attacked: scores under the attack (:data:`Attacks`); empty without one.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    attacked: pd.DataFrame = field(default_factory=pd.DataFrame)

    @cached_property
    def questions(self) -> pd.DataFrame:
        plain = Evaluated(self.run, self.record).questions
        level = plain["question_id"].map(self.levels)
        identity = plain["kind"] == "identity"
        plain = plain.assign(kind=plain["kind"].where(~identity, "identity of " + level.astype(str)))
        if not len(self.attacked):
            return plain
        asked = self.attacked[["question_id", "identifiers"]].drop_duplicates()
        again = asked.merge(plain[plain["side"] == "forget"], on="question_id", how="inner")
        again = again.assign(
            fold=given_fold(again["identifiers"]), question_id=_variant(again["question_id"], again["identifiers"])
        )
        return pd.concat([plain, again[_COLUMNS]], ignore_index=True)

    @cached_property
    def scores(self) -> pd.DataFrame:
        plain = Evaluated(self.run, self.record).scores[["question_id", "metric", "value"]]
        if not len(self.attacked):
            return plain
        known = set(self.questions["question_id"])
        found = self.attacked.assign(
            question_id=_variant(self.attacked["question_id"], self.attacked["identifiers"])
        )
        found = found[found["question_id"].isin(known)]
        return pd.concat([plain, found[["question_id", "metric", "value"]]], ignore_index=True)


def given_fold(identifiers: pd.Series) -> pd.Series:
    """The fold under which the questions of an attack's step are kept: no fold of a benchmark has such a name."""
    return "given " + identifiers.astype(str)


def _variant(question_id: pd.Series, identifiers: pd.Series) -> pd.Series:
    return question_id.astype(str) + " given " + identifiers.astype(str)


class LevelCells(Cells):
    """All models by split and role. The role ``flat`` is a model made for a split without hierarchy, asked about a
    level's.

    Args:
        models: of one context mode.

    Raises:
        InputError: as :class:`~medunlearn.papers.amnesia.swept.cells.Cells`.
    """

    def __init__(self, models: Sequence[Evaluated], benchmark: Benchmark, attacks: Attacks | None = None) -> None:
        self._attacks = attacks or {}
        self._levels = {question.question_id: question.level for question in benchmark.questions}
        super().__init__(models, benchmark)

    def _add(self, model: Evaluated) -> None:
        if model.record.info["inputs"]["benchmark"] != self.benchmark.fingerprint:
            raise InputError(f"{model.run.folder} was evaluated on another benchmark than the sweep's.")
        split, config = str(model.record.info["config"]["split"]), model.run.info["config"]
        role: str = model.run.role
        if role == UNLEARNED and config["split"] != split:
            if not self._stands_for(str(config["split"]), split):
                return
            role = FLAT
        else:
            check_made_for_this(model)
        who = (role, model.run.label if role in (UNLEARNED, FLAT) else "")
        seeds = self._by[model.context, split].setdefault(who, {})
        seed = int(config["seed"])
        if seed in seeds:
            raise InputError(
                f"{seeds[seed].evaluated.run.folder} and {model.run.folder} are both the {who[1] or role} of split "
                f"{split!r} with seed {seed}. Report them in two sweeps."
            )
        attacked = self._attacks.get((model.run.folder, split), pd.DataFrame())
        seeds[seed] = Cell(
            model.context, split, who, seed, OnLevel(model.run, model.record, self._levels, attacked)
        )

    def _stands_for(self, other: str, split: str) -> bool:
        """Whether another split is without hierarchy and forgets as many sections."""
        flat, scope = (_scope(self.benchmark, name) for name in (other, split))
        return flat.level == FLAT and flat.sections == scope.sections

    def group(self, split: str, group: str) -> set[str] | None:
        """Everybody: MedForget tells no groups of patients apart."""
        return None

    @staticmethod
    def _check_same_questions(context: str, split: str, cells: Sequence[Cell]) -> None:
        # An attack may be missing, or of other steps; what was asked without it is what must be the same.
        plain = [set(c.evaluated.table["item"]) for c in cells]
        for cell, asked in zip(cells, plain, strict=True):
            if asked != plain[0]:
                raise InputError(
                    f"{cells[0].evaluated.run.folder} and {cell.evaluated.run.folder} were asked different "
                    f"questions about split {split!r}. Evaluate them with the same folds, subjects and seed."
                )


def scopes(cells: LevelCells) -> dict[str, Scope]:
    """Split -> what it forgets: levels from the coarsest to the finest, then the flat ones, then others."""
    benchmark = cells.benchmark
    names = list(dict.fromkeys(cell.split for cell in cells))
    found = {name: _scope(benchmark, name) for name in names}
    order = [*LEVELS, FLAT]
    placed = sorted(names, key=lambda name: (_place(found[name].level, order), found[name].sections))
    flats = [found[name] for name in placed if found[name].level == FLAT]
    return {name: _with_partner(found[name], flats) for name in placed}


def _scope(benchmark: Benchmark, name: str) -> Scope:
    split = benchmark.split(name)
    forgotten = {record.record_id for record in benchmark.records_of(split, "forget") if record.fold == "train"}
    own = [benchmark.record[one] for one in forgotten]
    asked = [q for q in benchmark.questions_of(split, "forget", ("train",)) if q.record_id in forgotten]
    return Scope(
        split=str(shown_split(name, may_show=False)),
        level=FLAT if split.level == ITEM else split.level,
        forget=len(split.forget),
        total=len(split.forget) + len(split.retain),
        sections=sum(ITEM in record.groups and sort_of(record) == "section" for record in own),
        questions=len(asked),
    )


def _with_partner(scope: Scope, flats: Sequence[Scope]) -> Scope:
    if scope.level == FLAT:
        return scope
    same = [one.split for one in flats if one.sections == scope.sections]
    return replace(scope, partner=next(iter(same), None))


def _place(level: str, order: Sequence[str]) -> int:
    return order.index(level) if level in order else len(order)
