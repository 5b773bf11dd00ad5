"""Idefics3 and SmolVLM: an image as tiles plus the whole, each as a few pixel-shuffled patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from medunlearn.models.vision.family import Prepared

AROUND, WHOLE, TILE = "<fake_token_around_image>", "<global-img>", "<row_{}_col_{}>"


class Idefics3:
    """Idefics3 and its smaller relatives (``model_type: idefics3`` and ``smolvlm``).

    Source: Laurençon et al. 2024, arXiv 2408.12637; Marafioti et al. 2025, SmolVLM, arXiv 2504.05299.
    """

    title = "Idefics3"
    marker = "<image>"
    several = True
    axes = False

    def prepare(self, processor: Any, config: Any, image: Image) -> Prepared:
        processed = processor(image, return_tensors="pt", return_row_col_info=True)
        vision, scale = config.vision_config, config.scale_factor
        count = (vision.image_size // vision.patch_size // scale) ** 2
        inputs = {name: processed[name] for name in ("pixel_values", "pixel_attention_mask") if name in processed}
        return Prepared(inputs, _slot(processed["rows"][0][0], processed["cols"][0][0], count))

    def features(self, model: Any, prepared: Sequence[Prepared]) -> list[Tensor]:
        # Tiles of all images as those of one: they are of one size, and each is encoded by itself.
        inputs = {
            name: torch.cat([image.inputs[name] for image in prepared], dim=1).to(model.device)
            for name in prepared[0].inputs
        }
        (states,) = model.model.get_image_features(**inputs, return_dict=True).pooler_output
        return list(states.split([image.count for image in prepared]))


def _slot(rows: int, columns: int, count: int) -> tuple[str | int, ...]:
    slot: list[str | int] = []
    for row in range(rows):
        for column in range(columns):
            slot += [AROUND, TILE.format(row + 1, column + 1), count]
        slot.append("\n")
    return (*slot, *(["\n"] if rows else []), AROUND, WHOLE, count, AROUND)


FAMILY = Idefics3()
