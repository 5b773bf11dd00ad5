"""Build a benchmark from settings, or open a benchmark folder."""

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
        builder: a name of ``BENCHMARKS``, or ``module:function`` of a builder outside the tree, which gets the raw
            values.

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
    """True if a benchmark can only be built in a folder, for its images."""
    return section.get("builder") == "medforget" and not section.get("text_only")


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
    if not folder.exists() or (folder / MANIFEST).exists():
        return
    # What a save that was killed may leave is written again; anybody else's files are not written over.
    if any(file.name not in BUILD_FILES and not is_leftover(file) for file in folder.iterdir()):
        raise InputError(f"{folder} is not empty and contains no benchmark. Choose another --out.")


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
    builder = values.pop("builder", None)
    if builder is None:
        raise ConfigError([f"benchmark.builder is missing: {', '.join(BENCHMARKS)}; or give benchmark.folder"])
    new = {"amnesia": "notes" in values, "lume": bool(values.get("new")), "medforget": True, "notes": True}
    if new.get(builder):
        benchmark: Benchmark = load(FOLDER_BUILDS[builder])(values, folder).benchmark
        return benchmark
    return save_new(build(builder, values), folder)


def open_section(section: Mapping[str, Any], folder: Path) -> Benchmark:
    """The benchmark of an experiment, opened from its folder or build folder, or built in memory."""
    if "folder" in section or "builder" not in section:
        return from_section(section, folder)
    if (folder / MANIFEST).exists():
        return Benchmark.load(folder)
    # Its texts are as many and as long without the images.
    values = {**section, **({"text_only": True} if needs_folder(section) else {})}
    return build(values.pop("builder"), values)
