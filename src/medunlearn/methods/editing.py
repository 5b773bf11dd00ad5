"""Interface of methods that edit weights without training.

An edit method changes weights without training: it reads the model's activations on the samples to forget and to
retain, and writes to its matrices. It is an object with hyperparameters and one function:

    @dataclass(frozen=True)
    class ZeroTheLoudest:
        kind: ClassVar[Kind] = "edit"
        layers: str = "all"

        def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
            for mlp in model.mlps(self.layers):
                site = Site("loud", mlp.reads.module, "in")
                ...

A side offers :meth:`~medunlearn.models.activations.Side.each` and, inside, ``see``: passes in which activations are
reduced batch by batch. Results combined over batches must be sums over samples or tokens, so that no number depends
on the batching.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from medunlearn.models.activations import Side, Site
    from medunlearn.models.mlps import Matrix, Mlp
else:
    # They import torch, which the names and settings of methods do not need.
    _ELSEWHERE = {
        **dict.fromkeys(("Side", "Site"), "medunlearn.models.activations"),
        **dict.fromkeys(("Matrix", "Mlp"), "medunlearn.models.mlps"),
    }

    def __getattr__(name: str) -> Any:
        if name not in _ELSEWHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_ELSEWHERE[name]), name)


Kind = Literal["edit"]


@dataclass(frozen=True)
class EditedModel:
    """The model to edit, and the request.

    Attributes:
        model: a Hugging Face model in evaluation mode; changes to its matrices persist.
        levels: levels of the benchmark, from the coarsest to the finest.
        level: level of the request's nodes; it need not be one of ``levels``.
    """

    model: Any
    levels: tuple[str, ...] = ()
    level: str = ""

    def mlps(self, layers: str = "all") -> list[Mlp]:
        """The MLPs of the language model's chosen layers (:func:`medunlearn.models.mlps.mlps`)."""
        from medunlearn.models.mlps import mlps

        return mlps(self.model, layers)

    def merger(self) -> list[Matrix]:
        """The matrices of the module between vision tower and language model; empty for a text model."""
        from medunlearn.models.mlps import merger

        return merger(self.model)


@runtime_checkable
class EditMethod(Protocol):
    """An unlearning method that edits weights without training. Its fields are its hyperparameters.

    Attributes:
        kind: ``edit``, unlike methods that train.
        layers: the decoder layers that it reads and edits (:func:`medunlearn.models.layer_choice.chosen_layers`).
    """

    kind: ClassVar[Kind]
    layers: str

    def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
        """Change the model's weights.

        Returns:
            Numbers on the edit for ``run.json``, without record text.

        Raises:
            InputError: the model lacks the edited modules.
        """
        ...

    def passes(self, images: bool) -> int:
        """Number of passes over each sample, for cost estimates.

        Args:
            images: the samples have images, and the model uses them.
        """
        ...


__all__ = ["EditMethod", "EditedModel", "Kind", "Matrix", "Mlp", "Side", "Site"]
