"""Kinds of an audit's memorized spans (``kinds.parquet``): by rules, by a judge, by a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.audit.judge import UNCLEAR, MemorizedKind
from medunlearn.audit.kinds.rules import (
    GROUPS,
    KindLabel,
    KindRules,
    MemorizedSpan,
    group_of,
    kinds,
    records_holding,
)
from medunlearn.audit.kinds.sheet import read_sheet, write_sheet
from medunlearn.audit.tables import KEY, AuditTables
from medunlearn.config import check
from medunlearn.config.audit_report import KindSettings
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_json, write_json, write_table
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.writing import Reject, Source, write
from medunlearn.llm.client import Client
from medunlearn.statistics.agreement import Rating, cohen_kappa, in_words, observed_agreement
from medunlearn.statistics.bootstrap import REPLICATES, Estimate

FILE, FACTS = "kinds.parquet", "kinds.json"
SCHEMA = pa.schema(
    [
        *(("probe_id", pa.string()), ("variant", pa.string()), ("sample", pa.int32()), ("span", pa.int32())),
        *(("length", pa.int32()), ("records", pa.int32())),
        *(("kind", pa.string()), ("group", pa.string()), ("by", pa.string()), ("reason", pa.string())),
    ]
)
WAYS = ("rules", "judge", "person")
AGREEMENT_COLUMNS = (
    *("first", "second", "of", "measure", "value", "low", "high", "words", "n", "n_subjects", "reason"),
)
Texts = Mapping[str, Mapping[str, str]]
"""Corpus -> record_id -> text."""


def sort_spans(audit: AuditTables, settings: KindSettings, corpora: Texts | None = None) -> pd.DataFrame:
    """Sort an audit's spans by rules and save ``kinds.parquet``; labels of a judge or a person stay.

    Args:
        corpora: texts in which records that hold a span are counted. None: the audited records alone, as far as
            their probes show them, which finds fewer set phrases.

    Returns:
        KEY, span (number among the response's spans), length, records, kind (None without a rule), group, by,
        reason.
    """
    spans = collect_spans(audit, settings, corpora)
    rules = KindRules(
        frozenset(settings.clinical), frozenset(settings.datasets), settings.boilerplate, settings.least
    )
    return _save(audit, spans, "rules", {name: rules.sort(span) for name, span in spans.items()}, settings)


def judge_spans(
    audit: AuditTables, settings: KindSettings, client: Client, *, quiet: bool = False
) -> tuple[pd.DataFrame, tuple[Reject, ...]]:
    """Have a language model sort the spans; :func:`sort_spans` otherwise.

    Spans are records' text: the client's guard lets them go to a server off this machine only with permission.

    Returns:
        Also the rejects that another run may get answered (server, network or budget failed).
    """
    spans = collect_spans(audit, settings)
    written = write(MemorizedKind(), span_sources(spans), client, quiet=quiet)
    labels = {reject.id: KindLabel(None, reject.reason) for reject in written.rejects}
    labels |= {name: KindLabel(str(result["kind"])) for name, result in written.results.items()}
    table = _save(audit, spans, "judge", labels, settings)
    _update_facts(audit, {"judge": client.settings.name, "llm": client.facts()})
    return table, written.to_ask_again


def span_sources(spans: Mapping[str, MemorizedSpan]) -> list[Source]:
    """Prompts of the judge. Their identifiers are unknown, which the guard takes for protected."""
    return [Source(name, {"span": span.text}) for name, span in spans.items()]


def span_sheet(
    audit: AuditTables, settings: KindSettings, path: Path, *, sample: int | None = None, seed: int = 0
) -> int:
    """Write a CSV of all spans or a drawn sample for a person; returns their number. It holds record text."""
    spans = collect_spans(audit, settings)
    drawn = shuffled(list(spans), f"kinds sheet {seed}")[:sample]
    write_sheet(path, {name: spans[name] for name in drawn})
    return len(drawn)


def read_spans(audit: AuditTables, settings: KindSettings, *paths: Path) -> pd.DataFrame:
    """Save a person's labels; :func:`sort_spans` otherwise.

    Args:
        paths: sheets; a span in several of them must have one kind.

    Raises:
        SourceError: unknown kinds or spans, or no kind at all.
    """
    spans = collect_spans(audit, settings)
    labels: dict[str, KindLabel] = {}
    for path in paths:
        own = read_sheet(path, list(spans))
        if differ := [name for name, label in own.items() if labels.get(name, label) != label]:
            raise SourceError(
                f"{path}: {len(differ)} spans have another kind in a sheet before, {differ[0]!r} first."
            )
        labels |= own
    if not labels:
        raise SourceError(f"No span has a kind yet. Write one into `kind`: {', '.join((*kinds(), UNCLEAR))}.")
    return _save(audit, spans, "person", labels, settings)


def settings_of(folder: Path) -> KindSettings:
    """Settings of the last sorting; the defaults without one."""
    return check(KindSettings, _facts(folder).get("settings", {}))


def judge_of(folder: Path) -> str | None:
    """The model that sorted an audit's spans, if one did."""
    judge = _facts(folder).get("judge")
    return None if judge is None else str(judge)


def agreement_of_ways(audit: AuditTables, *, replicates: int = REPLICATES, seed: int = 0) -> pd.DataFrame:
    """Agreement of the ways in ``kinds.parquet``; empty with fewer than two."""
    if audit.kinds is None or audit.kinds["by"].nunique() < 2:
        return pd.DataFrame()
    table = audit.kinds.set_index([*KEY, "span", "by"])["kind"].unstack("by").reset_index()
    subjects = table[["probe_id"]].merge(audit.probes[["probe_id", "subject"]], on="probe_id")["subject"]
    ways = {
        way: [kind if isinstance(kind, str) else None for kind in table[way]]
        for way in WAYS
        if way in table.columns
    }
    return agreement(ways, list(subjects), replicates=replicates, seed=seed)


def agreement(
    ways: Mapping[str, Sequence[Rating]], subjects: Sequence[str], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Raw agreement and Cohen's kappa of every two ways, on the spans to which both gave a kind.

    Args:
        ways: ``rules``, ``judge``, ``person`` -> one kind per span, or None.
        subjects: one per span.

    Returns:
        One row per pair of ways, ``of`` (``kind`` or ``group``) and measure: value, low, high, words, n,
        n_subjects, reason (for a missing value). Agreement with people is accuracy.
    """
    rows = []
    for first, second in combinations(ways, 2):
        for of, categories in (("kind", tuple(kinds())), ("group", GROUPS)):
            one, other = (
                [group_of(kind) if kind is not None and of == "group" else kind for kind in ways[name]]
                for name in (first, second)
            )
            draws: dict[str, Any] = {"replicates": replicates, "seed": seed}
            raw = observed_agreement(one, other, subjects, **draws)
            kappa = cohen_kappa(one, other, subjects, categories, **draws)
            head = {"first": first, "second": second, "of": of}
            rows.append(head | {"measure": "agreement", "words": ""} | _numbers(raw))
            rows.append(head | {"measure": "cohen_kappa", "words": in_words(kappa.value)} | _numbers(kappa))
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def collect_spans(
    audit: AuditTables, settings: KindSettings, corpora: Texts | None = None
) -> dict[str, MemorizedSpan]:
    """Span id -> span with evidence. An id names probe, decoding, sample and number of the span."""
    table = _long_spans(audit, settings).merge(audit.probes[["probe_id", "corpus"]], on="probe_id")
    counts, identified = _record_counts(audit, table, corpora), _identified(audit, table)
    return {
        _id(row): MemorizedSpan(str(row["text"]), str(row["corpus"]), is_identified, count)
        for row, is_identified, count in zip(table.to_dict("records"), identified, counts, strict=True)
    }


def number_spans(audit: AuditTables) -> pd.DataFrame:
    """The spans numbered within their response, by position."""
    ordered = audit.spans.sort_values([*KEY, "in_response", "in_suffix"], kind="stable").reset_index(drop=True)
    return ordered.assign(span=ordered.groupby(KEY).cumcount())


def _long_spans(audit: AuditTables, settings: KindSettings) -> pd.DataFrame:
    table = number_spans(audit)
    return table[table["length"] >= settings.at_least]


def _record_counts(audit: AuditTables, spans: pd.DataFrame, corpora: Texts | None) -> list[int | None]:
    """Records of its own corpus that hold each span; None without a text of the corpus."""
    counts: list[int | None] = [None] * len(spans)
    for corpus, places in spans.reset_index(drop=True).groupby("corpus").groups.items():
        if corpora is not None and corpus in corpora:
            records = list(corpora[str(corpus)].items())
        elif "suffix" in audit.probes:
            own = audit.probes[audit.probes["corpus"] == corpus]
            columns = (own["record_id"], own["prefix"], own["suffix"])
            records = [(str(record), f"{prefix} {suffix}") for record, prefix, suffix in zip(*columns, strict=True)]
        else:
            continue
        texts = [str(spans["text"].iloc[place]) for place in places]
        for place, count in zip(places, records_holding(texts, records), strict=True):
            counts[place] = count
    return counts


def _identified(audit: AuditTables, spans: pd.DataFrame) -> list[bool]:
    """Whether each span's text has an identifier of the record that the prefix did not give."""
    if audit.findings is None:
        return [False] * len(spans)
    leaks = audit.findings[audit.findings["in_record"].astype(bool) & ~audit.findings["in_prefix"].astype(bool)]
    values: dict[tuple[str, ...], list[str]] = {}
    for *key, value in leaks[[*KEY, "value"]].itertuples(index=False, name=None):
        values.setdefault(tuple(key), []).append(str(value).casefold())
    return [
        any(value in text.casefold() for value in values.get(tuple(key), ()))
        for *key, text in spans[[*KEY, "text"]].itertuples(index=False, name=None)
    ]


def _save(
    audit: AuditTables,
    spans: Mapping[str, MemorizedSpan],
    way: str,
    labels: Mapping[str, KindLabel],
    settings: KindSettings,
) -> pd.DataFrame:
    rows = _rows_of_other_ways(audit.folder / FILE, way)
    for row in _long_spans(audit, settings).to_dict("records"):
        if (name := _id(row)) in labels:
            kind, reason = labels[name].kind, labels[name].reason
            rows.append(
                {column: row[column] for column in (*KEY, "span", "length")}
                | {"records": spans[name].records, "kind": kind, "group": group_of(kind) if kind else None}
                | {"by": way, "reason": reason or None}
            )
    write_table(audit.folder / FILE, rows, SCHEMA)
    _update_facts(audit, {"settings": settings.model_dump(mode="json")})
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _rows_of_other_ways(path: Path, way: str) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    table = pd.read_parquet(path)
    if missing := set(SCHEMA.names) - set(table.columns):
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; move it away and sort again.")
    others = table[table["by"] != way]
    rows = others.astype(object).where(others.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _facts(folder: Path) -> dict[str, Any]:
    return dict(read_json(folder / FACTS)) if (folder / FACTS).exists() else {}


def _update_facts(audit: AuditTables, facts: Mapping[str, Any]) -> None:
    write_json(audit.folder / FACTS, {**_facts(audit.folder), **facts})


def _numbers(estimate: Estimate) -> dict[str, Any]:
    without = "no span has a kind from both" if estimate.n == 0 else "both gave one kind throughout"
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    reason = without if estimate.value is None else None
    return numbers | {"n": estimate.n, "n_subjects": estimate.n_clusters, "reason": reason}


def _id(row: Mapping[Any, Any]) -> str:
    return f"{row['probe_id']}/{row['variant']}/{row['sample']}/{row['span']}"
