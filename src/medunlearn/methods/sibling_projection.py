"""Directions that distinguish samples from their siblings, and their projection out of the rows of matrices."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medunlearn.data.siblings import SiblingContrasts
from medunlearn.models.activations import Look, Side, Site, Tokens
from medunlearn.models.mlps import Matrix

LEAST = 1e-8
"""Length below which a difference of means is not a direction."""


@dataclass(frozen=True)
class MatrixActivations:
    """Activations of a model's matrices on samples.

    Attributes:
        matrices: matrices of the language model.
        merger: matrices between vision tower and language model, whose outputs are an image's alone.
        vision: weight of the image tokens relative to text tokens, 0 to 1.
    """

    matrices: Sequence[Matrix]
    merger: Sequence[Matrix]
    vision: float

    def sums(self, side: Side, groups: Sequence[Sequence[int]], times: Sequence[float]) -> dict[str, Sums]:
        """Sums of each matrix's activations over a side's samples.

        Args:
            groups: indices of each group's samples.
            times: weight of each sample in the selection.
        """
        memberships: dict[int, list[int]] = {}
        for group, numbers in enumerate(groups):
            for number in numbers:
                memberships.setdefault(number, []).append(group)
        total: dict[str, Sums] = {}
        for batch_values in side.each(lambda look: list(self._of(look))):
            for name, values, places in batch_values:
                inside = [memberships.get(place, []) for place in places]
                more = Sums.of(values, inside, len(groups), [times[place] for place in places])
                total[name] = total[name] + more if name in total else more
        return total

    def _of(self, look: Look) -> Iterator[tuple[str, Tensor, tuple[int, ...]]]:
        """Name of each matrix, each sample's activation of it, [S, W], and the samples' indices."""

        def reduce(values: Tensor, tokens: Tokens) -> Tensor:
            return mixed(values, tokens, self.vision)

        for name, values in look.see(_sites(self.matrices), reduce).items():
            yield name, values, look.places
        if self.merger:
            for means, places in look.see_images(_sites(self.merger), lambda values, tokens: tokens.means(values)):
                for name, values in means.items():
                    yield name, values, places


def _sites(matrices: Sequence[Matrix]) -> list[Site]:
    return [Site(matrix.name, matrix.module, "out") for matrix in matrices]


def mixed(values: Tensor, tokens: Tokens, vision: float) -> Tensor:
    """Each sample's activation: [P, W] -> [S, W]; without an image, the mean over its text tokens."""
    text, image = tokens.means(values, "text"), tokens.means(values, "vision")
    return torch.where(image.isnan(), text, vision * image + (1 - vision) * text)


@dataclass(frozen=True)
class Sums:
    """Sums of a matrix's activations over samples; sums of parts can be added.

    Attributes:
        count: total weight of the samples in the selection.
        absolute: weighted sum of |a|, [W].
        plain: sum of a over the samples of each group, [G, W].
        counts: number of samples in each group, [G].
    """

    count: float
    absolute: Tensor
    plain: Tensor
    counts: Tensor

    @staticmethod
    def of(
        values: Tensor, groups: Sequence[Sequence[int]], number: int, times: Sequence[float] | None = None
    ) -> Sums:
        """Sums over samples, [S, W], by the groups of each sample (``number`` in all), with weights ``times``
        (default 1).
        """
        inside = values.new_zeros(number, len(values))
        for column, memberships in enumerate(groups):
            inside[memberships, column] = 1
        weights = values.new_ones(len(values)) if times is None else values.new_tensor(times)
        parts = (weights @ values.abs(), inside @ values, inside.sum(dim=1))
        return Sums(float(weights.sum()), *(part.cpu() for part in parts))

    def __add__(self, other: Sums) -> Sums:
        return Sums(*map(operator.add, vars(self).values(), vars(other).values()))

    @property
    def magnitude(self) -> Tensor:
        """Mean of |a| over all samples, [W]."""
        return self.absolute / self.count

    @property
    def means(self) -> Tensor:
        """Mean of a over each group, [G, W]; NaN for a group without samples here."""
        return self.plain / self.counts[:, None]


def remove_directions(
    matrix: Matrix, forget: Sums, retain: Sums, contrasts: SiblingContrasts, *, top: float, energy: float
) -> dict[str, int]:
    """Project the directions from siblings to targets out of a matrix's selected rows; returns their numbers.

    Args:
        top: percent of units to select.
        energy: share of the directions' squared singular values to remove.
    """
    units = select(forget.magnitude, retain.magnitude, top)
    apart = directions(forget.means[:, units], retain.means[:, units], contrasts.pool)
    basis = subspace(apart, energy)
    project(matrix, units, basis)
    return {"selected": len(units), "directions": len(apart), "removed": basis.shape[1]}


def select(forget: Tensor, retain: Tensor, percent: float) -> Tensor:
    """Indices of the units whose mean |a| on the forget set most exceeds that on the retain set, ascending; at
    least one.

    Args:
        forget, retain: mean |a| of each unit, [W].
    """
    count = max(1, int(len(forget) * percent / 100))
    return (forget - retain).argsort(descending=True, stable=True)[:count].sort().values


def directions(units: Tensor, pools: Tensor, pool: Sequence[int]) -> Tensor:
    """Unit vectors from each pool's mean to the mean of its unit, at the selected neurons.

    Args:
        units: mean activations, [n, k].
        pools: mean activations of the siblings, [pools, k].
        pool: index of each unit's pool.

    Returns:
        [at most n, k]; a unit at its siblings' mean has none.
    """
    apart = units - pools[list(pool)]
    length = apart.norm(dim=1)
    apart_enough = length > LEAST  # false where a mean is missing, too
    unit: Tensor = apart[apart_enough] / length[apart_enough, None]
    return unit


def subspace(apart: Tensor, energy: float) -> Tensor:
    """Orthonormal basis of the fewest singular directions with a share of the energy: [n, k] -> [k, r]."""
    if not len(apart):
        return apart.new_zeros(apart.shape[1], 0).double()
    _, singular, right = torch.linalg.svd(apart.double(), full_matrices=False)
    share = (singular**2).cumsum(dim=0) / (singular**2).sum()
    # Rounding must not ask for one more than there are.
    enough = min(len(singular), int((share < energy - 1e-12).sum()) + 1)
    basis: Tensor = right[:enough].T.contiguous()
    return basis


def project(matrix: Matrix, units: Tensor, basis: Tensor) -> None:
    """Project the directions in ``basis``, [k, r], out of the rows of k units; other rows and biases are
    unchanged.
    """
    if not basis.shape[1]:
        return
    with torch.no_grad():
        rows, place = matrix.rows, units.to(matrix.rows.device)
        selected, basis = rows[place].double(), basis.to(rows.device)
        rows[place] = (selected - basis @ (basis.T @ selected)).to(rows.dtype)
