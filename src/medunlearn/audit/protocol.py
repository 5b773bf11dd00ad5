"""What a measure of memorization is given, what it says of itself, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from medunlearn.audit.tokens import Ids
from medunlearn.metrics.base import Score

Group = Literal["exact", "approximate", "semantic"]
Need = Literal["tokens", "text", "hits", "model"]

FIRST = 100
"""Tokens of both texts that approximate and semantic measures read.

Source: Memorization in Large Language Models in Medicine, Section 3.1.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One response to one probe, with everything that a measure may read.

    Attributes:
        response_ids, suffix_ids: token ids of what the model said, and of the true continuation.
        response_start, suffix_start: text of the first :data:`FIRST` tokens of each.
        hits: for each of the suffix's tokens, whether it is the model's first choice after all true tokens before
            it (teacher-forced); None where nobody asked the model.
        no_response: why there is no response; None where there is one.
    """

    response_ids: Ids = field(repr=False)
    suffix_ids: Ids = field(repr=False)
    response_start: str = field(default="", repr=False)
    suffix_start: str = field(default="", repr=False)
    hits: tuple[bool, ...] | None = field(default=None, repr=False)
    no_response: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A number from a response and the true continuation.

    Attributes:
        name: its key in tables and on the command line.
        title: its name in reports.
        group: ``exact``, ``approximate`` or ``semantic``.
        needs: ``tokens``, ``text``, ``hits`` (teacher-forced choices, which a local model alone gives), or
            ``model`` (a further model: computed in a step of its own).
        meaning: one sentence, with range and direction.
        source: paper, section or equation.
        score: all cases at once -> one score a case, in order; None where a step of its own computes it.
    """

    name: str
    title: str
    group: Group
    needs: tuple[Need, ...]
    meaning: str
    source: str
    score: Callable[[Sequence[Case]], list[Score]] | None
