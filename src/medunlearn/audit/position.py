"""Position of memorized text in responses, by segments of 100 tokens.

The paper counts "memorized text" by segment. It says neither whether a response counts once, nor which segment a
run across a border belongs to; its text speaks of runs of 30 tokens, its figure's caption of 50. So there are
several measures:

- ``starts``: share of all runs that start in the segment.
- ``tokens``: share of all matched tokens that are in the segment; a token in two runs counts once.
- ``memorized``: share of the memorized responses (with a run anywhere) in which a run starts in the segment. A
  response may count in several segments, so these need not add up to 1.
- ``ratio``: share of all responses in which a run starts in the segment: the memorization ratio by position.
- ``ratio_reached``: the same among responses long enough to hold a run that starts at the segment's first token.
  Otherwise early ends look like less memorization.

All 0-1, higher = more of it in the segment.

Source: Memorization in Large Language Models in Medicine, Section 4.1 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.audit.tables import KEY
from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, Array, Resampled, resample_means

SEGMENT = 100
LIMIT = 500
MEASURES = ("starts", "tokens", "memorized", "ratio", "ratio_reached")
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
    spans = spans[spans["length"] >= at_least]
    count = -(-limit // segment)
    sums = _sums(spans, responses, at_least, segment, count)
    owners = list(responses["subject"])
    resampled = resample_means(sums, owners, replicates=replicates, seed=seed)
    subjects = np.unique(np.asarray(owners, dtype=object).astype(str), return_inverse=True)[1]
    table = pd.DataFrame(row for place in range(count) for row in _rows(resampled, sums, subjects, place, count))
    first = table["segment"] * segment
    return table.assign(first=first + 1, last=(first + segment).clip(upper=limit))[list(COLUMNS)]


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
    _, matched = _places_of(spans[spans["length"] >= at_least], responses, segment, count)
    return np.asarray(matched.reshape(len(matched), count, segment).mean(axis=2), dtype=np.float64)


def _sums(spans: pd.DataFrame, responses: pd.DataFrame, at_least: int, segment: int, count: int) -> Array:
    """Per response and segment: runs that start, matched tokens, any start, reached, any start where reached."""
    starts, matched = _places_of(spans, responses, segment, count)
    tokens = matched.reshape(len(matched), count, segment).sum(axis=2, dtype=np.float64)
    lengths = responses["tokens"].to_numpy(dtype=np.float64)[:, np.newaxis]
    reached = np.where(np.isnan(lengths), np.nan, lengths >= np.arange(count) * segment + at_least)
    anywhere = (starts > 0).astype(np.float64)
    return np.hstack([starts, tokens, anywhere, reached, anywhere * reached, starts.sum(axis=1, keepdims=True) > 0])


def _places_of(
    spans: pd.DataFrame, responses: pd.DataFrame, segment: int, count: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Runs that start in each segment [responses, count], and matched tokens [responses, tokens]."""
    rows = {key: row for row, key in enumerate(responses[KEY].itertuples(index=False, name=None))}
    starts = np.zeros((len(rows), count))
    matched = np.zeros((len(rows), count * segment), dtype=np.bool_)
    for *key, length, at in spans[[*KEY, "length", "in_response"]].itertuples(index=False, name=None):
        row = rows.get(tuple(key))
        if row is None:
            raise InputError(f"A run is of a response that is not there ({key[1]}, sample {key[2]}).")
        starts[row, min(at // segment, count - 1)] += 1
        matched[row, at : at + length] = True
    return starts, matched


def _rows(
    resampled: Resampled, sums: Array, subjects: npt.NDArray[np.intp], place: int, count: int
) -> Iterator[dict[str, Any]]:
    starts, tokens, anywhere, reached, both = (range(part * count, (part + 1) * count) for part in range(5))
    memorized = 5 * count
    shares = {
        "starts": (starts[place], list(starts), "no run"),
        "tokens": (tokens[place], list(tokens), "no run"),
        "memorized": (anywhere[place], [memorized], "no run"),
        "ratio": (anywhere[place], None, "no response"),
        "ratio_reached": (both[place], [reached[place]], "no response is known to be so long"),
    }
    for measure, (part, denominator, without) in shares.items():
        columns = [part] if denominator is None else [part, *denominator]
        estimate = resampled.estimate(columns, None if denominator is None else _share)
        counts = np.ones(len(sums)) if denominator is None else np.nansum(sums[:, denominator], axis=1)
        n_subjects = len(np.unique(subjects[counts > 0]))
        # One subject's data say nothing about how subjects differ.
        low, high = (estimate.low, estimate.high) if n_subjects > 1 else (None, None)
        yield {
            "segment": place,
            "measure": measure,
            "value": estimate.value,
            "low": low,
            "high": high,
            "n": int(counts.sum()),
            "n_subjects": n_subjects,
            "reason": without if estimate.value is None else None,
        }


def _share(means: Array) -> Array:
    """First column over the sum of the others; NaN where that is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(means[..., 0] / means[..., 1:].sum(axis=-1), dtype=np.float64)
