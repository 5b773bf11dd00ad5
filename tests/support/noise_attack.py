"""A plug-in attack as somebody else would write it: noise on the weights."""

NOISE = '''
from dataclasses import dataclass

import torch

from medunlearn.attacks.recovery.recovery_attacks import State, WeightAttack


@dataclass(frozen=True)
class Noise(WeightAttack):
    """Gaussian noise on the weights, relative to each tensor's spread."""

    name = "noise"
    title = "Noise"
    question = "whether noise on the weights brings back what was forgotten"
    source = "nobody"
    scales: tuple[float, ...] = (0.01, 0.1)

    def states(self, model):
        for scale in self.scales:
            with model.changed() as weights:
                for tensor in weights.values():
                    tensor += scale * tensor.std() * torch.randn_like(tensor)
                yield State(f"{scale:g}", scale)


@dataclass(frozen=True)
class Greedy(Noise):
    """Noise that needs more memory than there is, after the first state."""

    name = "greedy"
    title = "Greedy"

    def states(self, model):
        yield from super().states(model)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80 GiB")


@dataclass(frozen=True)
class Picky(Noise):
    """Noise of which one state cannot be had."""

    name = "picky"
    title = "Picky"

    def states(self, model):
        yield State("1", 1.0, "its tokenizer has no such token")
        yield from super().states(model)


@dataclass(frozen=True)
class Careless(Noise):
    """Noise that stays in the model."""

    name = "careless"
    title = "Careless"

    def states(self, model):
        next(model.live.model.parameters()).data += 1.0
        yield State("1", 1.0)
'''
"""Source of the module ``noise_attack``; ``noise_attack:Noise`` is given on the command line."""
