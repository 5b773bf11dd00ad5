"""Texts are cut where they should be, and samples depend on the seed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from medunlearn.audit.probes import PROBES_SCHEMA, Probe, draw_probes, write_probes
from medunlearn.audit.units import WordsUnit
from medunlearn.config.audit import AuditSettings
from medunlearn.sources.corpus import Corpus
from medunlearn.sources.patient_notes import PatientNote


def drawn(lengths: dict[str, int], **settings: int) -> tuple[list[Probe], dict[str, Any]]:
    documents = [
        PatientNote(name, " ".join(f"{name}w{place}" for place in range(length)), f"patient of {name}")
        for name, length in lengths.items()
    ]
    checked = AuditSettings(prefixes=(5, 10), max_new_tokens=8, shortest_suffix=4, **{"limit": 0, **settings})
    return draw_probes(Corpus("notes", tuple(documents), "table", "f"), WordsUnit(), checked)


def test_prefix_and_suffix_are_the_text(tmp_path: Path) -> None:
    probes, _ = drawn({"a": 30})
    assert [probe.probe_id for probe in probes] == ["a@5", "a@10"]
    words = [f"aw{place}" for place in range(30)]
    for probe, length in zip(probes, (5, 10), strict=True):
        assert probe.prefix == " ".join(words[:length])
        assert probe.suffix == " " + " ".join(words[length : length + 8])
        assert probe.prefix_ids is not None
        assert len(probe.prefix_ids) == probe.prefix_tokens == length
        assert len(probe.encoded) == len(probe.encoded.ends) == 8
        assert probe.encoded.ends[-1] == len(probe.suffix)
        assert probe.subject == "patient of a"
    write_probes(tmp_path, probes)
    table = pq.read_table(tmp_path / "probes.parquet", schema=PROBES_SCHEMA)
    assert [len(row) for row in table.column("suffix_tokens")] == [8, 8]


def test_a_short_text_lacks_the_long_prefixes_and_is_counted() -> None:
    probes, counts = drawn({"a": 30, "b": 10, "c": 8, "d": 14, "e": 13})
    sizes = {probe.probe_id: len(probe.encoded) for probe in probes}
    assert sizes == {"a@5": 8, "a@10": 8, "b@5": 5, "d@5": 8, "d@10": 4, "e@5": 8}
    assert counts == {
        "documents": 5,
        "looked_at": 5,
        "used": 4,
        "too_short": 1,
        "too_short_for_prefix": {"5": 0, "10": 2},
    }


def test_a_sample_is_seeded_and_takes_long_texts_alone() -> None:
    lengths = {f"d{place}": 30 if place % 2 else 3 for place in range(40)}

    def sample(lengths: dict[str, int], **settings: int) -> set[str]:
        return {probe.record_id for probe in drawn(lengths, **settings)[0]}

    some = sample(lengths, limit=5)
    assert len(some) == 5
    assert all(lengths[name] == 30 for name in some)
    assert some == sample(dict(reversed(lengths.items())), limit=5)
    assert some != sample(lengths, limit=5, seed=1)
    assert drawn(lengths, limit=5)[1]["looked_at"] < 40
    assert drawn(lengths, limit=100)[1]["used"] == 20
