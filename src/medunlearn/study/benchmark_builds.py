"""Build a benchmark from settings, or open a benchmark folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.config import check
from medunlearn.data.benchmark import MANIFEST, TABLES, Benchmark
from medunlearn.data.data_use import DataUse
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import LOCK, holds_nothing, is_leftover
from medunlearn.data.storage import BUILD, read_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.paper import Build, Paper, find_paper, installed_papers
from medunlearn.registry import load

BUILD_FILES = (
    *(*TABLES, "README.md", BUILD, "llm", "keywords"),
    *(f"{name}.parquet" for name in ("titles", "rejects", "excluded")),
)
"""Files that any build may leave; those of one paper stand in its ``files``."""
Say = Callable[[str], None]


def build(builder: str, values: Mapping[str, Any]) -> Benchmark:
    """A benchmark in memory.

    Args:
        builder: name or path of a paper.

    Raises:
        UnknownNameError: no such paper.
        ConfigError: wrong settings, all at once.
    """
    return build_benchmark(find_paper(builder), values, None)


def build_benchmark(
    paper: Paper,
    values: Mapping[str, Any],
    out: Path | None,
    flags: Mapping[str, bool] | None = None,
    *,
    quiet: bool = True,
    say: Say = print,
) -> Benchmark:
    """A paper's benchmark, by the way that the settings choose: in memory, or in a folder.

    Args:
        flags: switches of the way's ``write``.

    Raises:
        ConfigError: wrong settings, all at once; or a way that needs a folder without one.
    """
    way = paper.build_for(values)
    on = {key: value for key, value in (flags or {}).items() if value}
    if unknown := on.keys() - way.flags.keys():
        raise ConfigError([f"{way.words or paper.name} needs no {', '.join(f'--{key}' for key in unknown)}"])
    if out is None:
        if not way.make or "llm" in values:
            raise ConfigError(
                ["out=FOLDER is missing: responses of the language model are stored there as they arrive"]
            )
        return _in_memory(way, values)
    if way.write:
        benchmark: Benchmark = load(way.write)(values, out, **on, quiet=quiet, say=say).benchmark
        return benchmark
    return save_new(_in_memory(way, values), out)


def _in_memory(way: Build, values: Mapping[str, Any]) -> Benchmark:
    settings = check(load(way.settings), values) if way.settings else dict(values)
    benchmark: Benchmark = load(way.make)(settings)
    return benchmark


def needs_folder(section: Mapping[str, Any]) -> bool:
    """True if a benchmark is written as it is built, for a language model's answers or its images."""
    if "builder" not in section:
        return False
    way = find_paper(str(section["builder"])).build_for(section)
    if way.memory and way.make:
        return any(section.get(key, False) != value for key, value in way.memory.items())
    return not way.make


def save_new(benchmark: Benchmark, folder: Path) -> Benchmark:
    """Write a benchmark to a new folder; a folder that already contains it is left unchanged.

    Raises:
        InputError: the folder has other content, or another process writes to it.
    """
    refuse_foreign(folder)
    with lock_folder(folder, "build"):
        if not (folder / MANIFEST).exists():
            benchmark.save(folder)
            return replace(benchmark, folder=folder)
        there = Benchmark.load(folder)
        if there.fingerprint != benchmark.fingerprint:
            raise InputError(f"{folder} contains another benchmark. Choose another --out, or remove it.")
        return replace(benchmark, data_use=keep_tighter(there, benchmark.data_use).data_use, folder=folder)


def keep_tighter(there: Benchmark, stated: DataUse | None) -> Benchmark:
    """The benchmark in its folder, with its recorded data use made stricter if the build says so.

    Raises:
        InputError: the build declares a benchmark open that is recorded as credentialed.
    """
    if (there.data_use, stated) == ("credentialed", "open"):
        raise InputError(
            f"{there.folder} contains this benchmark as credentialed. A build may make that stricter, not looser: "
            "leave "
            "data_use out, or choose another --out."
        )
    if there.folder is None or stated in (None, there.data_use):
        return there
    tightened = replace(there, data_use="credentialed")
    tightened.save(there.folder)
    return tightened


def refuse_foreign(folder: Path) -> None:
    """Refuse a path that is neither a benchmark nor the remains of an interrupted build.

    Raises:
        InputError: it is a file, or has unrelated files.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder. Choose another --out.")
    if (folder / MANIFEST).exists() or holds_nothing(folder):
        return
    # What a build that was killed may leave is written again; anybody else's files are not written over.
    own = {*BUILD_FILES, *(name for paper in installed_papers() for name in paper.files)}
    is_strange = any(file.name not in own and not is_leftover(file) for file in folder.iterdir())
    if is_strange or not _was_interrupted(folder):
        raise InputError(f"{folder} is not empty and contains no benchmark. Choose another --out.")


def _was_interrupted(folder: Path) -> bool:
    """True if a build of ours began to write to a folder: its record is there, or the lock that it left."""
    if os.path.lexists(folder / LOCK):
        return True
    with suppress(InputError, AttributeError):
        return "status" in read_json(folder / BUILD)
    return False


def from_section(section: Mapping[str, Any], folder: Path) -> Benchmark:
    """The benchmark of an experiment: ``folder: bench/``, or settings of a builder, built into ``folder``.

    Raises:
        ConfigError: neither is given.
    """
    if "folder" in section:
        if len(section) > 1:
            raise ConfigError(["benchmark: give only folder, or a builder with its settings"])
        return Benchmark.load(Path(section["folder"]))
    values = dict(section)
    if "builder" not in values:
        names = [paper.name for paper in installed_papers() if paper.builds]
        raise ConfigError([f"benchmark.builder is missing: {', '.join(names)}; or give benchmark.folder"])
    return build_benchmark(find_paper(str(values.pop("builder"))), values, folder)


def open_section(section: Mapping[str, Any], folder: Path) -> Benchmark:
    """The benchmark of an experiment, opened from its folder or build folder, or built in memory."""
    if "folder" in section or "builder" not in section:
        return from_section(section, folder)
    if (folder / MANIFEST).exists():
        return Benchmark.load(folder)
    values = dict(section)
    paper = find_paper(str(values.pop("builder")))
    # Its texts are as many and as long without the images.
    return build_benchmark(paper, {**values, **paper.build_for(values).memory}, None)
