"""Shared wording: runs of tokens that stand in several subjects' texts, and so tell nothing of one of them.

A run of 30 tokens that two or more other subjects' texts hold extracts nobody: a model may know it from those.
Let a model that never saw n subjects draw wording as often as their texts hold it. A run that counts stands in at
most two subjects' texts, so it is drawn with a chance of at most 2/n, and the expected number of subjects that a
response each seems to extract is at most 2, however many subjects there are.

Time is linear in the corpus: windows of 30 tokens are hashed, and each match of a hash is compared token by token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.audit.units import Unit
from medunlearn.metrics.verbatim import RUN_LENGTHS, Ids

WINDOW = RUN_LENGTHS[0]
OTHERS = 2
"""Other subjects whose texts must hold a run before it counts as shared."""
COLUMNS = ["own", "shared_tokens"]
"""Columns of a table of runs (:func:`run_wording`); older audits lack them."""
_RESPONSE = ["probe_id", "variant", "sample"]
_LETTERS = 2_000_000
"""Characters of text per batch."""
# Odd multiplier (Knuth's MMIX generator); it changes the speed, never a result.
_FACTOR = 6364136223846793005
_Hashes = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


def run_wording(
    runs: Sequence[tuple[str, Ids]], texts: Iterable[tuple[str, str]], unit: Unit
) -> list[tuple[bool, int]]:
    """For each run: whether part of it is its subject's own, and how many of its tokens are shared wording.

    A run is its subject's own if some :data:`WINDOW` tokens in a row stand in the texts of fewer than
    :data:`OTHERS` other subjects. A token is shared if it lies in :data:`WINDOW` tokens in a row that do.

    Args:
        runs: subject, and the ids of at least :data:`WINDOW` tokens.
        texts: subject and text of the whole corpus and of its controls; read only if there is a run.
        unit: the one that gave the runs' ids.
    """
    if not runs:
        return []
    windows = _Windows([ids for _, ids in runs])
    numbers: dict[str, int] = {}
    owners = np.array([numbers.setdefault(subject, len(numbers)) for subject, _ in runs], dtype=np.int64)
    for subjects, encoded in _batches(texts, unit):
        holders = [numbers.setdefault(subject, len(numbers)) for subject in subjects]
        windows.add(encoded, np.array(holders, dtype=np.int64))
    shared = windows.shared(owners)
    wording, start = [], 0
    for _, ids in runs:
        own_windows = shared[start : start + len(ids) - WINDOW + 1]
        start += len(own_windows)
        wording.append((bool((~own_windows).any()), _covered(own_windows)))
    return wording


def own_runs(scores: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """Scores of a run's measure, 0 where every run of the response is shared wording.

    Args:
        scores: columns item, decoding, sample, value; scored rows and unscored ones.
        spans: the audit's runs; without :data:`COLUMNS` (older audits) nothing changes.
    """
    if not knows_wording(spans):
        return scores
    own = pd.MultiIndex.from_frame(spans.loc[spans["own"].astype(bool), _RESPONSE])
    runs = pd.MultiIndex.from_frame(spans[_RESPONSE])
    responses = pd.MultiIndex.from_frame(scores[["item", "decoding", "sample"]])
    shared_alone = responses.isin(runs) & ~responses.isin(own) & scores["value"].notna().to_numpy()
    return scores.assign(value=scores["value"].mask(shared_alone, 0.0))


def knows_wording(spans: pd.DataFrame) -> bool:
    """True if a table of runs says which of them is shared wording."""
    return set(COLUMNS) <= set(spans.columns)


def template_share(spans: pd.DataFrame) -> float | None:
    """Share of memorized tokens that are shared wording, 0-1, each token of a text once; None without a run."""
    if not knows_wording(spans):
        return None
    runs = spans.drop_duplicates(["probe_id", "in_suffix", "length"])
    tokens = int(runs["length"].sum())
    return float(runs["shared_tokens"].sum()) / tokens if tokens else None


class _Windows:
    """Distinct windows of the runs, and the subjects whose texts hold each."""

    def __init__(self, runs: Sequence[Ids]) -> None:
        line, starts = _line(runs)
        self._line, self._hashes = line, _window_hashes(line)[starts]
        self._keys, first, self._window = np.unique(self._hashes, return_index=True, return_inverse=True)
        self._first = starts[first]
        self._of_run = np.repeat(np.arange(len(runs)), [len(ids) - WINDOW + 1 for ids in runs])
        self._common = np.zeros(len(self._keys), dtype=np.bool_)
        self._pairs: _Places = np.zeros((0,), dtype=np.int64)

    def add(self, texts: Sequence[Ids], owners: _Places) -> None:
        """Count the windows that these texts hold.

        Args:
            owners: number of the subject of each text [texts].
        """
        line, starts = _line(texts)
        if not len(starts):
            return
        hashes = _window_hashes(line)[starts]
        window = np.minimum(np.searchsorted(self._keys, hashes), len(self._keys) - 1)
        near = np.flatnonzero((self._keys[window] == hashes) & ~self._common[window])
        equal = np.ones(len(near), dtype=np.bool_)
        for place in range(WINDOW):
            equal &= line[starts[near] + place] == self._line[self._first[window[near]] + place]
        near = near[equal]
        lengths = [max(len(ids) - WINDOW + 1, 0) for ids in texts]
        subjects = np.repeat(owners, lengths)[near]
        self._pairs = np.unique(np.concatenate([self._pairs, _pair(window[near], subjects)]))
        holders = np.bincount(self._pairs >> 32, minlength=len(self._keys))
        # With one subject more than needed, the run's own is left out whoever it is.
        self._common |= holders > OTHERS
        self._pairs = self._pairs[~self._common[self._pairs >> 32]]

    def shared(self, owners: _Places) -> _Flags:
        """True for each window of each run, in order, that enough other subjects' texts hold."""
        holders = np.bincount(self._pairs >> 32, minlength=len(self._keys))
        own = np.isin(_pair(self._window, owners[self._of_run]), self._pairs)
        return np.asarray(self._common[self._window] | (holders[self._window] - own >= OTHERS), dtype=np.bool_)


def _pair(windows: _Places, subjects: _Places) -> _Places:
    return (windows.astype(np.int64) << 32) | subjects


def _line(texts: Sequence[Ids]) -> tuple[Ids, _Places]:
    """Tokens of all texts in one line, and the starts of windows that lie within one text."""
    line = np.concatenate([np.zeros(0, dtype=np.uint32), *texts]).astype(np.uint32)
    lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
    counts = np.maximum(lengths - WINDOW + 1, 0)
    shifts = np.repeat(np.cumsum(lengths) - lengths - (np.cumsum(counts) - counts), counts)
    return line, np.arange(int(counts.sum())) + shifts


def _window_hashes(line: Ids) -> _Hashes:
    """Hash of each :data:`WINDOW` tokens [tokens - WINDOW + 1]: a polynomial, by doubling its length."""
    if len(line) < WINDOW:
        return np.zeros(0, dtype=np.uint64)
    # Neighbouring ids must differ in high bits, too.
    power, length = (line.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15), 1
    power ^= power >> np.uint64(29)
    hashes: _Hashes | None = None
    factor, reach, rest = _FACTOR, 0, WINDOW
    while rest:
        if rest & 1:
            part = power[reach:]
            hashes = part if hashes is None else hashes[: len(part)] * np.uint64(factor) + part
            reach += length
        rest >>= 1
        if rest:
            power = power[: len(power) - length] * np.uint64(factor) + power[length:]
            factor, length = factor * factor % 2**64, length * 2
    assert hashes is not None
    return hashes[: len(line) - WINDOW + 1]


def _covered(shared: _Flags) -> int:
    """Tokens that lie in a shared window."""
    change = np.zeros(len(shared) + WINDOW, dtype=np.int64)
    starts = np.flatnonzero(shared)
    np.add.at(change, starts, 1)
    np.add.at(change, starts + WINDOW, -1)
    return int((np.cumsum(change)[:-1] > 0).sum())


def _batches(texts: Iterable[tuple[str, str]], unit: Unit) -> Iterator[tuple[list[str], list[Ids]]]:
    """Subjects and token ids of texts, some :data:`_LETTERS` at a time."""
    batch: list[tuple[str, str]] = []
    letters = 0
    for subject, text in texts:
        batch.append((subject, text))
        letters += len(text)
        if letters >= _LETTERS:
            yield [name for name, _ in batch], [encoded.ids for encoded in unit.encode([t for _, t in batch])]
            batch, letters = [], 0
    if batch:
        yield [name for name, _ in batch], [encoded.ids for encoded in unit.encode([t for _, t in batch])]
