"""Extraction as a probability: the chance that one of k samples gives a subject's text back.

Source: Hayes et al. 2024 (arXiv 2410.19482), Section 3, (n, p)-discoverable extraction: a text is extractable in n
samples with probability p. There a sample must be the whole suffix, here it must share a run of 30 tokens with it,
as for greedy responses; so the chance is estimated from samples, not worked out from the suffix's likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.audit_tables import AuditTables
from medunlearn.audit.extraction import LEAK, Extraction, labelled_probes
from medunlearn.statistics.best_of import any_of, sample_numbers
from medunlearn.statistics.intervals import MIN_SUBJECTS, UNIT, interval, mean_over_subjects

EVEN = 0.5
"""p of the number of subjects that are (n, p)-discoverable."""


NEVER_SEEN = "never saw"


@dataclass(frozen=True, slots=True)
class SampledExtraction:
    """Subjects of one corpus, or those never seen, under k samples of every prompt.

    Attributes:
        group: ``in the training text`` or :data:`NEVER_SEEN`.
        samples: k.
        chance: mean over subjects of the chance that at least one sample extracts, 0-1.
        low, high: its 95% interval over subjects; None of fewer than five.
        discoverable: subjects whose chance is at least :data:`EVEN`.
        subjects: with a scored sample.
        greedy: subjects extracted greedily, of the same; None where nothing is greedy.
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
        """``41.2 of 60``: subjects that are expected to be extracted."""
        return f"{self.chance * self.subjects:.1f} of {self.subjects:,}"


def by_samples(audit: AuditTables, counted: Extraction) -> tuple[SampledExtraction, ...]:
    """One entry a corpus, decoding that draws several samples, and number of samples."""
    scores = audit.scores[(audit.scores["measure"] == LEAK) & audit.scores["value"].notna()]
    several = [name for name, part in scores.groupby("decoding", sort=False) if part["sample"].max() > 0]
    if counted.reason or not several:
        return ()
    probes = labelled_probes(audit)
    rows: list[SampledExtraction] = []
    for corpus in counted.corpora:
        members = probes[probes["corpus"] == corpus.corpus]
        members = members[~members["unseen"]] if corpus.trained else members
        groups = {"in the training text" if corpus.trained else NEVER_SEEN: members}
        if corpus.unseen is not None:
            groups[NEVER_SEEN] = probes[probes["corpus"].isin(corpus.unseen_corpora) & probes["unseen"]]
        for group, part in groups.items():
            ours = scores[scores["item"].isin(part["probe_id"])]
            greedy = ours[ours["decoding"] == counted.decoding] if counted.decoding not in several else None
            for decoding in several:
                rows += _of_decoding(
                    corpus.corpus, group, str(decoding), ours[ours["decoding"] == decoding], greedy
                )
    return tuple(rows)


def _of_decoding(
    corpus: str, group: str, decoding: str, scores: pd.DataFrame, greedy: pd.DataFrame | None
) -> list[SampledExtraction]:
    if scores.empty:
        return []
    hits = scores.assign(value=scores["value"].gt(0)).groupby(["subject", "item"])["value"].agg(["sum", "size"])
    subjects = hits.index.get_level_values("subject")
    known = (
        None
        if greedy is None
        else int(greedy.groupby("subject")["value"].max().reindex(subjects.unique()).gt(0).sum())
    )
    rows = []
    for k in sample_numbers(int(hits["size"].max())):
        # A prompt of which fewer samples could be scored counts with those.
        missed = pd.Series(
            [1.0 - any_of(int(n), int(of), min(k, int(of))) for n, of in hits.itertuples(index=False)], subjects
        )
        chance = 1.0 - missed.groupby(level=0).prod()
        chances = np.asarray(chance, dtype=np.float64)
        low, high = interval(mean_over_subjects(chances, np.ones_like(chances), UNIT))
        low, high = (low, high) if len(chance) >= MIN_SUBJECTS else (None, None)
        discoverable = int(chance.ge(EVEN - 1e-12).sum())
        rows.append(
            SampledExtraction(
                corpus, group, decoding, k, float(chance.mean()), low, high, discoverable, len(chance), known
            )
        )
    return rows


def samples_data(rows: Sequence[SampledExtraction]) -> list[dict[str, Any]]:
    """Rows for JSON."""
    return [{name: getattr(row, name) for name in SampledExtraction.__dataclass_fields__} for row in rows]


def sample_cells(
    rows: Sequence[SampledExtraction], counted: Extraction, *, several: bool
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table: greedy responses, then k samples; with the corpus where there are several."""
    unseen = {(row.corpus, row.decoding, row.samples): row for row in rows if row.group == NEVER_SEEN}
    ours = [row for row in rows if row.group != NEVER_SEEN] or list(rows)
    beside = bool(unseen) and len(ours) < len(rows)
    heads = [*(["corpus"] if several else []), "responses a prompt", "extracted", "95%", "likelier than not"]
    heads += ["never seen"] if beside else []
    cells: list[list[str]] = []
    for corpus in counted.corpora:
        front = [corpus.corpus] if several else []
        of_corpus = [row for row in ours if row.corpus == corpus.corpus]
        if any(row.greedy is not None for row in of_corpus):
            never = corpus.unseen
            members = corpus.members
            greedy = [f"1, {counted.decoding}", f"{members.hits:,} of {members.n:,}", _limits(*members.limits), ""]
            cells.append([*front, *greedy, *(["" if never is None else f"{never.hits:,} of {never.n:,}"] * beside)])
        for row in of_corpus:
            other = unseen.get((row.corpus, row.decoding, row.samples))
            drawn = [f"{row.samples:,}, {row.decoding}", row.expected, _limits(row.low, row.high)]
            drawn.append(f"{row.discoverable:,}")
            cells.append([*front, *drawn, *(["" if other is None else other.expected] * beside)])
    return heads, cells


def _limits(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1%} to {high:.1%}"
