"""Extraction by way of asking, side by side: the beginning of a text, also in a chat, and prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.audit.asking import titles_of
from medunlearn.audit.audit_tables import WAY, AuditTables
from medunlearn.audit.extraction import Extraction, extracted, labelled_probes, share_of
from medunlearn.config.audit import PREFIX
from medunlearn.statistics.shares import SubjectShare


@dataclass(frozen=True, slots=True)
class WayExtraction:
    """Subjects of one corpus extracted by one way of asking.

    Attributes:
        title: the way in plain words.
        members: trained subjects, of those asked so.
        alone: trained subjects whom no other way brings out.
        unseen: subjects that the model never saw; None where the audit has none.
        baselines: label of each baseline -> the same subjects as it gives them back.
    """

    corpus: str
    way: str
    title: str
    members: SubjectShare
    alone: int
    unseen: SubjectShare | None
    baselines: Mapping[str, SubjectShare]


def by_way(
    audit: AuditTables, counted: Extraction, baselines: Sequence[AuditTables] = ()
) -> tuple[WayExtraction, ...]:
    """One entry a corpus and way, in the order of the probes; nothing where there is one way alone."""
    if WAY not in audit.probes.columns or counted.reason or audit.probes[WAY].nunique() < 2:
        return ()
    probes = labelled_probes(audit)
    titles = titles_of(probes[WAY].unique().tolist(), dict(audit.info.get("config", {})))
    rows: list[WayExtraction] = []
    for corpus in counted.corpora:
        members = probes[probes["corpus"] == corpus.corpus]
        others = probes[probes["corpus"].isin(corpus.unseen_corpora) & probes["unseen"]]
        members = members[~members["unseen"]] if corpus.trained else members
        hits = {way: _hits(audit, counted.decoding, part) for way, part in members.groupby(WAY, sort=False)}
        table = pd.DataFrame({way: hit.eq(True) for way, hit in hits.items()}).eq(True)
        for way, hit in hits.items():
            asked = members.loc[members[WAY] == way, "probe_id"]
            never = others[others[WAY] == way]
            rows.append(
                WayExtraction(
                    corpus.corpus,
                    str(way),
                    titles[str(way)],
                    share_of(hit),
                    int((table[way] & ~table.drop(columns=way).any(axis=1)).sum()),
                    share_of(_hits(audit, counted.decoding, never)) if corpus.unseen is not None else None,
                    {
                        other.label: share_of(extracted(other, counted.decoding, asked)["hit"])
                        for other in baselines
                        if other.label in {one.label for one in corpus.baselines if not one.problems}
                    },
                )
            )
    return tuple(rows)


def missed_by_beginnings(ways: Sequence[WayExtraction], counted: Extraction, corpus: str) -> int | None:
    """Trained subjects whom another way brings out and the beginning of the text does not; None without both."""
    of_corpus = [one for one in ways if one.corpus == corpus]
    plain = next((one for one in of_corpus if one.way == PREFIX), None)
    everybody = next((one.members for one in counted.corpora if one.corpus == corpus), None)
    if plain is None or everybody is None or len(of_corpus) < 2:
        return None
    return everybody.hits - plain.members.hits


def ways_data(ways: Sequence[WayExtraction]) -> list[dict[str, Any]]:
    """Rows for JSON."""
    return [
        {
            "corpus": one.corpus,
            "way": one.way,
            "title": one.title,
            "extracted": one.members.hits,
            "subjects": one.members.n,
            "low": one.members.limits[0],
            "high": one.members.limits[1],
            "by_this_way_alone": one.alone,
            "unseen_extracted": None if one.unseen is None else one.unseen.hits,
            "unseen_subjects": None if one.unseen is None else one.unseen.n,
            "baselines": {label: [share.hits, share.n] for label, share in one.baselines.items()},
        }
        for one in ways
    ]


def way_cells(ways: Sequence[WayExtraction], *, several: bool) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table; with the corpus where there are several."""
    unseen = any(one.unseen is not None for one in ways)
    labels = list(dict.fromkeys(label for one in ways for label in one.baselines))
    heads = [*(["corpus"] if several else []), "way of asking", "extracted", "by this way alone"]
    heads += [*(["never seen"] if unseen else []), *labels]

    def row(one: WayExtraction) -> list[str]:
        never = "" if one.unseen is None else f"{one.unseen.hits:,} of {one.unseen.n:,}"
        others = [one.baselines.get(label) for label in labels]
        beside = ["" if other is None else f"{other.hits:,} of {other.n:,}" for other in others]
        cells = [one.title, f"{one.members.hits:,} of {one.members.n:,}", f"{one.alone:,}"]
        return [*([one.corpus] if several else []), *cells, *([never] if unseen else []), *beside]

    return heads, [row(one) for one in ways]


def _hits(audit: AuditTables, decoding: str, probes: pd.DataFrame) -> pd.Series:
    return extracted(audit, decoding, probes["probe_id"])["hit"]
