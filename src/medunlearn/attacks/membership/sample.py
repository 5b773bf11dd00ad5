"""Who is attacked: documents of the forget set against documents of the same kind that no model was trained on."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.builders import GROUPINGS
from medunlearn.data.records import Record
from medunlearn.data.splits import Split
from medunlearn.errors import InputError

EVERY = "all"
"""The group of a benchmark whose paper does not break its numbers down."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document whose membership is to be told.

    Attributes:
        member: it is in the forget set, which the target model was trained on; else no model saw it.
        group: its node at the level by which the benchmark's paper breaks numbers down (LUME: its task). A story is
            not compared with a biography: they differ in more than in membership.
    """

    record: Record
    subject: str
    member: bool
    group: str


def candidates(benchmark: Benchmark, split: Split) -> list[Candidate]:
    """The forget set's documents of the train fold, and the holdout fold's of the same groups.

    Raises:
        InputError: no group has both; says how to build a benchmark that has.
    """
    grouping = GROUPINGS.get(benchmark.builder)
    level = grouping.level if grouping and grouping.kinds else None
    sides = benchmark.sides(split)
    found = []
    for record in benchmark.records:
        member = sides[record.record_id] == "forget" and record.fold == "train"
        if member or record.fold == "holdout":
            group = record.groups.get(level, EVERY) if level else EVERY
            found.append(Candidate(record, benchmark.subject(record.record_id), member, group))
    inside = {one.group for one in found if one.member}
    outside = {one.group for one in found if not one.member}
    if not outside:
        raise InputError(
            f"{benchmark.name} has no documents that no model is trained on, so members can be told from nobody. "
            "Build it with some: `build lume` takes --nonmembers FILE or --nonmember-documents 100, `build "
            "amnesia --synthetic N` takes --nonmember-patients 100. Then train again."
        )
    if not inside & outside:
        raise InputError(
            f"Split {split.name!r} forgets documents of {_words(inside)}; those that no model is trained on are of "
            f"{_words(outside)}. Documents of different kinds differ in more than in membership: attack a split "
            f"that forgets some of {_words(outside)}, or build with non-members of the other kind."
        )
    return [one for one in found if one.group in inside & outside]


def _words(groups: set[str]) -> str:
    return ", ".join(sorted(group.replace("_", " ") for group in groups))
