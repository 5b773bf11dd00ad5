"""Seeds that depend only on their purpose.

Python's ``hash`` of a string changes with every process, and numbers from a global generator depend on earlier
consumers. Here a seed is the SHA-256 of the words that describe its purpose.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stable_seed(*purpose: str | int) -> int:
    """A seed in [0, 2**63) that is equal in every process and on every machine.

    Args:
        purpose: purpose of the seed, e.g. ``stable_seed("splits", benchmark_name, 0)``. The parts are separated, so
            ``("ab", "c")`` and ``("a", "bc")`` differ.
    """
    # Doubled inside a part, the separator can only be read one way.
    text = "\x1f".join(f"{type(part).__name__}:{part}".replace("\x1f", "\x1f\x1f") for part in purpose)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*purpose: str | int) -> np.random.Generator:
    """A NumPy generator seeded by :func:`stable_seed` of the same words."""
    return np.random.default_rng(stable_seed(*purpose))
