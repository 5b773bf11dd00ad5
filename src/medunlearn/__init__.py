"""Measure what a medical language model memorized, make it forget, and show what was forgotten."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# No library reports or counts its use once this package is loaded, whatever was set before. The last three are of
# backends and a logger that lm-eval can use; they are no dependencies.
os.environ.update(
    DO_NOT_TRACK="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_UPDATE_CHECK="1",
    HF_UPDATE_DOWNLOAD_COUNTS="0",
    OTEL_SDK_DISABLED="true",
    RAY_USAGE_STATS_ENABLED="0",
    VLLM_NO_USAGE_STATS="1",
    WANDB_ERROR_REPORTING="false",
)
# OpenMP's threads wait for their next work by spinning, unless told otherwise: beside other work that takes the
# processor from those who have something to do. It is read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Without a GPU it warns on every command that a kernel nobody here uses cannot be fetched from a hub.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
# Those that were loaded before have read their variable.
for _module, _constant, _value in (
    ("huggingface_hub.constants", "HF_HUB_DISABLE_TELEMETRY", True),
    ("datasets.config", "HF_UPDATE_DOWNLOAD_COUNTS", False),
    ("evaluate.config", "HF_UPDATE_DOWNLOAD_COUNTS", False),
):
    if _module in sys.modules:
        setattr(sys.modules[_module], _constant, _value)

if TYPE_CHECKING:
    from medunlearn import build
    from medunlearn.api import (
        adopt,
        agree,
        annotate,
        attack,
        case_key,
        case_letter,
        case_purge,
        case_timestamp,
        evaluate,
        export,
        export_tasks,
        forget,
        inspect,
        judge,
        load,
        plan,
        report,
        run,
        sweep,
        train,
        tune,
        unlearn,
        utility,
        verify,
    )
    from medunlearn.audit.audit_result import Audit
    from medunlearn.audit.audit_run import audit
    from medunlearn.audit.options.option_audit import audit_options
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.metrics.leakage.keywords import keywords
    from medunlearn.results.runs import Run
    from medunlearn.results.scores import scores
    from medunlearn.study.rescore import score

# Loaded when first asked for, so that `import medunlearn` is light and scoring responses needs no torch.
_ELSEWHERE = {
    "Audit": "medunlearn.audit.audit_result",
    "Benchmark": "medunlearn.data.benchmark",
    "Run": "medunlearn.results.runs",
    "audit": "medunlearn.audit.audit_run",
    "audit_options": "medunlearn.audit.options.option_audit",
    "keywords": "medunlearn.metrics.leakage.keywords",
    "score": "medunlearn.study.rescore",
    "scores": "medunlearn.results.scores",
}

__all__ = [
    "Audit",
    "Benchmark",
    "Run",
    "__version__",
    "adopt",
    "agree",
    "annotate",
    "attack",
    "audit",
    "audit_options",
    "build",
    "case_key",
    "case_letter",
    "case_purge",
    "case_timestamp",
    "evaluate",
    "export",
    "export_tasks",
    "forget",
    "inspect",
    "judge",
    "keywords",
    "load",
    "plan",
    "report",
    "run",
    "score",
    "scores",
    "sweep",
    "train",
    "tune",
    "unlearn",
    "utility",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "build":
        return import_module("medunlearn.build")
    if name not in __all__:
        return _call_of_a_paper(name)
    return getattr(import_module(_ELSEWHERE.get(name, "medunlearn.api")), name)


def __dir__() -> list[str]:
    """The verbs and types, also those that are not loaded yet, and what papers add."""
    from medunlearn.paper import from_papers

    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__all__, *from_papers("calls")})


def _call_of_a_paper(name: str) -> Any:
    """A function that a paper declares among its ``calls``."""
    if not name.startswith("_"):
        from medunlearn.paper import from_papers
        from medunlearn.registry import load

        if target := from_papers("calls").get(name):
            return load(target)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
