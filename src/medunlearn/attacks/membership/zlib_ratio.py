"""Zlib: the loss, read against how much there is to say at all."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

from medunlearn.attacks.protocol import Need, Passage
from medunlearn.metrics.base import Score


@dataclass(frozen=True)
class ZlibRatio:
    """Minus the loss over the text's length in bytes under zlib. At most 0, higher = more likely a member.

    A text of repetitions has a low loss in any model; compressed it is short, so that its ratio is not small.

    Source: Carlini et al. 2021, "Extracting training data from large language models", Section 5.2.
    """

    kind: ClassVar[str] = "membership"
    title: ClassVar[str] = "Zlib"
    source: ClassVar[str] = "Carlini et al. 2021, Section 5.2"
    needs: ClassVar[tuple[Need, ...]] = ()

    def score(self, passage: Passage) -> Score:
        return Score(float(passage.log_probs.mean()) / len(zlib.compress(passage.text.encode())))
