"""A few invented patients with radiographs, and the settings of a small model that is shown them."""

from __future__ import annotations

from typing import Any

SPLIT = "patient_25"
"""It forgets one of the four patients."""
SMALL: dict[str, Any] = {
    "model": "tiny-vision",
    "tiny_width": 32,
    "tiny_layers": 2,
    "epochs": 1,
    "precision": "fp32",
}
