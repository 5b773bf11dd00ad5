"""Extraction as a probability: the chance that at least one of k samples of every prompt extracts a subject.

Source: Hayes et al. 2024 (arXiv 2410.19482), Section 3, (n, p)-discoverable extraction: a text is extractable in n
samples with probability p. There a sample must be the whole suffix, here it must share a run of 30 tokens with it,
as for greedy responses; so the chance is estimated from samples, not worked out from the likelihood of the suffix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from medunlearn.audit.audit_tables import AuditTables
from medunlearn.audit.extraction import CorpusExtraction, Extraction, labelled_probes, leak_scores, share_text
from medunlearn.statistics.best_of import any_of, sample_numbers
from medunlearn.statistics.intervals import UNIT, Array, interval, mean_over_subjects

EVEN = 0.5
"""p of the number of subjects that are (n, p)-discoverable."""
TRAINED, NEVER_SEEN = "in the training text", "never saw"


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


def by_samples(audit: AuditTables, result: Extraction) -> tuple[SampledExtraction, ...]:
    """One entry per corpus, group, decoding with several samples, and number of samples."""
    scores = leak_scores(audit).dropna(subset="value")
    sampled = [name for name, part in scores.groupby("decoding", sort=False) if part["sample"].max() > 0]
    if result.reason or not sampled:
        return ()
    probes = labelled_probes(audit)
    rows: list[SampledExtraction] = []
    for corpus in result.corpora:
        for group, group_probes in _groups(corpus, probes).items():
            own = scores[scores["item"].isin(group_probes["probe_id"])]
            greedy = None if result.decoding in sampled else own[own["decoding"] == result.decoding]
            for decoding in sampled:
                place = (corpus.corpus, group, str(decoding))
                rows += _sampled_rows(place, own[own["decoding"] == decoding], greedy)
    return tuple(rows)


def _groups(corpus: CorpusExtraction, probes: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Group -> its probes; the unseen group only if the audit has one."""
    members, unseen = corpus.split(probes)
    groups = {TRAINED if corpus.trained else NEVER_SEEN: members}
    return groups if corpus.unseen is None else {**groups, NEVER_SEEN: unseen}


def _sampled_rows(
    place: tuple[str, str, str], scores: pd.DataFrame, greedy: pd.DataFrame | None
) -> Iterator[SampledExtraction]:
    """One entry per number of samples; none without scores.

    Args:
        place: corpus, group and decoding.
        scores, greedy: scored samples of the decoding, and scored greedy responses.
    """
    if scores.empty:
        return
    hits = scores.assign(value=scores["value"].gt(0)).groupby(["subject", "item"])["value"].agg(["sum", "size"])
    greedy_hits = None
    if greedy is not None:
        highest = greedy.groupby("subject")["value"].max()
        greedy_hits = int(highest.reindex(hits.index.unique("subject")).gt(0).sum())
    for k in sample_numbers(int(hits["size"].max())):
        chances = _subject_chances(hits, k)
        low, high = interval(mean_over_subjects(chances, np.ones_like(chances), UNIT))
        discoverable = int((chances >= EVEN - 1e-12).sum())
        chance, subjects = float(chances.mean()), len(chances)
        yield SampledExtraction(*place, k, chance, low, high, discoverable, subjects, greedy_hits)


def _subject_chances(hits: pd.DataFrame, k: int) -> Array:
    """Chance that at least one of k samples of every prompt extracts, by subject, 0-1, shape [subjects].

    Args:
        hits: one row per subject and prompt: numbers of extracting and of scored samples. A prompt with fewer
            than k scored samples counts with those.
    """
    missed = [1.0 - any_of(int(hit), int(n), min(k, int(n))) for hit, n in hits.itertuples(index=False)]
    by_subject = pd.Series(missed, hits.index.get_level_values("subject")).groupby(level=0).prod()
    return np.asarray(1.0 - by_subject, dtype=np.float64)


def sample_rows(rows: Sequence[SampledExtraction], result: Extraction) -> list[dict[str, str]]:
    """Table rows by column: greedy responses, then k samples; with the corpus if there are several."""
    unseen = {(row.corpus, row.decoding, row.samples): row for row in rows if row.group == NEVER_SEEN}
    members = [row for row in rows if row.group != NEVER_SEEN] or list(rows)
    left_out = {"corpus"} if len(result.corpora) == 1 else set()
    if len(members) == len(rows):
        left_out.add("never seen")
    table: list[dict[str, str]] = []
    for corpus in result.corpora:
        own = [row for row in members if row.corpus == corpus.corpus]
        if any(row.greedy is not None for row in own):
            table.append(_greedy_cells(corpus, result.decoding))
        table += [_sampled_cells(row, unseen.get((row.corpus, row.decoding, row.samples))) for row in own]
    return [{name: cell for name, cell in cells.items() if name not in left_out} for cells in table]


def _greedy_cells(corpus: CorpusExtraction, decoding: str) -> dict[str, str]:
    return {
        "corpus": corpus.corpus,
        "responses a prompt": f"1, {decoding}",
        "extracted": share_text(corpus.members),
        "95%": _limits(*corpus.members.limits),
        "likelier than not": "",
        "never seen": share_text(corpus.unseen),
    }


def _sampled_cells(row: SampledExtraction, unseen: SampledExtraction | None) -> dict[str, str]:
    return {
        "corpus": row.corpus,
        "responses a prompt": f"{row.samples:,}, {row.decoding}",
        "extracted": row.expected,
        "95%": _limits(row.low, row.high),
        "likelier than not": f"{row.discoverable:,}",
        "never seen": "" if unseen is None else unseen.expected,
    }


def _limits(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1%} to {high:.1%}"
