"""What a run says of the micro-batches that it took once memory ran out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from medunlearn.progress import remark
from medunlearn.training.loop import History

OnStep = Callable[[dict[str, Any]], None]


def saying_if_smaller(on_step: OnStep, asked: int, quiet: bool) -> OnStep:
    """The same callback of the loop, which says once that passes are smaller than asked for."""
    said = False

    def report(row: dict[str, Any]) -> None:
        nonlocal said
        size = row.get("micro_batch_size", asked)
        if size < asked and not said:
            said = True
            remark(
                f"memory ran out; from step {row['step']} on passes hold {size} sequences a side instead of "
                f"{asked}, which changes no number but by rounding",
                quiet=quiet,
            )
        on_step(row)

    return report


def smallest(history: History, asked: int) -> int:
    """The micro-batch size that a run came down to."""
    return min((row.get("micro_batch_size", asked) for row in history), default=asked)
