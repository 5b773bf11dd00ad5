"""Gradient norm: training has gone on until its documents pull at the weights no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medunlearn.attacks.protocol import Need, Passage
from medunlearn.metrics.base import Score


@dataclass(frozen=True)
class GradientNorm:
    """Minus the norm of the loss's gradient. At most 0, higher = more likely a member.

    The Euclidean norm over all weights of the gradient of the document's mean token loss. An attacker needs the
    weights for it, and each document takes a backward pass of its own.

    Source: Wang et al. 2024, "Pandora's White-Box", on gradient norms; among the attacks of Dorna et al. 2026
    (OpenUnlearning).
    """

    kind: ClassVar[str] = "membership"
    title: ClassVar[str] = "Gradient norm"
    source: ClassVar[str] = "Wang et al. 2024; Dorna et al. 2026 (OpenUnlearning)"
    needs: ClassVar[tuple[Need, ...]] = ("gradient_norm",)

    def score(self, passage: Passage) -> Score:
        assert passage.gradient_norm is not None
        return Score(-passage.gradient_norm)
