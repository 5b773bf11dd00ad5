"""Quantized model folders as models that can be trained: their weights are dequantized when they are loaded.

transformers otherwise keeps the quantized form on a GPU, and writes it again when the model is saved, with weights
that its configuration no longer describes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import FineGrainedFP8Config, Mxfp4Config

METHODS: Mapping[str, Callable[[], Any]] = {
    "fp8": lambda: FineGrainedFP8Config(dequantize=True),
    "mxfp4": lambda: Mxfp4Config(dequantize=True),
}
"""Quantization of a configuration -> settings with which transformers dequantizes its weights."""


def quantization_of(config: Any) -> str | None:
    """The method by which a folder's weights are quantized; None if they are not."""
    facts = getattr(config, "quantization_config", None)
    method = facts.get("quant_method") if isinstance(facts, Mapping) else getattr(facts, "quant_method", None)
    return None if method is None else str(getattr(method, "value", method))


def dequantizing(config: Any) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` that dequantize a folder's weights; empty if they are not quantized so."""
    settings = METHODS.get(quantization_of(config) or "")
    return {} if settings is None else {"quantization_config": settings()}


def forget_quantization(model: Any) -> None:
    """Make a dequantized model an ordinary one, which is saved with the weights that it has."""
    for config in (model.config, model.config.get_text_config()):
        if getattr(config, "quantization_config", None) is not None:
            del config.quantization_config
    conversions = getattr(model, "_weight_conversions", None)
    if conversions:
        model._weight_conversions = [one for one in conversions if not _is_quantized(one)]


def _is_quantized(conversion: Any) -> bool:
    """True for a conversion that reads scales beside a weight."""
    patterns = getattr(conversion, "source_patterns", None) or ()
    return any("scale" in pattern or pattern.endswith("_blocks") for pattern in patterns)
