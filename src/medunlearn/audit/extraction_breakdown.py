"""Extraction by way of asking, and as a probability over several samples of every prompt.

Source of the probability: Hayes et al. 2024 (arXiv 2410.19482), Section 3, (n, p)-discoverable extraction: a text
is extractable in n samples with probability p. There a sample must be the whole suffix, here it must share a run
of 30 tokens with it, as for greedy responses; so the chance is estimated from samples, not worked out from the
likelihood of the suffix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.asking import titles_of
from medunlearn.audit.audit_tables import WAY, AuditTables
from medunlearn.audit.extraction import LEAK, Extraction, extracted, labelled_probes, share_of, share_text
from medunlearn.config.audit import PREFIX
from medunlearn.statistics.best_of import any_of, sample_numbers
from medunlearn.statistics.intervals import MIN_SUBJECTS, UNIT, interval, mean_over_subjects
from medunlearn.statistics.shares import SubjectShare

EVEN = 0.5
"""p of the number of subjects that are (n, p)-discoverable."""
TRAINED, NEVER_SEEN = "in the training text", "never saw"


@dataclass(frozen=True, slots=True)
class WayExtraction:
    """Subjects of one corpus extracted by one way of asking.

    Attributes:
        title: the way in plain words.
        members: extracted trained subjects, of those probed this way.
        alone: trained subjects that no other way extracts.
        unseen: subjects that the model never saw; None if the audit has none.
        baselines: label of each baseline -> the same subjects extracted from it.
    """

    corpus: str
    way: str
    title: str
    members: SubjectShare
    alone: int
    unseen: SubjectShare | None
    baselines: Mapping[str, SubjectShare]


@dataclass(frozen=True, slots=True)
class SampledExtraction:
    """Extraction from k samples of every prompt: trained subjects of one corpus, or unseen ones.

    Attributes:
        group: :data:`TRAINED` or :data:`NEVER_SEEN`.
        samples: k.
        chance: mean over subjects of the chance that at least one sample extracts, 0-1.
        low, high: its 95% interval over subjects; None of fewer than five.
        discoverable: subjects whose chance is at least :data:`EVEN`.
        subjects: with a scored sample.
        greedy: subjects extracted greedily, of the same; None if nothing is greedy.
    """

    corpus: str
    group: str
    decoding: str
    samples: int
    chance: float
    low: float | None
    high: float | None
    discoverable: int
    subjects: int
    greedy: int | None

    @property
    def expected(self) -> str:
        """Expected number of extracted subjects: ``41.2 of 60``."""
        return f"{self.chance * self.subjects:.1f} of {self.subjects:,}"


def by_way(
    audit: AuditTables, result: Extraction, baselines: Sequence[AuditTables] = ()
) -> tuple[WayExtraction, ...]:
    """One entry per corpus and way of asking, in probe order; empty if there is only one way."""
    if len(result.ways) < 2 or result.reason:
        return ()
    titles, probes = titles_of(result.ways, dict(audit.info.get("config", {}))), labelled_probes(audit)

    def hits(tables: AuditTables, way_probes: pd.DataFrame) -> pd.Series:
        return extracted(tables, result.decoding, way_probes["probe_id"])["hit"]

    rows: list[WayExtraction] = []
    for corpus in result.corpora:
        members, unseen = corpus.split(probes)
        probes_by_way = dict(iter(members.groupby(WAY, sort=False)))
        hits_by_way = {way: hits(audit, part) for way, part in probes_by_way.items()}
        table = pd.DataFrame({way: hit.eq(True) for way, hit in hits_by_way.items()}).eq(True)
        healthy = {baseline.label for baseline in corpus.baselines if not baseline.problems}
        for way, part in probes_by_way.items():
            never = None if corpus.unseen is None else share_of(hits(audit, unseen[unseen[WAY] == way]))
            others = {other.label: share_of(hits(other, part)) for other in baselines if other.label in healthy}
            alone = int((table[way] & ~table.drop(columns=way).any(axis=1)).sum())
            members_share = share_of(hits_by_way[way])
            rows.append(
                WayExtraction(corpus.corpus, str(way), titles[str(way)], members_share, alone, never, others)
            )
    return tuple(rows)


def missed_by_beginnings(ways: Sequence[WayExtraction], result: Extraction, corpus: str) -> int | None:
    """Trained subjects that another way extracts and the beginning of the text does not; None without both."""
    of_corpus = {entry.way: entry.members for entry in ways if entry.corpus == corpus}
    if PREFIX not in of_corpus or len(of_corpus) < 2:
        return None
    whole = next(entry.members for entry in result.corpora if entry.corpus == corpus)
    return whole.hits - of_corpus[PREFIX].hits


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


def by_samples(audit: AuditTables, result: Extraction) -> tuple[SampledExtraction, ...]:
    """One entry per corpus, decoding with several samples, and number of samples."""
    scores = audit.scores[(audit.scores["measure"] == LEAK) & audit.scores["value"].notna()]
    several = [name for name, part in scores.groupby("decoding", sort=False) if part["sample"].max() > 0]
    if result.reason or not several:
        return ()
    probes = labelled_probes(audit)
    rows: list[SampledExtraction] = []
    for corpus in result.corpora:
        members, unseen = corpus.split(probes)
        groups = {TRAINED if corpus.trained else NEVER_SEEN: members}
        if corpus.unseen is not None:
            groups[NEVER_SEEN] = unseen
        for group, part in groups.items():
            ours = scores[scores["item"].isin(part["probe_id"])]
            greedy = ours[ours["decoding"] == result.decoding] if result.decoding not in several else None
            for decoding in several:
                sampled = ours[ours["decoding"] == decoding]
                rows += _decoding_rows((corpus.corpus, group, str(decoding)), sampled, greedy)
    return tuple(rows)


def _decoding_rows(
    place: tuple[str, str, str], scores: pd.DataFrame, greedy: pd.DataFrame | None
) -> list[SampledExtraction]:
    if scores.empty:
        return []
    hits = scores.assign(value=scores["value"].gt(0)).groupby(["subject", "item"])["value"].agg(["sum", "size"])
    subjects = hits.index.get_level_values("subject")
    greedily = None
    if greedy is not None:
        greedily = int(greedy.groupby("subject")["value"].max().reindex(subjects.unique()).gt(0).sum())
    rows = []
    for k in sample_numbers(int(hits["size"].max())):
        # A prompt of which fewer samples could be scored counts with those.
        missed = pd.Series(
            [1.0 - any_of(int(n), int(of), min(k, int(of))) for n, of in hits.itertuples(index=False)], subjects
        )
        chances = np.asarray(1.0 - missed.groupby(level=0).prod(), dtype=np.float64)
        low, high = interval(mean_over_subjects(chances, np.ones_like(chances), UNIT))
        limits = (low, high) if len(chances) >= MIN_SUBJECTS else (None, None)
        discoverable = int((chances >= EVEN - 1e-12).sum())
        rows.append(
            SampledExtraction(*place, k, float(chances.mean()), *limits, discoverable, len(chances), greedily)
        )
    return rows


def sample_rows(rows: Sequence[SampledExtraction], result: Extraction) -> list[dict[str, str]]:
    """Table rows by column: greedy responses, then k samples; with the corpus if there are several."""
    several = len(result.corpora) > 1
    unseen = {(row.corpus, row.decoding, row.samples): row for row in rows if row.group == NEVER_SEEN}
    ours = [row for row in rows if row.group != NEVER_SEEN] or list(rows)
    beside = bool(unseen) and len(ours) < len(rows)
    table: list[dict[str, str]] = []

    def add(corpus: str, responses: str, extracted: str, limits: str, likely: str, never: str) -> None:
        cells = {
            "responses a prompt": responses,
            "extracted": extracted,
            "95%": limits,
            "likelier than not": likely,
        }
        front = {"corpus": corpus} if several else {}
        table.append({**front, **cells, **({"never seen": never} if beside else {})})

    for corpus in result.corpora:
        of_corpus = [row for row in ours if row.corpus == corpus.corpus]
        if any(row.greedy is not None for row in of_corpus):
            limits = _limits(*corpus.members.limits)
            never = share_text(corpus.unseen)
            add(corpus.corpus, f"1, {result.decoding}", share_text(corpus.members), limits, "", never)
        for row in of_corpus:
            other = unseen.get((row.corpus, row.decoding, row.samples))
            responses, limits = f"{row.samples:,}, {row.decoding}", _limits(row.low, row.high)
            never = "" if other is None else other.expected
            add(corpus.corpus, responses, row.expected, limits, f"{row.discoverable:,}", never)
    return table


def _limits(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1%} to {high:.1%}"
