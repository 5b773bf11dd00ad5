"""Depth, distances and guidance by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import pytest
import torch

from medunlearn.attacks.whitebox.depth import erased_share, patch_scores, restored_share
from medunlearn.attacks.whitebox.distances import cosine, linear_cka, relative_distance
from medunlearn.attacks.whitebox.guided import guided_log_probs
from medunlearn.attacks.whitebox.truth_probe import probe_pairs
from medunlearn.seeds import generator


def test_depth_by_hand() -> None:
    """Of gaps 1, 2 and 0.01 the last is too small to count; shares 0.5 and 1 (clipped) weigh 1 and 2."""
    base, own = np.array([1.0, 2.0, 0.01]), np.array([0.5, 3.0, 9.0])
    assert erased_share(base, own) == pytest.approx((1 * 0.5 + 2 * 1.0) / 3)
    assert erased_share(base, base) == 1.0
    assert erased_share(base, -own) == 0.0
    assert erased_share(np.array([0.05, -1.0]), np.array([1.0, 1.0])) is None


def test_restored_share_by_hand() -> None:
    """From -3 to the target's -1: -2 is half way; beyond the target counts as all."""
    assert restored_share(-3.0, np.array([-3.5, -2.0, -0.5]), -1.0) == pytest.approx([0.0, 0.5, 1.0])
    assert restored_share(-1.04, np.array([-1.0]), -1.0) is None


def test_patching_a_model_into_itself_changes_nothing(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    """And at the last layer nothing is run on top: the logit lens and patching are one."""
    sequences, own, other = make_sequences(3), tiny(), tiny()
    with torch.no_grad():
        for tensor in other.model.model.layers[1].parameters():
            tensor.mul_(1.5)
    for scores in patch_scores(sequences, own, own):
        assert np.abs(scores.gaps(range(len(scores.own)))).max() < 1e-4
    for scores in patch_scores(sequences, own, other):
        assert np.abs(scores.patched[0] - scores.own).max() < 1e-4  # below the layer that differs
        assert scores.patched[2] == pytest.approx(scores.source_lens[2], abs=1e-4)
        assert np.abs(scores.patched[1] - scores.own).max() > 1e-3


def test_distances_by_hand() -> None:
    x, y = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 1.0]])
    assert relative_distance(x, y) == pytest.approx((4 / 3 + 1) / 2)
    assert cosine(x, y) == pytest.approx((0.6 + 1) / 2)
    turned = x @ np.array([[0.0, -2.0], [2.0, 0.0]])
    assert linear_cka(x, turned) == pytest.approx(1.0)
    assert linear_cka(x, np.ones((2, 3))) is None
    line, bent = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [0.0]])
    assert linear_cka(line, bent) == pytest.approx(0.0)


def test_guidance_by_hand() -> None:
    """p_new (.5, .3, .2), p_old (.25, .7, .05): w = 2 weighs by p_old ** 2 / p_new; .05 is less than .1 of .7."""
    new, old = (torch.tensor([[log(p) for p in row]]) for row in ((0.5, 0.3, 0.2), (0.25, 0.7, 0.05)))
    torch.testing.assert_close(guided_log_probs(new, old, 0.0), new)
    torch.testing.assert_close(guided_log_probs(new, old, 1.0), old)
    weights = [0.25**2 / 0.5, 0.7**2 / 0.3]
    expected = torch.tensor([[*(weight / sum(weights) for weight in weights), 0.0]])
    torch.testing.assert_close(guided_log_probs(new, old, 2.0).exp(), expected)


@pytest.mark.parametrize("pairs", [7, 20])
def test_a_probe_finds_a_truth_that_its_control_does_not(pairs: int) -> None:
    """True and false answers apart by 6 in one of ten features; random labels of an odd number teach nothing."""
    draw = generator("probe test", pairs)
    shift = np.array([6.0, *[0.0] * 9])
    known, tried = ((draw.normal(size=(n, 10)) + shift, draw.normal(size=(n, 10))) for n in (pairs, 200))
    own, control = probe_pairs(known, tried)
    assert own.mean() > 0.85
    assert control.mean() == pytest.approx(0.5, abs=0.2)
    noise = (draw.normal(size=(pairs, 10)), draw.normal(size=(pairs, 10)))
    assert probe_pairs(noise, (tried[1], draw.normal(size=(200, 10))))[0].mean() == pytest.approx(0.5, abs=0.2)
