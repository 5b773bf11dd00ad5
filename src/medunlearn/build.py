"""``mu.build.amnesia(...)``, ``mu.build.lume(...)``: a benchmark in memory, or in a folder with ``out``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.experiments.build import build, save_new


def amnesia(*, invented: int, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """AMNESIA on an invented hospital.

    Args:
        invented: patients to invent.
        out: folder to keep it in; None keeps it in memory.
        settings: as `medunlearn build amnesia --help` lists them.

    Raises:
        ConfigError: wrong settings, all at once.
    """
    return _kept(build("amnesia", {"invented": invented, **settings}), out)


def lume(*, released: Path | str, out: Path | str | None = None, **settings: Any) -> Benchmark:
    """LUME from its released files.

    Args:
        released: folder with ``forget.jsonl`` and ``retain.jsonl``.
        out: folder to keep it in; None keeps it in memory.
        settings: as `medunlearn build lume --help` lists them.

    Raises:
        SourceError: malformed rows, with their line numbers.
    """
    return _kept(build("lume", {"released": Path(released), **settings}), out)


def _kept(benchmark: Benchmark, out: Path | str | None) -> Benchmark:
    return benchmark if out is None else save_new(benchmark, Path(out))
