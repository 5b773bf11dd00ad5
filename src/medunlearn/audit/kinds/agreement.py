"""How far rules, judge and people agree on kinds, and on the groups that kinds make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from medunlearn.audit.kinds.catalogue import GROUPS, group_of, kinds
from medunlearn.statistics.agreement import Rating, cohen_kappa, in_words, observed_agreement
from medunlearn.statistics.bootstrap import REPLICATES, Estimate

COLUMNS = ("first", "second", "of", "measure", "value", "low", "high", "words", "n", "n_subjects", "reason")


def agreement(
    ways: Mapping[str, Sequence[Rating]], subjects: Sequence[str], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Raw agreement and Cohen's kappa of every two ways, on the spans that both gave a kind.

    Args:
        ways: ``rules``, ``judge``, ``person`` -> a kind a span; None where it gave none.
        subjects: whose record each span is from.

    Returns:
        One row a pair of ways, ``of`` (``kind`` or ``group``) and measure: value, low, high, words, n, n_subjects,
        reason (why there is no value). Where people stand among the ways, agreement with them is the accuracy.
    """
    rows = []
    for first, second in combinations(ways, 2):
        for of, categories in (("kind", tuple(kinds())), ("group", GROUPS)):
            one, other = (_as(of, ways[name]) for name in (first, second))
            how: dict[str, Any] = {"replicates": replicates, "seed": seed}
            raw = observed_agreement(one, other, subjects, **how)
            kappa = cohen_kappa(one, other, subjects, categories, **how)
            head = {"first": first, "second": second, "of": of}
            rows.append(head | {"measure": "agreement", "words": ""} | _numbers(raw))
            rows.append(head | {"measure": "cohen_kappa", "words": in_words(kappa.value)} | _numbers(kappa))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _as(of: str, given: Sequence[Rating]) -> list[Rating]:
    return [group_of(one) if one is not None and of == "group" else one for one in given]


def _numbers(found: Estimate) -> dict[str, Any]:
    without = "no span has a kind from both" if found.n == 0 else "both gave one kind throughout"
    reason = without if found.value is None else None
    numbers = {"value": found.value, "low": found.low, "high": found.high}
    return numbers | {"n": found.n, "n_subjects": found.n_clusters, "reason": reason}
