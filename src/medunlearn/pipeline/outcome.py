"""Output of a training run: progress, facts for ``run.json``, the loss curve, the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.storage import write_atomically
from medunlearn.models.layouts import describe_layouts
from medunlearn.models.load import LanguageModel
from medunlearn.models.precision import settled
from medunlearn.models.sequences import Rendering
from medunlearn.models.vision.seeing import images_described
from medunlearn.progress import remark
from medunlearn.results.runs import HISTORY
from medunlearn.training.loop import History
from medunlearn.training.settings import LoopSettings
from medunlearn.training.trainable import merge, trained

OnStep = Callable[[dict[str, Any]], None]


def report_steps(advance: Callable[..., None], micro_batch_size: int, quiet: bool) -> OnStep:
    """A callback of the loop: shows each step's loss, and notes once if passes became smaller than asked for."""
    noted = False

    def report(row: dict[str, Any]) -> None:
        nonlocal noted
        size = row.get("micro_batch_size", micro_batch_size)
        if size < micro_batch_size and not noted:
            noted = True
            remark(
                f"memory ran out; from step {row['step']} on passes hold {size} sequences a side instead of "
                f"{micro_batch_size}, which changes no number but by rounding",
                quiet=quiet,
            )
        advance(1, note=f"loss {row['loss']:.3f}")

    return report


def summary(
    history: History, language_model: LanguageModel, rendering: Rendering, loop: LoopSettings
) -> dict[str, Any]:
    """Results of a finished training for ``run.json``; the micro-batch size is the smallest that was used."""
    tensors = language_model.model.parameters()
    last = history[-1] if history else {}
    size = loop.micro_batch_size
    return {
        "rendering": asdict(rendering),
        "steps": len(history),
        "tokens": sum(row["tokens"] for row in history),
        "final_loss": last.get("loss"),
        "precision": settled(loop.precision, language_model.device),
        "micro_batch_size": min((row.get("micro_batch_size", size) for row in history), default=size),
        "batches": describe_layouts(language_model.model),
        **images_described(language_model.model),
        "parameters": sum(tensor.numel() for tensor in tensors),
        "trained_parameters": sum(tensor.numel() for tensor in trained(language_model.model).values()),
    }


def finish(
    language_model: LanguageModel, history: History, out: Path, *, base: Path | None = None
) -> dict[str, Any]:
    """Save model and history, then let the checkpoints go. A LoRA adapter is merged into the weights.

    The adapter is not what is saved: every reader of the run would merge it into weights of a type of its own.

    Args:
        base: folder that the model was loaded from; given one, a model that changed little is saved as a delta.

    Returns:
        How the model was saved, for ``run.json``: form, bytes, of a delta ``changed_tensors``, and where an adapter
        was merged ``merge_rounding``, the share of what it learned that rounding changed
        (:func:`medunlearn.training.trainable.merge`).

    Raises:
        FrozenParametersError: rounding took away all that an adapter learned.
    """
    rounding: dict[str, float] = {}
    if hasattr(language_model.model, "merge_and_unload"):
        language_model.model, rounding["merge_rounding"] = merge(language_model.model)
    folder = out / "model"
    if base is None:
        language_model.save(folder)
        saved = {"form": "full", "bytes": sum(file.stat().st_size for file in folder.glob("*.safetensors"))}
    else:
        saved = language_model.save_smaller(base, folder)
    write_atomically(out / HISTORY, lambda path: pd.DataFrame(history).to_parquet(path))
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return {**saved, **rounding}
