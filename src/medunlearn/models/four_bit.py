"""Decoder layers in 4 bits (NF4) under a LoRA adapter, with bitsandbytes' linear layers.

Training uses the rounded weights, so a finished adapter is merged into these, converted back to the original type:
the saved model is the trained one.

Source: Dettmers et al. 2023 (QLoRA, arXiv 2305.14314), Section 3, here without double quantization of the scales.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from medunlearn.errors import ConfigError
from medunlearn.models.decoder import decoder_layers

NEEDED = "bitsandbytes"


def refuse_without_bitsandbytes() -> None:
    """Refuse quantization without bitsandbytes.

    Raises:
    """
    if find_spec(NEEDED) is None:
        raise ConfigError(
            [
                "quantize=nf4 needs bitsandbytes: pip install 'medunlearn[gpu]' (it runs on a CPU too), or leave "
                "--quantize out"
            ]
        )


def round_to_four_bits(model: Any) -> int:
    """Replace the linear layers of the decoder layers by 4-bit ones; returns their number.

    Embeddings, norms, biases and the output head are unchanged.

    Raises:
        ConfigError: bitsandbytes is not installed, or the decoder layers have no linear layer.
    """
    refuse_without_bitsandbytes()
    import bitsandbytes

    count = 0
    for parent in list(decoder_layers(model).modules()):
        for name, module in list(parent.named_children()):
            if type(module) is not nn.Linear:
                continue
            weight, bias = module.weight, module.bias
            rounded = bitsandbytes.nn.Linear4bit(
                module.in_features,
                module.out_features,
                bias=bias is not None,
                compute_dtype=weight.dtype,
                compress_statistics=False,
                quant_type="nf4",
                device="meta",
            )
            rounded.weight = bitsandbytes.nn.Params4bit(
                weight.detach().contiguous().clone(),
                requires_grad=False,
                compress_statistics=False,
                quant_type="nf4",
                module=rounded,
            )
            rounded.bias = bias
            rounded = rounded.to(weight.device)
            # A CPU's own layout of the packed weights is for some widths alone, and could not be read back here.
            rounded.support_avx512bf16_for_cpu = False
            setattr(parent, name, rounded)
            count += 1
    if not count:
        raise ConfigError([f"quantize=nf4: the layers of a {type(model).__name__} have no linear layer to round"])
    return count


def is_four_bit(module: Any) -> bool:
    """True if a linear layer has its weights in 4 bits."""
    return hasattr(getattr(module, "weight", None), "quant_state")


def whole_weight(module: Any) -> Tensor:
    """The weights [out, in] of a 4-bit layer, converted to their original type."""
    import bitsandbytes

    whole: Tensor = bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    return whole.to(module.weight.quant_state.dtype)


def as_linear(module: Any) -> nn.Linear:
    """A 4-bit layer as a plain linear layer with the same (rounded) weights."""
    with torch.device("meta"):
        plain = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
    plain.weight = nn.Parameter(whole_weight(module), requires_grad=False)
    plain.bias = module.bias
    return plain
