"""Cross-modal hierarchy-informed projection: removes from the weights what distinguishes the forget set from its
siblings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from medunlearn.data.siblings import sibling_contrasts
from medunlearn.errors import InputError
from medunlearn.methods.editing import EditedModel, Kind

if TYPE_CHECKING:
    from medunlearn.models.activations import Side


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
        from medunlearn.methods.sibling_projection import MatrixActivations, remove_directions

        contrasts = sibling_contrasts(model.levels, model.level, forget.groups, retain.groups)
        matrices = [matrix for mlp in model.mlps(self.layers) for matrix in mlp.matrices]
        joining = model.merger() if self.merger and forget.images and retain.images else []
        activations = MatrixActivations(matrices, joining, self.vision)
        ours = activations.sums(forget, contrasts.units, self._times(model, forget.groups))
        theirs = activations.sums(retain, contrasts.pools, self._times(model, retain.groups))
        report = {
            matrix.name: remove_directions(
                matrix, ours[matrix.name], theirs[matrix.name], contrasts, top=self.top, energy=self.energy
            )
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


def nodes_of(levels: Sequence[str], level: str, groups: Sequence[Mapping[str, str]]) -> list[float]:
    """Number of nodes of a level and of the level below that contain each sample: 0, 1 or 2.

    Args:
        levels: from the coarsest to the finest.
        groups: level -> node, for each sample.
    """
    below = levels[levels.index(level) + 1 :][:1] if level in levels else []
    return [float(sum(name in nodes for name in (level, *below))) for nodes in groups]
