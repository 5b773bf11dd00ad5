"""Vision-language models: model families behind one interface, and images in the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.models.vision.family import Family
from medunlearn.registry import resolve

FAMILIES: Mapping[str, str] = {
    "idefics3": "medunlearn.models.vision.idefics3:FAMILY",
    "llava": "medunlearn.models.vision.llava:FAMILY",
    "qwen2_5_vl": "medunlearn.models.vision.qwen:FAMILY",
    "smolvlm": "medunlearn.models.vision.idefics3:FAMILY",
}
"""``model_type`` of a configuration -> its family."""


def family_of(config: Any) -> Family | None:
    """The family of a model's configuration; None for a text model or an unsupported family."""
    kind = getattr(config, "model_type", None)
    if kind not in FAMILIES:
        return None
    family: Family = resolve("vision-language families", str(kind), FAMILIES)
    return family
