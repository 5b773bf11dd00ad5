"""Build a benchmark from settings, or open the folder that holds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.config import (
    AmnesiaSettings,
    DiagnosisSettings,
    LumeNewSettings,
    LumeSettings,
    MedforgetSettings,
    MuseSettings,
    Settings,
    TofuSettings,
    check,
)
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.config.options import OptionsSettings
from medunlearn.data.benchmark import MANIFEST, TABLES, Benchmark
from medunlearn.data.builders import BENCHMARKS
from medunlearn.data.data_use import DataUse
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import is_leftover
from medunlearn.errors import ConfigError, InputError
from medunlearn.registry import load, resolve

SETTINGS: Mapping[str, type[Settings]] = {
    "amnesia": AmnesiaSettings,
    "diagnosis": DiagnosisSettings,
    "lume": LumeSettings,
    "medforget": MedforgetSettings,
    "muse": MuseSettings,
    "notes": NotesSettings,
    "options": OptionsSettings,
    "tofu": TofuSettings,
}
FOLDER_BUILDS: Mapping[str, str] = {
    "amnesia": "medunlearn.papers.amnesia.notes:build_from_notes",
    "lume": "medunlearn.papers.lume.new:build_new",
    "medforget": "medunlearn.papers.medforget.assemble:build_medforget",
    "notes": "medunlearn.papers.amnesia.note_questions:build_notes",
}
"""Builds that write to their folder as they go (a language model's answers, images): values, folder -> a result
with the ``benchmark``."""
NEW_LUME = "medunlearn.papers.lume.invented:build"
BUILD_FILES = (
    *(*TABLES, "README.md", "build.json", "llm", "keywords", "review", "images"),
    *(f"{name}.parquet" for name in ("titles", "labels", "evidence", "rejects", "images", "studies", "excluded")),
)


def build(builder: str, values: Mapping[str, Any]) -> Benchmark:
    """A benchmark in memory.

    Args:
        builder: a name of ``BENCHMARKS``, or ``module:function`` of a builder outside the tree, which is given the
            values as they are.

    Raises:
        UnknownNameError: no such builder.
        ConfigError: wrong settings, all at once.
    """
    if builder == "lume" and values.get("new"):
        new: Benchmark = load(NEW_LUME)(check(LumeNewSettings, values))
        return new
    make = resolve("benchmarks", builder, BENCHMARKS)
    settings = check(SETTINGS[builder], values) if builder in SETTINGS else dict(values)
    benchmark: Benchmark = make(settings)
    return benchmark


def needs_folder(section: Mapping[str, Any]) -> bool:
    """True if a benchmark can only be built in its folder, which holds its images."""
    return section.get("builder") == "medforget" and not section.get("text_only")


def save_new(benchmark: Benchmark, folder: Path) -> Benchmark:
    """Write a benchmark to a new folder; one that holds the same benchmark already is left as it is.

    Raises:
        InputError: the folder holds something else, or another process writes to it.
    """
    refuse_foreign(folder)
    with lock_folder(folder, "build"):
        if not (folder / MANIFEST).exists():
            benchmark.save(folder)
            return replace(benchmark, folder=folder)
        there = Benchmark.load(folder)
        if there.fingerprint != benchmark.fingerprint:
            raise InputError(f"{folder} holds another benchmark. Choose another --out, or remove it.")
        return replace(benchmark, data_use=keep_tighter(there, benchmark.data_use).data_use, folder=folder)


def keep_tighter(there: Benchmark, stated: DataUse | None) -> Benchmark:
    """A benchmark in its folder, whose manifest is tightened where a build says so.

    Raises:
        InputError: the build says open of a benchmark that is recorded as credentialed.
    """
    if (there.data_use, stated) == ("credentialed", "open"):
        raise InputError(
            f"{there.folder} holds this benchmark as credentialed. A build may tighten that, not loosen it: leave "
            "data_use out, or choose another --out."
        )
    if there.folder is None or stated in (None, there.data_use):
        return there
    tightened = replace(there, data_use="credentialed")
    tightened.save(there.folder)
    return tightened


def refuse_foreign(folder: Path) -> None:
    """Refuse a place that holds neither a benchmark nor what a build that was cut off leaves.

    Raises:
        InputError: it is a file, or has files of somebody else.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder. Choose another --out.")
    if not folder.exists() or (folder / MANIFEST).exists():
        return
    # What a save that was killed may leave is written again; anybody else's files are not written over.
    if any(file.name not in BUILD_FILES and not is_leftover(file) for file in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no benchmark. Choose another --out.")


def from_section(section: Mapping[str, Any], folder: Path) -> Benchmark:
    """The benchmark that an experiment names: ``folder: bench/``, or settings of a builder, built into ``folder``.

    Raises:
        ConfigError: neither.
    """
    if "folder" in section:
        if len(section) > 1:
            raise ConfigError(["benchmark: give folder alone, or a builder with its settings"])
        return Benchmark.load(Path(section["folder"]))
    values = dict(section)
    builder = values.pop("builder", None)
    if builder is None:
        raise ConfigError([f"benchmark.builder is missing: {', '.join(BENCHMARKS)}; or give benchmark.folder"])
    new = {"amnesia": "notes" in values, "lume": bool(values.get("new")), "medforget": True, "notes": True}
    if new.get(builder):
        benchmark: Benchmark = load(FOLDER_BUILDS[builder])(values, folder).benchmark
        return benchmark
    return save_new(build(builder, values), folder)


def open_section(section: Mapping[str, Any], folder: Path) -> Benchmark:
    """The benchmark that an experiment names: from its folder, from where it was built, or in memory alone."""
    if "folder" in section or "builder" not in section:
        return from_section(section, folder)
    if (folder / MANIFEST).exists():
        return Benchmark.load(folder)
    # Its texts are as many and as long without the images.
    values = {**section, **({"text_only": True} if needs_folder(section) else {})}
    return build(values.pop("builder"), values)
