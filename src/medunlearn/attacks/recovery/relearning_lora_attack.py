"""Relearning through a low-rank adapter. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from medunlearn.attacks.recovery.relearning_attack import CURVE, Relearning


@dataclass(frozen=True)
class RelearningLora(Relearning):
    """The same relearning with a LoRA adapter: what whoever has one small GPU can do.

    Source: Hu et al. 2024 (arXiv 2406.13356); Hu et al. 2021 (LoRA, arXiv 2106.09685).
    """

    name: ClassVar[str] = "relearning_lora"
    title: ClassVar[str] = "Relearning by LoRA"
    question: ClassVar[str] = "whether a few steps on a small adapter bring back what was forgotten"
    source: ClassVar[str] = "Hu et al. 2024 (arXiv 2406.13356)"
    in_battery: ClassVar[bool] = False
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": CURVE}
    untested: ClassVar[tuple[tuple[str, str, str], ...]] = ()

    trainable: str = "lora"
