"""Token entropy: does a response still vary, or has it collapsed into repetition?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import log2

from medunlearn.metrics.ngrams import token_entropies
from medunlearn.metrics.protocol import Item, Metric, Score, Tools


def token_entropy(tokens: Sequence[Hashable]) -> float:
    """Unigram entropy of a response's tokens in bits, over the most that so many tokens can have.

    With c_t the count of token t among n: ``-sum_t (c_t / n) log2(c_t / n) / log2(n)``. Exactly 0 where all
    tokens are the same and where there is one token or none; 1 where no token comes twice.

    Range 0-1, higher = more varied.

    Source: AMNESIA, Section 5.2 ("normalized unigram entropy"), after R-TOFU (Yoon et al. 2025) and
    Yuan et al. (arXiv 2410.08109).
    """
    counts = Counter(tokens)
    n = len(tokens)
    if len(counts) <= 1:
        return 0.0
    bits = -sum(count / n * log2(count / n) for count in counts.values())
    # Rounding may step over 1 where no token repeats.
    return min(1.0, bits / log2(n))


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    return [Score(value) for value in token_entropies([item.response_tokens or () for item in items]).tolist()]


METRIC = Metric(
    name="te",
    title="Token entropy",
    needs=("response_tokens",),
    meaning="0-1, higher = more varied; 0 = one token repeated, or no text",
    source="AMNESIA, Section 5.2; R-TOFU (Yoon et al. 2025)",
    score=_score,
    item_by_item=True,
)
