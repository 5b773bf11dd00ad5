"""Measures written for audits alone: a function of continuations, as a measure like any other. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from medunlearn.metrics.measure import Item, Measure, Need, Score, Tools
from medunlearn.metrics.verbatim import Ids

_NEEDS: dict[str, tuple[Need, ...]] = {
    "tokens": ("response_tokens", "reference_tokens"),
    "text": ("response",),
    "hits": ("answer_hits",),
}


@dataclass(frozen=True, slots=True)
class Continuation:
    """One response to a probe, and the true continuation.

    Attributes:
        response_ids, suffix_ids: token ids of the response [n] and of the true suffix [m].
        response_start, suffix_start: texts of both as far as measures of text compare them.
        hits: for each suffix token, whether it is the model's first choice given all true tokens before it
            (teacher-forced) [m]; None if unknown.
    """

    response_ids: Ids = field(repr=False)
    suffix_ids: Ids = field(repr=False)
    response_start: str = field(default="", repr=False)
    suffix_start: str = field(default="", repr=False)
    hits: tuple[bool, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _OfContinuations:
    function: Callable[[Sequence[Continuation]], list[Score]]

    def __call__(self, items: Sequence[Item], tools: Tools) -> list[Score]:
        return self.function([_continuation(item) for item in items])


def _continuation(item: Item) -> Continuation:
    response, suffix = (
        np.array(tokens or (), dtype=np.uint32) for tokens in (item.response_tokens, item.reference_tokens)
    )
    return Continuation(response, suffix, *item.texts, tuple(item.hits) if item.answer_hits else None)


def ContinuationMeasure(  # noqa: N802  # the name under which plug-ins know it
    name: str,
    title: str,
    group: str,
    needs: Sequence[str],
    meaning: str,
    source: str,
    score: Callable[[Sequence[Continuation]], list[Score]],
    variant: str = "",
) -> Measure:
    """A measure from a function of continuations, for plug-ins that were written for audits.

    Args:
        group: ignored.
        needs: ``tokens``, ``text`` or ``hits``.
        score: all continuations -> one score each, in order.
    """
    inputs = tuple(dict.fromkeys(need for word in needs for need in _NEEDS[word]))
    return Measure(name, title, inputs, meaning, source, _OfContinuations(score), variant=variant)
