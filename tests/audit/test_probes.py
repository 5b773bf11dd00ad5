"""Texts are cut where they should be, and samples depend on the seed alone."""

from __future__ import annotations

import pyarrow as pa

from medunlearn.audit.probes import PROBES_SCHEMA, ProbeSample, draw_probes
from medunlearn.audit.units import WordsUnit
from medunlearn.sources.corpus import Corpus, Document


def corpus(lengths: dict[str, int]) -> Corpus:
    documents = [
        Document(name, " ".join(f"{name}w{place}" for place in range(length)), f"patient of {name}")
        for name, length in lengths.items()
    ]
    return Corpus("notes", tuple(documents), "table", "f")


def drawn(lengths: dict[str, int], sample: int = 0, seed: int = 0) -> ProbeSample:
    return draw_probes(
        corpus(lengths), WordsUnit(), prefixes=(5, 10), longest=8, shortest=4, sample=sample, seed=seed
    )


def test_prefix_and_suffix_are_the_text() -> None:
    found = drawn({"a": 30}).probes
    assert [probe.probe_id for probe in found] == ["a@5", "a@10"]
    for probe, length in zip(found, (5, 10), strict=True):
        words = [f"aw{place}" for place in range(30)]
        assert probe.prefix == " ".join(words[:length])
        assert probe.suffix == " " + " ".join(words[length : length + 8])
        assert len(probe.prefix_ids) == probe.prefix_tokens == length
        assert len(probe.suffix_ids) == len(probe.suffix_ends) == 8
        assert probe.suffix_ends[-1] == len(probe.suffix)
        assert probe.subject == "patient of a"


def test_a_short_text_lacks_the_long_prefixes_and_is_counted() -> None:
    found = drawn({"a": 30, "b": 10, "c": 8, "d": 14, "e": 13})
    assert [probe.probe_id for probe in found.probes] == ["a@5", "a@10", "b@5", "d@5", "d@10", "e@5"]
    assert [len(probe.suffix_ids) for probe in found.probes] == [8, 8, 5, 8, 4, 8]
    assert found.facts() == {
        "documents": 5,
        "looked_at": 5,
        "used": 4,
        "too_short": 1,
        "too_short_for_prefix": {"5": 0, "10": 2},
    }


def test_a_sample_is_seeded_and_takes_long_texts_alone() -> None:
    lengths = {f"d{place}": 30 if place % 2 else 3 for place in range(40)}
    one = {probe.record_id for probe in drawn(lengths, sample=5).probes}
    assert len(one) == 5
    assert all(lengths[name] == 30 for name in one)
    assert one == {probe.record_id for probe in drawn(dict(reversed(lengths.items())), sample=5).probes}
    assert one != {probe.record_id for probe in drawn(lengths, sample=5, seed=1).probes}
    assert drawn(lengths, sample=5).looked_at < 40
    assert drawn(lengths, sample=100).used == 20


def test_rows_fit_the_table() -> None:
    table = pa.Table.from_pylist([probe.row() for probe in drawn({"a": 30}).probes], schema=PROBES_SCHEMA)
    assert table.num_rows == 2
    assert len(table.column("suffix_tokens")[0]) == 8
