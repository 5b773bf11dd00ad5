"""Tables of scores, shared runs and first tokens, from probes and responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.audit.measures import FIRST, Continuation, score_continuations
from medunlearn.audit.probes import Probe
from medunlearn.audit.tables import CELL, KEY, SPANS, SPANS_SCHEMA, STARTS, STARTS_SCHEMA, Key
from medunlearn.audit.units import Encoded, Unit, continuations
from medunlearn.audit.verbatim import shared_runs
from medunlearn.data.responses import Response
from medunlearn.data.storage import write_together
from medunlearn.results.scores import FILE, score_table

NO_RESPONSE = "there is no response"
_LETTERS, _MARGIN = 12 * FIRST, 16
_EMPTY = np.zeros(0, dtype=np.uint32)


def score_all(
    folder: Path,
    probes: Sequence[Probe],
    keys: Sequence[Key],
    responses: Mapping[Key, Response],
    reasons: Mapping[Key, str],
    measures: Sequence[str],
    unit: Unit,
    *,
    starts: Mapping[Key, str] | None = None,
) -> None:
    """Write ``scores.parquet`` (:mod:`medunlearn.results.scores`), ``spans.parquet`` and ``starts.parquet``.

    Args:
        keys: all expected responses, in the tables' order.
        reasons: why responses are missing.
        starts: text of each response's first tokens, if known.
    """
    by_id = {probe.probe_id: probe for probe in probes}
    starts = first_tokens(by_id, responses, unit) if starts is None else starts
    pairs = [
        _continuation(by_id[key[0]], responses.get(key), starts.get(key, ""), reasons.get(key)) for key in keys
    ]
    tables = {SPANS: _spans(keys, by_id, pairs), STARTS: _starts(keys, by_id, starts)}
    files = {folder / name: partial(pq.write_table, table, compression="zstd") for name, table in tables.items()}
    write_together({folder / FILE: _scores(keys, by_id, measures, pairs).to_parquet, **files})


def first_tokens(by_id: Mapping[str, Probe], responses: Mapping[Key, Response], unit: Unit) -> dict[Key, str]:
    """Text of each response's first :data:`FIRST` tokens."""
    keys = list(responses)
    texts = [responses[key].response for key in keys]
    prefixes = [by_id[key[0]].prefix for key in keys]
    # Most need only as many letters as the first tokens hardly ever have; the rest are encoded whole.
    parts = continuations(unit, prefixes, [text[:_LETTERS] for text in texts])
    long = [at for at, part in enumerate(parts) if len(part) < FIRST + _MARGIN and len(texts[at]) > _LETTERS]
    full = continuations(unit, [prefixes[at] for at in long], [texts[at] for at in long])
    encoded = {**dict(enumerate(parts)), **dict(zip(long, full, strict=True))}
    return {key: first_text(texts[at], encoded[at]) for at, key in enumerate(keys)}


def first_text(text: str, encoded: Encoded) -> str:
    """The text of the first :data:`FIRST` tokens."""
    return text if len(encoded) <= FIRST else text[: int(encoded.ends[FIRST - 1])]


def _suffix_start(probe: Probe) -> str:
    return first_text(probe.suffix, Encoded(probe.suffix_ids, probe.suffix_ends))


def _continuation(probe: Probe, response: Response | None, start: str, reason: str | None) -> Continuation:
    if response is None:
        return Continuation(_EMPTY, probe.suffix_ids, no_response=reason or NO_RESPONSE)
    ids = np.array(response.response_tokens, dtype=np.uint32)
    return Continuation(ids, probe.suffix_ids, start, _suffix_start(probe), response.answer_hits)


def _key_columns(keys: Sequence[Key]) -> dict[str, list[Any]]:
    return {name: [key[place] for key in keys] for place, name in enumerate(KEY)}


def _scores(
    keys: Sequence[Key], by_id: Mapping[str, Probe], measures: Sequence[str], pairs: Sequence[Continuation]
) -> pd.DataFrame:
    """The score table; labels: corpus, prefix_tokens, decoding, copies, sample."""
    rows = [
        (probe_id, p.subject, p.corpus, p.prefix_tokens, decoding, p.copies, sample)
        for probe_id, decoding, sample in keys
        for p in (by_id[probe_id],)
    ]
    labels = pd.DataFrame(rows, columns=["item", "subject", *CELL, "copies", "sample"]).astype({"copies": "Int64"})
    tables = [
        labels.assign(
            measure=name,
            value=pd.array([score.value for score in scores], dtype="Float64"),
            reason=pd.array([score.reason for score in scores], dtype="string"),
        )
        for name, scores in score_continuations(measures, pairs).items()
    ]
    return score_table(pd.concat(tables, ignore_index=True))


def _spans(keys: Sequence[Key], by_id: Mapping[str, Probe], pairs: Sequence[Continuation]) -> pa.Table:
    runs = shared_runs([pair.response_ids for pair in pairs], [pair.suffix_ids for pair in pairs])
    flat = [(key, run) for key, own in zip(keys, runs, strict=True) for run in own]
    columns = _key_columns([key for key, _ in flat])
    columns |= {name: [getattr(run, name) for _, run in flat] for name in ("length", "in_response", "in_suffix")}
    columns["text"] = [_suffix_text(by_id[key[0]], run.in_suffix, run.length) for key, run in flat]
    return pa.table(columns, schema=SPANS_SCHEMA)


def _suffix_text(probe: Probe, start: int, length: int) -> str:
    begin = int(probe.suffix_ends[start - 1]) if start else 0
    return probe.suffix[begin : int(probe.suffix_ends[start + length - 1])]


def _starts(keys: Sequence[Key], by_id: Mapping[str, Probe], starts: Mapping[Key, str]) -> pa.Table:
    answered = [key for key in keys if key in starts]
    columns = _key_columns(answered) | {
        "response": [starts[key] for key in answered],
        "suffix": [_suffix_start(by_id[key[0]]) for key in answered],
    }
    return pa.table(columns, schema=STARTS_SCHEMA)
