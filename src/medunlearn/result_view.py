"""Content that a command shows on the terminal and as JSON. Loads no report, so that training stays light."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ResultView:
    """A result as blocks and sentences, and the same as data.

    Attributes:
        data: for ``--json``, or a function that returns it; tables may be DataFrames.
        blocks: of :mod:`medunlearn.reports.blocks`, and sentences, in their order; None is skipped. An iterator is
            not run where JSON is printed.
        warnings: sentences to read before everything else.
        notes: sentences for standard error, such as the place of a result.
        failure: what is missing of the result; shown last, with exit code 1.
    """

    data: Any = field(default_factory=dict)
    blocks: Iterable[Any] = ()
    warnings: Iterable[str] = ()
    notes: Iterable[str] = ()
    failure: str = ""

    def view(self) -> ResultView:
        """Itself: a command may return a view."""
        return self
