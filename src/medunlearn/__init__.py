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
    from medunlearn.audit.audit_result import Audit
    from medunlearn.audit.audit_run import audit
    from medunlearn.audit.options.option_audit import audit_options
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.metrics.leakage.keywords import keywords
    from medunlearn.papers.lume.semeval import semeval
    from medunlearn.pipeline.score import score
    from medunlearn.results.runs import Run
    from medunlearn.results.scores import scores

# Loaded when first asked for, so that `import medunlearn` is light and scoring responses needs no torch.
_ELSEWHERE = {
    "Audit": "medunlearn.audit.audit_result",
    "Benchmark": "medunlearn.data.benchmark",
    "Run": "medunlearn.results.runs",
    "audit": "medunlearn.audit.audit_run",
    "audit_options": "medunlearn.audit.options.option_audit",
    "keywords": "medunlearn.metrics.leakage.keywords",
    "score": "medunlearn.pipeline.score",
    "scores": "medunlearn.results.scores",
    "semeval": "medunlearn.papers.lume.semeval",
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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "medunlearn.api")), name)
