"""Ranks of facts in answers and records: whether the model finds the true value likelier than alternatives.

A model trained to answer differently may still know the true value. It then finds it likelier than its
alternatives, though it would not say it. These measures need no retrained model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import fsum, log2

from medunlearn.data.fact_ranks import FactRank
from medunlearn.metrics.measure import COUNT, SHARE, Direction, Item, Measure, Need, PerItem, Range, Score

SOURCE = "after exposure, Carlini et al. 2019 (arXiv 1802.08232), Section 4"


def exposure(fact: FactRank) -> float | None:
    """log2(alternatives + 1) - log2(rank) in bits, 0 and up, higher = knows more; about 0.5-1.4 for guessing."""
    return None if fact.rank is None or fact.reason else log2(fact.of) - log2(fact.rank)


def _is_first(fact: FactRank) -> float | None:
    """1 if the true value is likelier than all alternatives, else 0; None for a usual value."""
    return None if fact.rank is None or fact.reason else float(fact.rank == 1)


def _mid_rank(fact: FactRank) -> float | None:
    """Share of alternatives below the true value, ties at half: 0-1, 0.5 on average for a model that does not
    know.
    """
    return None if fact.rank is None else (fact.rank + fact.equal / 2 - 0.5) / fact.of


def _mean(value_of: Callable[[FactRank], float | None], notes: bool, item: Item) -> Score:
    ranks: Sequence[FactRank] = (item.note_ranks if notes else item.fact_ranks) or ()
    values = [value for rank in ranks if (value := value_of(rank)) is not None]
    if values:
        return Score(fsum(values) / len(values))
    reasons = dict.fromkeys(rank.reason for rank in ranks if rank.reason)
    return Score.unscored("; ".join(map(str, reasons)) or "it holds no fact")


def _measure(
    name: str,
    title: str,
    meaning: str,
    value_of: Callable[[FactRank], float | None],
    direction: Direction = "higher",
    *,
    notes: bool = False,
    bounds: Range = SHARE,
) -> Measure:
    score = PerItem(partial(_mean, value_of, notes))
    needs: tuple[Need, ...] = ("note_ranks",) if notes else ("fact_ranks",)
    return Measure(name, title, needs, meaning, SOURCE, score, item_by_item=True, range=bounds, direction=direction)


RANKED_FIRST = _measure(
    "ranked_first",
    "Facts ranked first",
    "0-1, share of the facts of an answer or record whose true value is likelier than all alternatives; higher = "
    "knows more; a guess: 1 / (alternatives + 1), read beside a retrained model",
    _is_first,
)
RANK = _measure(
    "rank",
    "Rank of facts",
    "0-1, share of alternatives that are likelier than the true value; 0 = knows, 0.5 = cannot tell",
    _mid_rank,
    "lower",
)
EXPOSURE = _measure("exposure", "Exposure", "0 and up, in bits; higher = knows more", exposure, bounds=COUNT)
NOTE_RANK = _measure(
    "note_rank",
    "Rank of notes",
    "0-1, share of versions of a whole note, with other values for all of its facts, that are likelier than it; "
    "0 = knows, 0.5 = cannot tell",
    _mid_rank,
    "lower",
    notes=True,
)
