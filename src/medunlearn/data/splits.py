"""Forget set and retain set: disjoint, covering, and nested in the next larger split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medunlearn.data.hierarchy import PUBLIC_LEVELS, Hierarchy
from medunlearn.data.records import Side
from medunlearn.errors import InputError, UnknownNameError
from medunlearn.seeds import generator


@dataclass(frozen=True, slots=True)
class Split:
    """Nodes of one level to forget, with everything below them; ``retain`` has all other nodes."""

    name: str
    level: str
    forget: tuple[str, ...]
    retain: tuple[str, ...]

    def side(self, node: str) -> Side:
        return "forget" if node in self.forget else "retain"


def request(hierarchy: Hierarchy, name: str, level: str, forget: Iterable[str]) -> Split:
    """The split that forgets the given nodes and retains all others.

    Raises:
        UnknownNameError: the request names a level or node that does not exist.
        InputError: it names nothing, or everything.
    """
    every_node = hierarchy.nodes(level)
    nodes = set(forget)
    for node in sorted(nodes - set(every_node)):
        raise UnknownNameError(level, node, every_node if level in PUBLIC_LEVELS else None)
    if not nodes:
        raise InputError(f"Split {name!r} forgets nothing. Name at least one {level}.")
    if len(nodes) == len(every_node):
        raise InputError(
            f"Split {name!r} forgets every {level}: nothing is left to retain, so there is neither utility to "
            f"measure nor a retrained model. Leave out at least one {level}."
        )
    return Split(
        name,
        level,
        tuple(node for node in every_node if node in nodes),
        tuple(node for node in every_node if node not in nodes),
    )


def nested_splits(
    hierarchy: Hierarchy,
    level: str,
    percents: Sequence[int],
    *,
    prefix: str,
    seed: int,
    order: Sequence[str] | None = None,
) -> dict[str, Split]:
    """Splits that forget a random share of a level's nodes, each contained in the next larger one.

    Args:
        percents: shares in percent, e.g. ``(5, 10, 25)``; sizes are rounded half up, at least one node.
        prefix: the splits are called ``<prefix>_05`` and so on.
        seed: random seed; splits do not depend on the order of the records.
        order: order in which the nodes are forgotten; none: drawn by the seed.

    Returns:
        name -> split. A share that would leave nothing to retain is left out.
    """
    order = shuffled(hierarchy.nodes(level), "splits", level, seed) if order is None else order
    sizes = {percent: share(percent, len(order)) for percent in sorted(percents)}
    return {
        f"{prefix}_{percent:02d}": request(hierarchy, f"{prefix}_{percent:02d}", level, order[:size])
        for percent, size in sizes.items()
        if size < len(order)
    }


def share(percent: int, total: int) -> int:
    """``percent`` of ``total``, rounded half up, at least 1."""
    return max(1, (2 * percent * total + 100) // 200)


def shuffled(nodes: Iterable[str], *purpose: str | int) -> list[str]:
    """The nodes in an order that depends only on their names and the purpose."""
    ordered = sorted(nodes)
    return [ordered[place] for place in generator(*purpose).permutation(len(ordered))]
