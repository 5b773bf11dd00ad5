"""Keyword stage of a sweep or an experiment: keywords of LS from the Python of another environment.

scispaCy needs an older numpy than everything else here. Its environment has medunlearn and scispaCy, and needs no
GPU; the keywords are stored in the benchmark's folder, where evaluations find them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.metrics.leakage import keywords
from medunlearn.probes.score import metric_names

LAST_LINES = 5


def interpreter_problem(python: str | None) -> str:
    """Reason why the named Python cannot be started; empty if it can, or none is named."""
    if python is None or _find_python(python):
        return ""
    return (
        f"extractor_python={python}: there is no such program. Make the environment (docs/papers.md), or name its "
        "python."
    )


def _find_python(python: str) -> str | None:
    """Path of a Python; a bare name is looked up in this environment, even if it is not activated."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(python, path=os.pathsep.join(places))


def find_keywords(
    benchmark: Benchmark,
    settings: EvaluateSettings,
    python: str | None,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Find the benchmark's keywords with ``python -m medunlearn build keywords``, unless they exist.

    Raises:
        MedunlearnError: there is no such Python, or it failed; with its last output.
    """
    if python is None or not keywords.missing(benchmark, settings, metric_names(benchmark, settings)):
        return
    if problem := interpreter_problem(python):
        raise MedunlearnError(problem)
    say(f"keywords: {settings.extractor}, by {python}")
    command = [
        str(_find_python(python)),
        "-m",
        "medunlearn",
        "build",
        "keywords",
        str(Path(str(benchmark.folder)).resolve()),
    ]
    process = subprocess.run(
        [*command, "--extractor", settings.extractor, "--quiet"], capture_output=True, text=True
    )
    if process.returncode:
        last = " ".join((process.stderr or process.stdout).strip().splitlines()[-LAST_LINES:])
        raise MedunlearnError(f"{' '.join(command)} failed: {last or f'exit code {process.returncode}'}")
