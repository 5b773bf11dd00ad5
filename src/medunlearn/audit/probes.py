"""Prefix-suffix probes: the beginning of a text as the prompt, its true continuation as the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medunlearn.audit.measures import Ids
from medunlearn.audit.units import Encoded, Unit
from medunlearn.data.splits import shuffled
from medunlearn.sources.corpus import Corpus, Document

PROBES_SCHEMA = pa.schema(
    [
        ("probe_id", pa.string()),
        ("record_id", pa.string()),
        ("subject", pa.string()),
        ("corpus", pa.string()),
        ("prefix_tokens", pa.int32()),
        ("prefix", pa.string()),
        ("suffix", pa.string()),
        ("copies", pa.int32()),
        ("suffix_tokens", pa.list_(pa.int32())),
    ]
)
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Probe:
    """A text cut in two.

    Attributes:
        probe_id: ``RECORD@PREFIX``.
        subject: the text's subject; the record itself if unknown.
        prefix_tokens: length l of the prefix.
        prefix, suffix: the text before the cut, and after it as far as is compared.
        prefix_ids, suffix_ids: their token ids, [l] and [m].
        suffix_ends: end offset of each suffix token in characters [m].
        copies: repetitions of the text in the training data; None if unknown.
    """

    probe_id: str
    record_id: str
    subject: str
    corpus: str
    prefix_tokens: int
    prefix: str
    suffix: str
    prefix_ids: Ids
    suffix_ids: Ids
    suffix_ends: npt.NDArray[np.int64]
    copies: int | None = None

    def row(self) -> dict[str, object]:
        """As a row of :data:`PROBES_SCHEMA`."""
        return {name: getattr(self, name) for name in PROBES_SCHEMA.names[:-1]} | {
            "suffix_tokens": self.suffix_ids.astype(np.int32).tolist()
        }


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """The probes of one corpus, and counts of the draw.

    Attributes:
        documents: in the corpus.
        looked_at: documents whose length was counted until enough were long enough.
        used: documents with a probe.
        too_short: documents looked at without a probe.
        probes_by_prefix: used documents with a probe of each length.
    """

    corpus: str
    probes: tuple[Probe, ...]
    documents: int
    looked_at: int
    used: int
    too_short: int
    probes_by_prefix: dict[int, int]

    def facts(self) -> dict[str, object]:
        """Counts for ``run.json``, with the used documents that are too short for each prefix length."""
        counts = {"documents": self.documents, "looked_at": self.looked_at, "used": self.used}
        without = {str(length): self.used - count for length, count in self.probes_by_prefix.items()}
        return {**counts, "too_short": self.too_short, "too_short_for_prefix": without}


def draw_probes(
    corpus: Corpus, unit: Unit, *, prefixes: Sequence[int], longest: int, shortest: int, sample: int, seed: int
) -> ProbeSample:
    """Probes of all of a corpus' documents, or of a seeded sample of those that are long enough.

    Args:
        prefixes: tokens of the prefixes, ascending.
        longest, shortest: most and least tokens of a suffix.
        sample: documents at most; 0 for all.
        seed: of the draw, which otherwise depends on the documents' ids and the corpus' name alone.
    """
    by_id = {document.record_id: document for document in corpus.documents}
    order = list(by_id)
    if 0 < sample < len(order):
        order = shuffled(order, "audit sample", corpus.name, seed)
    probes: dict[str, list[Probe]] = {}
    looked_at = 0
    for start in range(0, len(order), _BATCH):
        batch = [by_id[record_id] for record_id in order[start : start + _BATCH]]
        for document, encoded in zip(batch, unit.encode([one.text for one in batch]), strict=True):
            if sample and len(probes) == sample:
                break
            looked_at += 1
            if cuts := list(_cut(corpus.name, document, encoded, prefixes, longest, shortest)):
                probes[document.record_id] = cuts
    flat = tuple(probe for record_id in by_id if record_id in probes for probe in probes[record_id])
    counts = {length: sum(probe.prefix_tokens == length for probe in flat) for length in prefixes}
    used = len(probes)
    return ProbeSample(corpus.name, flat, len(by_id), looked_at, used, looked_at - used, counts)


def _cut(
    corpus: str, document: Document, encoded: Encoded, prefixes: Sequence[int], longest: int, shortest: int
) -> Iterator[Probe]:
    for length in prefixes:
        suffix = slice(length, length + longest)
        if len(encoded) < length + shortest:
            return
        cut, ends = int(encoded.ends[length - 1]), encoded.ends[suffix]
        yield Probe(
            f"{document.record_id}@{length}",
            document.record_id,
            document.subject,
            corpus,
            length,
            document.text[:cut],
            document.text[cut : int(ends[-1])],
            encoded.ids[:length],
            encoded.ids[suffix],
            ends - cut,
            document.copies,
        )
