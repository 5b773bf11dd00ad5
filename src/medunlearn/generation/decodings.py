"""Decoding settings by name: greedy, or sampled with temperature, top-k and top-p; no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from medunlearn.errors import ConfigError

GREEDY_NAME = "greedy"
_PART = re.compile(r"(temperature|top_k|top_p)=([0-9]*\.?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Decoding:
    """Settings for choosing tokens.

    Attributes:
        temperature: divisor of the logits; None for greedy decoding.
        top_k: sample only from this many likeliest tokens; None for all.
        top_p: sample only from the smallest set of likeliest tokens that reaches this probability (after
            temperature and top_k); None for all. Source: Holtzman et al. 2020 (arXiv 1904.09751), Section 3.1,
            nucleus sampling.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None

    @property
    def name(self) -> str:
        """``greedy``, ``temperature_0.7``, ``top_k_10``, ``temperature_0.7_top_k_10``, ``top_p_0.9``."""
        if self.temperature is None:
            return GREEDY_NAME
        cuts = [
            f"{name}_{value:g}"
            for name, value in (("top_k", self.top_k), ("top_p", self.top_p))
            if value is not None
        ]
        heat = [f"temperature_{self.temperature:g}"] if not cuts or self.temperature != 1.0 else []
        return "_".join([*heat, *cuts])

    @property
    def draws(self) -> bool:
        return self.temperature is not None


GREEDY = Decoding()


def parse_decodings(words: Sequence[str]) -> tuple[Decoding, ...]:
    """Decodings from ``greedy``, ``temperature=0.7``, ``top_k=10``, ``top_p=0.9``, ``temperature=0.7+top_k=10``.

    ``top_k`` or ``top_p`` alone draw at temperature 1; ``temperature=0`` is greedy.

    Raises:
        ConfigError: every word that is none, and one that is there twice.
    """
    decodings: list[Decoding] = []
    problems = []
    for word in words:
        decoding = _parse(word)
        if decoding is None:
            problems.append(
                f"decodings: {word!r} is none; write greedy, temperature=0.7, top_k=10, top_p=0.9 or several with +"
            )
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
    top_p = values.get("top_p")
    if top_p is not None and not 0 < top_p <= 1:
        return None
    temperature = values.get("temperature", 1.0)
    return Decoding(temperature, None if top_k is None else int(top_k), top_p) if temperature > 0 else GREEDY
