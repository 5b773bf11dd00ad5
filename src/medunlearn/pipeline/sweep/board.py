"""Which cell may run next, and what a failure keeps from running. It starts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from medunlearn.pipeline.sweep.cells import Cell

State = Literal["to do", "running", "done", "failed", "not run", "interrupted"]
_OPEN = ("to do", "running")


class Board:
    """The state of every cell.

    Args:
        cells: each behind those that it waits for.
        costs: what each takes, in any unit; without them every cell takes the same.
    """

    def __init__(self, cells: Sequence[Cell], costs: Mapping[str, float] | None = None) -> None:
        self.cells = {cell.name: cell for cell in cells}
        self.state: dict[str, State] = dict.fromkeys(self.cells, "to do")
        self.reason: dict[str, str] = {}
        self._ahead = self._way_ahead(costs or {})

    def _way_ahead(self, costs: Mapping[str, float]) -> dict[str, float]:
        """A cell's cost and that of the most costly way through the cells that wait for it."""
        ahead = {name: costs.get(name, 1.0) for name in self.cells}
        for name, cell in reversed(self.cells.items()):
            for other in (*cell.needs, *cell.after):
                ahead[other] = max(ahead[other], costs.get(other, 1.0) + ahead[name])
        return ahead

    @property
    def open(self) -> bool:
        """Whether anything runs or is still to run."""
        return any(state in _OPEN for state in self.state.values())

    def ready(self) -> list[Cell]:
        """Cells that may start now, the one with the longest way ahead first."""
        taken = {cell.alone for name, cell in self.cells.items() if self.state[name] == "running"}
        found = []
        for cell in sorted(self.cells.values(), key=lambda cell: -self._ahead[cell.name]):
            if self.state[cell.name] != "to do" or (cell.alone and cell.alone in taken):
                continue
            needed = all(self.state[name] == "done" for name in cell.needs)
            if needed and all(self.state[name] not in _OPEN for name in cell.after):
                found.append(cell)
                taken.add(cell.alone)
        return found

    def start(self, name: str) -> None:
        self.state[name] = "running"

    def settle(self, name: str, state: State, reason: str = "") -> list[str]:
        """A cell ended; returns the names of those that will not run because of it."""
        self.state[name] = state
        if reason:
            self.reason[name] = reason
        return list(self._give_up(name)) if state in ("failed", "not run") else []

    def _give_up(self, failed: str) -> Iterator[str]:
        lost = {failed}
        for name, cell in self.cells.items():
            if self.state[name] == "to do" and lost & set(cell.needs):
                lost.add(name)
                self.state[name], self.reason[name] = "not run", f"not run, because {failed} failed"
                yield name
