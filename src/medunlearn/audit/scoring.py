"""From probes and responses to the tables of scores, shared runs, and first tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.audit.audit import SCORES, SCORES_SCHEMA, SPANS, SPANS_SCHEMA, STARTS, STARTS_SCHEMA
from medunlearn.audit.measures import score_cases
from medunlearn.audit.probes import Probe
from medunlearn.audit.protocol import FIRST, Case
from medunlearn.audit.spans import shared_runs
from medunlearn.audit.units import Encoded, Unit, continuations
from medunlearn.data.responses import Response
from medunlearn.data.storage import write_together

Key = tuple[str, str, int]
"""Probe, variant, sample."""

NO_RESPONSE = "there is no response"
_LETTERS, _MARGIN = 12 * FIRST, 16
_NOTHING = np.zeros(0, dtype=np.uint32)


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
    """Write ``scores.parquet``, ``spans.parquet`` and ``starts.parquet``.

    Args:
        keys: every response that there should be, in the tables' order.
        reasons: why those are missing that are.
        starts: the text of each response's first tokens, where it is known already.
    """
    by_id = {probe.probe_id: probe for probe in probes}
    starts = first_tokens(by_id, responses, unit) if starts is None else starts
    cases = [_case(by_id[key[0]], responses.get(key), starts.get(key, ""), reasons.get(key)) for key in keys]
    scores = score_cases(measures, cases)
    tables = {
        SCORES: _scores(keys, scores),
        SPANS: _spans(keys, by_id, cases),
        STARTS: _starts(keys, by_id, starts),
    }
    write_together({folder / name: _writer(table) for name, table in tables.items()})


def first_tokens(by_id: Mapping[str, Probe], responses: Mapping[Key, Response], unit: Unit) -> dict[Key, str]:
    """The text of each response's first tokens."""
    known = list(responses)
    texts = [responses[key].response for key in known]
    prefixes = [by_id[key[0]].prefix for key in known]
    # A part is enough of most: as many letters as the first tokens hardly ever have.
    parts = continuations(unit, prefixes, [text[:_LETTERS] for text in texts])
    rest = [place for place, one in enumerate(parts) if len(one) < FIRST + _MARGIN and len(texts[place]) > _LETTERS]
    whole = continuations(unit, [prefixes[place] for place in rest], [texts[place] for place in rest])
    encoded = {**dict(enumerate(parts)), **dict(zip(rest, whole, strict=True))}
    return {key: first_text(texts[place], encoded[place]) for place, key in enumerate(known)}


def first_text(text: str, encoded: Encoded) -> str:
    return text if len(encoded) <= FIRST else text[: int(encoded.ends[FIRST - 1])]


def _suffix_start(probe: Probe) -> str:
    ends = probe.suffix_ends
    return probe.suffix if len(ends) <= FIRST else probe.suffix[: int(ends[FIRST - 1])]


def _case(probe: Probe, response: Response | None, start: str, reason: str | None) -> Case:
    if response is None:
        return Case(_NOTHING, probe.suffix_ids, no_response=reason or NO_RESPONSE)
    return Case(
        np.array(response.response_tokens, dtype=np.uint32),
        probe.suffix_ids,
        start,
        _suffix_start(probe),
        response.answer_hits,
    )


def _keys(keys: Sequence[Key]) -> dict[str, list[Any]]:
    return {name: [key[place] for key in keys] for place, name in enumerate(("probe_id", "variant", "sample"))}


def _scores(keys: Sequence[Key], scores: Mapping[str, Sequence[Any]]) -> pa.Table:
    columns = _keys([key for _ in scores for key in keys])
    columns["measure"] = [name for name in scores for _ in keys]
    columns["value"] = [score.value for found in scores.values() for score in found]
    columns["reason"] = [score.reason for found in scores.values() for score in found]
    return pa.table(columns, schema=SCORES_SCHEMA)


def _spans(keys: Sequence[Key], by_id: Mapping[str, Probe], cases: Sequence[Case]) -> pa.Table:
    runs = shared_runs([case.response_ids for case in cases], [case.suffix_ids for case in cases])
    flat = [(key, run) for key, found in zip(keys, runs, strict=True) for run in found]
    columns = _keys([key for key, _ in flat])
    columns |= {name: [getattr(run, name) for _, run in flat] for name in ("length", "in_response", "in_suffix")}
    columns["text"] = [_text(by_id[key[0]], run.in_suffix, run.length) for key, run in flat]
    return pa.table(columns, schema=SPANS_SCHEMA)


def _text(probe: Probe, start: int, length: int) -> str:
    begin = int(probe.suffix_ends[start - 1]) if start else 0
    return probe.suffix[begin : int(probe.suffix_ends[start + length - 1])]


def _starts(keys: Sequence[Key], by_id: Mapping[str, Probe], starts: Mapping[Key, str]) -> pa.Table:
    there = [key for key in keys if key in starts]
    columns = _keys(there) | {
        "response": [starts[key] for key in there],
        "suffix": [_suffix_start(by_id[key[0]]) for key in there],
    }
    return pa.table(columns, schema=STARTS_SCHEMA)


def _writer(table: pa.Table) -> Any:
    return lambda path: pq.write_table(table, path, compression="zstd")
