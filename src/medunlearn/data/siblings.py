"""Retained siblings of each node to forget: the nearest retained samples in the hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Groups = Mapping[str, str]


@dataclass(frozen=True)
class SiblingContrasts:
    """Units to forget, each with the pool of retained samples that it is contrasted with.

    Attributes:
        units: numbers of the forget set's samples that belong to each unit; a sample is in one unit at most.
        pools: numbers of the retain set's samples in each pool; pools may overlap.
        pool: of each unit, the number of its pool.
        level: that the units are nodes of; of targets without children the request's own.
        fallbacks: how many units have no siblings under their target's parent, and are contrasted with the whole
            level.
    """

    units: tuple[tuple[int, ...], ...]
    pools: tuple[tuple[int, ...], ...]
    pool: tuple[int, ...]
    level: str
    fallbacks: int


def sibling_contrasts(
    levels: Sequence[str], level: str, forget: Sequence[Groups], retain: Sequence[Groups]
) -> SiblingContrasts:
    """The children of each node to forget, beside the children of its retained siblings.

    A target (a patient) is divided into its children (studies); each is contrasted with the children of the
    targets' retained siblings: studies of other patients of the same institution. A target without children is
    contrasted with its own retained siblings. Where there are none (the whole institution is forgotten, or the
    level is the topmost or none of the chain), it is the whole level that is retained.

    Args:
        levels: from the coarsest to the finest.
        level: that the request names nodes of.
        forget, retain: of each sample, level -> node.
    """
    place = levels.index(level) if level in levels else None
    child = levels[place + 1] if place is not None and place + 1 < len(levels) else None
    parent = levels[place - 1] if place else None
    units: dict[tuple[str, str], list[int]] = {}
    for number, groups in enumerate(forget):
        if child is not None and child in groups:
            units.setdefault((child, groups[child]), []).append(number)
    # Targets that have no child among the samples are units themselves.
    divided = {forget[numbers[0]].get(level) for numbers in units.values()}
    for number, groups in enumerate(forget):
        if (node := groups.get(level)) is not None and node not in divided:
            units.setdefault((level, node), []).append(number)
    pools: dict[tuple[int, ...], int] = {}
    pool_below: dict[tuple[str, str | None], tuple[tuple[int, ...], bool]] = {}
    pool_of_unit, fallbacks = [], 0
    for (unit_level, _), numbers in units.items():
        above = forget[numbers[0]].get(parent) if parent is not None else None
        if (unit_level, above) not in pool_below:
            pool_below[unit_level, above] = _pool(unit_level, parent, above, retain)
        siblings, fell_back = pool_below[unit_level, above]
        fallbacks += fell_back
        pool_of_unit.append(pools.setdefault(siblings, len(pools)))
    return SiblingContrasts(
        tuple(map(tuple, units.values())), tuple(pools), tuple(pool_of_unit), child or level, fallbacks
    )


def _pool(
    level: str, parent: str | None, above: str | None, retain: Sequence[Groups]
) -> tuple[tuple[int, ...], bool]:
    """Retained samples of a level below ``above``, or of the whole level; whether it is the latter."""
    inside = [number for number, groups in enumerate(retain) if level in groups]
    if parent is not None and above is not None:
        siblings = [number for number in inside if retain[number].get(parent) == above]
        if siblings:
            return tuple(siblings), False
    return tuple(inside or range(len(retain))), True
