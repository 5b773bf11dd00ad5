"""An audit of stored responses: 4,000 probes of 500 tokens, all exact and approximate measures, from file to table.

Text is drawn word by word from an invented vocabulary with the frequencies that words have. Of ten responses one
repeats the suffix, two repeat pieces of it, three say it with words changed, and four are another text. Processor
time counts this process and its children; on a busy machine it is the number to read.

    python benchmarks_perf/audit.py [--probes 4000] [--words]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from medunlearn.audit.measures import default_measures
from medunlearn.audit.probe_scoring import score_all
from medunlearn.audit.probe_summary import means
from medunlearn.audit.stored_probes import read_stored
from medunlearn.audit.units import unit_without_model
from medunlearn.config.audit import AuditSettings
from medunlearn.results.scores import read_scores
from medunlearn.seeds import generator

PREFIX, SUFFIX = 40, 500  # words; their tokens are counted and printed
VOCABULARY = 20_000


def vocabulary(draw: np.random.Generator) -> list[str]:
    """Words of two to four syllables."""
    syllables = [one + two for one in "bcdfghklmnprstvz" for two in ("a", "e", "i", "o", "u", "an", "is", "or")]
    return [
        "".join(syllables[at] for at in draw.integers(0, len(syllables), draw.integers(2, 5)))
        for _ in range(VOCABULARY)
    ]


def rows(probes: int) -> list[dict[str, Any]]:
    draw = generator("audit speed", probes)
    words = np.array(vocabulary(draw))
    frequencies = 1 / np.arange(1, VOCABULARY + 1)
    below = (frequencies / frequencies.sum()).cumsum()[:-1]
    found = []
    for place in range(probes):
        text, other = (words[np.searchsorted(below, draw.random(many))] for many in (PREFIX + SUFFIX, SUFFIX))
        suffix, said, kind = text[PREFIX:], other.copy(), place % 10
        if kind == 0:
            said = suffix
        elif kind <= 2:
            start = int(draw.integers(0, SUFFIX - 80))
            said[start : start + 80] = suffix[start : start + 80]
        elif kind <= 5:
            said = np.where(draw.random(SUFFIX) < 0.2, other, suffix)
        found.append(
            {
                "record_id": f"r{place}",
                "prefix": " ".join(text[:PREFIX]),
                "prefix_tokens": 50,
                "suffix": " " + " ".join(suffix),
                "response": " " + " ".join(said),
            }
        )
    return found


def train_tokenizer(folder: Path, texts: list[str]) -> None:
    """A byte-level BPE, as models have."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=30_000, show_progress=False))
    bpe.save(str(folder / "tokenizer.json"))


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print wall-clock and processor seconds of a part."""
    wall, cpu = time.perf_counter(), processor_seconds()
    yield
    wall, cpu = time.perf_counter() - wall, processor_seconds() - cpu
    print(f"{what:44} {wall:7.1f} s  {cpu:7.1f} s of processor time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=4000)
    parser.add_argument("--words", action="store_true", help="count words instead of a tokenizer's tokens")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, made = Path(scratch), rows(chosen.probes)
        file = folder / "responses.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
        if not chosen.words:
            train_tokenizer(folder, [row["prefix"] + row["suffix"] for row in made[:500]])
        settings = AuditSettings(tokenizer=None if chosen.words else str(folder))
        unit = unit_without_model(settings.tokenizer)
        with timed("file read, texts cut into tokens"):
            stored = read_stored(file, unit, settings.max_new_tokens)
        measures = default_measures()
        tokens = np.mean([len(probe.encoded) for probe in stored.probes.values()])
        with timed(f"{len(measures)} measures and shared runs, written"):
            score_all(folder, stored, measures, unit)
        with timed("means with intervals over subjects"):
            table = means(read_scores(folder), replicates=1000, seed=0)
    print(f"{chosen.probes:,} probes, {tokens:.0f} {unit.noun} a suffix; torch loaded: {'torch' in sys.modules}")
    for row in table.to_dict("records"):
        print(f"  {row['measure']:20} {row['value']:8.4f}  scored {row['n_scored']}")


if __name__ == "__main__":
    main()
