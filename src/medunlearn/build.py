"""One call per benchmark (``mu.build.amnesia(...)``, ``lume``, ...): in memory, or saved with ``out``.

Settings are keywords, the same as the flags of `medunlearn build NAME --help`. Every call raises ConfigError with
all mistakes, and SourceError for files that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config.reading import with_server
from medunlearn.errors import ConfigError

if TYPE_CHECKING:
    from medunlearn.data.benchmark import Benchmark

Say = Callable[[str], None]


def amnesia(
    notes: Path | str | None = None, *, synthetic: int | None = None, out: Path | str | None = None,
    quiet: bool = True, say: Say = print, **settings: Any
) -> Benchmark:  # fmt: skip
    """AMNESIA on an invented hospital, or on notes of your own.

    Args:
        notes: file or folder of notes or hub:org/name; a language model labels them and writes the questions
        synthetic: patients to invent, instead of notes
        out: folder of the benchmark
    """
    if (synthetic is None) == (notes is None):
        raise ConfigError(
            ["give either NOTES (a file of notes, hub:org/name) or --synthetic N (patients to invent)"]
        )
    if notes is None:
        return _build("amnesia", out, synthetic=synthetic, **settings)
    if out is None:
        raise ConfigError(
            ["notes need out=FOLDER: responses of the language model are stored there as they arrive"]
        )
    from medunlearn.papers.amnesia.notes import build_from_notes

    values = {"notes": Path(notes), **with_server(settings)}
    return build_from_notes(values, Path(out), quiet=quiet, say=say).benchmark


def lume(
    released: Path | str | None = None, *, new: bool = False, synthetic: int | None = None,
    out: Path | str | None = None, review: bool = False, quiet: bool = True, say: Say = print, **settings: Any
) -> Benchmark:  # fmt: skip
    """LUME from its released files, or built anew.

    Args:
        released: folder with forget.jsonl and retain.jsonl
        new: invent stories and biographies, as many as in the paper; a language model writes them if llm is given
        synthetic: number of documents to invent for each task
        out: folder of the benchmark
        review: built anew: write a CSV and a page on which people label each document
    """
    anew = new or synthetic is not None
    if (released is not None) == anew:
        raise ConfigError(["give either RELEASED (the released files) or --synthetic N or --new (build it anew)"])
    if not anew:
        flags = ["--review"] * review + [f"--{key}" for key in settings if key.partition(".")[0] == "llm"]
        if flags:
            raise ConfigError([f"released files need no {', '.join(flags)}"])
        return _build("lume", out, released=Path(str(released)), **settings)
    values = {"new": True, **({} if synthetic is None else {"synthetic": synthetic}), **with_server(settings)}
    if out is None:
        return _build("lume", None, **values)
    from medunlearn.papers.lume.new import build_new

    return build_new(values, Path(out), review=review, quiet=quiet, say=say).benchmark


def medforget(*, out: Path | str | None = None, quiet: bool = True, say: Say = print, **settings: Any) -> Benchmark:
    """MedForget: ``synthetic=64``, ``mimic_cxr=FOLDER``, ``openi=FOLDER`` or ``folder=TABLE``.

    Without ``out`` it needs ``text_only=True``: images are files.

    Args:
        out: folder of the benchmark
    """
    values = with_server(settings)
    if out is None:
        return _build("medforget", None, **values)
    from medunlearn.papers.medforget.assemble import build_medforget

    return build_medforget(values, Path(out), quiet=quiet, say=say).benchmark


def tofu(released: Path | str = "hub", *, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """TOFU from its published files.

    Args:
        released: folder of the published files, or hub
        out: folder of the benchmark
    """
    return _build("tofu", out, released=str(released), **settings)


def muse(released: Path | str = "hub", *, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """MUSE from its published files; ``corpus="books"`` for the books.

    Args:
        released: folder of the published files, or hub
        out: folder of the benchmark
    """
    return _build("muse", out, released=str(released), **settings)


def notes(
    notes: Path | str, *, out: Path | str | None = None, quiet: bool = True, say: Say = print, **settings: Any
) -> Benchmark:  # fmt: skip
    """Clinical notes of your own: records and probes of the notes themselves, without a server.

    Args:
        notes: table, FHIR file, folder of text files, or hub:org/name
        out: folder of the benchmark
    """
    values = {"notes": Path(notes), **with_server(settings)}
    if out is None:
        if "llm" in values:
            raise ConfigError(
                ["llm needs out=FOLDER: responses of the language model are stored there as they arrive"]
            )
        return _build("notes", None, **values)
    from medunlearn.papers.amnesia.note_questions import build_notes

    return build_notes(values, Path(out), quiet=quiet, say=say).benchmark


def options(file: Path | str, *, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """Multiple-choice questions of a file (MedQA, MedMCQA, or one in their form).

    Args:
        file: CSV, TSV, JSONL, JSON or Parquet, one question per row
        out: folder of the benchmark
    """
    return _build("options", out, file=Path(file), **settings)


def diagnosis(
    admissions: Path | str | None = None, *, synthetic: int | None = None, out: Path | str | None = None,
    **settings: Any
) -> Benchmark:  # fmt: skip
    """Diagnosis from history and laboratory results, on an invented hospital or on admissions of your own.

    Args:
        admissions: file with one admission per row
        synthetic: patients to invent, instead of a file
        out: folder of the benchmark
    """
    values = {"synthetic": synthetic, "admissions": admissions, **settings}
    return _build("diagnosis", out, **{key: value for key, value in values.items() if value is not None})


def _build(builder: str, out: Path | str | None, /, **values: Any) -> Benchmark:
    from medunlearn.pipeline.benchmark_builds import build, save_new

    benchmark = build(builder, values)
    return benchmark if out is None else save_new(benchmark, Path(out))
