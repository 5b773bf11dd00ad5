"""Qwen2.5-VL: number of picture tokens proportional to image size, with two-axis positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from medunlearn.models.vision.family import Prepared

START, PAD, END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"


class Qwen:
    """Qwen2.5-VL and models trained from it (Lingshu-7B); ``model_type: qwen2_5_vl``.

    Source: Bai et al. 2025, arXiv 2502.13923, Section 2.1 (multimodal rotary position embedding); Lingshu: Xu et
    al. 2025, arXiv 2506.07044.
    """

    title = "Qwen2.5-VL"
    marker = START + PAD + END
    several = True
    axes = True

    def prepare(self, processor: Any, config: Any, image: Image) -> Prepared:
        processed = processor(image, return_tensors="pt")
        _, high, wide = processed["image_grid_thw"][0].tolist()
        merge = config.vision_config.spatial_merge_size
        grid = high // merge, wide // merge
        inputs = {"pixel_values": processed["pixel_values"], "image_grid_thw": processed["image_grid_thw"]}
        return Prepared(inputs, (START, grid[0] * grid[1], END), grid)

    def features(self, model: Any, prepared: Sequence[Prepared]) -> list[Tensor]:
        inputs = {
            name: torch.cat([each.inputs[name] for each in prepared]).to(model.device)
            for name in prepared[0].inputs
        }
        return list(model.model.get_image_features(**inputs, return_dict=True).pooler_output)


FAMILY = Qwen()
