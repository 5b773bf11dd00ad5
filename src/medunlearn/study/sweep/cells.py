"""Cells of a sweep: their work, dependencies, and state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args

from medunlearn.config import Context
from medunlearn.data.storage import sha256_of_json
from medunlearn.methods import is_edit

Kind = Literal["target", "retrained", "search", "choose", "tune", "unlearn", "evaluate", "attack"]
KINDS: tuple[Kind, ...] = get_args(Kind)
State = Literal["to do", "running", "done", "failed", "not run", "interrupted"]
_OPEN = ("to do", "running")
LOST = ("failed", "not run")
_FACTS = ("name", "kind", "status", "method", "split", "seed", "context", "lr")
_OUTPUT = ("folder", "evaluation", "seconds", "reason")


@dataclass
class SweepCell:
    """One unit of work of a sweep, with its state and output.

    Attributes:
        name: unique in its sweep; contains no node of a request.
        kind: ``search`` unlearns at one rate and evaluates; ``choose`` takes a method's best rate.
        lr: learning rate of a ``search`` cell, or of a finished ``choose`` cell.
        needs: cells that must succeed first; an ``unlearn``, ``search``, ``evaluate`` or ``attack`` cell uses the
            first one's model.
        after: cells that must end first, even by failure.
        alone: cells with the same value never run at the same time; "" for none. Evaluations of one model share a
            store of responses, so that the second reuses those of the first.
        reason: why the cell failed or did not run.
        folder: folder of the run; for an ``evaluate`` or ``attack`` cell, of the evaluated run.
        evaluation: folder of the evaluation (``search``, ``evaluate``) or of the attack.
        seconds: run time; None if unknown.
    """

    name: str
    kind: Kind
    seed: int
    split: str | None = None
    method: str | None = None
    lr: float | None = None
    context: Context | None = None
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    alone: str = ""
    status: State = "to do"
    reason: str | None = None
    folder: Path | None = None
    evaluation: Path | None = None
    seconds: float | None = None

    @property
    def done(self) -> bool:
        return self.status == "done"

    @property
    def takes_process(self) -> bool:
        """False for a choice, which is made immediately in the main process."""
        return self.kind != "choose"

    def facts(self) -> dict[str, Any]:
        """The cell for JSON and tables."""
        row = {name: getattr(self, name) for name in (*_FACTS, *_OUTPUT)}
        return {name: str(value) if isinstance(value, Path) else value for name, value in row.items()}


C = TypeVar("C", bound=SweepCell)


def make_cells(
    splits: Sequence[str],
    seeds: Sequence[int],
    methods: Sequence[str],
    retrained: Sequence[str],
    contexts: Sequence[Context],
    search: tuple[str, Sequence[float]] | None,
    *,
    attacked: bool = False,
    asked_about: Mapping[str, Sequence[str]] | None = None,
    reads_retrained: Collection[str] = (),
    sequence: bool = False,
) -> list[SweepCell]:
    """Every cell of a sweep, after its dependencies.

    Args:
        retrained: splits that get retrained models.
        contexts: context modes of evaluations; empty for each model's own.
        search: split and rates of the search, run once with the first seed for each method that trains.
        attacked: attack every model on its evaluated splits, except those of ``asked_about``.
        asked_about: split -> other splits on which its unlearned models are evaluated.
        reads_retrained: methods whose reference is the split's retrained model.
        sequence: a method's model of a split starts from its model of the previous split, and is also evaluated on
            all previous splits.
    """
    if sequence:
        asked_about = {split: splits[:place] for place, split in enumerate(splits)}
    cells: list[SweepCell] = []
    searched = [method for method in methods if search and not is_edit(method)]
    for seed in seeds:
        end = f", seed {seed}" if len(seeds) > 1 else ""
        target = SweepCell(f"target{end}", "target", seed)
        cells.append(target)
        if search and seed == seeds[0]:
            cells += _search_cells(target, searched, *search)
        models = [SweepCell(f"retrained {shown(s)}{end}", "retrained", seed, s) for s in splits if s in retrained]
        for place, split in enumerate(splits):
            for method in methods:
                before = f"{method} {shown(splits[place - 1])}{end}" if sequence and place else target.name
                needs = (before, *((f"choose {method}",) if method in searched else ()))
                if method in reads_retrained:
                    needs += (f"retrained {shown(split)}{end}",)
                models.append(
                    SweepCell(f"{method} {shown(split)}{end}", "unlearn", seed, split, method, needs=needs)
                )
        cells += models
        pairs = [(target, split) for split in splits] + [(cell, str(cell.split)) for cell in models]
        across = [
            (cell, split)
            for cell in models
            if cell.kind == "unlearn"
            for split in (asked_about or {}).get(str(cell.split), ())
        ]
        for model, split in pairs + across:
            for context in contexts or (None,):
                mode = f" in {context}" if len(contexts) > 1 else ""
                cells.append(_cell_on("evaluate", model, split, end, mode, context, context))
        if attacked:
            # An attack may ask the model, and keeps its responses where those of the first context are.
            store = next(iter(contexts), None)
            cells += [_cell_on("attack", model, split, end, "", None, store) for model, split in pairs]
    return cells


def _search_cells(
    target: SweepCell, methods: Sequence[str], split: str, rates: Sequence[float]
) -> Iterator[SweepCell]:
    needs, seed = (target.name,), target.seed
    for method in methods:
        names = {rate: f"search {method} {rate:g}" for rate in rates}
        for rate, name in names.items():
            yield SweepCell(name, "search", seed, split, method, rate, needs=needs)
        yield SweepCell(f"choose {method}", "choose", seed, split, method, needs=needs, after=tuple(names.values()))


def _cell_on(
    kind: Kind, model: SweepCell, split: str, end: str, mode: str, context: Context | None, store: Context | None
) -> SweepCell:
    """An evaluation or attack of a model; its name includes the split unless the model's name does."""
    name = model.name.removesuffix(end)
    about = name if split == model.split else f"{name} on {shown(split)}"
    needs, alone = (model.name,), f"{model.name} in {store}"
    return SweepCell(
        f"{kind} {about}{mode}{end}", kind, model.seed, split, model.method, None, context, needs, alone=alone
    )


def shown(split: str) -> str:
    """A split's name for lists and logs; a hash for a request, which names its patients."""
    return f"request-{sha256_of_json(split)[:6]}" if "=" in split else split


def mark_done(cells: Sequence[C], is_done: Callable[[C], bool]) -> None:
    """Mark cells with their output on disk as done, if their dependencies are done."""
    finished_names = set[str]()
    for cell in cells:
        cell.status, cell.reason = "to do", None
        if finished_names.issuperset(cell.needs) and is_done(cell):
            cell.status = "done"
            finished_names.add(cell.name)


class Board(Generic[C]):
    """Scheduling of cells after their dependencies, by cost in any unit (by default equal)."""

    def __init__(self, cells: Sequence[C], costs: Mapping[str, float] | None = None) -> None:
        self.cells = {cell.name: cell for cell in cells}
        # A cell's cost and that of the most costly way through the cells that wait for it.
        costs = costs or {}
        self._cost_ahead = {name: costs.get(name, 1.0) for name in self.cells}
        for name, cell in reversed(self.cells.items()):
            for other in (*cell.needs, *cell.after):
                ahead = costs.get(other, 1.0) + self._cost_ahead[name]
                self._cost_ahead[other] = max(self._cost_ahead[other], ahead)

    @property
    def open(self) -> bool:
        """True if a cell runs or can still run."""
        return any(cell.status in _OPEN for cell in self.cells.values())

    def running(self) -> list[C]:
        return [cell for cell in self.cells.values() if cell.status == "running"]

    def ready(self) -> list[C]:
        """Cells that may start now, those with the longest remaining path first."""
        busy, ready = {cell.alone for cell in self.running()}, list[C]()
        for cell in sorted(self.cells.values(), key=lambda cell: -self._cost_ahead[cell.name]):
            if cell.status != "to do" or (cell.alone and cell.alone in busy):
                continue
            needs_met = all(self.cells[name].done for name in cell.needs)
            if needs_met and all(self.cells[name].status not in _OPEN for name in cell.after):
                ready.append(cell)
                busy.add(cell.alone)
        return ready

    def fail(self, failed: C, reason: str) -> list[str]:
        """Record a failure; returns the names of the cells that cannot run because of it."""
        failed.status, failed.reason = "failed", reason
        lost_cells = [failed.name]
        for name, cell in self.cells.items():
            if cell.status == "to do" and {*lost_cells} & {*cell.needs}:
                lost_cells.append(name)
                cell.status, cell.reason = "not run", f"not run, because {failed.name} failed"
        return lost_cells[1:]
