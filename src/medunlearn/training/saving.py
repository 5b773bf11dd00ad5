"""Saving of a run's model: whole weights, what changed of its base, or the adapter that was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.storage import write_atomically
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

    A LoRA adapter is merged in memory. What is saved is the adapter and where it stands, or the merged weights
    where that would not be the same model (:func:`medunlearn.models.low_rank.low_rank_of`).

    Args:
        base: folder that the model was loaded from; given one, a model that changed little is saved as a delta.
        stand: folder that an adapter may stand on; None: merged weights are saved.

    Returns:
        Facts for ``run.json``: form, bytes, of a delta ``changed_tensors``, and where an adapter was merged
        ``merge_rounding``, the share of what it learned that rounding changed
        (:func:`medunlearn.training.merging.merge`).

    Raises:
        FrozenParametersError: rounding took away all that an adapter learned.
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
    write_atomically(out / HISTORY, lambda path: pd.DataFrame(history).to_parquet(path))


def save_adapter(adapter: LowRank, base: Path, folder: Path) -> dict[str, Any]:
    """Write an adapter with a pointer to its base; facts for ``run.json``."""
    adapter.save(base, folder)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {"form": "adapter", "bytes": size, "adapted_tensors": len(adapter.factors)}
