"""Interface of a vision-language family: preprocessing, prompt marker and encoding of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from PIL.Image import Image
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Prepared:
    """One preprocessed image for a vision tower.

    Attributes:
        inputs: the tower's tensors by name.
        slot: the image's tokens in a prompt, in order: special tokens of the tokenizer by their text, and numbers
            of picture tokens (:mod:`medunlearn.models.vision.pictures`) between them.
        grid: rows and columns of the picture tokens, for families with two-axis positions; else None.
    """

    inputs: Mapping[str, Tensor]
    slot: tuple[str | int, ...]
    grid: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Number of picture tokens of the image."""
        return sum(piece for piece in self.slot if isinstance(piece, int))

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.inputs.values())


class Family(Protocol):
    """A family of vision-language models with the same image handling."""

    title: str
    marker: str
    """Text of the family's chat template in the place of an image."""
    several: bool
    """True if the released models were trained on several images per prompt."""
    axes: bool
    """True if picture tokens have positions of two axes (:mod:`medunlearn.models.vision.positions`)."""

    def prepare(self, processor: Any, config: Any, image: Image) -> Prepared:
        """An RGB image, resized, normalised and cut by the model's image processor."""
        ...

    def features(self, model: Any, prepared: Sequence[Prepared]) -> list[Tensor]:
        """Image features at the picture tokens of each image, [count, W] each; gradients flow."""
        ...
