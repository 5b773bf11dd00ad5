"""Memorized spans of an audit, numbered, with the evidence that the rules of :mod:`kind_rules` use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from medunlearn.audit.audit_tables import KEY, AuditTables, leaked
from medunlearn.audit.kinds.kind_rules import records_holding
from medunlearn.config.audit import KindSettings
from medunlearn.sources.corpus import Corpus

Texts = Mapping[str, Mapping[str, str]]
"""Corpus -> record_id -> text."""


def texts_of(corpora: Iterable[Corpus]) -> Texts:
    """Texts of whole corpora, in which records that contain a span are counted."""
    return {corpus.name: {doc.note_id: doc.text for doc in corpus.documents} for corpus in corpora}


def collect_spans(audit: AuditTables, settings: KindSettings, corpora: Texts | None = None) -> pd.DataFrame:
    """Spans of at least ``settings.at_least`` tokens, with their evidence.

    Args:
        corpora: a corpus that is not among them is searched as far as the probes cover it.

    Returns:
        KEY, span (number within the response), length, text, corpus, records (of its corpus that contain it; None
        without a text of the corpus) and identified (it contains an identifier of its subject). The index is an id
        of probe, decoding, sample and number.
    """
    spans = number_spans(audit)
    spans = spans[spans["length"] >= settings.at_least]
    spans = spans.merge(audit.probes[["probe_id", "corpus"]], on="probe_id")
    spans["records"] = _record_counts(audit, spans, corpora or {})
    spans["identified"] = _identified(audit, spans, settings.clinical)
    keys = spans[[*KEY, "span"]].itertuples(index=False, name=None)
    return spans.set_index(pd.Index(["/".join(map(str, key)) for key in keys], dtype=object))


def number_spans(audit: AuditTables) -> pd.DataFrame:
    """The spans with their number ``span`` within the response, by position."""
    ordered = audit.spans.sort_values([*KEY, "in_response", "in_suffix"], kind="stable").reset_index(drop=True)
    return ordered.assign(span=ordered.groupby(KEY).cumcount())


def _record_counts(audit: AuditTables, spans: pd.DataFrame, corpora: Texts) -> pd.Series:
    """Number of records of its corpus that contain each span; None without a text of the corpus."""
    counts = pd.Series([None] * len(spans), index=spans.index, dtype=object)
    for corpus, corpus_spans in spans.groupby("corpus"):
        if str(corpus) in corpora:
            records = list(corpora[str(corpus)].items())
        elif "suffix" in audit.probes:
            records = _probed_texts(audit.probes[audit.probes["corpus"] == corpus])
        else:
            continue
        counts[corpus_spans.index] = records_holding(corpus_spans["text"].tolist(), records)
    return counts


def _probed_texts(probes: pd.DataFrame) -> list[tuple[str, str]]:
    """Id and text of each probe's record, as far as the probe covers it."""
    columns = probes[["record_id", "prefix", "suffix"]].itertuples(index=False, name=None)
    return [(str(record), f"{prefix} {suffix}") for record, prefix, suffix in columns]


def _identified(audit: AuditTables, spans: pd.DataFrame, clinical: Sequence[str]) -> list[bool]:
    """True for each span with an identifier of its record's subject that the prompt did not contain.

    Identifiers that the record declares always count. Identifiers found by a detector count only in corpora of
    patient records: in literature, ``aged 80`` and ``Johns Hopkins`` identify no patient.
    """
    if audit.findings is None:
        return [False] * len(spans)
    leaks = leaked(audit.findings)
    corpora = leaks["probe_id"].map(audit.probes.set_index("probe_id")["corpus"])
    leaks = leaks[(leaks["match"] != "detected") | corpora.isin(clinical)]
    values = {key: response["value"].str.casefold().tolist() for key, response in leaks.groupby(KEY)}
    rows = spans[[*KEY, "text"]].itertuples(index=False, name=None)
    return [any(value in text.casefold() for value in values.get(tuple(key), ())) for *key, text in rows]
