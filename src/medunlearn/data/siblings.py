"""Retained siblings of each node to forget: the nearest retained samples in the hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Groups = Mapping[str, str]


@dataclass(frozen=True)
class SiblingContrasts:
    """Units to forget, each with the pool of retained samples that it is contrasted with.

    Attributes:
        units: indices of each unit's samples in the forget set; a sample is in at most one unit.
        pools: indices of each pool's samples in the retain set; pools may overlap.
        pool: index of each unit's pool.
        level: level of the units' nodes; for targets without children, the request's own level.
        fallbacks: number of units without siblings under their target's parent, which are contrasted with the whole
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
    """The children of each node to forget, contrasted with the children of its retained siblings.

    A target (a patient) is divided into its children (studies); each is contrasted with the children of the
    targets' retained siblings: studies of other patients of the same institution. A target without children is
    contrasted with its own retained siblings. Without siblings (the whole institution is forgotten, or the level is
    the topmost or not in the chain), the pool is the retained part of the whole level.

    Args:
        levels: from the coarsest to the finest.
        level: level of the request's nodes.
        forget, retain: level -> node, for each sample.
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
    """Retained samples of a level below ``above`` and False; without any, those of the whole level and True."""
    inside = [number for number, groups in enumerate(retain) if level in groups]
    if parent is not None and above is not None:
        siblings = [number for number in inside if retain[number].get(parent) == above]
        if siblings:
            return tuple(siblings), False
    return tuple(inside or range(len(retain))), True
