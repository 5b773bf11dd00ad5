"""Interface of methods that edit weights without training.

An edit method changes weights without training: it reads what the model computes for the samples to forget and to
retain, and writes to its matrices. It is an object with hyperparameters and one function:

    @dataclass(frozen=True)
    class ZeroTheLoudest:
        kind: ClassVar[Kind] = "edit"
        layers: str = "all"

        def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
            for mlp in model.mlps(self.layers):
                site = Site("loud", mlp.reads.module, "in")
                ...

A side offers :meth:`~medunlearn.models.activations.Side.each` and, inside, ``see``: passes in which values are
reduced as they come. What is put together of batches must be sums over samples or tokens, so that no number depends
on how samples are batched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from medunlearn.models.activations import Side, Site
from medunlearn.models.mlps import Matrix, Mlp, merger, mlps

Kind = Literal["edit"]


@dataclass(frozen=True)
class EditedModel:
    """The model that is edited, and the request.

    Attributes:
        model: a Hugging Face model in evaluation mode; what is written to its matrices stays.
        levels: of the benchmark, from the coarsest to the finest.
        level: that the request names nodes of; it need not be one of ``levels``.
    """

    model: Any
    levels: tuple[str, ...] = ()
    level: str = ""

    def mlps(self, layers: str = "all") -> list[Mlp]:
        """The MLPs of the language model's chosen layers (:func:`medunlearn.models.mlps.mlps`)."""
        return mlps(self.model, layers)

    def merger(self) -> list[Matrix]:
        """The matrices of what joins a vision tower to the language model; none where the model sees nothing."""
        return merger(self.model)


@runtime_checkable
class EditMethod(Protocol):
    """A method that changes weights without training. Its fields are its hyperparameters.

    Attributes:
        kind: tells it from a method that trains.
        layers: the decoder layers that it looks at and writes to (:func:`medunlearn.models.mlps.chosen_layers`).
    """

    kind: ClassVar[Kind]
    layers: str

    def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
        """Change the model's weights.

        Returns:
            What was done, in numbers, for ``run.json``; nothing of a record in it.

        Raises:
            InputError: the model lacks what is edited.
        """
        ...

    def passes(self, images: bool) -> int:
        """Number of times it reads each sample, for plans of cost.

        Args:
            images: the samples have images, and the model sees them.
        """
        ...


__all__ = ["EditMethod", "EditedModel", "Kind", "Matrix", "Mlp", "Side", "Site"]
