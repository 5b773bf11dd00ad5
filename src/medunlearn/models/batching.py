"""Batches that shrink by themselves when memory runs out, and grow back.

A batch size that fits short prompts may not fit long ones, and nobody wants to find it by hand for each model and
device. Work that runs out of memory is done again in half as large batches, and twice as large ones are tried
after a few that went well; after ever more of them where larger ones fail again. What was done before stays done.
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
    """A batch size between one and ``largest`` that follows the memory at hand.

    One object serves one run over any number of lists of items: what it has learned about the memory is kept
    from one list to the next.

    Attributes:
        size: how many items the next batch takes at most.
    """

    def __init__(self, largest: int) -> None:
        self.largest = self.size = largest
        self._went_well, self._patience = 0, PATIENCE
        self._failed: int | None = None  # the smallest batch that did not fit, until one as large does
        self._again = False  # a batch has fitted since

    @classmethod
    def of(cls, size: int | Batching) -> Batching:
        """One for a batch size; one that several calls share as it is."""
        return size if isinstance(size, Batching) else cls(size)

    def over(
        self,
        items: Sequence[Item],
        work: Callable[[list[Item]], Result],
        group: Callable[[Item], Hashable] | None = None,
    ) -> Iterator[Result]:
        """Results of ``work`` on successive batches; each item is in exactly one of those that come back.

        Items are best ordered from the costly to the cheap: memory then runs out at the start or never.

        Args:
            group: items of one group follow each other, and a batch ends between two groups where it can.

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
    """Free what work that failed has held. To be called once its error is gone, whose traceback holds it too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error says that memory ran out: CUDA's, Python's, or the CPU allocator's."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in SAYS_SO)
