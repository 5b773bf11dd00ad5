"""Key and folder of an evaluation, known without loading a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics.leakage import keywords as disease_keywords
from medunlearn.probes.rank_plan import rank_versions
from medunlearn.probes.score import metric_names
from medunlearn.results.evaluated import FOLDER
from medunlearn.results.keys import keyed_folder
from medunlearn.results.runs import Recording, Run


def evaluation_folder(run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> Path:
    """Folder of an evaluation, one per set of settings, so that evaluations never share files."""
    key = Recording.key_of("evaluate", settings, evaluation_inputs(run, benchmark, settings))
    return keyed_folder(run.folder / FOLDER, settings.split, key)


def evaluation_inputs(run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> dict[str, Any]:
    """Inputs that an evaluation depends on besides its settings."""
    rendering = run.rendering(settings.template, settings.context)
    metrics = metric_names(benchmark, settings)
    return {
        "benchmark": benchmark.fingerprint,
        "model": run.fingerprint,
        "metrics": list(metrics),
        "rendering": [rendering.template_name, rendering.context, *rendering.chat_facts.values()],
        **disease_keywords.inputs(benchmark, settings, metrics),
        **rank_versions(metrics),
    }
