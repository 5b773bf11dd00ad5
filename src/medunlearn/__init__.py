"""Measure what a medical language model memorized, make it forget, and show what was forgotten."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from medunlearn import build
    from medunlearn.api import (
        agree,
        annotate,
        attack,
        diagnose,
        evaluate,
        export,
        export_tasks,
        inspect,
        judge,
        load,
        plan,
        report,
        run,
        sweep,
        train,
        unlearn,
        utility,
    )
    from medunlearn.audit.audit import Audit
    from medunlearn.audit.options.audit import audit_options
    from medunlearn.audit.run import audit
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.metrics.leakage.keywords import keywords
    from medunlearn.papers.lume.semeval import semeval
    from medunlearn.pipeline.score import score
    from medunlearn.results.runs import Run
    from medunlearn.results.scores import scores

# Loaded when first asked for, so that `import medunlearn` is light and scoring responses needs no torch.
_WHERE = {
    "Audit": "medunlearn.audit.audit",
    "Benchmark": "medunlearn.data.benchmark",
    "Run": "medunlearn.results.runs",
    "agree": "medunlearn.api",
    "annotate": "medunlearn.api",
    "attack": "medunlearn.api",
    "audit_options": "medunlearn.audit.options.audit",
    "audit": "medunlearn.audit.run",
    "diagnose": "medunlearn.api",
    "evaluate": "medunlearn.api",
    "export": "medunlearn.api",
    "export_tasks": "medunlearn.api",
    "inspect": "medunlearn.api",
    "judge": "medunlearn.api",
    "keywords": "medunlearn.metrics.leakage.keywords",
    "load": "medunlearn.api",
    "plan": "medunlearn.api",
    "report": "medunlearn.api",
    "run": "medunlearn.api",
    "score": "medunlearn.pipeline.score",
    "scores": "medunlearn.results.scores",
    "sweep": "medunlearn.api",
    "semeval": "medunlearn.papers.lume.semeval",
    "train": "medunlearn.api",
    "unlearn": "medunlearn.api",
    "utility": "medunlearn.api",
}

__all__ = [
    "Audit",
    "Benchmark",
    "Run",
    "__version__",
    "agree",
    "annotate",
    "attack",
    "audit",
    "audit_options",
    "build",
    "diagnose",
    "evaluate",
    "export",
    "export_tasks",
    "inspect",
    "judge",
    "keywords",
    "load",
    "plan",
    "report",
    "run",
    "score",
    "scores",
    "semeval",
    "sweep",
    "train",
    "unlearn",
    "utility",
]


def __getattr__(name: str) -> Any:
    if name == "build":
        return import_module("medunlearn.build")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
