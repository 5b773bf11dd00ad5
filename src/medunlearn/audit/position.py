"""Position of memorized text in responses, by segments of 100 tokens.

The paper counts "memorized text" by segment. It does not say whether a response counts once, or which segment a run
across a border belongs to; its text mentions runs of 30 tokens, its figure's caption 50. So there are several
measures, all 0-1, higher = more of it in the segment:

- ``starts``: share of all runs that start in the segment.
- ``tokens``: share of all matched tokens that are in the segment; a token in two runs counts once.
- ``memorized``: share of the memorized responses (with a run anywhere) in which a run starts in the segment. A
  response may count in several segments, so these need not add up to 1.
- ``ratio``: share of all responses in which a run starts in the segment: the memorization ratio by position.
- ``ratio_reached``: the same among responses long enough to hold a run that starts at the segment's first token.
  Otherwise early ends look like less memorization.

Source: Memorization in Large Language Models in Medicine, Section 4.1 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.audit.audit_tables import KEY
from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, Resampled, resample_means
from medunlearn.statistics.intervals import UNIT, Array

SEGMENT = 100
LIMIT = 500
COLUMNS = ("segment", "first", "last", "measure", "value", "low", "high", "n", "n_subjects", "reason")


def positions(
    spans: pd.DataFrame,
    responses: pd.DataFrame,
    *,
    at_least: int = 30,
    segment: int = SEGMENT,
    limit: int = LIMIT,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Every measure of every segment, with intervals over subjects.

    Args:
        spans: shared runs: probe_id, variant, sample, length, in_response (tokens, from 0).
        responses: all responses, also those without a run: probe_id, variant, sample, subject, tokens (length; NaN
            if unknown).
        at_least: shortest run that counts, in tokens.
        segment: tokens per segment.
        limit: most tokens of a response; the last segment ends there.

    Returns:
        One row per segment and measure: segment (from 0), first, last (tokens, from 1), measure, value, low, high,
        n (runs, tokens or responses in the denominator), n_subjects (theirs), reason (for a missing value).

    Raises:
        InputError: no segment fits, or a run of a response that is not in the table.
    """
    if segment < 1 or limit < segment:
        raise InputError(f"Segments of {segment} tokens do not fit into {limit}.")
    count = -(-limit // segment)
    starts, matched = _runs_and_tokens(spans, responses, at_least, segment, count)
    tokens = matched.reshape(len(matched), count, segment).sum(axis=2, dtype=np.float64)
    lengths = responses["tokens"].to_numpy(dtype=np.float64)[:, np.newaxis]
    reached = np.where(np.isnan(lengths), np.nan, lengths >= np.arange(count) * segment + at_least)
    anywhere = (starts > 0).astype(np.float64)
    memorized = starts.sum(axis=1, keepdims=True) > 0
    sums = np.hstack([starts, tokens, anywhere, reached, anywhere * reached, memorized])
    resampled = resample_means(sums, list(responses["subject"]), replicates=replicates, seed=seed)
    rows = []
    for place in range(count):
        start, token, memorized_part, reach, both = (place + block * count for block in range(5))
        shares: dict[str, tuple[int, Sequence[int], str]] = {
            "starts": (start, range(count), "no run"),
            "tokens": (token, range(count, 2 * count), "no run"),
            "memorized": (memorized_part, [5 * count], "no run"),
            "ratio": (memorized_part, [], "no response"),
            "ratio_reached": (both, [reach], "no response is known to be so long"),
        }
        rows += [
            {"segment": place, "measure": measure, **share_of(resampled, *share)}
            for measure, share in shares.items()
        ]
    table = pd.DataFrame(rows)
    first = table["segment"] * segment
    return table.assign(first=first + 1, last=(first + segment).clip(upper=limit))[list(COLUMNS)]


def share_of(resampled: Resampled, part: int, whole: Sequence[int], reason: str) -> dict[str, Any]:
    """Sum of one column over the sum of others, as columns of a table.

    Args:
        whole: columns of the denominator; none: the number of rows.
        reason: for a value that is missing since the denominator is 0.

    Returns:
        value, low, high, n (the denominator), n_subjects (with a share in it), reason.
    """
    share = resampled.share(part, whole) if whole else resampled.estimate([part], bounds=UNIT)
    numbers = {name: getattr(share, name) for name in ("value", "low", "high", "n")}
    return {**numbers, "n_subjects": share.n_clusters, "reason": reason if share.value is None else None}


def matched_by_segment(
    spans: pd.DataFrame, responses: pd.DataFrame, *, at_least: int = 30, segment: int = SEGMENT, count: int
) -> Array:
    """Share of each segment's tokens that are in a shared run, by response.

    A run counts in every segment that it covers, so early segments are not favoured.

    Args:
        spans, responses, at_least, segment: as in :func:`positions`; only the keys of ``responses`` are read.
        count: number of segments.

    Returns:
        [responses, count], 0-1, higher = more of the segment is memorized; 0 beyond a response's end.
    """
    _, matched = _runs_and_tokens(spans, responses, at_least, segment, count)
    return np.asarray(matched.reshape(len(matched), count, segment).mean(axis=2), dtype=np.float64)


def _runs_and_tokens(
    spans: pd.DataFrame, responses: pd.DataFrame, at_least: int, segment: int, count: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Runs that start in each segment [responses, count], and matched tokens [responses, tokens]."""
    rows = {key: row for row, key in enumerate(responses[KEY].itertuples(index=False, name=None))}
    starts = np.zeros((len(rows), count))
    matched = np.zeros((len(rows), count * segment), dtype=np.bool_)
    long = spans.loc[spans["length"] >= at_least, [*KEY, "length", "in_response"]]
    for *key, length, at in long.itertuples(index=False, name=None):
        row = rows.get(tuple(key))
        if row is None:
            raise InputError(f"A run belongs to a response that is missing ({key[1]}, sample {key[2]}).")
        starts[row, min(at // segment, count - 1)] += 1
        matched[row, at : at + length] = True
    return starts, matched
