"""Prefix-suffix probes: what a model is given of a text, and what it would say if it knew the text by heart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medunlearn.audit.tokens import Ids
from medunlearn.audit.units import Encoded, Unit
from medunlearn.data.splits import shuffled
from medunlearn.sources.corpus import Corpus, Document

PROBES = pa.schema(
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
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Probe:
    """A text cut in two, l tokens in front.

    Attributes:
        probe_id: ``RECORD@PREFIX``.
        subject: whose text it is; the record itself where nobody knows.
        prefix_tokens: l.
        prefix, suffix: the text before the cut, and after it as far as is compared.
        prefix_ids, suffix_ids: their tokens, [l] and [m].
        suffix_ends: where each of the suffix's tokens ends in it, in characters, [m].
        copies: how often the text stood in the training text; None where nobody says.
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
        """As a row of :data:`PROBES`."""
        return {name: getattr(self, name) for name in PROBES.names[:-1]} | {
            "suffix_tokens": self.suffix_ids.astype(np.int32).tolist()
        }


@dataclass(frozen=True, slots=True)
class Drawn:
    """The probes of one corpus, and what there is to say about the draw.

    Attributes:
        documents: of the corpus.
        looked_at: documents whose length was counted until enough were found.
        used: documents with a probe.
        too_short: of those looked at, documents without any probe.
        probes_by_prefix: how many used documents have a probe of each length.
    """

    corpus: str
    probes: tuple[Probe, ...]
    documents: int
    looked_at: int
    used: int
    too_short: int
    probes_by_prefix: dict[int, int]

    def facts(self) -> dict[str, object]:
        """For ``run.json``: also how many of the used documents are too short for each prefix length."""
        counts = {"documents": self.documents, "looked_at": self.looked_at, "used": self.used}
        without = {str(length): self.used - count for length, count in self.probes_by_prefix.items()}
        return {**counts, "too_short": self.too_short, "too_short_for_prefix": without}


def draw_probes(
    corpus: Corpus, unit: Unit, *, prefixes: Sequence[int], longest: int, shortest: int, sample: int, seed: int
) -> Drawn:
    """Probes of a corpus' documents, or of a seeded sample of those that are long enough for one.

    Args:
        prefixes: tokens of the prefixes, ascending.
        longest: tokens of the suffix at most, and ``shortest`` at least.
        sample: documents at most; 0 for all.
        seed: of the draw; which documents are taken depends on it, their ids and the corpus' name alone.
    """
    by_id = {document.record_id: document for document in corpus.documents}
    order = list(by_id)
    if 0 < sample < len(order):
        order = shuffled(order, "audit sample", corpus.name, seed)
    probes: dict[str, list[Probe]] = {}
    looked_at = 0
    for start in range(0, len(order), _AT_ONCE):
        batch = [by_id[record_id] for record_id in order[start : start + _AT_ONCE]]
        for document, encoded in zip(batch, unit.encode([one.text for one in batch]), strict=True):
            if sample and len(probes) == sample:
                break
            looked_at += 1
            if found := list(_probes(corpus.name, document, encoded, prefixes, longest, shortest)):
                probes[document.record_id] = found
    flat = tuple(probe for record_id in by_id if record_id in probes for probe in probes[record_id])
    counts = {length: sum(probe.prefix_tokens == length for probe in flat) for length in prefixes}
    used = len(probes)
    return Drawn(corpus.name, flat, len(by_id), looked_at, used, looked_at - used, counts)


def _probes(
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
