"""Halves of each subject's values: one that settings are chosen by, one that results are reported on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import values_in
from medunlearn.data.records import Record
from medunlearn.data.splits import shuffled
from medunlearn.seeds import generator

Half = Literal["all", "choosing", "reporting"]


@dataclass(frozen=True)
class ValueHalves:
    """The seeded halves of every subject's values, which partition them.

    A value is in the same half wherever it occurs, in any answer or record. A subject's identifiers and dates are
    halved, and so are the numbers: drawn one by one, all seven of a patient may fall into the half for choosing,
    and nothing is left to report. The odd one is reported. Other answers are drawn one by one.
    """

    benchmark: Benchmark = field(compare=False)
    seed: int
    _sides: dict[str, Mapping[str, Half]] = field(default_factory=dict, compare=False, repr=False)

    def keeps(self, subject: str, value: str, half: Half) -> bool:
        """True if a subject's value belongs to a half."""
        if half == "all":
            return True
        if subject not in self._sides:
            self._sides[subject] = self._halved(subject)
        side = self._sides[subject].get(_plain(value))
        if side is None:
            draw = int(generator("half of values", self.seed, subject, _plain(value)).integers(2))
            side = "choosing" if draw == 0 else "reporting"
        return side == half

    def _halved(self, subject: str) -> dict[str, Half]:
        groups: dict[bool, set[str]] = defaultdict(set)
        for record in self._records.get(subject, ()):
            for fact in values_in(record.text, record.identifiers):
                groups[fact.kind == "number"].add(_plain(fact.of(record.text)))
        sides: dict[str, Half] = {}
        for is_number, values in sorted(groups.items(), reverse=True):  # an identifier's half counts
            order = shuffled(values, "halves of values", self.seed, subject, "numbers" if is_number else "")
            sides |= {value: "choosing" if n < len(order) // 2 else "reporting" for n, value in enumerate(order)}
        return sides

    @cached_property
    def _records(self) -> Mapping[str, list[Record]]:
        records: dict[str, list[Record]] = defaultdict(list)
        for record in self.benchmark.records:
            records[self.benchmark.subject(record.record_id)].append(record)
        return records


def _plain(value: str) -> str:
    return " ".join(value.casefold().split())
