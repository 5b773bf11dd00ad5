"""Cross-modal hierarchy-informed projection: removes from the weights what distinguishes the forget set from its
siblings.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from medunlearn.data.siblings import SiblingContrasts, sibling_contrasts
from medunlearn.errors import InputError
from medunlearn.methods.editing import EditedModel, Kind, Matrix, Side, Site
from medunlearn.models.activations import Look, Tokens

LEAST = 1e-8
"""Length below which a difference of means is not a direction."""


@dataclass(frozen=True)
class CHIP:
    """Projects the rows of forget-related neurons away from the directions that distinguish a target from its
    siblings.

    A sample's activation of a matrix is ``a = vision * mean over image tokens + (1 - vision) * mean over text
    tokens`` of the matrix's outputs (for text only: the mean). In each matrix the ``top`` percent of units are
    selected whose mean |a| over the forget set exceeds that over the retain set most. For each child of a target
    (:func:`medunlearn.data.siblings.sibling_contrasts`), ``d = mean a of the child - mean a of the siblings'
    children``, at the selected units and of length 1. Q holds the right singular vectors of all d that reach
    ``energy`` of their squared singular values, and the selected rows S become ``W_S <- (I - Q Q^T) W_S``.

    Source: Wu et al. 2025 (arXiv 2512.09867v2, CHIP), with the choices of its published code where the paper leaves
    them open: gate, up and down matrices each with their own units, six layers of twenty-eight (docs/unlearn.md).

    Attributes:
        selection: weights of samples in the means of |a|: ``samples``, every sample once; or ``nodes`` as in the
            published code, once for each node of the target's level and of the level below that contains the
            sample, so that questions on levels above do not count and those below count twice.
        top: percent of a matrix's units to select; at least one is.
        energy: share of the directions' squared singular values to remove, above 0 to 1.
        vision: weight of the image tokens relative to text tokens, 0 to 1.
        layers: all, last:6, 22-27 or 3,5; 0 is the first.
        merger: also edit the module between vision tower and language model, if there is one.
    """

    title: ClassVar[str] = "CHIP"
    family: ClassVar[str] = "weight editing"
    retain_term: ClassVar[str] = "none"
    kind: ClassVar[Kind] = "edit"

    selection: Literal["samples", "nodes"] = "samples"
    top: Annotated[float, Field(gt=0, le=100)] = 10.0
    energy: Annotated[float, Field(gt=0, le=1)] = 0.95
    vision: Annotated[float, Field(ge=0, le=1)] = 0.3
    layers: str = "last:6"
    merger: bool = True

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.title if self.selection == "samples" else f"{self.title}, selection by nodes"

    def passes(self, images: bool) -> int:
        return 1

    def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
        contrasts = sibling_contrasts(model.levels, model.level, forget.groups, retain.groups)
        matrices = [matrix for mlp in model.mlps(self.layers) for matrix in mlp.matrices]
        joining = model.merger() if self.merger and forget.images and retain.images else []
        ours = self._sums(forget, contrasts.units, self._times(model, forget.groups), matrices, joining)
        theirs = self._sums(retain, contrasts.pools, self._times(model, retain.groups), matrices, joining)
        report = {
            matrix.name: self._project(matrix, ours[matrix.name], theirs[matrix.name], contrasts)
            for matrix in (*matrices, *joining)
        }
        removed = sum(counts["removed"] for counts in report.values())
        if not removed:
            raise InputError(
                "CHIP found no direction that distinguishes the forget set from its siblings: their activations "
                "are equal. Nothing was changed; choose other layers or another split."
            )
        return {
            "selection": self.selection,
            "units": len(contrasts.units),
            "unit_level": contrasts.level,
            "units_told_from_the_whole_level": contrasts.fallbacks,
            "removed_directions": removed,
            "matrices": report,
        }

    def _project(self, matrix: Matrix, ours: Sums, theirs: Sums, contrasts: SiblingContrasts) -> dict[str, int]:
        units = select(ours.magnitude, theirs.magnitude, self.top)
        apart = directions(ours.means[:, units], theirs.means[:, units], contrasts.pool)
        basis = subspace(apart, self.energy)
        project(matrix, units, basis)
        return {"selected": len(units), "directions": len(apart), "removed": basis.shape[1]}

    def _times(self, model: EditedModel, groups: Sequence[Mapping[str, str]]) -> list[float]:
        """Weight of each sample in the selection.

        Raises:
            InputError: all weights are 0.
        """
        if self.selection == "samples":
            return [1.0] * len(groups)
        times = nodes_of(model.levels, model.level, groups)
        if not any(times):
            raise InputError(
                f"chip.selection=nodes: no sample of one side is in a node of level {model.level!r}. Set samples."
            )
        return times

    def _sums(
        self,
        side: Side,
        groups: Sequence[Sequence[int]],
        times: Sequence[float],
        matrices: Sequence[Matrix],
        joining: Sequence[Matrix],
    ) -> dict[str, Sums]:
        of: dict[int, list[int]] = {}
        for group, numbers in enumerate(groups):
            for number in numbers:
                of.setdefault(number, []).append(group)
        total: dict[str, Sums] = {}
        for batch_values in side.each(lambda look: list(self._activations(look, matrices, joining))):
            for name, values, places in batch_values:
                inside = [of.get(place, []) for place in places]
                more = Sums.of(values, inside, len(groups), [times[place] for place in places])
                total[name] = total[name] + more if name in total else more
        return total

    def _activations(
        self, look: Look, matrices: Sequence[Matrix], joining: Sequence[Matrix]
    ) -> Iterator[tuple[str, Tensor, tuple[int, ...]]]:
        """Name of each matrix, each sample's activation of it, [S, W], and the samples' indices."""

        def reduce(values: Tensor, tokens: Tokens) -> Tensor:
            return mixed(values, tokens, self.vision)

        for name, values in look.see(_sites(matrices), reduce).items():
            yield name, values, look.places
        if joining:
            for means, places in look.see_images(_sites(joining), lambda values, tokens: tokens.means(values)):
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


def nodes_of(levels: Sequence[str], level: str, groups: Sequence[Mapping[str, str]]) -> list[float]:
    """Number of nodes of a level and of the level below that contain each sample: 0, 1 or 2.

    Args:
        levels: from the coarsest to the finest.
        groups: level -> node, for each sample.
    """
    below = levels[levels.index(level) + 1 :][:1] if level in levels else []
    return [float(sum(name in nodes for name in (level, *below))) for nodes in groups]


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
