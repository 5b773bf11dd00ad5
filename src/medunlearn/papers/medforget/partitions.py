"""MedForget's partitions: a share of each level's nodes with everything below, and as much without hierarchy.

Nested partitions are drawn from one tree: the forget set of a finer level is inside that of a coarser one, wherever
their shares allow it.

Source: MedForget, Section 3.3 (Forget-Retain Partitions) and 3.4: 25% at each level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.image_files import verify_images
from medunlearn.data.records import KINDS, SIDES, Record
from medunlearn.data.splits import Split, nested_splits, request, share, shuffled
from medunlearn.reports.view import ResultView, plain_table

LEVELS = ("institution", "patient", "study", "section")
ITEM = "item"
"""Group of a single record, for forgetting without hierarchy."""
SUBJECT = "subject"
"""Group of everything that is about a patient, identity questions of the levels above among it."""
VARIANT = "variant"
"""Group of questions that vary a trained one beside the paper's: :data:`WORDS` and those below it."""
WORDS, VIEW, PARAPHRASE, TEXT = "words", "view", "paraphrase", "text"
"""In other words on the same view; in the same words on another view; one that is trained on, too; on the study's
name, without its image."""


def partitions(
    records: Sequence[Record], percents: Sequence[int], seed: int, *, nested: bool = True
) -> dict[str, Split]:
    """Splits ``institution_25``, ``patient_25``, ``study_25``, ``section_25`` and ``flat_25``, for each percentage.

    The flat split forgets the same percentage of section records and of identity records of each level, regardless
    of patient. A share that would leave nothing to retain is skipped.

    Args:
        nested: forget sets of the levels are nested, so that they can be compared on the same sections; else each
            level is drawn independently.
    """
    items = [record for record in records if ITEM in record.groups]
    hierarchy = Hierarchy(LEVELS, items)
    splits: dict[str, Split] = {}
    for level in LEVELS:
        order = _tree_order(hierarchy, items, level, seed) if nested else None
        splits |= nested_splits(hierarchy, level, percents, prefix=level, seed=seed, order=order)
    for percent in sorted(percents):
        name = f"flat_{percent:02d}"
        if forget := _flat(items, percent, seed):
            splits[name] = request(hierarchy, name, ITEM, forget)
    return splits


def _tree_order(hierarchy: Hierarchy, records: Sequence[Record], level: str, seed: int) -> list[str]:
    """A level's nodes, depth first in random order."""
    chain = LEVELS[: LEVELS.index(level) + 1]
    ranks = {
        above: {node: rank for rank, node in enumerate(shuffled(hierarchy.nodes(above), "splits", above, seed))}
        for above in chain
    }
    places = {
        record.groups[level]: tuple(ranks[above][record.groups[above]] for above in chain)
        for record in records
        if level in record.groups
    }
    return sorted(places, key=places.__getitem__)


def _flat(records: Sequence[Record], percent: int, seed: int) -> list[str]:
    """Items to forget: the share of each kind (sections, identity by level); empty if a kind would go
    completely.
    """
    sorts: dict[str, set[str]] = defaultdict(set)
    for record in records:
        sorts[sort_of(record)].add(record.groups[ITEM])
    forget: list[str] = []
    for sort, items in sorted(sorts.items()):
        size = share(percent, len(items))
        if size == len(items):
            return []
        forget += shuffled(items, "splits", "flat", sort, seed)[:size]
    return forget


def sort_of(record: Record) -> str:
    """``section``, or the level of an identity record."""
    item = record.groups[ITEM]
    return item.rpartition("-identity-")[2] if "-identity-" in item else "section"


def partition_rows(benchmark: Benchmark) -> list[dict[str, object]]:
    """Nodes and questions of each split: one row per split, for tables.

    Returns:
        Without variants (:data:`VARIANT`): ``split``, ``level``, ``forget_nodes``, ``retain_nodes``, ``forget`` and
        ``retain`` (questions of the fold train), ``rephrased`` (of the forget set), and ``forget_<kind>`` for each
        kind there is.
    """
    kinds = [kind for kind in KINDS if any(q.kind == kind and q.fold == "train" for q in benchmark.questions)]
    rows: list[dict[str, object]] = []
    for split in benchmark.splits.values():
        forget, retain = (
            [q for q in benchmark.questions_of(split, side) if VARIANT not in benchmark.record[q.record_id].groups]
            for side in SIDES
        )
        trained = [question for question in forget if question.fold == "train"]
        rows.append(
            {
                "split": split.name,
                "level": split.level,
                **{f"{side}_nodes": nodes for side, nodes in benchmark.split_sizes(split).items()},
                "forget": len(trained),
                "retain": sum(question.fold == "train" for question in retain),
                "rephrased": len(forget) - len(trained),
                **{f"forget_{kind}": sum(question.kind == kind for question in trained) for kind in kinds},
            }
        )
    return rows


def inspect_view(benchmark: Benchmark, _: Benchmark) -> ResultView:
    """Partitions, and images that are there, for `medunlearn inspect`."""
    rows, images = partition_rows(benchmark), verify_images(benchmark)
    names = [name for name in (rows[0] if rows else {}) if name not in ("level", "forget_nodes", "retain_nodes")]
    title = "partitions: questions to forget (train fold), to retain, to forget in other words; to forget by kind"
    heads = [name.removeprefix("forget_").replace("_questions", "") for name in names]
    table = plain_table(heads, ([row[name] for name in names] for row in rows), title)
    text = f"{images} images are there, each the one that was built" if images else ""
    return ResultView({"partitions": rows, "images": images}, [table, text])
