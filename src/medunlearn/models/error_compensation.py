"""GPTQ: weights rounded to 4 bits one input channel after another, each error made up for by the channels to come.

A linear map y = W x is rounded so that its outputs on some texts change little, not its weights. With
H = X X^T + d I of the inputs X (d: 1% of the mean of the diagonal) and U the upper Cholesky factor of H^-1, column
j becomes Q(w_j), and each later column k loses (w_j - Q(w_j)) / U_jj * U_jk. Q is ``int4`` of
:mod:`medunlearn.models.quantization`; its scale is that of a group of 64 columns when the group is reached, and
later values beyond it are clamped. Layers are rounded from the first to the last, each on the inputs that the
rounded layers below give it.

Source: Frantar et al. 2023 (GPTQ, arXiv 2210.17323), Section 3 and Algorithm 1, in the order of the columns.
Packages of it need a GPU to build or to run; this runs wherever the model does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from medunlearn.models.decoder import decoder_layers
from medunlearn.models.quantization import GROUP, LARGEST_INT4, visit_inputs

DAMPING = 0.01


def round_compensated(model: Any, sequences: Sequence[Sequence[int]]) -> int:
    """Round the linear maps of the decoder layers in place; returns their number.

    Args:
        sequences: token ids of texts on which the maps' inputs are measured; a map without inputs is left as it is.
    """
    count = 0
    for layer in decoder_layers(model):
        for module, products in _input_products(model, layer, sequences).items():
            weight: Any = module.weight
            rows = weight.detach().t() if isinstance(module, Conv1D) else weight.detach()
            rows.copy_(compensated(rows, products))
            count += 1
    return count


def compensated(weights: Tensor, products: Tensor, group: int = GROUP) -> Tensor:
    """The weights [out, in] rounded to ``int4``, in the same type.

    Args:
        products: X X^T of the inputs, [in, in]; of zeros: each weight is rounded to the nearest.
    """
    values, factor = weights.double(), _factor(products.double())
    width = values.shape[1]
    for start in range(0, width, group):
        stop = min(start + group, width)
        block, errors = values[:, start:stop].clone(), []
        largest = block.abs().amax(dim=1)
        scale = torch.where(largest == 0, torch.ones_like(largest), largest) / LARGEST_INT4
        for place in range(stop - start):
            column, own = block[:, place].clone(), factor[start + place]
            block[:, place] = (column / scale).round().clamp(-LARGEST_INT4, LARGEST_INT4) * scale
            errors.append((column - block[:, place]) / own[start + place])
            block[:, place + 1 :] -= torch.outer(errors[-1], own[start + place + 1 : stop])
        values[:, start:stop] = block
        values[:, stop:] -= torch.stack(errors, dim=1) @ factor[start:stop, stop:]
    return values.to(weights.dtype)


def _factor(products: Tensor) -> Tensor:
    """Upper Cholesky factor of the inverse of the damped products, [in, in]."""
    identity = torch.eye(len(products), dtype=products.dtype, device=products.device)
    damping = DAMPING * float(products.diagonal().mean())
    damped = products + damping * identity if damping > 0 else identity
    factor: Tensor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True)
    return factor


def _input_products(model: Any, layer: nn.Module, sequences: Sequence[Sequence[int]]) -> dict[nn.Module, Tensor]:
    """X X^T of the inputs of each linear map of one layer, [in, in], over token sequences."""
    products: dict[nn.Module, Tensor] = {}

    def add(module: nn.Module, inputs: Tensor) -> None:
        product = inputs.t() @ inputs
        products[module] = products[module] + product if module in products else product

    visit_inputs(model, layer, sequences, add)
    return products
