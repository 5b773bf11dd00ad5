"""Linear layers by oneDNN: the same products, for as long as asked, of the layers that can."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from medunlearn.models import onednn
from medunlearn.models.onednn import ReorderedLinears, has_onednn

pytestmark = pytest.mark.skipif(not has_onednn(), reason="this build of PyTorch has no oneDNN")


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 256, bias=False), nn.Linear(256, 8))


def exact(model: nn.Sequential, inputs: torch.Tensor) -> torch.Tensor:
    return model.double()(inputs.double())


@pytest.mark.parametrize("shape", [(1, 256), (8, 256), (3, 7, 256), (64, 256), (65, 256), (4097, 256), (0, 256)])
def test_products_are_as_near_to_the_exact_ones_as_pytorchs(shape: tuple[int, ...]) -> None:
    model, inputs = layers(), torch.randn(shape)
    with torch.inference_mode():
        with ReorderedLinears(model).used():
            outputs = model(inputs)
        # 512 products of fp32 a sum, of magnitude 1
        torch.testing.assert_close(outputs.double(), exact(model, inputs), atol=1e-5, rtol=0)


def test_layers_are_as_before_afterwards_and_see_new_weights_at_the_next_use() -> None:
    model, inputs = layers(), torch.randn(4, 256)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="stop"), ReorderedLinears(model).used():
        raise RuntimeError("stop")
    assert not any("forward" in vars(layer) for layer in model)
    with torch.no_grad():
        model[1].weight.mul_(2)
    with torch.inference_mode(), ReorderedLinears(model).used():
        again = model(inputs)
    torch.testing.assert_close(again.double(), exact(model, inputs), atol=1e-5, rtol=0)


def reordered(model: nn.Module) -> list[nn.Module]:
    linears = ReorderedLinears(model)
    with linears.used():
        return [layer for layer in model.modules() if "forward" in vars(layer)]


def test_only_large_plain_layers_in_fp32_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    model = layers()
    assert reordered(model) == [model[0], model[1]]  # the third is small
    assert reordered(layers().bfloat16()) == []
    model[0].forward = model[0].forward  # as libraries replace it
    with ReorderedLinears(model).used():
        pass
    assert "forward" in vars(model[0])
    del model[0].forward
    monkeypatch.setattr(onednn, "MOST_BYTES", model[0].weight.nbytes)
    assert reordered(model) == [model[0]]
    monkeypatch.setattr(onednn, "has_onednn", lambda: False)
    assert reordered(model) == []


def test_autocast_keeps_its_precision() -> None:
    model, inputs = layers(), torch.randn(4, 256)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        usual = model(inputs)
        with ReorderedLinears(model).used():
            assert torch.equal(model(inputs), usual)
