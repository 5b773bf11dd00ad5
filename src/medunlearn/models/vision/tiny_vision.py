"""A small vision-language model, built in memory: a CLIP-like encoder, the tiny decoder and its tokenizer.

Like the tiny text model, it knows only its training data, which it can memorize.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from medunlearn.data.images import read_image
from medunlearn.models.load import LanguageModel
from medunlearn.models.vision.llava import FAMILY
from medunlearn.models.vision.pictures import SEVERAL, Pictures
from medunlearn.models.vision.seeing import give_sight
from medunlearn.seeds import stable_seed


def build_tiny_vision(
    text: LanguageModel, images: Iterable[Path], *, folder: Path | None, seed: int, pixels: int, patch: int
) -> LanguageModel:
    """A LLaVA with random weights on a tiny text model, and a processor that normalises by ``images``.

    Args:
        text: the decoder's shape and the tokenizer (:func:`~medunlearn.models.tiny.build_tiny`).
        images: image files for the normalisation of brightness.
        folder: folder to which images of records are relative.
        pixels: width and height to which an image is scaled.
        patch: width and height of the image patch behind one picture token.

    Raises:
        SourceError: an image that cannot be read.
    """
    width: int = text.model.config.hidden_size
    vision = CLIPVisionConfig(
        hidden_size=width // 2,
        intermediate_size=width,
        num_hidden_layers=2,
        num_attention_heads=text.model.config.num_attention_heads,
        image_size=pixels,
        patch_size=patch,
        projection_dim=width // 2,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text.model.config,
        # No id of the vocabulary stands for an image: picture tokens do.
        image_token_id=len(text.tokenizer),
        vision_feature_layer=-1,
        tie_word_embeddings=True,
        # It is trained from nothing on what it is shown.
        **{SEVERAL: True},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stable_seed("tiny-vision", seed))
        model = LlavaForConditionalGeneration(config)
    loaded = [Image.fromarray(read_image(path)).convert("RGB") for path in images]
    processor = _processor(loaded, pixels)
    if loaded:
        _take_away_mean(model, processor, loaded)
    pictures = Pictures(FAMILY, processor, config, text.tokenizer, folder)
    give_sight(model, pictures)
    return LanguageModel(model, text.tokenizer, source=f"tiny-vision:{seed}", pictures=pictures)


def _processor(images: Sequence[Image.Image], pixels: int) -> Any:
    """Image processor that rescales images, and normalises brightness to mean 0 and standard deviation 1 over all
    of them.
    """
    every = np.concatenate([np.asarray(image).ravel() / 255 for image in images] or [np.array([0.0, 1.0])])
    return CLIPImageProcessorPil(
        size={"height": pixels, "width": pixels},
        do_center_crop=False,
        image_mean=[float(every.mean())] * 3,
        image_std=[max(float(every.std()), 1e-3)] * 3,
    )


@torch.no_grad()
def _take_away_mean(model: Any, processor: Any, images: Sequence[Image.Image]) -> None:
    """Initialise the position embeddings so that they subtract the mean image.

    Chest X-rays are nearly equal. A tower this small, with short training, can distinguish them only if it need not
    learn their common part first.
    """
    embeddings = model.model.vision_tower.embeddings
    mean = processor(list(images), return_tensors="pt")["pixel_values"].mean(0, keepdim=True)
    patches = embeddings.patch_embedding(mean).flatten(2).transpose(1, 2)[0]
    embeddings.position_embedding.weight[1:] -= patches
