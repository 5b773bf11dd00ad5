"""Deletion requests as splits of a benchmark, in memory and on disk; the other tables stay unchanged."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from pathlib import Path

import yaml

from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.card import card
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.splits import request
from medunlearn.data.storage import table_bytes, write_files
from medunlearn.data.tables import SPLITS, split_rows
from medunlearn.errors import BenchmarkError, InputError, UnknownNameError
from medunlearn.input_files import read_text, yaml_content

REQUEST = "request"
"""Name of the split of a deletion request, where none is given."""


def with_request(benchmark: Benchmark, subjects: Iterable[str], *, name: str = REQUEST) -> Benchmark:
    """The benchmark with one more split, which forgets the given subjects and retains all others.

    Texts and questions are unchanged, so a model trained on one benchmark was trained on the other.

    Args:
        subjects: ids at the benchmark's subject level; an id may hold commas.

    Raises:
        UnknownNameError: an unknown subject; the message shows no other id.
        InputError: no subject, all trained subjects, a subject that no model is trained on, or an existing split of
            this name.
    """
    level, forget = benchmark.subject_level, list(dict.fromkeys(subjects))
    everyone = set(benchmark.hierarchy.nodes(level))
    if absent := [subject for subject in forget if subject not in everyone]:
        raise UnknownNameError(level, absent[0], None)
    trained = {record.groups[level] for record in benchmark.records if record.fold == "train"}
    if unseen := [subject for subject in forget if subject not in trained]:
        raise InputError(f"No model is trained on {level} {unseen[0]!r}, so there is nothing to forget.")
    if trained <= set(forget):
        raise InputError(f"The request names every {level} that is trained on: nothing is left to retain.")
    split = request(benchmark.hierarchy, name, level, forget)
    if benchmark.splits.get(name, split) != split:
        raise InputError(f"The benchmark has another split {name!r}. Give the request another name.")
    return replace(benchmark, splits={**benchmark.splits, name: split})


def forget_records(benchmark: Benchmark, split: str = REQUEST) -> frozenset[str]:
    """Ids of the records of a split's forget set."""
    requested = benchmark.split(split)
    return benchmark.hierarchy.closure(requested.level, requested.forget)


def relatives_of(benchmark: Benchmark, subjects: Collection[str]) -> frozenset[str]:
    """Trained subjects who share an identifier with one of the given ones: kin, twins, people of the same name."""
    level = benchmark.subject_level
    owners: dict[str, set[str]] = {}
    for record in benchmark.records:
        if record.fold == "train":
            for identifier in record.identifiers:
                owners.setdefault(identifier.value, set()).add(record.groups[level])
    return frozenset(chain.from_iterable(who for who in owners.values() if who & {*subjects})) - {*subjects}


def neighbours_of(benchmark: Benchmark, subjects: Collection[str]) -> frozenset[str]:
    """Trained subjects in the same group right above the subject's level (a disease, a ward), without these."""
    level = benchmark.subject_level
    place = benchmark.levels.index(level) if level in benchmark.levels else len(benchmark.levels)
    above = benchmark.levels[place - 1] if place else None
    if above is None:
        return frozenset()
    trained = [record for record in benchmark.records if record.fold == "train"]
    nodes = {record.groups.get(above) for record in trained if record.groups[level] in subjects} - {None}
    return frozenset(record.groups[level] for record in trained if record.groups.get(above) in nodes) - {*subjects}


def save_splits(benchmark: Benchmark) -> None:
    """Write the splits of a benchmark to the folder that it was read from; other tables are not touched.

    Raises:
        InputError: it has no folder, or another process writes to it.
        BenchmarkError: the folder holds another benchmark.
        StorageError: the disk refused; the old file is untouched.
    """
    folder = benchmark.folder
    if folder is None:
        raise InputError(
            "The benchmark was not read from a folder, so its splits cannot be written there. Save it."
        )
    with lock_folder(folder, "build"):
        stored = Benchmark.load(folder)
        if (stored.records, stored.questions) != (benchmark.records, benchmark.questions):
            raise BenchmarkError(f"{folder} holds another benchmark than the one whose splits are to be written.")
        manifest = yaml_content(folder / MANIFEST, BenchmarkError)
        splits = table_bytes(split_rows(benchmark.splits.values()), SPLITS)
        manifest["counts"] = benchmark.counts()
        manifest["sha256"]["splits.parquet"] = sha256(splits).hexdigest()
        sizes = [(split, benchmark.split_sizes(split)) for split in benchmark.splits.values()]
        contents = {
            "splits.parquet": splits,
            "README.md": card(manifest, sizes).encode(),
            MANIFEST: yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True).encode(),
        }
        write_files(folder, contents)


def read_subjects(where: str) -> list[str]:
    """Read the ids of a deletion request: from a file with one per line, or separated by commas.

    Raises:
        InputError: a missing or unreadable file, or no id.
    """
    path = Path(where)
    # Many ids are longer than a file's name may be, which Path.is_file raises for.
    if path.suffix.lower() in (".txt", ".csv", ".list", ".tsv") or os.path.isfile(where):
        ids = [line.strip() for line in read_text(path).splitlines()]
    else:
        ids = [word.strip() for word in where.split(",")]
    if not any(ids):
        raise InputError("The request names no patient. Give ids with commas, or a file with one id per line.")
    return [name for name in dict.fromkeys(ids) if name]
