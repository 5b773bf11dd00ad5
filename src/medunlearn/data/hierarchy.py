"""Hierarchy of levels and nodes, and the records below a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from medunlearn.data.records import Record
from medunlearn.errors import BenchmarkError, UnknownNameError

PUBLIC_LEVELS = ("institution", "disease", "task")
"""Levels whose nodes are nobody's names: a wrong one may be answered with the nearest."""


class Hierarchy:
    """The tree that the records' groups span, e.g. institution > patient > study > section.

    A forget request names nodes of one level; everything below them goes with them (*closure*). The
    closure of a node is the set of records that carry it in their groups, so a request may also name a
    group that is not a level of the chain (all patients of one disease, in a chain by institution).

    Args:
        levels: from the coarsest to the finest.
        records: every record of the benchmark.

    Raises:
        BenchmarkError: a node has two parents, or a record names no group at all.
    """

    def __init__(self, levels: Sequence[str], records: Iterable[Record]) -> None:
        self.levels = tuple(levels)
        self._records: dict[str, dict[str, list[str]]] = {}
        parent: dict[tuple[str, str], tuple[str, str]] = {}
        for record in records:
            if not record.groups:
                raise BenchmarkError(f"Record {record.record_id!r} belongs to no group.")
            for level, node in record.groups.items():
                self._records.setdefault(level, {}).setdefault(node, []).append(record.record_id)
            chain = [(level, record.groups[level]) for level in self.levels if level in record.groups]
            for above, below in pairwise(chain):
                if (other := parent.setdefault(below, above)) != above:
                    raise BenchmarkError(
                        f"{below[0]} {below[1]!r} lies in {other[0]} {other[1]!r} and in {above[0]} {above[1]!r}. "
                        "A node has one parent: rename one of them or drop one of the records."
                    )

    def groups(self) -> tuple[str, ...]:
        """Every group of the records: the levels of the chain first."""
        return tuple(level for level in self.levels if level in self._records) + tuple(
            level for level in self._records if level not in self.levels
        )

    def nodes(self, level: str) -> tuple[str, ...]:
        """The nodes of a level, in order of first occurrence.

        Raises:
            UnknownNameError: there is no such level.
        """
        return tuple(self._at(level))

    def closure(self, level: str, nodes: Iterable[str]) -> frozenset[str]:
        """Ids of all records at or below the nodes.

        Raises:
            UnknownNameError: no such level or node.
        """
        record_ids = self._at(level)
        closed: set[str] = set()
        for node in nodes:
            if node not in record_ids:
                raise UnknownNameError(level, node, record_ids if level in PUBLIC_LEVELS else None)
            closed.update(record_ids[node])
        return frozenset(closed)

    def _at(self, level: str) -> dict[str, list[str]]:
        if level not in self._records:
            raise UnknownNameError("level", level, self.groups())
        return self._records[level]
