"""Images in a plan: picture tokens from image sizes, and work and memory of the vision tower."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, LlamaConfig

from medunlearn.data.images import image_size
from medunlearn.data.records import Record
from medunlearn.models.vision.family import Family

_SHAPE = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


@dataclass(frozen=True)
class Tower:
    """Size of a vision tower.

    Attributes:
        parameters: number of parameters outside of the language model.
        patches: number of patches per picture token.
    """

    parameters: int
    layers: int
    width: int
    patches: int

    def flops(self, tokens: int) -> float:
        """FLOPs of an image with this many picture tokens: two per weight and patch, plus attention among all
        patches.
        """
        patches = tokens * self.patches
        return 2.0 * self.parameters * patches + 4.0 * self.layers * self.width * patches**2

    @staticmethod
    def of(config: Any) -> Tower:
        """The tower of a vision-language model's configuration."""
        vision = config.vision_config
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(config)
        language = {id(tensor) for tensor in model.get_decoder().parameters()}
        language |= {id(tensor) for tensor in model.get_output_embeddings().parameters()}
        own = sum(tensor.numel() for tensor in model.parameters() if id(tensor) not in language)
        layers: int = getattr(vision, "num_hidden_layers", None) or vision.depth
        merged: int = getattr(vision, "spatial_merge_size", None) or getattr(config, "scale_factor", None) or 1
        return Tower(own, layers, vision.hidden_size, merged**2)


QWEN_TOWER = Tower(676_550_144, 32, 1280, 4)
"""Of Qwen2.5-VL-7B and models trained from it (its configuration on the hub), for one that is not here."""
QWEN_SIDE = 28
"""Width in pixels of a picture token there: 2 x 2 patches, 14 wide."""


@dataclass
class PlannedImages:
    """Stand-in for :class:`medunlearn.models.vision.pictures.Pictures`: the images of records as tokens.

    Only width and height of images are read. Distinct images have distinct tokens, so only sequences with the same
    image share a prefix.

    Attributes:
        count: function from width and height in pixels to the number of picture tokens.
        folder: folder to which images of records are relative.
    """

    count: Callable[[int, int], int]
    tower: Tower
    folder: Path | None
    marker: str = "<image>"
    several: bool = True
    _tokens: dict[str, int] = field(default_factory=dict, repr=False)

    def tokens(self, images: Sequence[str], record_id: str) -> tuple[int, ...]:
        """Stand-ins, with text ids, for a record's picture tokens."""
        first = [1 + zlib.crc32(image.encode()) % 89 for image in images]
        return tuple(
            1 + (start + place) % 89
            for start, image in zip(first, images, strict=True)
            for place in range(self._count(image))
        )

    def work(self, records: Iterable[Record]) -> float:
        """FLOPs of the tower for all distinct images of the records."""
        images = {image for record in records for image in record.images}
        return sum(self.tower.flops(self._count(image)) for image in images)

    def _count(self, image: str) -> int:
        if image not in self._tokens:
            path = Path(image) if self.folder is None else self.folder / image
            self._tokens[image] = self.count(*image_size(path))
        return self._tokens[image]


def processed_images(root: str, config: Any, family: Family, folder: Path | None) -> PlannedImages:
    """Counts by the image processor of a local model; each size is computed once."""
    processor = AutoImageProcessor.from_pretrained(root, backend="pil", local_files_only=True)
    return counted_images(processor, config, family, folder)


def counted_images(processor: Any, config: Any, family: Family, folder: Path | None) -> PlannedImages:
    """Counts by a given image processor."""

    @lru_cache(maxsize=4096)
    def count(width: int, height: int) -> int:
        return family.prepare(processor, config, Image.new("RGB", (width, height))).count

    return PlannedImages(count, Tower.of(config), folder, family.marker)


def usual_images(folder: Path | None) -> PlannedImages:
    """Counts by Qwen2.5-VL's rule, for a model that is not on this machine."""

    def count(width: int, height: int) -> int:
        return max(1, round(width / QWEN_SIDE)) * max(1, round(height / QWEN_SIDE))

    return PlannedImages(count, QWEN_TOWER, folder)


def text_config(config: Any) -> LlamaConfig:
    """A text decoder configuration with the shape of a vision-language model's."""
    text = config.get_text_config()
    shape = {name: getattr(text, name) for name in _SHAPE}
    return LlamaConfig(
        **shape,
        vocab_size=text.vocab_size,
        head_dim=getattr(text, "head_dim", None),
        max_position_embeddings=text.max_position_embeddings,
        tie_word_embeddings=bool(config.tie_word_embeddings or text.tie_word_embeddings),
    )
