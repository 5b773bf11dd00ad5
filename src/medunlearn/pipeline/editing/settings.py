"""What of the settings of `unlearn` a method that edits weights has a use for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.config import UnlearnSettings

USED = frozenset(
    {
        *("method", "split", "arguments", "seed"),
        *("train_on", "template", "context", "long_notes", "max_length"),
        *("micro_batch_size", "weights"),
    }
)
"""What is read, how it is shown, and how much of it at a time; all else is about training."""
IDLE = frozenset(UnlearnSettings.model_fields) - USED


def idle_settings(method: str, general: Mapping[str, Any], own: Mapping[str, Any], *, shared: bool) -> list[str]:
    """What is given and has no effect on an edit, a line each.

    Args:
        general: settings of the run.
        own: what is written ``METHOD.KEY``.
        shared: the general ones serve several methods, so that some of them may be for others.
    """
    given = [f"{method}.{key}" for key in own if key in IDLE]
    given += [] if shared else [key for key in general if key in IDLE]
    why = f"{method} edits the weights once, without training, so that there are no steps, epochs or learning rate"
    return [f"{key}: {why}. Leave it out." for key in given]


def without_idle(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that an edit has a use for."""
    return {key: value for key, value in values.items() if key not in IDLE}
