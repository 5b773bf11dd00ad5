"""Forget sets of a sweep's splits: their sizes, and their common parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.partitions import ITEM, LEVELS, VARIANT, sort_of
from medunlearn.papers.medforget.question_sets import COMMON, SHARED
from medunlearn.papers.sweeps.models import shown_splits

FLAT = "flat"
"""The level of a split without hierarchy."""


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


def ladder(scopes: Mapping[str, Scope]) -> dict[str, Scope]:
    """One split per level, from the coarsest; the one with the smallest forget set if there are several."""
    splits: dict[str, str] = {}
    for name, scope in scopes.items():
        if scope.level in LEVELS:
            splits.setdefault(scope.level, name)
    return {name: scopes[name] for name in splits.values()}


def forgotten_sections(benchmark: Benchmark, split: str) -> frozenset[str]:
    """Nodes of the sections that a split forgets, in the fold train without variants."""
    return frozenset(
        record.groups[ITEM]
        for record in benchmark.records_of(benchmark.split(split), "forget")
        if record.fold == "train" and VARIANT not in record.groups
        if ITEM in record.groups and sort_of(record) == "section"
    )


class ForgetSets:
    """Forget sets of a sweep's splits, and the parts that several of them share."""

    def __init__(self, benchmark: Benchmark, splits: Sequence[str]) -> None:
        self.benchmark, self._labels = benchmark, shown_splits(splits)
        self._sections = {name: forgotten_sections(benchmark, name) for name in splits}
        levels = {name: benchmark.split(name).level for name in splits}
        self._levels = {name: FLAT if level == ITEM else level for name, level in levels.items()}

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        """Split -> scope; first levels from coarse to fine, then flat splits, then others."""
        ranks = {level: rank for rank, level in enumerate([*LEVELS, FLAT])}

        def order(name: str) -> tuple[int, int]:
            return ranks.get(self._levels[name], len(ranks)), len(self._sections[name])

        return {name: self._scope(name) for name in sorted(self._levels, key=order)}

    def _scope(self, name: str) -> Scope:
        split, partner = self.benchmark.split(name), self._partner(name)
        trained = self.benchmark.questions_of(split, "forget", ("train",))
        return Scope(
            split=self._labels[name],
            level=self._levels[name],
            forget=len(split.forget),
            total=len(split.forget) + len(split.retain),
            sections=len(self._sections[name]),
            questions=sum(VARIANT not in self.benchmark.record[q.record_id].groups for q in trained),
            partner=self._labels[partner] if partner else None,
            shared=len(self._sections[name] & self._sections[partner]) if partner else 0,
        )

    def _partner(self, name: str) -> str | None:
        """The flat split that forgets as many sections as a level's split."""
        amount = len(self._sections[name])
        flats = (
            split for split, level in self._levels.items() if level == FLAT and len(self._sections[split]) == amount
        )
        return None if self._levels[name] == FLAT else next(flats, None)

    @cached_property
    def common(self) -> frozenset[str]:
        """Nodes of the sections that every level's split forgets; empty with a single level."""
        levels = [self._sections[name] for name in ladder(self.scopes)]
        return frozenset.intersection(*levels) if len(levels) > 1 else frozenset()

    @cached_property
    def common_questions(self) -> set[str]:
        """Questions on the common sections, from every fold."""
        records = {r.record_id for r in self.benchmark.records if r.groups.get(ITEM) in self.common}
        return {q.question_id for q in self.benchmark.questions if q.record_id in records}

    def parts(self, split: str) -> dict[str, set[str]]:
        """Part of a split's forget set -> its questions, variants among them."""
        partner = self._partner(split)
        flat = self.benchmark.questions_of(self.benchmark.split(partner), "forget", ("train",)) if partner else ()
        return {SHARED: {question.question_id for question in flat}, COMMON: self.common_questions}
