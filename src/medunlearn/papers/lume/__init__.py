"""LUME (Ramakrishna et al. 2025)."""

from __future__ import annotations

STORY, PERSONAL, PUBLIC = TASKS = ("story", "personal_biography", "public_biography")
"""Tasks 1 to 3; membership is attacked on the biographies of real people, ``PUBLIC`` (Section 2.3)."""
BUILDER = "lume"
