"""Saving of a run's model: full weights, a delta of its base, or the trained adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.storage import write_frame
from medunlearn.models.health import refuse_non_finite
from medunlearn.models.load import LanguageModel
from medunlearn.models.low_rank import LowRank, low_rank_of
from medunlearn.results.runs import HISTORY
from medunlearn.training.loop import History
from medunlearn.training.merging import merge


def save(
    language_model: LanguageModel,
    folder: Path,
    *,
    base: Path | None = None,
    stand: Path | None = None,
) -> dict[str, Any]:
    """Save a model.

    A LoRA adapter is merged in memory. The adapter is saved with a reference to its base, or the merged weights if
    that would not give the same model (:func:`medunlearn.models.low_rank.low_rank_of`).

    Args:
        base: folder that the model was loaded from; if given, a model that changed little is saved as a delta.
        stand: possible base folder of an adapter; None: merged weights are saved.

    Returns:
        Facts for ``run.json``: form, bytes, ``changed_tensors`` for a delta, and ``merge_rounding`` for a merged
        adapter, the share of its update changed by rounding (:func:`medunlearn.training.merging.merge`).

    Raises:
        FrozenParametersError: rounding removed an adapter's whole update.
        NonFiniteLossError: a weight is NaN or infinite.
    """
    rounding: dict[str, float] = {}
    adapter: LowRank | None = None
    if hasattr(language_model.model, "merge_and_unload"):
        adapter = low_rank_of(language_model.model, stand) if stand else None
        language_model.model, rounding["merge_rounding"] = merge(language_model.model)
    refuse_non_finite(language_model.model, "This model is not saved")
    if adapter is not None and stand is not None:
        saved = save_adapter(adapter, stand, folder)
    elif base is None:
        language_model.save(folder)
        saved = {"form": "full", "bytes": sum(file.stat().st_size for file in folder.glob("*.safetensors"))}
    else:
        saved = language_model.save_smaller(base, folder)
    return {**saved, **rounding}


def write_history(history: History, out: Path) -> None:
    write_frame(out / HISTORY, pd.DataFrame(history))


def save_adapter(adapter: LowRank, base: Path, folder: Path) -> dict[str, Any]:
    """Save an adapter with a reference to its base; returns facts for ``run.json``."""
    adapter.save(base, folder)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {"form": "adapter", "bytes": size, "adapted_tensors": len(adapter.factors)}
