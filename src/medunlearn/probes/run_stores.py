"""Stores of a run's responses to a benchmark, one per set of settings. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.responses import ResponseStore
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.generation.response_stores import open_store
from medunlearn.models.ancestry import model_use
from medunlearn.models.sequences import Rendering
from medunlearn.results.runs import Run


def store_of(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    rendering: Rendering,
    limit: int,
    ranks: Mapping[str, int] | None = None,
    *,
    folder: Path | None = None,
    decoding: str = GREEDY_NAME,
) -> ResponseStore:
    """The response store of a run's model for these settings; with ``ranks``, the store of likelihoods for ranks.

    Args:
        folder: parent folder of the store; None: the run's folder.
        decoding: name of the decoding, and sampling seed.
    """
    return open_store(
        (folder or run.folder) / "responses",
        model_fingerprint=run.fingerprint,
        benchmark_fingerprint=benchmark.fingerprint,
        weights=settings.weights if settings.backend == "own" else f"{settings.weights}, {settings.backend}",
        rendering=rendering,
        max_new_tokens=limit,
        ranks=ranks,
        decoding=decoding,
        data_use=tightest([benchmark.data_use, model_use(run.folder)]),
    )
