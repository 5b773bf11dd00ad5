"""Gradient ascent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from medunlearn.methods.protocol import Terms, View


@dataclass(frozen=True)
class GradientAscent:
    """Gradient ascent on the forget set: ``-L(F)``. Nothing preserves other knowledge; it diverges in long runs.

    Source: LUME, Appendix E (Gradient Ascent); TOFU, arXiv 2401.06121.
    """

    title: ClassVar[str] = "GA"
    family: ClassVar[str] = "gradient ascent"
    retain_term: ClassVar[str] = "none"

    def loss(self, forget: View, retain: View) -> Terms:
        return {"forget": -forget.nll()}
