"""Persistence of memorization under further fine-tuning: two audits of the same probes, before and after.

Table 7 divides by the union of what either model memorized, so its three shares add up to 1. Its "common" is not
the share of old memories that stayed, since new memories enlarge the union. That share is ``retained``; from Table
7 itself, 71.79% common at a prefix of 50 tokens is 79% retained, and 87.16% at 500 is 93%.

- ``only_before``: memorized before alone, over the union (Table 7: unique to the pretrained model).
- ``common``: memorized by both, over the union; higher = more persistent.
- ``only_after``: memorized after alone, over the union (unique to the fine-tuned model).
- ``retained``: memorized by both, over memorized before; higher = more persistent.

Counted are probes (the paper's "instances"), spans (the same text), or tokens of the true suffix.

Source: Memorization in Large Language Models in Medicine, Section 4.2 and Table 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, Array, resample_means

By = Literal["probe", "span", "token"]
MEASURES = ("only_before", "common", "only_after", "retained")
COUNTS = ["only_before", "common", "only_after"]
GROUPS = ("corpus", "prefix_tokens")


def count_probes(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> pd.DataFrame:
    """One row per probe that both audits scored: memorized only before, by both, only after.

    Args:
        before, after: probe_id -> 1 if memorized (``run_50``), 0 if not, None or NaN if unscored.
    """
    rows = []
    for probe in before:
        first, second = _flag(before.get(probe)), _flag(after.get(probe))
        if first is not None and second is not None:
            rows.append((probe, *map(int, (first and not second, first and second, second and not first))))
    return pd.DataFrame(rows, columns=["probe_id", *COUNTS])


def count_spans(
    probes: list[str], before: pd.DataFrame, after: pd.DataFrame, *, by: By = "span", at_least: int = 50
) -> pd.DataFrame:
    """One row per probe: number of spans, or suffix tokens, only before, in both, only after.

    Args:
        probes: asked in both audits.
        before, after: spans: probe_id, length, in_suffix, text.
        by: ``span``: common spans have the same text; one token more makes another span. ``token``: suffix
            positions that a span covers.
        at_least: shortest span that counts, in tokens.
    """
    shared = set(probes)
    first, second = (_by_probe(table[table["length"] >= at_least], by, shared) for table in (before, after))
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
        labels = dict(zip(groups, key, strict=True))
        rows += [labels | row for row in _measures(group, replicates, seed)]
    columns = [*groups, "measure", "value", "low", "high", "n", "n_probes", "n_subjects", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _measures(group: pd.DataFrame, replicates: int, seed: int) -> Iterator[dict[str, Any]]:
    table = group[COUNTS].to_numpy(dtype=np.float64)
    resampled = resample_means(table, list(group["subject"]), replicates=replicates, seed=seed)
    for place, measure in enumerate(MEASURES):
        retained = measure == "retained"
        part, union = (1, [0, 1]) if retained else (place, [0, 1, 2])
        share = resampled.estimate(range(3), _share(part, union))
        instances = table[:, union].sum(axis=1)
        n_subjects = int(group["subject"][instances > 0].nunique())
        # One subject's data say nothing about how subjects differ.
        low, high = (share.low, share.high) if n_subjects > 1 else (None, None)
        without = "nothing was memorized before" if retained else "neither model memorized anything"
        yield {
            "measure": measure,
            "value": share.value,
            "low": low,
            "high": high,
            "n": int(instances.sum()),
            "n_probes": len(table),
            "n_subjects": n_subjects,
            "reason": without if share.value is None else None,
        }


def _share(part: int, union: list[int]) -> Callable[[Array], Array]:
    def share(means: Array) -> Array:
        # A replicate without an instance has no share: NaN, which the interval leaves out.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(means[..., part] / means[..., union].sum(axis=-1), dtype=np.float64)

    return share


def _flag(value: float | None) -> bool | None:
    return None if value is None or value != value else value > 0


def _by_probe(spans: pd.DataFrame, by: By, probes: set[str]) -> dict[str, set[Any]]:
    sets: dict[str, set[Any]] = {}
    columns = ["probe_id", "length", "in_suffix", "text"]
    for probe, length, at, text in spans[columns].itertuples(index=False, name=None):
        if probe in probes:
            sets.setdefault(probe, set()).update({text} if by == "span" else range(at, at + length))
    return sets
