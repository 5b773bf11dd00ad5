"""Cross-modal hierarchy-informed projection: what tells the forget set from its siblings leaves the weights."""

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
    """Projects the rows of forget-related neurons away from the directions in which a target leaves its siblings.

    A sample's activation of a matrix is ``a = vision * mean over image tokens + (1 - vision) * mean over text
    tokens`` of what the matrix gives (of a text alone: the mean). In each matrix the ``top`` percent of units are
    selected whose mean |a| over the forget set exceeds that over the retain set most. For each child of a target
    (:func:`medunlearn.data.siblings.sibling_contrasts`), ``d = mean a of the child - mean a of the siblings'
    children``, at the selected units and of length 1. Q holds the right singular vectors of all d that reach
    ``energy`` of their squared singular values, and the selected rows S become ``W_S <- (I - Q Q^T) W_S``.

    Source: Wu et al. 2025 (arXiv 2512.09867v2, CHIP), with the choices of its published code where the paper leaves
    room: gate, up and down matrices each with units of its own, six layers of twenty-eight
    (docs/unlearn.md).

    Attributes:
        selection: what means of |a| are over: ``samples``, every sample once; or ``nodes``, the published code's,
            once for each node of the target's level and of the level below that a sample lies in, so that questions
            on levels above do not count and those below count twice.
        top: percent of a matrix's units to select; at least one is.
        energy: share of the directions' squared singular values that is taken out, above 0 to 1.
        vision: weight of the image's tokens beside the text's, 0 to 1.
        layers: all, last:6, 22-27 or 3,5; 0 is the first.
        merger: also edit what joins the vision tower to the language model, where there is such a part.
    """

    title: ClassVar[str] = "CHIP"
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
                "CHIP found no direction in which what is to be forgotten leaves its siblings: their activations "
                "are the same. Nothing was changed; choose other layers or another split."
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
            InputError: no sample does.
        """
        if self.selection == "samples":
            return [1.0] * len(groups)
        times = nodes_of(model.levels, model.level, groups)
        if not any(times):
            raise InputError(
                f"chip.selection=nodes: no sample of one side lies in a node of level {model.level!r}. Set samples."
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
        for batch_values in side.each(lambda look: list(self._seen(look, matrices, joining))):
            for name, values, places in batch_values:
                inside = [of.get(place, []) for place in places]
                more = Sums.of(values, inside, len(groups), [times[place] for place in places])
                total[name] = total[name] + more if name in total else more
        return total

    def _seen(
        self, look: Look, matrices: Sequence[Matrix], joining: Sequence[Matrix]
    ) -> Iterator[tuple[str, Tensor, tuple[int, ...]]]:
        """A matrix's name, each sample's activation of it, [S, W], and the samples' places."""

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
    """Each sample's activation: [P, W] -> [S, W]; a sample without an image has the mean over its text alone."""
    text, image = tokens.means(values, "text"), tokens.means(values, "vision")
    return torch.where(image.isnan(), text, vision * image + (1 - vision) * text)


@dataclass(frozen=True)
class Sums:
    """Sums over samples of a matrix's activations; sums of parts add up.

    Attributes:
        count: samples, each as often as it counts in the selection.
        absolute: sum of |a| over these, [W].
        plain: sum of a over the samples of each group, [G, W].
        counts: samples in each group, [G].
    """

    count: float
    absolute: Tensor
    plain: Tensor
    counts: Tensor

    @staticmethod
    def of(
        values: Tensor, groups: Sequence[Sequence[int]], number: int, times: Sequence[float] | None = None
    ) -> Sums:
        """Of samples, [S, W], the groups that each is in, of so many, and how often each counts (once)."""
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
    """Number of nodes of a level and of the level below that each sample lies in: 0, 1 or 2.

    Args:
        levels: from the coarsest to the finest.
        groups: of each sample, level -> node.
    """
    below = levels[levels.index(level) + 1 :][:1] if level in levels else []
    return [float(sum(name in nodes for name in (level, *below))) for nodes in groups]


def select(forget: Tensor, retain: Tensor, percent: float) -> Tensor:
    """Places of the units whose mean |a| is larger on the forget set by most, ascending; at least one.

    Args:
        forget, retain: mean |a| of each unit, [W].
    """
    count = max(1, int(len(forget) * percent / 100))
    return (forget - retain).argsort(descending=True, stable=True)[:count].sort().values


def directions(units: Tensor, pools: Tensor, pool: Sequence[int]) -> Tensor:
    """From each pool's mean to that of its unit, at the selected neurons, of length 1.

    Args:
        units: mean activations, [n, k].
        pools: mean activations of the siblings, [pools, k].
        pool: of each unit, the number of its pool.

    Returns:
        [at most n, k]; a unit that is where its siblings are has none.
    """
    apart = units - pools[list(pool)]
    length = apart.norm(dim=1)
    apart_enough = length > LEAST  # false where a mean is missing, too
    unit: Tensor = apart[apart_enough] / length[apart_enough, None]
    return unit


def subspace(apart: Tensor, energy: float) -> Tensor:
    """An orthonormal basis of the fewest singular directions that hold a share of the energy: [n, k] -> [k, r]."""
    if not len(apart):
        return apart.new_zeros(apart.shape[1], 0).double()
    _, singular, right = torch.linalg.svd(apart.double(), full_matrices=False)
    share = (singular**2).cumsum(dim=0) / (singular**2).sum()
    # Rounding must not ask for one more than there are.
    enough = min(len(singular), int((share < energy - 1e-12).sum()) + 1)
    basis: Tensor = right[:enough].T.contiguous()
    return basis


def project(matrix: Matrix, units: Tensor, basis: Tensor) -> None:
    """Take the directions in ``basis``, [k, r], out of the rows of k units; other rows, and biases, stay."""
    if not basis.shape[1]:
        return
    with torch.no_grad():
        rows, place = matrix.rows, units.to(matrix.rows.device)
        selected, basis = rows[place].double(), basis.to(rows.device)
        rows[place] = (selected - basis @ (basis.T @ selected)).to(rows.dtype)
