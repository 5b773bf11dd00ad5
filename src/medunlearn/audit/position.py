"""Where in a response what was memorized stands, by segments of 100 tokens.

The paper counts "memorized text" by segment and says neither whether a response counts once nor where a run
belongs that crosses a border; its text speaks of runs of 30 tokens and its figure's caption of 50. So there are
several measures, each with its name:

- ``starts``: share of all runs that start in the segment.
- ``tokens``: share of all matched tokens that stand in the segment; a token in two runs counts once.
- ``memorized``: share of the memorized responses (with a run anywhere) in which a run starts in the segment. A
  response may count in several segments, so these need not add up to 1.
- ``ratio``: share of all responses in which a run starts in the segment: the memorization ratio, split by place.
- ``ratio_reached``: the same among responses long enough to hold a run from the segment's first token on. A
  response that ended before cannot have one there; without this, early ends look like less memorization.

All 0-1, higher = more of it in the segment.

Source: Memorization in Large Language Models in Medicine, Section 4.1 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.errors import InputError
from medunlearn.statistics.bootstrap import REPLICATES, Array, Resampled, resample_means

SEGMENT = 100
LIMIT = 500
MEASURES = ("starts", "tokens", "memorized", "ratio", "ratio_reached")
KEY = ["probe_id", "variant", "sample"]
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
        responses: all responses, those without a run too: probe_id, variant, sample, subject, tokens (how long;
            NaN where that is not known).
        at_least: shortest run that counts, in tokens.
        segment: tokens a segment.
        limit: most tokens that a response can have; the last segment ends there.

    Returns:
        One row a segment and measure: segment (from 0), first, last (tokens, counted from 1), measure, value, low,
        high, n (of the runs, tokens or responses that a share is of), n_subjects (whose these are), reason (why
        there is no value).

    Raises:
        InputError: no segment fits, or a run of a response that is not in the table.
    """
    if segment < 1 or limit < segment:
        raise InputError(f"Segments of {segment} tokens do not fit into {limit}.")
    spans = spans[spans["length"] >= at_least]
    count = -(-limit // segment)
    sums = _sums(spans, responses, at_least, segment, count)
    resampled = resample_means(sums, list(responses["subject"]), replicates=replicates, seed=seed)
    subjects = np.unique(np.asarray(list(responses["subject"]), dtype=object).astype(str), return_inverse=True)[1]
    rows = [row for place in range(count) for row in _rows(resampled, sums, subjects, place, count)]
    edges = {"first": lambda one: one["segment"] * segment + 1, "last": lambda one: (one["segment"] + 1) * segment}
    found = pd.DataFrame(rows).assign(**edges)
    found["last"] = found["last"].clip(upper=limit)
    return found[list(COLUMNS)]


def matched_by_segment(
    spans: pd.DataFrame, responses: pd.DataFrame, *, at_least: int = 30, segment: int = SEGMENT, count: int
) -> Array:
    """The share of each segment's tokens that stand in a shared run, response by response.

    Unlike where runs start, this does not lean to the front: a run counts in every segment that it goes through.

    Args:
        spans, responses, at_least, segment: as in :func:`positions`; of ``responses`` the keys alone are read.
        count: segments, from the first one on.

    Returns:
        Shape [responses, count], 0-1, higher = more of the segment is memorized. A response that ended before a
        segment has 0 there.
    """
    spans = spans[spans["length"] >= at_least]
    _, matched = _places_of(spans, responses, segment, count)
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
    """Runs that start in each segment [responses, count], and which tokens are matched [responses, tokens]."""
    place = {key: row for row, key in enumerate(responses[KEY].itertuples(index=False, name=None))}
    starts = np.zeros((len(place), count))
    matched = np.zeros((len(place), count * segment), dtype=np.bool_)
    for probe, variant, sample, length, at in spans[[*KEY, "length", "in_response"]].itertuples(
        index=False, name=None
    ):
        row = place.get((probe, variant, sample))
        if row is None:
            raise InputError(f"A run is of a response that is not there ({variant}, sample {sample}).")
        starts[row, min(at // segment, count - 1)] += 1
        matched[row, at : at + length] = True
    return starts, matched


def _rows(
    resampled: Resampled, sums: Array, subjects: npt.NDArray[np.intp], place: int, count: int
) -> Iterator[dict[str, Any]]:
    starts, tokens, anywhere, reached, found = (range(part * count, (part + 1) * count) for part in range(5))
    memorized = 5 * count
    shares = {
        "starts": (starts[place], list(starts), "no run"),
        "tokens": (tokens[place], list(tokens), "no run"),
        "memorized": (anywhere[place], [memorized], "no run"),
        "ratio": (anywhere[place], None, "no response"),
        "ratio_reached": (found[place], [reached[place]], "no response is known to be so long"),
    }
    for measure, (part, whole, without) in shares.items():
        columns = [part] if whole is None else [part, *whole]
        estimate = resampled.estimate(columns, None if whole is None else _share)
        whole_of = np.ones(len(sums)) if whole is None else np.nansum(sums[:, whole], axis=1)
        n_subjects = len(np.unique(subjects[whole_of > 0]))
        # All that is shared is one subject's: that says nothing of how subjects differ.
        edges = (estimate.low, estimate.high) if n_subjects > 1 else (None, None)
        yield {
            "segment": place,
            "measure": measure,
            "value": estimate.value,
            "low": edges[0],
            "high": edges[1],
            "n": int(whole_of.sum()),
            "n_subjects": n_subjects,
            "reason": without if estimate.value is None else None,
        }


def _share(means: Array) -> Array:
    """The first column over the sum of the others; NaN where there is nothing to share."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(means[..., 0] / means[..., 1:].sum(axis=-1), dtype=np.float64)
