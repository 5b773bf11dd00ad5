"""What a stage takes: tokens, FLOPs, steps, and memory by its parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """Bytes at the moment when a stage holds most, on the device that it runs on, in each of its processes.

    What ``offload=optimizer`` moves from a GPU to the host is not in it.

    Attributes:
        weights: of the model.
        gradients, moments: of what is trained; moments are the optimizer's.
        reference: what is kept in memory of the model before unlearning.
        activations: everything that a pass makes.
        cache: keys and values of the answers that are decoded together.
    """

    weights: int = 0
    gradients: int = 0
    moments: int = 0
    reference: int = 0
    activations: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Work:
    """What is left to do of a stage, by all of its processes together.

    Attributes:
        tokens: run through the model to train or to score, padding left out, shared text once a micro-batch.
        generated: tokens that are decoded at most.
        flops: of matrix products and attention, forward and backward.
        memory: None where nothing is left to do.
        steps: optimizer steps.
        kept: bytes on the disk of what is computed once for all epochs; gone when the stage is done.
    """

    tokens: int = 0
    generated: int = 0
    flops: float = 0.0
    memory: Memory | None = None
    steps: int = 0
    kept: int = 0

    def __add__(self, other: Work) -> Work:
        known = [memory for memory in (self.memory, other.memory) if memory is not None]
        return Work(
            self.tokens + other.tokens,
            self.generated + other.generated,
            self.flops + other.flops,
            max(known, key=lambda memory: memory.total, default=None),
            self.steps + other.steps,
            max(self.kept, other.kept),
        )
