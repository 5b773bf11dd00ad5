"""A call for each benchmark (``mu.build.amnesia(...)``, ``lume``, ...): in memory, or kept with ``out``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.papers.amnesia.notes import build_from_notes
from medunlearn.papers.lume.new import build_new
from medunlearn.papers.medforget.assemble import build_medforget
from medunlearn.pipeline.benchmarks import build, save_new


def amnesia(
    *,
    invented: int | None = None,
    notes: Path | str | None = None,
    out: Path | str | None = None,
    **settings: Any,
) -> Benchmark:
    """AMNESIA on an invented hospital, or on notes of your own.

    Args:
        invented: patients to invent.
        notes: a file of notes; a language model labels and asks: ``llm={"base_url": ..., "model": ...}``.
        out: folder to keep it in; None keeps it in memory. Notes need one.
        settings: as `medunlearn build amnesia --help` lists them.

    Raises:
        ConfigError: wrong settings, all at once.
    """
    if (invented is None) == (notes is None):
        raise ConfigError(["give either invented=N (patients to invent) or notes=FILE"])
    if notes is None:
        return _kept(build("amnesia", {"invented": invented, **settings}), out)
    if out is None:
        raise ConfigError(["notes need out=FOLDER: what the language model says is kept there as it comes"])
    return build_from_notes({"notes": Path(notes), **settings}, Path(out)).benchmark


def lume(
    *, released: Path | str | None = None, new: bool = False, out: Path | str | None = None, **settings: Any
) -> Benchmark:
    """LUME from its released files, or built anew.

    Args:
        released: folder with ``forget.jsonl`` and ``retain.jsonl``.
        new: invent stories and biographies; with ``llm={"base_url": ..., "model": ...}`` a model writes them.
        out: folder to keep it in; None keeps it in memory.
        settings: as `medunlearn build lume --help` lists them.

    Raises:
        ConfigError: wrong settings, all at once.
        SourceError: malformed rows, with their line numbers.
    """
    if (released is None) != new:
        raise ConfigError(["give either released=FOLDER (the released files) or new=True (build it anew)"])
    if released is not None:
        return _kept(build("lume", {"released": Path(released), **settings}), out)
    if out is None:
        return build("lume", {"new": True, **settings})
    return build_new({"new": True, **settings}, Path(out)).benchmark


def medforget(*, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """MedForget: ``invented=True``, ``mimic_cxr=FOLDER``, ``openi=FOLDER`` or ``folder=TABLE``.

    Args:
        out: folder to keep it in. None keeps it in memory, which needs ``text_only=True``: images are files.
        settings: as `medunlearn build medforget --help` lists them.

    Raises:
        ConfigError: wrong settings, all at once.
        SourceError: a source or an image that cannot be read.
        InputError: too few patients are eligible.
    """
    if out is None:
        return build("medforget", settings)
    return build_medforget(settings, Path(out)).benchmark


def tofu(*, released: Path | str = "hub", out: Path | str | None = None, **settings: Any) -> Benchmark:
    """TOFU from its published files.

    Args:
        released: their folder, or ``hub``.
        out: folder to keep it in; None keeps it in memory.
        settings: as `medunlearn build tofu --help` lists them.

    Raises:
        SourceError: files that are missing or malformed.
        HubError: the hub cannot be reached.
    """
    return _kept(build("tofu", {"released": str(released), **settings}), out)


def muse(*, released: Path | str = "hub", out: Path | str | None = None, **settings: Any) -> Benchmark:
    """MUSE from its published files; see :func:`tofu`. ``corpus="books"`` for the books."""
    return _kept(build("muse", {"released": str(released), **settings}), out)


def options(file: Path | str, *, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """Multiple-choice questions of a file (MedQA, MedMCQA, or one in their form).

    Args:
        file: one question a row (:mod:`medunlearn.sources.options`).
        out: folder to keep it in; None keeps it in memory.
        settings: as `medunlearn build options --help` lists them.

    Raises:
        SourceError: rows that cannot be read.
    """
    return _kept(build("options", {"file": Path(file), **settings}), out)


def diagnosis(
    *,
    invented: int | None = None,
    admissions: Path | str | None = None,
    out: Path | str | None = None,
    **settings: Any,
) -> Benchmark:
    """Diagnosis from history and laboratory results, on an invented hospital or on admissions of your own.

    Args:
        invented: patients to invent.
        admissions: a file with one admission a row.
        out: folder to keep it in; None keeps it in memory.
        settings: as `medunlearn build diagnosis --help` lists them.

    Raises:
        ConfigError: wrong settings, all at once.
        SourceError: rows that cannot be used, with their places.
    """
    given = {"invented": invented, "admissions": admissions, **settings}
    return _kept(build("diagnosis", {key: value for key, value in given.items() if value is not None}), out)


def _kept(benchmark: Benchmark, out: Path | str | None) -> Benchmark:
    return benchmark if out is None else save_new(benchmark, Path(out))
