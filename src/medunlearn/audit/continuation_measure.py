"""Interface of memorization measures: a response and the true continuation give a score. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from medunlearn.metrics.measure import Score

Ids = npt.NDArray[np.uint32]
VARIANT = "the paper's released code"

FIRST = 100
"""Tokens of both texts that approximate and semantic measures read.

Source: Memorization in Large Language Models in Medicine, Section 3.1.
"""


@dataclass(frozen=True, slots=True)
class Continuation:
    """One response to a probe, and the true continuation.

    Attributes:
        response_ids, suffix_ids: token ids of the response [n] and of the true suffix [m].
        response_start, suffix_start: text of the first :data:`FIRST` tokens of each.
        hits: for each suffix token, whether it is the model's first choice given all true tokens before it
            (teacher-forced) [m]; None without a local model.
        no_response: reason for a missing response; None if there is one.
        cut: a limit on tokens ended the response before the model did.
    """

    response_ids: Ids = field(repr=False)
    suffix_ids: Ids = field(repr=False)
    response_start: str = field(default="", repr=False)
    suffix_start: str = field(default="", repr=False)
    hits: tuple[bool, ...] | None = field(default=None, repr=False)
    no_response: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ContinuationMeasure:
    """A score computed from a response and the true continuation.

    Attributes:
        needs: ``tokens``, ``text``, ``hits`` (teacher-forced choices of a local model), or ``model`` (a further
            model; computed by an optional stage).
        meaning: one sentence, with range and direction.
        source: paper, section or equation.
        score: all continuations -> one score each, in order; None if an optional stage computes it.
        least_tokens: tokens that a response and a suffix must have to be scored at all; 0: any number.
        reads: tokens of both that it reads at most. A response that was cut before these, and before the suffix's
            end, is unscored; 0: as many as there are, so that a cut does not matter.
        variant: published implementation that it reproduces where that differs from ours; "" for our own.
    """

    name: str
    title: str
    group: Literal["exact", "approximate", "semantic"]
    needs: tuple[Literal["tokens", "text", "hits", "model"], ...]
    meaning: str
    source: str
    score: Callable[[Sequence[Continuation]], list[Score]] | None
    variant: str = ""
    least_tokens: int = 0
    reads: int = 0

    def why_unscored(self, pair: Continuation) -> str | None:
        """Why a cut response is too short for this measure; None if it is not."""
        needed = min(self.reads, len(pair.suffix_ids))
        if not pair.cut or len(pair.response_ids) >= needed:
            return None
        return f"the response was cut before the {self.reads} tokens that this reads"
