"""Partial forward passes through the decoder, evaluated at some positions.

A pass may start after frozen layers, whose output (the *trunk*) is the same for the model and its reference; it may
end at the layer that a method needs; and its last layer's MLP runs only at the positions that are read. Notation in
this file: R rows of T tokens, N positions that are read, V vocabulary, W width of the hidden states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from medunlearn.errors import InputError
from medunlearn.models.batches import Batch
from medunlearn.models.head import Head
from medunlearn.models.precision import at_least_fp32


@dataclass(frozen=True)
class LayoutSupport:
    """Layouts and shortcuts that a model supports; each saves work and changes no number.

    Attributes:
        attention: ``branches``: families in one row, by :mod:`medunlearn.models.branches`; ``masks``: packed rows
            with a mask of our own; ``padded``: a row for each sequence.
        head: the model's logits are those of the output head.
        layers: a layer can be replaced by its output.
        mlp: a layer's MLP treats every position independently.
        longest: longest sequence, in tokens, that ``attention`` supports; batches with a longer one are padded.
    """

    attention: Literal["branches", "masks", "padded"] = "padded"
    head: bool = False
    layers: bool = False
    mlp: bool = False
    longest: float = math.inf


class Decoder:
    """A causal language model as layers between an embedding and a head."""

    def __init__(self, model: Any, support: LayoutSupport) -> None:
        self.model, self.support = model, support
        self.base = base_model(model)
        self.layers = decoder_layers(self.base)

    def head(self) -> Head:
        return Head.of(self.base)

    def first_trained(self) -> int:
        """Number of frozen prefix layers: neither they nor the embedding are trained."""
        if not self.support.layers or (self.model.training and _drops(self.base)):
            return 0
        inside = {id(tensor) for layer in self.layers for tensor in layer.parameters()}
        elsewhere = inside | parameters_above(self.base, len(self.layers) - 1)
        if any(tensor.requires_grad and id(tensor) not in elsewhere for tensor in self.base.parameters()):
            return 0
        trained = [any(tensor.requires_grad for tensor in layer.parameters()) for layer in self.layers]
        return trained.index(True) if True in trained else len(trained)

    def trunk(self, batch: Batch, count: int) -> Tensor:
        """Output of the first ``count`` layers (at least 1) at every position, [R, T, W]; no gradient."""
        with torch.no_grad():
            return self._states(batch, None, count - 1)

    def hidden(self, batch: Batch, layer: int, trunk: Trunk | None = None) -> Tensor:
        """Output of decoder layer ``layer`` (0 is the first) at the positions that are read, [N, W], in fp32.

        The layers above it are not run, forward or backward.

        Raises:
            InputError: the model has no such layer.
        """
        if not 0 <= layer < len(self.layers):
            raise InputError(f"There is no layer {layer}: this model has the layers 0 to {len(self.layers) - 1}.")
        if trunk is not None and trunk.layers == layer + 1:
            return at_least_fp32(_picked(trunk.states, batch))
        if trunk is not None and trunk.layers > layer:
            trunk = None
        with self._ending_at(batch, layer):
            return at_least_fp32(_picked(self._states(batch, trunk, layer), batch))

    def final(self, batch: Batch, trunk: Trunk | None = None) -> Tensor:
        """Inputs of the head at the positions that are read, [N, W]. Requires ``support.head``."""
        with self._ending_at(batch, len(self.layers) - 1), self._stood_in(trunk, len(self.layers) - 1):
            output = self._run(decoder_body(self.base), batch)
        return _picked(output.last_hidden_state, batch)

    def logits(self, batch: Batch, trunk: Trunk | None = None) -> Tensor:
        """Logits at the positions that are read, [N, V], in fp32; large."""
        if self.support.head:
            return self.head().logits(self.final(batch, trunk))

        def pick(head: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (_picked(inputs[0], batch)[None], *inputs[1:])

        # Whatever the family does behind its head (a cap, a scale) is done as ever.
        hook = self.base.get_output_embeddings().register_forward_pre_hook(pick)
        try:
            with self._ending_at(batch, len(self.layers) - 1), self._stood_in(trunk, len(self.layers) - 1):
                logits: Tensor = self._run(self.base, batch).logits
        finally:
            hook.remove()
        return at_least_fp32(logits[0])

    def all_hidden(self, batch: Batch) -> list[Tensor]:
        """Output of each decoder layer at every position, one pass: L tensors of [R, T, W]; no gradient."""
        caught: list[Tensor] = []
        with ExitStack() as until, torch.no_grad():
            for layer in self.layers:
                hook = layer.register_forward_hook(lambda module, inputs, output: caught.append(_first(output)))
                until.callback(hook.remove)
            self._run(decoder_body(self.base), batch)
        return caught

    def read_out(self, batch: Batch, trunk: Trunk) -> Tensor:
        """Inputs of the head at the positions that are read if the trunk were all layers, [N, W]: the trunk's
        output behind the final norm. Requires ``support.layers``.
        """
        with self._stood_in(trunk, trunk.layers - 1):
            output = self._run(decoder_body(self.base), batch)
        return _picked(output.last_hidden_state, batch)

    def _states(self, batch: Batch, trunk: Trunk | None, last: int) -> Tensor:
        """Output of layer ``last`` at every position, [R, T, W]."""
        caught: list[Tensor] = []
        hook = self.layers[last].register_forward_hook(lambda module, inputs, output: caught.append(_first(output)))
        try:
            with self._stood_in(trunk, last):
                self._run(decoder_body(self.base), batch)
        finally:
            hook.remove()
        return caught[0]

    def _run(self, module: Any, batch: Batch) -> Any:
        more: dict[str, Any] = without_router_loss(self.base)
        if batch.position_ids is not None:
            more["position_ids"] = batch.position_ids
        if batch.layout is not None:
            more["layout"] = batch.layout
        mask = batch.attention_mask
        if mask.dim() == 4 and getattr(self.base.config, "_attn_implementation", None) == "eager":
            # Plain attention adds its mask to the weights instead of choosing by it (Gemma 2 uses it).
            mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, torch.finfo(torch.float32).min)
        return module(input_ids=batch.input_ids, attention_mask=mask, use_cache=False, **more)

    @contextmanager
    def _stood_in(self, trunk: Trunk | None, last: int) -> Iterator[None]:
        """Context that skips the layers below the trunk's end and above ``last``."""
        if not self.support.layers:
            yield
            return
        layers = list(self.layers)
        try:
            for place, layer in enumerate(layers):
                if trunk is not None and place < trunk.layers:
                    self.layers[place] = _StandIn(layer, trunk.states)
                elif place > last:
                    self.layers[place] = _StandIn(layer, None)
            yield
        finally:
            for place, layer in enumerate(layers):
                self.layers[place] = layer

    @contextmanager
    def _ending_at(self, batch: Batch, last: int) -> Iterator[None]:
        """Context in which layer ``last`` computes little more than its output at the positions that are read."""
        layer = self.layers[last]
        # A layer that is run again in the backward pass must be run the same way, and then this is over.
        if getattr(layer, "gradient_checkpointing", False) and self.model.training:
            yield
            return
        with ExitStack() as until:
            if batch.layout is not None:
                until.enter_context(batch.layout.ending_at(layer))
            mlp = getattr(layer, "mlp", None)
            if self.support.mlp and mlp is not None:
                pick, spread = _at_positions_read(batch)
                until.callback(mlp.register_forward_pre_hook(pick).remove)
                until.callback(mlp.register_forward_hook(spread).remove)
            yield


def _at_positions_read(batch: Batch) -> tuple[Any, Any]:
    """Hooks for a position-wise module: it computes only the positions that are read, and gives 0 elsewhere."""
    row, column = batch.distinct

    def pick(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0][row, column][None], *inputs[1:])

    def spread(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output.new_zeros(*batch.input_ids.shape, output.shape[-1]).index_put((row, column), output[0])

    return pick, spread


@dataclass(frozen=True)
class Trunk:
    """Output of the first ``layers`` layers at every position of a batch, [R, T, W]."""

    layers: int
    states: Tensor


class _StandIn(nn.Module):
    """Stand-in for a layer: returns its known output, or passes its input on."""

    def __init__(self, layer: nn.Module, output: Tensor | None) -> None:
        super().__init__()
        object.__setattr__(self, "layer", layer)
        object.__setattr__(self, "output", output)

    def __getattr__(self, name: str) -> Any:
        # Some models ask a layer of its kind (whether its attention slides).
        return getattr(object.__getattribute__(self, "layer"), name)

    def forward(self, hidden_states: Tensor, *inputs: Any, **more: Any) -> Tensor:
        return hidden_states if self.output is None else self.output


def _picked(states: Tensor, batch: Batch) -> Tensor:
    return states[batch.row, batch.column]


def _first(output: Any) -> Tensor:
    states: Tensor = output[0] if isinstance(output, tuple) else output
    return states


def _drops(model: nn.Module) -> bool:
    """True if the model has dropout in training."""
    return any(
        (isinstance(module, nn.Dropout) and module.p > 0) or getattr(module, "attention_dropout", 0)
        for module in model.modules()
    )


def without_router_loss(model: Any) -> dict[str, bool]:
    """Arguments that omit a router's auxiliary loss, whose mask of padding is not that of our batches."""
    config = model.config.get_text_config()
    return {"output_router_logits": False} if getattr(config, "output_router_logits", False) else {}


def base_model(model: Any) -> Any:
    """The model itself, or the one inside a LoRA adapter."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def decoder_body(model: Any) -> Any:
    """The module with embedding and layers, without the head; Llama 4's own method gives the whole model."""
    body = model.get_decoder() if hasattr(model, "get_decoder") else model
    if body is not model or not hasattr(model, "get_output_embeddings"):
        return body
    others = [module for module in model.children() if module is not model.get_output_embeddings()]
    return others[0] if len(others) == 1 else model


def parameters_above(model: Any, layer: int) -> set[int]:
    """Ids of the parameters above a decoder layer, which do not influence its output."""
    decoder = decoder_body(model)
    norms = (name for name, _ in decoder.named_children() if "norm" in name or name.startswith("ln_"))
    above = [getattr(decoder, name) for name in norms if "embed" not in name]
    above += [model.get_output_embeddings(), *decoder_layers(model)[layer + 1 :]]
    embedding = {id(tensor) for tensor in model.get_input_embeddings().parameters()}
    return {id(tensor) for module in above for tensor in module.parameters()} - embedding


def decoder_layers(model: Any) -> nn.ModuleList:
    """The list of decoder layers, whatever the model family calls it.

    Raises:
        InputError: no list in the model has as many layers as its configuration.
    """
    depth = model.config.get_text_config().num_hidden_layers
    # Of the decoder: the layers of a vision tower may be as many.
    for module in decoder_body(model).modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module
    raise InputError(f"Cannot find the {depth} decoder layers of a {type(model).__name__}.")
