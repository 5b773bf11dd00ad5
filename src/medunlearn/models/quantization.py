"""Simulated quantization: weights rounded to 8 or 4 bits and stored in their old type, so the model runs on any
device.

This measures the effect of rounding, not speed. The matrices of the decoder layers are rounded, as in bitsandbytes
and GPTQ; embeddings, norms, biases and the output head are unchanged. Every matrix W has a row per output; Q(w) is
its rounded entry w, s the scale of the entry's group:

| type | group | Q(w) |
|---|---|---|
| ``int8`` | a row (output channel) | s * round(w / s), s = max abs(w) / 127 |
| ``int4`` | 64 consecutive entries of a row | s * round(w / s), s = max abs(w) / 7 |
| ``nf4`` | the same | s * (the nearest of 16 levels to w / s), s = max abs(w) |

Source: round to nearest by the largest absolute value: Dettmers et al. 2022 (LLM.int8(), arXiv 2208.07339), Section
2.1; Zhang et al. 2024 (arXiv 2410.16454), Section 3, whose scale is max abs(w) / 2^(N-1) where ours, which keeps
+max and -max, has 2^(N-1) - 1. NF4: Dettmers et al. 2023 (QLoRA, arXiv 2305.14314), Section 3 and Appendix E, here
without its double quantization of scales.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers.pytorch_utils import Conv1D

from medunlearn.models.decoder import decoder_layers

WeightType = Literal["int8", "int4", "nf4"]
WEIGHT_TYPES: tuple[WeightType, ...] = get_args(WeightType)
GROUP = 64
"""Entries of a row that share a scale, of 4 bits."""
LARGEST_INT4 = 7
NF4_LEVELS = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""Quantiles of a normal distribution, scaled to [-1, 1], with an exact 0 (QLoRA, Appendix E)."""


def round_weights(model: Any, kind: WeightType) -> int:
    """Round the matrices of the decoder layers in place; returns their number.

    Modules other than linear layers (fused experts) are rounded along their last axis.
    """
    count = 0
    for module in decoder_layers(model).modules():
        for name, tensor in module.named_parameters(recurse=False):
            if tensor.dim() < 2:
                continue
            # GPT-2's maps have a column per output.
            rows = tensor.detach().t() if isinstance(module, Conv1D) and name == "weight" else tensor.detach()
            rows.copy_(rounded(rows, kind))
            count += 1
    return count


def visit_inputs(
    model: Any, part: nn.Module, sequences: Sequence[Sequence[int]], visit: Callable[[nn.Module, Tensor], None]
) -> None:
    """Show the inputs of each linear map of a part of the model, [tokens, in], sequence by sequence."""

    def show(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        visit(module, inputs[0].detach().float().flatten(0, -2))

    maps = [own for own in part.modules() if isinstance(own, nn.Linear | Conv1D)]
    hooks = [own.register_forward_pre_hook(show) for own in maps]
    try:
        with torch.no_grad():
            for ids in sequences:
                model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()


def input_sizes(model: Any, sequences: Sequence[Sequence[int]]) -> dict[nn.Module, Tensor]:
    """Mean absolute input of each linear map of the decoder layers, [in], over token sequences."""
    sums: dict[nn.Module, Tensor] = {}

    def add(module: nn.Module, inputs: Tensor) -> None:
        size = inputs.abs().sum(0)
        sums[module] = sums[module] + size if module in sums else size

    visit_inputs(model, decoder_layers(model), sequences, add)
    tokens = sum(map(len, sequences))
    return {module: total / max(1, tokens) for module, total in sums.items()}


def round_activation_aware(model: Any, sizes: Mapping[nn.Module, Tensor]) -> int:
    """Round linear maps to ``int4`` in place with each input channel scaled by its size; returns their number.

    W becomes Q(W diag(s)) diag(1/s) with s = size^0.5, normalized by sqrt(max s min s): channels with large inputs
    are rounded more finely. Modules without a size stay as they are.

    Source: Lin et al. 2023 (AWQ, arXiv 2306.00978), Section 3.2, with the exponent 0.5 in place of a search.
    """
    for module, size in sizes.items():
        scale = size.clamp(min=1e-6).sqrt()
        scale = scale / (scale.max() * scale.min()).sqrt()
        weight: Any = module.weight
        rows = weight.detach().t() if isinstance(module, Conv1D) else weight.detach()
        rows.copy_((rounded(rows.float() * scale, "int4") / scale).to(rows.dtype))
    return len(sizes)


def rounded(weights: Tensor, kind: WeightType, group: int = GROUP) -> Tensor:
    """The weights [..., out, in] rounded along their last axis, in the same type."""
    width = weights.shape[-1]
    group = width if kind == "int8" else group
    values = pad(weights.float(), (0, -width % group)).reshape(*weights.shape[:-1], -1, group)
    largest = values.abs().amax(dim=-1, keepdim=True)
    # A group of zeros stays one.
    largest = torch.where(largest == 0, torch.ones_like(largest), largest)
    if kind == "nf4":
        levels = torch.tensor(NF4_LEVELS, device=values.device)
        borders = (levels[1:] + levels[:-1]) / 2
        result = levels[torch.bucketize(values / largest, borders)] * largest
    else:
        scale = largest / (127 if kind == "int8" else LARGEST_INT4)
        result = (values / scale).round() * scale
    return result.flatten(-2)[..., :width].to(weights.dtype)
