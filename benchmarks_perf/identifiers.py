"""Declared identifiers in many responses: ours against a nested loop over every identifier, in one process.

Times are processor time of one thread. Records and responses are invented: a response says parts of its own note
and of others'. The loop runs on some of the responses, since it would take long on all; what it finds there is
checked to be found by the index as well.

    python -P benchmarks_perf/identifiers.py                             5,000 patients, 4,000 responses
    python -P benchmarks_perf/identifiers.py --patients 10000 --responses 10000
"""

from __future__ import annotations

import argparse
import re
import time

from medunlearn.audit.identifiers.detectors import make_detector
from medunlearn.audit.identifiers.findings import find_known
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.labelled_notes import labelled_styles
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.data.records import Record
from medunlearn.seeds import generator
from medunlearn.synthetic import invent_hospital


def responses(records: list[Record], count: int, words: int) -> list[RecordResponse]:
    """Each says the end of its own note and then pieces of others, about ``words`` words."""
    draw = generator("identifier benchmark", count)
    made = []
    for number in range(count):
        record = records[number % len(records)]
        said = record.text[40:]
        while len(said.split()) < words:
            other = records[int(draw.integers(len(records)))].text
            start = int(draw.integers(max(1, len(other) - 200)))
            said += " " + other[start : start + 200]
        made.append(
            RecordResponse(record.record_id, f"p{number}", record.record_id, "greedy", 0, record.text[:40], said)
        )
    return made


def nested_loop(said: str, records: list[Record]) -> set[str]:
    """Every identifier of every record looked for in turn, as whole words in any case."""
    found, lower = set(), said.lower()
    for record in records:
        for one in record.identifiers:
            value = one.value.lower()
            if value in lower and re.search(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])", lower):
                found.add(one.value.lower())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=5000)
    parser.add_argument("--responses", type=int, default=4000)
    parser.add_argument("--words", type=int, default=350, help="of a response; 350 are about 500 tokens")
    parser.add_argument("--loops", type=int, default=20, help="responses of the nested loop")
    chosen = parser.parse_args()
    records = [one for one in invent_hospital(chosen.patients, note_length="medium").records() if one.identifiers]
    outputs = responses(records, chosen.responses, chosen.words)
    texts = {one.record_id: one.text for one in records}

    started = time.process_time()
    known = KnownIdentifiers(records)
    built = time.process_time() - started
    print(f"{len(known.identifiers):,} identifiers of {len(records):,} records, {len(outputs):,} responses")
    print(f"index built in {built:.1f} s")

    some = outputs[: chosen.loops]
    started = time.process_time()
    slow = [nested_loop(one.response, records) for one in some]
    loop = (time.process_time() - started) / len(some)
    for one, wanted in zip(some, slow, strict=True):
        places = [one.response[hit.start : hit.end].lower() for hit in known.find(one.response)]
        assert {place for place in wanted if place not in places} == set(), "the index misses what the loop finds"

    taken = {}
    for name in ("none", "own", "all"):
        started = time.process_time()
        rows = sum(1 for _ in find_known(outputs, known, texts, name))
        taken[name] = time.process_time() - started
        rate = len(outputs) / taken[name]
        print(f"fuzzy={name}: {taken[name]:.1f} s, {rate:,.0f} responses a second, {rows:,} rows")
    whole = loop * len(outputs)
    print(f"nested loop: {whole:,.0f} s for as many; ratio to fuzzy=none {whole / taken['none']:,.1f}")
    detectors([one.response for one in some * 5])


def detectors(responses: list[str]) -> None:
    """Rates of the rules alone, and beside them of Presidio with the same rules, on responses and our own notes."""
    for title, texts in (
        ("responses", responses),
        ("notes in four styles", [n.text for n in labelled_styles()] * 4),
    ):
        taken = {}
        for name in ("patterns", "presidio"):
            detector = make_detector(name)
            detector.find(texts[:2])
            started = time.process_time()
            detector.find(texts)
            taken[name] = time.process_time() - started
            print(f"{title}: detector {name}: {len(texts) / taken[name]:,.0f} a second")
        characters, ratio = sum(map(len, texts)) / len(texts), taken["presidio"] / taken["patterns"]
        print(f"{title}: {characters:,.0f} characters each; presidio takes {ratio:.1f} times as long")


if __name__ == "__main__":
    main()
