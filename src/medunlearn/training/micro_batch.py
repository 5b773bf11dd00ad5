"""Micro-batch size that is halved when memory runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from medunlearn.errors import OutOfMemoryError
from medunlearn.models.batching import is_out_of_memory, let_go


@dataclass
class MicroBatch:
    """Number of sequences per side in one pass. It is halved permanently when memory runs out.

    Terms of a pass are normalised by the whole step, so that its size changes numbers only by rounding (and the
    draws of dropout).

    Attributes:
        least: size below which it is not halved: a pass holds a sequence of every side, and so many of another.
    """

    size: int
    least: int = 1

    def halve(self, number: int, most: int) -> None:
        """Halve the size after memory ran out in the passes of a step.

        Args:
            number: number of the step.
            most: size beyond which passes do not get larger.

        Raises:
            OutOfMemoryError: a single sequence does not fit.
        """
        let_go()
        size = min(self.size, most)
        if size <= self.least:
            counted = "one sequence or row" if self.least == 1 else f"{self.least} sequences"
            raise OutOfMemoryError(
                f"Memory runs out at step {number}, with {counted} per side in a pass. The model is "
                "kept in its state before this step."
            )
        self.size = max(self.least, -(-size // 2))


@contextmanager
def suppress_out_of_memory() -> Iterator[None]:
    """Context that ends early, without an error, if memory runs out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise


@contextmanager
def naming_step(number: int, saved: int) -> Iterator[None]:
    """Context of a step: unrecoverable out-of-memory errors name the step.

    Raises:
        OutOfMemoryError: memory ran out where it cannot be retried, such as in the optimizer. The weights may be
            partly updated.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        checkpoint = f"The state after {saved} of the steps before it is kept." if saved else "No step is kept."
        raise OutOfMemoryError(f"Memory runs out at step {number}. {checkpoint}", torn=True) from error
