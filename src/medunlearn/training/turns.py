"""Synchronised passes of one sharded model in processes with different work; idle processes contribute their
shards.

A layer is gathered from the shards of all processes, so no process can run a pass alone. Inside :func:`in_turns`, a
pass waits until every other process has one too or has finished its work; finished processes take part in
gathering. Like ``synced_gpus`` of transformers for generation with DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist

from medunlearn.models.decoder import base_model, decoder_body, decoder_layers


def in_turns(model: Any) -> AbstractContextManager[None]:
    """Context of work in each process; the processes may run different passes, or none.

    With an unsharded model each process works independently. Only forward passes: a backward pass communicates in
    its own order.
    """
    if not takes_turns(model):
        return nullcontext()
    turns: Turns = model._turns
    return turns.opened()


def takes_turns(model: Any) -> bool:
    """True for a model with sharded decoder layers."""
    return hasattr(model, "_turns")


def take_turns(model: Any) -> None:
    """Prepare a model with sharded decoder layers for :func:`in_turns`."""
    plain = base_model(model)
    turns = Turns(list(decoder_layers(plain)))
    decoder = decoder_body(plain)
    decoder.register_forward_pre_hook(lambda module, inputs: turns.begin())
    decoder.register_forward_hook(lambda module, inputs, output: turns.end(), always_call=True)
    for place, layer in enumerate(turns.layers):
        # Before FSDP2's own hook, which gathers the layer.
        layer.register_forward_pre_hook(lambda module, inputs, place=place: turns.enter(place), prepend=True)
    object.__setattr__(model, "_turns", turns)


class Turns:
    """Coordinates the gathers of all processes' passes: each pass gathers all layers once, from first to last."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self.layers = layers
        self._open = self._inside = False
        self._next = 0

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Context in which passes wait for each other; at its end this process contributes its shards until all are
        finished.
        """
        self._open = True
        try:
            yield
        finally:
            while self._any_runs(False):
                self._next = 0
                self._gather_below(len(self.layers))
            self._open = False

    def begin(self) -> None:
        """Called before a pass through the decoder."""
        if self._open:
            self._any_runs(True)
            self._inside, self._next = True, 0

    def enter(self, place: int) -> None:
        """Called before a layer runs: gather the layers that this pass skips."""
        if self._inside:
            self._gather_below(place)
            self._next = place + 1

    def end(self) -> None:
        """Called after a pass, even a failed one: gather the layers that it did not reach."""
        if self._inside:
            if self._next:
                self.layers[self._next - 1].reshard()  # An error inside the layer left it whole.
            self._gather_below(len(self.layers))
            self._inside = False

    def _gather_below(self, place: int) -> None:
        for layer in self.layers[self._next : place]:
            layer.unshard()
            layer.reshard()

    def _any_runs(self, mine: bool) -> bool:
        count = torch.tensor([int(mine)], device=next(self.layers[0].parameters()).device)
        dist.all_reduce(count)
        return bool(count.item())
