"""The MLPs of decoder layers, with their matrices as rows, whatever the family calls them.

A *neuron* of an MLP is one of its intermediate units: row n of the matrices that compute it (``gate`` and ``up``,
or a single one) and column n of the matrix that reads it (``down``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from medunlearn.errors import InputError
from medunlearn.models.decoder import base_model, decoder_layers
from medunlearn.models.layer_choice import chosen_layers

# The matrices that make neurons, and the one that reads them; a fused one holds gate and up, one below the other.
_NAMES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("gate_proj", "up_proj"), "down_proj"),  # Llama, Mistral, Qwen, Gemma and most others
    (("gate_up_proj",), "down_proj"),  # Phi-3
    (("c_fc",), "c_proj"),  # GPT-2
    (("dense_h_to_4h",), "dense_4h_to_h"),  # GPT-NeoX
    (("fc1",), "fc2"),  # OPT, Phi, CLIP and SigLIP
    (("up_proj",), "down_proj"),
)


_MERGERS = ("multi_modal_projector", "merger", "connector")  # LLaVA, Qwen2.5-VL, Idefics3


@dataclass(frozen=True)
class Matrix:
    """A linear layer as rows, one per output unit.

    Attributes:
        name: ``layer 3 up_proj``; unique in its model.
        module: ``nn.Linear``, or GPT-2's Conv1D, whose weight is transposed.
    """

    name: str
    module: nn.Module

    @property
    def rows(self) -> Tensor:
        """The weight, [units, inputs]; a view: changes to it change the model."""
        weight = self.module.weight
        assert isinstance(weight, Tensor)
        return weight.detach().T if isinstance(self.module, Conv1D) else weight.detach()

    @property
    def bias(self) -> Tensor | None:
        """One number per row, [units]; a view."""
        bias = getattr(self.module, "bias", None)
        return bias.detach() if isinstance(bias, Tensor) else None

    @property
    def units(self) -> int:
        return int(self.rows.shape[0])


@dataclass(frozen=True)
class Mlp:
    """The MLP of a decoder layer: rows of ``makes`` compute its neurons, columns of ``reads`` read them."""

    layer: int
    makes: tuple[Matrix, ...]
    reads: Matrix

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return (*self.makes, self.reads)

    @property
    def neurons(self) -> int:
        return int(self.reads.rows.shape[1])

    def zero(self, neurons: Tensor) -> None:
        """Zero the rows that compute the chosen neurons, and the columns that read them.

        Zero columns in ``reads`` remove their effect even if the activation function is not 0 at 0; zero rows
        remove what they had learned from the weights.
        """
        with torch.no_grad():
            for matrix in self.makes:
                for start in range(0, matrix.units, self.neurons):  # twice for a fused one
                    matrix.rows[start + neurons] = 0
                    if matrix.bias is not None:
                        matrix.bias[start + neurons] = 0
            self.reads.rows[:, neurons] = 0


def mlps(model: Any, layers: str = "all") -> list[Mlp]:
    """The MLPs of the decoder layers selected by :func:`.chosen_layers`, lowest first.

    Raises:
        InputError: no such layer; a layer with another kind of MLP (a mixture of experts), or quantized weights.
    """
    stack = decoder_layers(base_model(model))
    return [_mlp(place, stack[place]) for place in chosen_layers(layers, len(stack))]


def merger(model: Any) -> list[Matrix]:
    """The matrices of the projector between vision tower and language model, in order; empty without a tower.

    Raises:
        InputError: the model has a tower without a known projector, or a quantized one.
    """
    base = base_model(model)
    if getattr(base.config, "vision_config", None) is None:
        return []
    parts = [(name, part) for name, part in base.named_modules() if name.rpartition(".")[2] in _MERGERS]
    matrices = [
        Matrix(f"{name.rpartition('.')[2]} {inner}", module)
        for name, part in parts[:1]
        for inner, module in part.named_modules()
        if isinstance(module, nn.Linear)
    ]
    if not matrices:
        raise InputError(
            f"Cannot find the projector of a {type(base).__name__}'s vision tower (looked for "
            f"{', '.join(_MERGERS)}). Leave it out with --chip.merger false."
        )
    _refuse_quantized("the vision-language merger", matrices)
    return matrices


def _mlp(place: int, layer: nn.Module) -> Mlp:
    for owner in (getattr(layer, "mlp", None), layer):
        for makes, reads in _NAMES:
            modules: list[Any] = [getattr(owner, name, None) for name in (*makes, reads)]
            if all(isinstance(module, nn.Linear | Conv1D) for module in modules):
                names = [f"layer {place} {name}" for name in (*makes, reads)]
                *rows, columns = [Matrix(name, module) for name, module in zip(names, modules, strict=True)]
                _refuse_quantized(f"layer {place}", [*rows, columns])
                return Mlp(place, tuple(rows), columns)
    raise InputError(
        f"Layer {place} is a {type(layer).__name__} without a plain MLP (a mixture of experts has several): "
        "neurons of it cannot be edited. Choose other layers, or a method that trains."
    )


def _refuse_quantized(where: str, matrices: Sequence[Matrix]) -> None:
    if not all(matrix.rows.is_floating_point() for matrix in matrices):
        raise InputError(
            f"The weights of {where} are quantized; an edit needs them in fp32 or bf16: load the unquantized model."
        )
