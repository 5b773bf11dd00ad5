"""Batches that shrink automatically when memory runs out, and grow back.

A batch size that fits short prompts may not fit long ones, and depends on model and device. Work that runs out of
memory is repeated in batches of half the size; double sizes are tried after a few successes, with growing intervals
if they fail again. Completed work is kept.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

import torch

from medunlearn.errors import MedunlearnError

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 2
SAYS_SO = ("out of memory", "can't allocate memory", "cannot allocate memory")


class Batching:
    """A batch size between one and ``largest`` that adapts to the available memory.

    One object serves one run over any number of lists of items and keeps its experience between them.

    Attributes:
        size: largest number of items of the next batch.
    """

    def __init__(self, largest: int) -> None:
        self.largest = self.size = largest
        self._went_well, self._patience = 0, PATIENCE
        self._failed: int | None = None  # the smallest batch that did not fit, until one as large does
        self._again = False  # a batch has fitted since

    @classmethod
    def of(cls, size: int | Batching) -> Batching:
        """Convert a batch size to a batching; an existing batching, shared by several calls, is returned
        unchanged.
        """
        return size if isinstance(size, Batching) else cls(size)

    def over(
        self,
        items: Sequence[Item],
        work: Callable[[list[Item]], Result],
        group: Callable[[Item], Hashable] | None = None,
    ) -> Iterator[Result]:
        """Results of ``work`` on successive batches; each item is in exactly one returned batch.

        Order items from costly to cheap: memory then runs out at the start or never.

        Args:
            group: items of one group are adjacent, and batches end between groups if possible.

        Raises:
            MedunlearnError: a single item does not fit.
        """
        start = 0
        while start < len(items):
            batch = list(items[start : start + self.size])
            if group and start + len(batch) < len(items):
                cut = group(items[start + len(batch)])
                batch = [item for item in batch if group(item) != cut] or batch
            try:
                result = work(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise MedunlearnError(ONE_IS_TOO_MUCH) from error
                fits = False
            else:
                fits = True
            # Out of the except clause, for the error's traceback holds the tensors that are to be freed.
            if fits:
                start += len(batch)
                self._grow(len(batch))
                yield result
            else:
                self._shrink(len(batch))

    def _grow(self, fitted: int) -> None:
        self._went_well += 1
        self._again = True
        if self._failed is not None and fitted >= self._failed:
            self._failed, self._patience = None, PATIENCE
        if self._went_well >= self._patience and self.size < self.largest:
            self.size = min(self.largest, 2 * self.size)
            self._went_well = 0

    def _shrink(self, size: int) -> None:
        self.size = max(1, size // 2)
        self._went_well = 0
        if self._failed is not None and self._again:
            self._patience *= 2
        self._failed, self._again = min(size, self._failed or size), False
        let_go()


ONE_IS_TOO_MUCH = (
    "Memory runs out with a single sequence in a batch. Use a smaller model or --weights bf16, ask with "
    "--context closed_book, or free memory that other programs hold."
)


def let_go() -> None:
    """Free memory held by failed work. Call it after the error is gone, whose traceback holds memory too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """True for an out-of-memory error of CUDA, Python, or the CPU allocator."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in SAYS_SO)
