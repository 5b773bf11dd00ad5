"""What a training run leaves behind: facts for ``run.json``, the curve, the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import Settings
from medunlearn.data.storage import write_atomically
from medunlearn.models.feeding import described
from medunlearn.models.load import LanguageModel
from medunlearn.models.precision import Precision, settled
from medunlearn.models.sequences import Rendering
from medunlearn.models.vision.seeing import images_described
from medunlearn.results.runs import HISTORY, Recording
from medunlearn.training.loop import History
from medunlearn.training.merging import merge
from medunlearn.training.processes import Processes
from medunlearn.training.trainable import trained


def open_recording(
    processes: Processes, out: Path, verb: str, label: str, settings: Settings, inputs: Mapping[str, Any]
) -> Recording:
    """The run's record, the same in every process; the main one writes it.

    Raises:
        InputError: the folder holds another run.
    """
    recording = processes.together(lambda: Recording(out, verb, label, settings, inputs, writes=processes.main))
    recording.done = processes.on_main(lambda: recording.done)
    recording.info["hardware"]["processes"] = processes.world
    return recording


def report_steps(advance: Callable[..., None]) -> Callable[[dict[str, Any]], None]:
    """A callback that shows each step's loss behind the progress bar."""
    return lambda row: advance(1, note=f"loss {row['loss']:.3f}")


def summary(
    history: History, language_model: LanguageModel, rendering: Rendering, precision: Precision
) -> dict[str, Any]:
    """Facts about a finished training for ``run.json``."""
    tensors = language_model.model.parameters()
    last = history[-1] if history else {}
    return {
        "rendering": asdict(rendering),
        "steps": len(history),
        "tokens": sum(row["tokens"] for row in history),
        "final_loss": last.get("loss"),
        "precision": settled(precision, language_model.device),
        "batches": described(language_model.model),
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
        (:func:`medunlearn.training.merging.merge`).

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
