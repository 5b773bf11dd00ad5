"""Measure what a medical language model memorized, make it forget, and show what was forgotten."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from medunlearn import build
    from medunlearn.api import (
        agree,
        annotate,
        attack,
        diagnose,
        evaluate,
        export,
        inspect,
        judge,
        load,
        plan,
        report,
        run,
        sweep,
        train,
        unlearn,
    )
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.experiments.keywords import keywords
    from medunlearn.experiments.runs import Run
    from medunlearn.experiments.semeval import semeval

# Loaded when first asked for, so that `import medunlearn` is light and scoring responses needs no torch.
_WHERE = {
    "Benchmark": "medunlearn.data.benchmark",
    "Run": "medunlearn.experiments.runs",
    "agree": "medunlearn.api",
    "annotate": "medunlearn.api",
    "attack": "medunlearn.api",
    "diagnose": "medunlearn.api",
    "evaluate": "medunlearn.api",
    "export": "medunlearn.api",
    "inspect": "medunlearn.api",
    "judge": "medunlearn.api",
    "keywords": "medunlearn.experiments.keywords",
    "load": "medunlearn.api",
    "plan": "medunlearn.api",
    "report": "medunlearn.api",
    "run": "medunlearn.api",
    "sweep": "medunlearn.api",
    "semeval": "medunlearn.experiments.semeval",
    "train": "medunlearn.api",
    "unlearn": "medunlearn.api",
}

__all__ = [
    "Benchmark",
    "Run",
    "__version__",
    "agree",
    "annotate",
    "attack",
    "build",
    "diagnose",
    "evaluate",
    "export",
    "inspect",
    "judge",
    "keywords",
    "load",
    "plan",
    "report",
    "run",
    "semeval",
    "sweep",
    "train",
    "unlearn",
]


def __getattr__(name: str) -> Any:
    if name == "build":
        return import_module("medunlearn.build")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
