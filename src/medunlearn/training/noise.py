"""Weights mixed with random ones, to begin a distillation from."""

from __future__ import annotations

from typing import Any

import torch

from medunlearn.seeds import stable_seed
from medunlearn.training.trainable import trained


@torch.no_grad()
def mix_with_noise(model: Any, share: float, seed: int) -> None:
    """Mix each trained matrix with a random one: ``(1 - share) W + share N``.

    Vectors (norms, biases) stay as they are. N is Gaussian of the standard deviation in the model's configuration.

    Args:
        share: of the random matrix, 0-1.
    """
    config = model.config.get_text_config()
    deviation = float(getattr(config, "initializer_range", 0.02))
    for name, tensor in trained(model).items():
        if tensor.dim() > 1:
            source = torch.Generator().manual_seed(stable_seed("noise", seed, name))
            drawn = deviation * torch.randn(tensor.shape, generator=source)
            tensor.mul_(1 - share).add_(drawn.to(tensor), alpha=share)
