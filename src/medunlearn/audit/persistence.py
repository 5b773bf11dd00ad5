"""What stays memorized after further fine-tuning: two audits of the same probes, before and after.

Table 7 divides by the union of what either model memorized, so its three shares add up to 1. Its "common" is not
the share of the old memories that stayed: new memories make the union larger. That share is ``retained``; from
Table 7 itself, 71.79% common at a prefix of 50 tokens is 79% retained, and 87.16% at 500 is 93%.

- ``only_before``: memorized before alone, over the union (Table 7: unique to the pretrained model).
- ``common``: memorized by both, over the union; higher = more persistent.
- ``only_after``: memorized after alone, over the union (unique to the fine-tuned model).
- ``retained``: memorized by both, over what was memorized before; higher = more persistent.

What is counted: probes (the paper's "instances"), spans (the same text), or tokens of the true suffix.

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
    """One row a probe that both audits scored: whether it is memorized in one, the other, or both.

    Args:
        before, after: probe_id -> 1 where it is memorized (``run_50``), 0 where not, None or NaN where unscored.
    """
    rows = []
    for probe in before:
        first, second = _known(before.get(probe)), _known(after.get(probe))
        if first is not None and second is not None:
            counts = (first and not second, first and second, second and not first)
            rows.append((probe, *map(int, counts)))
    return pd.DataFrame(rows, columns=["probe_id", *COUNTS])


def count_spans(
    probes: list[str], before: pd.DataFrame, after: pd.DataFrame, *, by: By = "span", at_least: int = 50
) -> pd.DataFrame:
    """One row a probe: how many spans, or tokens of the suffix, are in one audit, the other, or both.

    Args:
        probes: those that both audits asked.
        before, after: spans: probe_id, length, in_suffix, text.
        by: ``span``: a span is common where the same text stands in both; one token more makes another span.
            ``token``: places of the suffix that some span covers.
        at_least: shortest span that counts, in tokens.
    """
    kept = set(probes)
    first, second = (_of_probe(table[table["length"] >= at_least], by, kept) for table in (before, after))
    rows = []
    for probe in probes:
        old, new = first.get(probe, set()), second.get(probe, set())
        rows.append((probe, len(old - new), len(old & new), len(new - old)))
    return pd.DataFrame(rows, columns=["probe_id", *COUNTS])


def persistence(
    counts: pd.DataFrame,
    groups: tuple[str, ...] = GROUPS,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Table 7: every measure of every group, with intervals over subjects.

    Args:
        counts: as :func:`count_probes` gives them, with ``subject`` and the columns of ``groups``.

    Returns:
        One row a group and measure: the group's columns, measure, value, low, high, n (instances that the share is
        of), n_probes, n_subjects (whose the instances are), reason (why there is no value).

    Raises:
        InputError: a column is missing.
    """
    if missing := sorted({*groups, "subject", *COUNTS} - set(counts.columns)):
        raise InputError(f"Persistence needs the columns {', '.join(missing)}: count_probes gives the counts.")
    rows = []
    for key, group in counts.groupby(list(groups), sort=True) if len(counts) else ():
        named = dict(zip(groups, key, strict=True))
        rows += [named | row for row in _measures(group, replicates, seed)]
    columns = [*groups, "measure", "value", "low", "high", "n", "n_probes", "n_subjects", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _measures(group: pd.DataFrame, replicates: int, seed: int) -> Iterator[dict[str, Any]]:
    table = group[COUNTS].to_numpy(dtype=np.float64)
    resampled = resample_means(table, list(group["subject"]), replicates=replicates, seed=seed)
    for place, measure in enumerate(MEASURES):
        whole = [0, 1] if measure == "retained" else [0, 1, 2]
        part = 1 if measure == "retained" else place
        found = resampled.estimate(range(3), _share(part, whole))
        of = table[:, whole].sum(axis=1)
        n_subjects = int(group["subject"][of > 0].nunique())
        # All that is shared is one subject's: that says nothing of how subjects differ.
        edges = (found.low, found.high) if n_subjects > 1 else (None, None)
        without = "nothing was memorized before" if measure == "retained" else "neither model memorized anything"
        yield {
            "measure": measure,
            "value": found.value,
            "low": edges[0],
            "high": edges[1],
            "n": int(of.sum()),
            "n_probes": len(table),
            "n_subjects": n_subjects,
            "reason": without if found.value is None else None,
        }


def _share(part: int, whole: list[int]) -> Callable[[Array], Array]:
    def share(means: Array) -> Array:
        # No instance in a replicate is no share: NaN, which the interval leaves out.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(means[..., part] / means[..., whole].sum(axis=-1), dtype=np.float64)

    return share


def _known(value: float | None) -> bool | None:
    return None if value is None or value != value else value > 0


def _of_probe(spans: pd.DataFrame, by: By, probes: set[str]) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    columns = ["probe_id", "length", "in_suffix", "text"]
    for probe, length, at, text in spans[columns].itertuples(index=False, name=None):
        if probe in probes:
            found.setdefault(probe, set()).update({text} if by == "span" else range(at, at + length))
    return found
