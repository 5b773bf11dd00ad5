"""Licence names from package metadata. Imports only the standard library, for ``scripts/lock``."""

from __future__ import annotations

from collections.abc import Sequence


def licence_of(expression: str | None, classifiers: Sequence[str], text: str | None) -> str:
    """A licence's name from a distribution's metadata: SPDX expression, else short text, else classifiers."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if expression:
        return expression
    if len(lines) == 1 and len(lines[0]) <= 60 and lines[0].lower() not in ("unknown", "dual license"):
        return lines[0]
    licenses = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    return ", ".join(licenses) or (lines[0] if lines else "not stated")
