"""Rotation over the patients of earlier requests: who is asked about this time.

A request that asked every earlier patient would grow with the ledger, and all requests together with its square.
So each asks a fixed number, those who were asked about longest ago. The order follows from the ledger alone: its
rows are gone through again, so nobody has to keep a list. Within ``ceil(n / most)`` requests each of ``n`` patients
is asked at least once (:mod:`medunlearn.statistics.rotations`). Patients of one row are in an order drawn by the
seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medunlearn.request.case.ledger import RequestLedger
from medunlearn.seeds import stable_seed


@dataclass(frozen=True)
class Rotation:
    """Earlier patients of a request, by turns.

    Attributes:
        asked, not_asked: pseudonyms of those who are asked about, and of those who are not this time.
        patients: ids of those who are asked about.
    """

    asked: tuple[str, ...]
    not_asked: tuple[str, ...]
    patients: frozenset[str]

    @staticmethod
    def of(ledger: RequestLedger, present: Mapping[str, str], most: int | None, seed: int) -> Rotation:
        """The next turn.

        Args:
            present: pseudonym -> id of the earlier patients who are in the notes.
            most: number to ask about; None: all.
        """
        turns = (
            sorted(present) if most is None else [name for name in _turns(ledger, most, seed) if name in present]
        )
        asked = turns[:most]
        patients = frozenset(present[name] for name in asked)
        return Rotation(tuple(sorted(asked)), tuple(sorted({*turns} - {*asked})), patients)


def _turns(ledger: RequestLedger, most: int, seed: int) -> list[str]:
    """Every patient of the ledger, those who were asked about longest ago first."""
    queue = list[tuple[int, int, str]]()
    last = dict[str, int]()

    def put(names: Iterable[str], row: int) -> None:
        for name in names:
            last[name] = row
            heapq.heappush(queue, (row, stable_seed("earlier", seed, row, name), name))

    for place, row in enumerate(ledger.requests):
        asked, own = list[str](), {*row.entry.patients}  # who asks again is asked about anyway
        while queue and len(asked) < most:
            when, _, name = heapq.heappop(queue)
            if last[name] == when and name not in own:
                asked.append(name)
        put((*asked, *row.entry.patients), place)
    return list(dict.fromkeys(name for when, _, name in sorted(queue) if last[name] == when))
