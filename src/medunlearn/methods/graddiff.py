"""Gradient difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class GradDiff:
    """Ascent on the forget set, descent on the retain set: ``-gamma L(F) + alpha L(R)``.

    Source: Liu et al. 2022, arXiv 2203.12817; AMNESIA, Section 4.2 (both weights 1); LUME, Appendix E.

    Attributes:
        gamma: weight of the forget term.
        alpha: weight of the retain term.
    """

    title: ClassVar[str] = "GradDiff"
    family: ClassVar[str] = "gradient ascent"
    retain_term: ClassVar[str] = "loss"

    gamma: Annotated[float, Field(ge=0)] = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0

    def loss(self, forget: View, retain: View) -> Terms:
        return {"forget": -self.gamma * forget.nll(), "retain": self.alpha * retain.nll()}
