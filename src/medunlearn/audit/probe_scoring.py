"""Tables of scores, shared runs and first tokens, from probes and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.audit.audit_tables import CELL, KEY, SPANS, SPANS_SCHEMA, STARTS, STARTS_SCHEMA, WAY, Key
from medunlearn.audit.extraction import NO_RESPONSE
from medunlearn.audit.probes import Probe
from medunlearn.audit.shared_wording import COLUMNS, run_wording
from medunlearn.audit.units import Unit, continuations
from medunlearn.config.audit import PREFIX
from medunlearn.data.responses import Response
from medunlearn.data.storage import atomic_files
from medunlearn.metrics import get_metric
from medunlearn.metrics.item_scoring import scores_by_measure
from medunlearn.metrics.measure import FIRST, Item, Score
from medunlearn.metrics.verbatim import shared_runs
from medunlearn.results.scores import FILE, score_table

_LETTERS, _MARGIN = 12 * FIRST, 16


@dataclass
class ProbeResponses:
    """Probes by id, and the known facts of each response by key.

    Attributes:
        keys: all expected responses, in the tables' order.
        starts: text of each response's first tokens; empty: not computed yet.
        reasons: why responses are missing, or are none.
        empty: number of rows without a suffix in a table of responses, which are skipped.
    """

    probes: dict[str, Probe] = field(default_factory=dict)
    responses: dict[Key, Response] = field(default_factory=dict)
    starts: dict[Key, str] = field(default_factory=dict)
    reasons: dict[Key, str] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    empty: int = 0


def score_all(
    folder: Path,
    answers: ProbeResponses,
    measures: Sequence[str],
    unit: Unit,
    texts: Iterable[tuple[str, str]] | None = None,
) -> None:
    """Write ``scores.parquet`` (:mod:`medunlearn.results.scores`), ``spans.parquet`` and ``starts.parquet``.

    Args:
        texts: subject and text of all documents, for wording that subjects share; None: those of the probes.
    """
    keys, probes = answers.keys, [answers.probes[key[0]] for key in answers.keys]
    starts = answers.starts or _first_tokens(answers, unit)
    items = [
        _item(probe, answers.responses.get(key), starts.get(key, ""), answers.reasons.get(key))
        for key, probe in zip(keys, probes, strict=True)
    ]
    texts = _probed_texts(answers.probes.values()) if texts is None else texts
    tables = {SPANS: _spans(keys, probes, items, texts, unit)}
    tables[STARTS] = _starts(keys, probes, answers.reasons, starts)
    scores = scores_by_measure(items, [get_metric(name) for name in measures])
    with atomic_files(*(folder / name for name in (FILE, *tables))) as (scores_part, *parts):
        score_rows(_labels(keys, probes), scores).to_parquet(scores_part)
        for part, table in zip(parts, tables.values(), strict=True):
            pq.write_table(table, part, compression="zstd")


def _first_tokens(answers: ProbeResponses, unit: Unit) -> dict[Key, str]:
    """Text of each response's first :data:`FIRST` tokens."""
    texts = [response.response for response in answers.responses.values()]
    prefixes = [answers.probes[key[0]].before for key in answers.responses]
    # Most need only as many letters as the first tokens hardly ever have; the rest are encoded whole.
    parts = continuations(unit, prefixes, [text[:_LETTERS] for text in texts])
    long = [at for at, part in enumerate(parts) if len(part) < FIRST + _MARGIN and len(texts[at]) > _LETTERS]
    whole = continuations(unit, [prefixes[at] for at in long], [texts[at] for at in long])
    for at, encoded in zip(long, whole, strict=True):
        parts[at] = encoded
    return {key: part.start_of(text) for key, text, part in zip(answers.responses, texts, parts, strict=True)}


def _item(probe: Probe, response: Response | None, start: str, reason: str | None) -> Item:
    starts = start, probe.encoded.start_of(probe.suffix)
    return probe_item(
        probe.probe_id, probe.prefix, probe.suffix, probe.encoded.ids.tolist(), response, starts, reason
    )


def probe_item(
    probe_id: str,
    prefix: str,
    suffix: str,
    suffix_ids: Sequence[int],
    response: Response | None,
    starts: tuple[str, str],
    reason: str | None = None,
) -> Item:
    """The item of one response to a probe, or of a missing response with the reason."""
    item = Item(probe_id, "forget", prefix, suffix, reference_tokens=suffix_ids, ends=False)
    if response is None or reason is not None:
        return replace(item, unanswered=reason or NO_RESPONSE)
    return replace(item.answered(response), starts=starts, cut=response.cut)


def _key_columns(keys: Sequence[Key]) -> dict[str, list[Any]]:
    return {name: [key[place] for key in keys] for place, name in enumerate(KEY)}


def _labels(keys: Sequence[Key], probes: Sequence[Probe]) -> pd.DataFrame:
    """Labels of the score table: corpus, prefix_tokens, decoding, copies, sample; ``way`` if there are several."""
    rows = [
        (probe_id, p.subject, p.corpus, p.prefix_tokens, decoding, p.copies, sample, p.way)
        for (probe_id, decoding, sample), p in zip(keys, probes, strict=True)
    ]
    labels = pd.DataFrame(rows, columns=["item", "subject", *CELL, "copies", "sample", WAY])
    labels = labels.astype({"copies": "Int64"})
    return labels.drop(columns=WAY) if labels[WAY].eq(PREFIX).all() else labels


def score_rows(labels: pd.DataFrame, scores: Mapping[str, Sequence[Score]]) -> pd.DataFrame:
    """The score table of labelled responses, one row per response and measure."""
    tables = [
        labels.assign(
            measure=name,
            value=pd.array([score.value for score in column], dtype="Float64"),
            reason=pd.array([score.reason for score in column], dtype="string"),
        )
        for name, column in scores.items()
    ]
    return score_table(pd.concat(tables, ignore_index=True))


def _probed_texts(probes: Iterable[Probe]) -> set[tuple[str, str]]:
    """Subject and text of each probe's document, as far as the probe holds it."""
    return {(probe.subject, probe.before + probe.suffix) for probe in probes}


def _owners(probes: Iterable[Probe], texts: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Record -> the first with the same text, where nobody said whose a text is: copies are not others' texts."""
    if any(probe.subject != probe.record_id for probe in probes):
        return {}
    first_of: dict[str, str] = {}
    owners: dict[str, str] = {}
    for record, text in texts:
        first = first_of.setdefault(text, record)
        owners.setdefault(record, owners.get(first, first))
    return owners


def _spans(
    keys: Sequence[Key],
    probes: Sequence[Probe],
    items: Sequence[Item],
    texts: Iterable[tuple[str, str]],
    unit: Unit,
) -> pa.Table:
    runs = shared_runs([item.response_tokens or () for item in items], [probe.encoded.ids for probe in probes])
    flat = [(key, p, run) for key, p, shared in zip(keys, probes, runs, strict=True) for run in shared]
    columns = _key_columns([key for key, _, _ in flat])
    columns |= {name: [getattr(run, name) for *_, run in flat] for name in ("length", "in_response", "in_suffix")}
    columns["text"] = [_suffix_text(probe, run.in_suffix, run.length) for _, probe, run in flat]
    pairs_of_texts = list(texts) if flat else []
    owner = _owners(probes, pairs_of_texts)
    ids = [
        (owner.get(probe.subject, probe.subject), probe.encoded.ids[run.in_suffix : run.in_suffix + run.length])
        for _, probe, run in flat
    ]
    wording = run_wording(ids, [(owner.get(name, name), text) for name, text in pairs_of_texts], unit)
    columns |= {name: [values[place] for values in wording] for place, name in enumerate(COLUMNS)}
    return pa.table(columns, schema=SPANS_SCHEMA)


def _suffix_text(probe: Probe, start: int, length: int) -> str:
    ends = probe.encoded.ends
    return probe.suffix[int(ends[start - 1]) if start else 0 : int(ends[start + length - 1])]


def _starts(
    keys: Sequence[Key], probes: Sequence[Probe], reasons: Mapping[Key, str], starts: Mapping[Key, str]
) -> pa.Table:
    probe_starts = [
        (key, p.encoded.start_of(p.suffix))
        for key, p in zip(keys, probes, strict=True)
        if key in starts and key not in reasons
    ]
    columns = _key_columns([key for key, _ in probe_starts])
    columns |= {
        "response": [starts[key] for key, _ in probe_starts],
        "suffix": [suffix for _, suffix in probe_starts],
    }
    return pa.table(columns, schema=STARTS_SCHEMA)
