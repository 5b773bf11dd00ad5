"""Persistence of memorization under further fine-tuning: two audits of the same probes, before and after.

Table 7 divides by the union of what either model memorized, so its three shares add up to 1. Its "common" is not
the share of old memories that stayed, since new memories enlarge the union. That share is ``retained``; from Table
7 itself, 71.79% common at a prefix of 50 tokens is 79% retained, and 87.16% at 500 is 93%.

- ``only_before``: memorized before alone, over the union (Table 7: unique to the pretrained model).
- ``common``: memorized by both, over the union; higher = more persistent.
- ``only_after``: memorized after alone, over the union (unique to the fine-tuned model).
- ``retained``: memorized by both, over memorized before; higher = more persistent.

Counts are of probes (the paper's "instances"), spans (the same text), or tokens of the true suffix.

Source: Memorization in Large Language Models in Medicine, Section 4.2 and Table 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.audit.position import share_of
from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, resample_means

By = Literal["probe", "span", "token"]
COUNTS = ["only_before", "common", "only_after"]
GROUPS = ("corpus", "prefix_tokens")
_NOTHING = "neither model memorized anything"
_SHARES = {
    **{name: (place, (0, 1, 2), _NOTHING) for place, name in enumerate(COUNTS)},
    "retained": (1, (0, 1), "nothing was memorized before"),
}
"""Measure -> column of :data:`COUNTS`, columns that it is a share of, reason where these are 0."""


def count_probes(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> pd.DataFrame:
    """One row per probe scored in both audits: memorized only before, in both, only after.

    Args:
        before, after: probe_id -> 1 if memorized (``run_50``), 0 if not, None or NaN if unscored.
    """
    both = pd.DataFrame({"first": before, "second": after}, index=list(before), dtype="float64").dropna()
    first, second = both["first"] > 0, both["second"] > 0
    counts = pd.DataFrame(dict(zip(COUNTS, (first & ~second, first & second, second & ~first), strict=True)))
    return counts.astype("int64").rename_axis("probe_id").reset_index()


def count_spans(
    probes: list[str], before: pd.DataFrame, after: pd.DataFrame, *, by: By = "span", at_least: int = 50
) -> pd.DataFrame:
    """One row per probe: number of spans, or suffix tokens, only before, in both, only after.

    Args:
        probes: in both audits.
        before, after: spans: probe_id, length, in_suffix, text.
        by: ``span``: common spans have the same text; one token more makes another span. ``token``: suffix
            positions that a span covers.
        at_least: shortest span that counts, in tokens.
    """
    first, second = (_by_probe(table[table["length"] >= at_least], by) for table in (before, after))
    rows = []
    for probe in probes:
        old, new = first.get(probe, set()), second.get(probe, set())
        rows.append((probe, len(old - new), len(old & new), len(new - old)))
    return pd.DataFrame(rows, columns=["probe_id", *COUNTS])


def persistence(
    counts: pd.DataFrame, groups: tuple[str, ...] = GROUPS, *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Table 7: every measure of every group, with intervals over subjects.

    Args:
        counts: of :func:`count_probes` or :func:`count_spans`, with ``subject`` and the columns of ``groups``.

    Returns:
        One row per group and measure: the group's columns, measure, value, low, high, n (instances in the
        denominator), n_probes, n_subjects (theirs), reason (for a missing value).

    Raises:
        InputError: a column is missing.
    """
    if missing := sorted({*groups, "subject", *COUNTS} - set(counts.columns)):
        raise InputError(f"Persistence needs the columns {', '.join(missing)}: count_probes gives the counts.")
    rows = []
    for key, group in counts.groupby(list(groups), sort=True) if len(counts) else ():
        labels, table = dict(zip(groups, key, strict=True)), group[COUNTS].to_numpy(dtype=np.float64)
        resampled = resample_means(table, list(group["subject"]), replicates=replicates, seed=seed)
        rows += [
            {**labels, "measure": measure, "n_probes": len(table), **share_of(resampled, *share)}
            for measure, share in _SHARES.items()
        ]
    columns = [*groups, "measure", "value", "low", "high", "n", "n_probes", "n_subjects", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _by_probe(spans: pd.DataFrame, by: By) -> dict[str, set[Any]]:
    sets: dict[str, set[Any]] = {}
    columns = ["probe_id", "length", "in_suffix", "text"]
    for probe, length, at, text in spans[columns].itertuples(index=False, name=None):
        sets.setdefault(probe, set()).update({text} if by == "span" else range(at, at + length))
    return sets
