"""LLaVA: patches of a CLIP or SigLIP tower through a small MLP, one picture token each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from medunlearn.models.vision.family import Prepared


class Llava:
    """LLaVA-1.5 and its relatives as implemented in transformers (``model_type: llava``).

    Source: Liu et al. 2023, Visual Instruction Tuning, arXiv 2304.08485; LLaVA-1.5, arXiv 2310.03744.
    """

    title = "LLaVA"
    marker = "<image>"
    several = False
    axes = False

    def prepare(self, processor: Any, config: Any, image: Image) -> Prepared:
        pixels: Tensor = processor(image, return_tensors="pt")["pixel_values"]
        vision = config.vision_config
        patches = (pixels.shape[-2] // vision.patch_size) * (pixels.shape[-1] // vision.patch_size)
        # A CLIP tower puts a class token before the patches, which the default strategy leaves out.
        classes = config.vision_feature_select_strategy == "full" and vision.model_type == "clip_vision_model"
        return Prepared({"pixel_values": pixels}, (patches + int(classes),))

    def features(self, model: Any, prepared: Sequence[Prepared]) -> list[Tensor]:
        first = next(model.model.vision_tower.parameters())
        pixels = torch.cat([image.inputs["pixel_values"] for image in prepared]).to(first.device, first.dtype)
        return list(model.model.get_image_features(pixel_values=pixels, return_dict=True).pooler_output)


FAMILY = Llava()
