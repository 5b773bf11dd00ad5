"""Extraction by way of asking: subjects that each way extracts, and those that no other way does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.audit.asking import titles_of
from medunlearn.audit.audit_tables import WAY, AuditTables
from medunlearn.audit.extraction import (
    CorpusExtraction,
    Extraction,
    extracted,
    labelled_probes,
    share_of,
    share_text,
)
from medunlearn.config.audit import PREFIX
from medunlearn.statistics.shares import SubjectShare


@dataclass(frozen=True, slots=True)
class WayExtraction:
    """Subjects of one corpus extracted by one way of asking.

    Attributes:
        title: the way in plain words.
        members: extracted trained subjects, of those probed this way.
        alone: trained subjects that no other way extracts.
        unseen: subjects that the model never saw; None if the audit has none.
        baselines: label of each healthy baseline -> the same subjects extracted from it.
    """

    corpus: str
    way: str
    title: str
    members: SubjectShare
    alone: int
    unseen: SubjectShare | None
    baselines: Mapping[str, SubjectShare]


def by_way(
    audit: AuditTables, result: Extraction, baselines: Sequence[AuditTables] = ()
) -> tuple[WayExtraction, ...]:
    """One entry per corpus and way of asking, in probe order; empty if there is only one way."""
    if len(result.ways) < 2 or result.reason:
        return ()
    probes = labelled_probes(audit)
    return tuple(
        entry for corpus in result.corpora for entry in _corpus_ways(audit, result, corpus, probes, baselines)
    )


def _corpus_ways(
    audit: AuditTables,
    result: Extraction,
    corpus: CorpusExtraction,
    probes: pd.DataFrame,
    baselines: Sequence[AuditTables],
) -> Iterator[WayExtraction]:
    def hits(tables: AuditTables, way_probes: pd.DataFrame) -> pd.Series:
        return extracted(tables, result.decoding, way_probes["probe_id"])["hit"]

    titles = titles_of(result.ways, dict(audit.info.get("config", {})))
    members, unseen = corpus.split(probes)
    probes_by_way = {str(way): way_probes for way, way_probes in members.groupby(WAY, sort=False)}
    hits_by_way = {way: hits(audit, way_probes) for way, way_probes in probes_by_way.items()}
    # A subject without a probe or a score of a way is not extracted by it.
    table = pd.DataFrame({way: own.eq(True) for way, own in hits_by_way.items()}).eq(True)
    alone = table[table.sum(axis=1) == 1].sum()
    healthy = {baseline.label for baseline in corpus.baselines if not baseline.problems}
    controls = [baseline for baseline in baselines if baseline.label in healthy]
    for way, way_probes in probes_by_way.items():
        yield WayExtraction(
            corpus=corpus.corpus,
            way=way,
            title=titles[way],
            members=share_of(hits_by_way[way]),
            alone=int(alone[way]),
            unseen=None if corpus.unseen is None else share_of(hits(audit, unseen[unseen[WAY] == way])),
            baselines={control.label: share_of(hits(control, way_probes)) for control in controls},
        )


def missed_by_beginnings(ways: Sequence[WayExtraction], result: Extraction, corpus: str) -> int | None:
    """Trained subjects that another way extracts and the beginning of the text does not; None without both."""
    members = {entry.way: entry.members for entry in ways if entry.corpus == corpus}
    if PREFIX not in members or len(members) < 2:
        return None
    whole = next(entry.members for entry in result.corpora if entry.corpus == corpus)
    return whole.hits - members[PREFIX].hits


def ways_data(ways: Sequence[WayExtraction]) -> list[dict[str, Any]]:
    """Rows for JSON."""
    return [
        {
            "corpus": entry.corpus,
            "way": entry.way,
            "title": entry.title,
            "extracted": entry.members.hits,
            "subjects": entry.members.n,
            **dict(zip(("low", "high"), entry.members.limits, strict=True)),
            "by_this_way_alone": entry.alone,
            "unseen_extracted": entry.unseen and entry.unseen.hits,
            "unseen_subjects": entry.unseen and entry.unseen.n,
            "baselines": {label: [share.hits, share.n] for label, share in entry.baselines.items()},
        }
        for entry in ways
    ]


def way_rows(ways: Sequence[WayExtraction]) -> list[dict[str, str]]:
    """Table rows by column; with the corpus if there are several."""
    several = len({entry.corpus for entry in ways}) > 1
    unseen = any(entry.unseen is not None for entry in ways)
    labels = dict.fromkeys(label for entry in ways for label in entry.baselines)
    return [
        {
            **({"corpus": entry.corpus} if several else {}),
            "way of asking": entry.title,
            "extracted": share_text(entry.members),
            "by this way alone": f"{entry.alone:,}",
            **({"never seen": share_text(entry.unseen)} if unseen else {}),
            **{label: share_text(entry.baselines.get(label)) for label in labels},
        }
        for entry in ways
    ]
