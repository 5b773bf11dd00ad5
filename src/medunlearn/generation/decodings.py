"""Decoding settings by name: greedy, or sampled at a temperature, among the k likeliest; no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from medunlearn.errors import ConfigError

GREEDY_NAME = "greedy"
_PART = re.compile(r"(temperature|top_k)=([0-9]*\.?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Decoding:
    """A way to choose tokens.

    Attributes:
        temperature: logits are divided by it; None for the likeliest token always.
        top_k: only so many likeliest tokens are drawn from; None for all.
    """

    temperature: float | None = None
    top_k: int | None = None

    @property
    def name(self) -> str:
        """``greedy``, ``temperature_0.7``, ``top_k_10``, ``temperature_0.7_top_k_10``."""
        if self.temperature is None:
            return GREEDY_NAME
        heat = f"temperature_{self.temperature:g}" if self.top_k is None or self.temperature != 1.0 else ""
        return "_".join(part for part in (heat, f"top_k_{self.top_k}" if self.top_k else "") if part)

    @property
    def draws(self) -> bool:
        return self.temperature is not None


GREEDY = Decoding()


def parse_decodings(words: Sequence[str]) -> tuple[Decoding, ...]:
    """Decodings from ``greedy``, ``temperature=0.7``, ``top_k=10``, ``temperature=0.7+top_k=10``.

    ``top_k`` alone draws at temperature 1; ``temperature=0`` is greedy.

    Raises:
        ConfigError: every word that is none, and one that is there twice.
    """
    decodings: list[Decoding] = []
    problems = []
    for word in words:
        decoding = _parse(word)
        if decoding is None:
            problems.append(f"decodings: {word!r} is none; write greedy, temperature=0.7, top_k=10 or both with +")
        elif decoding in decodings:
            problems.append(f"decodings: {decoding.name} is there twice")
        else:
            decodings.append(decoding)
    if problems:
        raise ConfigError(problems)
    return tuple(decodings)


def _parse(word: str) -> Decoding | None:
    if word.strip() == GREEDY_NAME:
        return GREEDY
    parts = [_PART.fullmatch(part.strip()) for part in word.split("+")]
    values = {part[1]: float(part[2]) for part in parts if part is not None}
    if len(values) < len(parts):
        return None
    top_k = values.get("top_k")
    if top_k is not None and (top_k < 1 or top_k != int(top_k)):
        return None
    temperature = values.get("temperature", 1.0)
    return Decoding(temperature, None if top_k is None else int(top_k)) if temperature > 0 else GREEDY
