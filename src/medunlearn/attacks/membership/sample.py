"""Candidates: documents of the forget set, and documents of the same kind that no model was trained on."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import MEMBERSHIP, Record
from medunlearn.data.splits import Split
from medunlearn.errors import InputError, NotApplicableError
from medunlearn.paper import paper_of

EVERY = "all"
"""The group of a benchmark whose paper does not break its numbers down."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document whose membership is tested.

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
    """Documents of the forget set in the train fold, and holdout documents of the same groups.

    Where a benchmark has texts that its authors chose for membership attacks (group ``membership``), it is these.

    Raises:
        InputError: no group has both; says how to build a benchmark that has.
    """
    grouping = paper_of(benchmark.builder).grouping
    level = grouping.level if grouping and grouping.kinds else None
    sides = benchmark.sides(split)
    published = [record for record in benchmark.records if MEMBERSHIP in record.groups]
    documents = [
        Candidate(
            record,
            benchmark.subject(record.record_id),
            record.fold != "holdout",
            record.groups.get(level, EVERY) if level else EVERY,
        )
        for record in published or (record for record in benchmark.records if record.fold in ("train", "holdout"))
        if record.fold == "holdout" or sides[record.record_id] == "forget"
    ]
    inside, outside = ({who.group for who in documents if who.member is member} for member in (True, False))
    if not outside:
        raise NotApplicableError(
            f"{benchmark.name} has no non-members (documents that no model is trained on), so membership cannot "
            "be tested. Build it with some: `build lume` takes --nonmembers FILE or --nonmember-documents 100, "
            "`build "
            "amnesia --synthetic N` takes --nonmember-patients 100, `build notes` takes --holdout FILE. Then "
            "train again."
        )
    if not inside & outside:
        forgotten, unseen = (", ".join(sorted(g.replace("_", " ") for g in groups)) for groups in (inside, outside))
        raise InputError(
            f"Split {split.name!r} forgets documents of {forgotten}, but the non-members are {unseen}. Documents "
            "of different kinds differ in more than membership: attack a split "
            f"that forgets some of {unseen}, or build with non-members of the other kind."
        )
    return [who for who in documents if who.group in inside & outside]
