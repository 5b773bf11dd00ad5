"""Stores of a model's responses to a benchmark, one per set of settings. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import DataUse
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import sha256_of_json
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.models.sequences import Rendering


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
