"""Stores of a run's responses to a benchmark, one per set of settings. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, tightest
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import sha256_of_json
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.models.ancestry import model_use
from medunlearn.models.sequences import Rendering
from medunlearn.results.runs import Run


def open_store(
    folder: Path,
    *,
    model_fingerprint: str,
    benchmark_fingerprint: str,
    weights: str,
    rendering: Rendering,
    max_new_tokens: int,
    ranks: Mapping[str, int] | None = None,
    decoding: str = GREEDY_NAME,
    data_use: DataUse | None,
) -> ResponseStore:
    """The store of one model, benchmark and prompt settings, in a folder named by the settings' hash.

    The benchmark is part of the key, since another one may reuse a question id for other text.

    Args:
        ranks: further settings of a store of ranks (:func:`medunlearn.data.fact_ranks.rank_settings`).
        decoding: name of the decoding, and sampling seed.
    """
    settings: dict[str, Any] = {
        "model": model_fingerprint,
        "benchmark": benchmark_fingerprint,
        "weights": weights,
        "template": rendering.template_name,
        "context": rendering.context,
        "decoding": decoding,
        "max_new_tokens": max_new_tokens,
        **rendering.chat_facts,
    }
    settings |= ranks or {}
    name = f"{rendering.context}-{sha256_of_json(settings)[:12]}"
    return ResponseStore(folder / name, settings, data_use=data_use)


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
