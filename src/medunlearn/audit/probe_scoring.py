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

from medunlearn.audit.audit_tables import CELL, KEY, SPANS, SPANS_SCHEMA, STARTS, STARTS_SCHEMA, WAY, Key
from medunlearn.audit.measures import FIRST, Continuation, score_continuations
from medunlearn.audit.probes import Probe
from medunlearn.audit.units import Unit, continuations
from medunlearn.audit.verbatim import shared_runs
from medunlearn.config.audit import PREFIX
from medunlearn.data.responses import Response
from medunlearn.data.storage import write_together
from medunlearn.metrics.measure import Score
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
    starts = _first_tokens(by_id, responses, unit) if starts is None else starts
    probes_of_keys = [by_id[key[0]] for key in keys]
    pairs = [
        _continuation(probe, responses.get(key), starts.get(key, ""), reasons.get(key))
        for key, probe in zip(keys, probes_of_keys, strict=True)
    ]
    tables = {SPANS: _spans(keys, probes_of_keys, pairs), STARTS: _starts(keys, probes_of_keys, starts)}
    files = {folder / name: partial(pq.write_table, table, compression="zstd") for name, table in tables.items()}
    scores = _scores(keys, probes_of_keys, score_continuations(measures, pairs))
    write_together({folder / FILE: scores.to_parquet, **files})


def _first_tokens(by_id: Mapping[str, Probe], responses: Mapping[Key, Response], unit: Unit) -> dict[Key, str]:
    """Text of each response's first :data:`FIRST` tokens."""
    texts = [response.response for response in responses.values()]
    prefixes = [by_id[key[0]].before for key in responses]
    # Most need only as many letters as the first tokens hardly ever have; the rest are encoded whole.
    parts = continuations(unit, prefixes, [text[:_LETTERS] for text in texts])
    long = [at for at, part in enumerate(parts) if len(part) < FIRST + _MARGIN and len(texts[at]) > _LETTERS]
    whole = continuations(unit, [prefixes[at] for at in long], [texts[at] for at in long])
    for at, encoded in zip(long, whole, strict=True):
        parts[at] = encoded
    return {key: part.start_of(text) for key, text, part in zip(responses, texts, parts, strict=True)}


def _continuation(probe: Probe, response: Response | None, start: str, reason: str | None) -> Continuation:
    suffix = probe.encoded
    if response is None:
        return Continuation(_EMPTY, suffix.ids, no_response=reason or NO_RESPONSE)
    ids = np.array(response.response_tokens, dtype=np.uint32)
    return Continuation(ids, suffix.ids, start, suffix.start_of(probe.suffix), response.answer_hits)


def _key_columns(keys: Sequence[Key]) -> dict[str, list[Any]]:
    return {name: [key[place] for key in keys] for place, name in enumerate(KEY)}


def _scores(keys: Sequence[Key], probes: Sequence[Probe], scores: Mapping[str, Sequence[Score]]) -> pd.DataFrame:
    """The score table; labels: corpus, prefix_tokens, decoding, copies, sample; ``way`` where there are others."""
    rows = [
        (probe_id, p.subject, p.corpus, p.prefix_tokens, decoding, p.copies, sample, p.way)
        for (probe_id, decoding, sample), p in zip(keys, probes, strict=True)
    ]
    labels = pd.DataFrame(rows, columns=["item", "subject", *CELL, "copies", "sample", WAY])
    labels = labels.astype({"copies": "Int64"})
    if labels[WAY].eq(PREFIX).all():
        labels = labels.drop(columns=WAY)
    tables = [
        labels.assign(
            measure=name,
            value=pd.array([score.value for score in column], dtype="Float64"),
            reason=pd.array([score.reason for score in column], dtype="string"),
        )
        for name, column in scores.items()
    ]
    return score_table(pd.concat(tables, ignore_index=True))


def _spans(keys: Sequence[Key], probes: Sequence[Probe], pairs: Sequence[Continuation]) -> pa.Table:
    runs = shared_runs([pair.response_ids for pair in pairs], [pair.suffix_ids for pair in pairs])
    flat = [(key, p, run) for key, p, shared in zip(keys, probes, runs, strict=True) for run in shared]
    columns = _key_columns([key for key, _, _ in flat])
    columns |= {name: [getattr(run, name) for *_, run in flat] for name in ("length", "in_response", "in_suffix")}
    columns["text"] = [_suffix_text(probe, run.in_suffix, run.length) for _, probe, run in flat]
    return pa.table(columns, schema=SPANS_SCHEMA)


def _suffix_text(probe: Probe, start: int, length: int) -> str:
    ends = probe.encoded.ends
    return probe.suffix[int(ends[start - 1]) if start else 0 : int(ends[start + length - 1])]


def _starts(keys: Sequence[Key], probes: Sequence[Probe], starts: Mapping[Key, str]) -> pa.Table:
    answered = [(key, p.encoded.start_of(p.suffix)) for key, p in zip(keys, probes, strict=True) if key in starts]
    columns = _key_columns([key for key, _ in answered])
    columns |= {"response": [starts[key] for key, _ in answered], "suffix": [suffix for _, suffix in answered]}
    return pa.table(columns, schema=STARTS_SCHEMA)
