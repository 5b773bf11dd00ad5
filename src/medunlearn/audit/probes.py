"""Probes: the beginning of a text with its true continuation as the reference, or a prompt with the whole text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from medunlearn.audit.asking import answer_to, message_of, prompt_text, prompt_tokens, prompt_way
from medunlearn.audit.audit_tables import PROBES
from medunlearn.audit.units import Encoded, Unit, continuations
from medunlearn.config.audit import PREFIX, PREFIX_IN_CHAT, PROMPT, AuditSettings
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import read_frame, sha256_of_json, write_table
from medunlearn.llm import Message
from medunlearn.metrics.verbatim import Ids
from medunlearn.probes.probe_set import ProbeManifest
from medunlearn.probes.respondents import ProbePrompt, Text
from medunlearn.sources.column_prompts import fill_prompt
from medunlearn.sources.corpus import Corpus
from medunlearn.sources.patient_notes import PatientNote

_TEXT, _COUNT = pa.string(), pa.int32()
PROBES_SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("probe_id", "record_id", "subject", "corpus")),
        *(("prefix_tokens", _COUNT), ("prefix", _TEXT), ("suffix", _TEXT), ("copies", _COUNT)),
        *(("suffix_tokens", pa.list_(_COUNT)), ("way", _TEXT)),
    ]
)
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: the part of a text that a model is given, and the part that it should not know.

    Attributes:
        probe_id: ``RECORD@PREFIX``, ``RECORD@PREFIX.chat``, ``RECORD@prompt_1``.
        subject: the text's subject; the record itself if unknown.
        prefix_tokens: length l of the prefix; 0 for a prompt.
        prefix, suffix: the text before the cut, and the compared part after it; or a filled prompt and the text
            from its start.
        prefix_ids: token ids of the prefix [l]; None for stored responses and prompts.
        encoded: tokens of the suffix [m].
        copies: repetitions of the text in the training data; None if unknown.
    """

    probe_id: str
    record_id: str
    subject: str
    corpus: str
    prefix_tokens: int
    prefix: str
    suffix: str
    encoded: Encoded
    prefix_ids: Ids | None = None
    copies: int | None = None
    way: str = PREFIX

    def prompt(self, settings: AuditSettings) -> ProbePrompt:
        """The probe as it is asked."""
        if self.way == PREFIX:
            text: Text = self.prefix
        elif settings.template == "chat":
            text = (Message("user", message_of(self.way, self.prefix)),)
        else:
            text = prompt_text(self.way, self.prefix, settings)
        return ProbePrompt(self.probe_id, self.record_id, text, partial(self._opening, settings))

    def _opening(self, settings: AuditSettings, tokenizer: Any) -> Any:
        from medunlearn.generation.continuations import Opening

        suffix = tuple(self.encoded.ids.tolist())
        if self.way == PREFIX and self.prefix_ids is not None:
            return Opening(self.probe_id, self.record_id, tuple(self.prefix_ids.tolist()), suffix)
        prompt = prompt_tokens(tokenizer, self.way, self.prefix, settings)
        return Opening(self.probe_id, self.probe_id, prompt, suffix, begins=True)

    @property
    def before(self) -> str:
        """Text directly before the response; empty if a prompt separates the two."""
        return self.prefix if self.way == PREFIX else ""


def write_probes(folder: Path, probes: Sequence[Probe]) -> None:
    """Write ``probes.parquet``."""
    rows = (
        {name: getattr(probe, name) for name in PROBES_SCHEMA.names if name != "suffix_tokens"}
        | {"suffix_tokens": probe.encoded.ids.astype(np.int32).tolist()}
        for probe in probes
    )
    write_table(folder / PROBES, list(rows), PROBES_SCHEMA)


def read_probe_table(folder: Path, unit: Unit) -> list[Probe]:
    """The probes of an audit with the same texts, in another unit.

    Their ids and prefix lengths stay, so that both audits are paired.

    Raises:
        InputError: the folder has none, or of an older version.
    """
    rows = read_frame(folder / PROBES, PROBES_SCHEMA.names).to_dict("records")
    before = [row["prefix"] if row["way"] == PREFIX else "" for row in rows]
    prefixes, suffixes = unit.encode(before), continuations(unit, before, [row["suffix"] for row in rows])
    names = [name for name in PROBES_SCHEMA.names if name not in ("suffix_tokens", "copies")]
    return [
        Probe(
            **{name: row[name] for name in names},
            encoded=suffix,
            prefix_ids=prefix.ids if row["way"] == PREFIX else None,
            copies=None if pd.isna(row["copies"]) else int(row["copies"]),
        )
        for row, prefix, suffix in zip(rows, prefixes, suffixes, strict=True)
    ]


def probe_set(settings: AuditSettings, material: Mapping[str, str], probes: Sequence[Probe]) -> ProbeManifest:
    """The probes and their texts as a probe set."""
    texts = (sha256_of_json([probe.probe_id, probe.prefix, probe.suffix]) for probe in probes)
    return ProbeManifest.make(settings, material, texts)


def draw_probes(corpus: Corpus, unit: Unit, settings: AuditSettings) -> tuple[list[Probe], dict[str, Any]]:
    """Probes of all of a corpus' documents, or of a seeded sample of those that are long enough.

    The draw depends only on the seed, the documents' ids and the corpus' name.

    Returns:
        Probes, and counts for ``run.json``: documents; looked_at (documents whose length was counted until enough
        were long enough); used (with a probe); too_short (without one); too_short_for_prefix (used, but not by this
        length).
    """
    ways = settings.asked_ways
    by_id = {document.note_id: document for document in corpus.documents}
    order = list(by_id)
    if 0 < settings.limit < len(order):
        order = shuffled(order, "audit sample", corpus.name, settings.seed)
    probes: dict[str, list[Probe]] = {}
    looked_at = 0
    for start in range(0, len(order), _BATCH):
        batch = [by_id[record_id] for record_id in order[start : start + _BATCH]]
        texts = unit.encode([document.text for document in batch])
        answers = [answer_to(document.text, settings) if PROMPT in ways else "" for document in batch]
        rows = zip(batch, texts, answers, unit.encode(answers), strict=True)
        for document, encoded, answer, encoded_answer in rows:
            if settings.limit and len(probes) == settings.limit:
                break
            looked_at += 1
            document_probes = list(_prefix_probes(corpus.name, document, encoded, settings))
            if PROMPT in ways:
                document_probes += _prompt_probes(corpus.name, document, answer, encoded_answer, settings)
            if document_probes:
                probes[document.note_id] = document_probes
    sample = [probe for record_id in by_id for probe in probes.get(record_id, ())]
    n_used, by_way = len(probes), Counter(probe.way for probe in sample)
    lengths = Counter(probe.prefix_tokens for probe in sample if probe.way in (PREFIX, PREFIX_IN_CHAT))
    each = max(1, len({PREFIX, PREFIX_IN_CHAT} & set(ways)))
    prompts = [prompt_way(number) for number in range(1, len(settings.prompt) + 1)] if PROMPT in ways else []
    return sample, {
        "documents": len(by_id),
        "looked_at": looked_at,
        "used": n_used,
        "too_short": looked_at - n_used,
        "too_short_for_prefix": {str(length): n_used - lengths[length] // each for length in settings.prefixes},
        **({"without_prompt": {way: n_used - by_way[way] for way in prompts}} if prompts else {}),
    }


def _prefix_probes(
    corpus: str, document: PatientNote, encoded: Encoded, settings: AuditSettings
) -> Iterator[Probe]:
    shortest = min(settings.shortest_suffix, settings.max_new_tokens)
    ways = [way for way in settings.asked_ways if way != PROMPT]
    for length in settings.prefixes:
        suffix = slice(length, length + settings.max_new_tokens)
        if not ways or len(encoded) < length + shortest:
            return
        cut, ends = int(encoded.ends[length - 1]), encoded.ends[suffix]
        texts = (document.text[:cut], document.text[cut : int(ends[-1])])
        encodings = (Encoded(encoded.ids[suffix], ends - cut), encoded.ids[:length])
        for way in ways:
            probe_id = f"{document.note_id}@{length}{'' if way == PREFIX else '.chat'}"
            yield Probe(probe_id, *_owner(document, corpus), length, *texts, *encodings, document.copies, way)


def _prompt_probes(
    corpus: str, document: PatientNote, answer: str, encoded: Encoded, settings: AuditSettings
) -> Iterator[Probe]:
    """One probe for each prompt whose columns all have a value."""
    ids, ends = encoded.ids[: settings.max_new_tokens], encoded.ends[: settings.max_new_tokens]
    if len(ids) < min(settings.shortest_suffix, settings.max_new_tokens):
        return
    for number, prompt in enumerate(settings.prompt, start=1):
        if (filled := fill_prompt(prompt, document.values)) is None:
            continue
        way, text = prompt_way(number), answer[: int(ends[-1])]
        probe_id, tokens = f"{document.note_id}@{way}", Encoded(ids, ends)
        yield Probe(probe_id, *_owner(document, corpus), 0, filled, text, tokens, None, document.copies, way)


def _owner(document: PatientNote, corpus: str) -> tuple[str, str, str]:
    return document.note_id, document.patient, corpus
