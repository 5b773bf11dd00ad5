"""Merges of models that were trained from the target: sums of task vectors, and TIES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from medunlearn.errors import ConfigError, InputError
from medunlearn.methods.editing import EditedModel, Kind

if TYPE_CHECKING:
    from torch import Tensor

    from medunlearn.methods.editing import Side


@dataclass(frozen=True)
class Merge:
    """Adds to the target what other runs changed in it: ``w + scale merged(w_1 - w, w_2 - w, ...)``.

    - ``sum``: the sum of the task vectors. One of a model that memorized the forget set further
      (:class:`~medunlearn.methods.memorize.Memorize`) is taken off with ``scale`` -1.
    - ``ties``: of each vector the ``density`` of largest entries is kept; each weight takes the sign that the kept
      entries have in sum, and the mean of those of this sign. Of a run that forgets too much and one that forgets
      too little, what both agree on remains.

    Source: task vectors: Ilharco et al. 2023, arXiv 2212.04089; TIES: Yadav et al. 2023, arXiv 2306.01708
    (density .2, scale 1); for unlearning: Xu et al. 2025 (second of SemEval-2025 Task 4), arXiv 2503.21088.

    Attributes:
        models: run folders with commas between; each was unlearned from this target.
        variant: how vectors are merged.
        scale: weight of the merged vector; negative takes it off.
        density: share of a vector's entries that TIES keeps.
    """

    title: ClassVar[str] = "Merge"
    family: ClassVar[str] = "weight editing"
    retain_term: ClassVar[str] = "none"
    kind: ClassVar[Kind] = "edit"
    layers: ClassVar[str] = "all"

    models: str = ""
    variant: Literal["ties", "sum"] = "ties"
    scale: Annotated[float, Field(ge=-10, le=10)] = 1.0
    density: Annotated[float, Field(gt=0, le=1)] = 0.2

    @property
    def runs(self) -> tuple[str, ...]:
        """Folders of the runs to merge, whose models count as inputs of the merged one."""
        return tuple(filter(None, (name.strip() for name in self.models.split(","))))

    def passes(self, images: bool) -> int:
        return 0

    def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
        import torch

        from medunlearn.models.folders import model_folder
        from medunlearn.models.load import load_model

        if not self.runs:
            raise ConfigError(
                ["merge.models is missing: name the folders of the runs to merge, with commas between"]
            )
        weights = dict(model.model.named_parameters())
        vectors: list[Mapping[str, Tensor]] = []
        with torch.no_grad():
            for folder in self.runs:
                # On the processor: a second model may not fit beside the first.
                others = dict(load_model(model_folder(folder), device="cpu").model.named_parameters())
                if {name: own.shape for name, own in others.items()} != {n: w.shape for n, w in weights.items()}:
                    raise InputError(f"merge.models: the model in {folder} has other weights than the target.")
                moved = {name: own - weights[name].to(own) for name, own in others.items()}
                vectors.append({name: vector for name, vector in moved.items() if vector.any()})
            changed = [name for name in weights if any(name in vector for vector in vectors)]
            floors = [self.floor(vector) for vector in vectors]
            for name in changed:
                own = [
                    (vector[name], floor) for vector, floor in zip(vectors, floors, strict=True) if name in vector
                ]
                weights[name].add_((self.scale * self.merged(own)).to(weights[name]))
        return {"changed": len(changed), "models": len(self.runs)}

    def floor(self, vector: Mapping[str, Tensor]) -> float:
        """The smallest size that TIES keeps of a task vector's entries."""
        import torch

        if not vector or self.variant == "sum":
            return 0.0
        sizes = torch.cat([part.flatten().abs() for part in vector.values()])
        count = max(1, round(self.density * len(sizes)))
        return float(sizes.kthvalue(len(sizes) - count + 1).values)

    def merged(self, parts: Sequence[tuple[Tensor, float]]) -> Tensor:
        """One tensor's part of the merged vector, from that of each vector and its floor."""
        import torch

        kept = torch.stack([torch.where(part.abs() >= floor, part, 0.0) for part, floor in parts])
        if self.variant == "sum":
            return kept.sum(dim=0)
        agrees = (kept.sign() == kept.sum(dim=0).sign()) & (kept != 0)
        return (kept * agrees).sum(dim=0) / agrees.sum(dim=0).clamp(min=1)
