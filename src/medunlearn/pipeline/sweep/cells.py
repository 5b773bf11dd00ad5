"""Cells of a sweep, what each waits for, and their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from medunlearn.config import Context
from medunlearn.data.storage import sha256_of_json
from medunlearn.methods import is_edit

Kind = Literal["target", "retrained", "search", "choose", "unlearn", "evaluate", "attack"]
KINDS: tuple[Kind, ...] = get_args(Kind)
State = Literal["to do", "running", "done", "failed", "not run", "interrupted"]
_OPEN = ("to do", "running")


@dataclass(frozen=True)
class SweepCell:
    """One piece of a sweep.

    Attributes:
        name: unique in its sweep; names no node of a request.
        kind: ``search`` unlearns at one rate and evaluates; ``choose`` takes a method's best rate.
        needs: cells that must have succeeded before; the first one's model is what an ``unlearn``, ``search``,
            ``evaluate`` or ``attack`` cell works on.
        after: cells that must have ended before, well or not.
        alone: cells that share this word never run at the same time; "" for none. The evaluations of one model
            write to one store of responses, and the second finds there what the first has asked.
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


@dataclass(frozen=True)
class CellOutput:
    """Folders and numbers of a finished cell.

    Attributes:
        folder: of the run; of an ``evaluate`` or ``attack`` cell, the run whose model was asked.
        evaluation: of a ``search`` or ``evaluate`` cell; of an ``attack`` cell, the attack.
        seconds: None where not known.
        lr: of a ``choose`` cell.
    """

    folder: Path | None = None
    evaluation: Path | None = None
    seconds: float | None = None
    lr: float | None = None


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
) -> list[SweepCell]:
    """Every cell of a sweep, each behind those that it waits for.

    Args:
        retrained: splits that get retrained models.
        contexts: modes to ask each model in; empty for each model's own.
        search: its split and rates; it is done once, with the first seed, for each method that trains.
        attacked: every model is attacked on the splits that it is asked about, but for those of ``asked_about``.
        asked_about: split -> other splits that its unlearned models are asked about.
    """
    cells: list[SweepCell] = []
    searched = [method for method in methods if search and not is_edit(method)]
    for seed in seeds:
        end = f", seed {seed}" if len(seeds) > 1 else ""
        target = SweepCell(f"target{end}", "target", seed)
        cells.append(target)
        if search and seed == seeds[0]:
            cells += _search_cells(target, searched, *search)
        models = [SweepCell(f"retrained {shown(s)}{end}", "retrained", seed, s) for s in splits if s in retrained]
        for split in splits:
            for method in methods:
                needs = (target.name, *((f"choose {method}",) if method in searched else ()))
                name = f"{method} {shown(split)}{end}"
                models.append(SweepCell(name, "unlearn", seed, split, method, needs=needs))
        cells += models
        pairs = [(target, split) for split in splits] + [(cell, str(cell.split)) for cell in models]
        across = [
            (cell, split)
            for cell in models
            if cell.kind == "unlearn"
            for split in (asked_about or {}).get(str(cell.split), ())
        ]
        for model, split in pairs + across:
            cells += _evaluate_cells(model, split, contexts, end)
        if attacked:
            cells += [_attack_cell(model, split, contexts, end) for model, split in pairs]
    return cells


def _search_cells(
    target: SweepCell, methods: Sequence[str], split: str, rates: Sequence[float]
) -> Iterator[SweepCell]:
    for method in methods:
        names = {rate: f"search {method} {rate:g}" for rate in rates}
        for rate, name in names.items():
            yield SweepCell(name, "search", target.seed, split, method, rate, needs=(target.name,))
        after = tuple(names.values())
        yield SweepCell(f"choose {method}", "choose", target.seed, split, method, needs=(target.name,), after=after)


def _evaluate_cells(model: SweepCell, split: str, contexts: Sequence[Context], end: str) -> Iterator[SweepCell]:
    stem = f"evaluate {_on(model, split, end)}"
    for context in contexts or (None,):
        name = stem + (f" in {context}" if len(contexts) > 1 else "") + end
        yield _cell_on(name, "evaluate", model, split, context, context)


def _attack_cell(model: SweepCell, split: str, contexts: Sequence[Context], end: str) -> SweepCell:
    """An attack may ask the model and keep its responses where those of the first context are."""
    name = f"attack {_on(model, split, end)}{end}"
    return _cell_on(name, "attack", model, split, None, next(iter(contexts), None))


def _cell_on(
    name: str, kind: Kind, model: SweepCell, split: str, context: Context | None, store: Context | None
) -> SweepCell:
    needs, alone = (model.name,), f"{model.name} in {store}"
    return SweepCell(name, kind, model.seed, split, model.method, context=context, needs=needs, alone=alone)


def _on(model: SweepCell, split: str, end: str) -> str:
    """A model's name, with the split where its own name does not say it."""
    name = model.name.removesuffix(end)
    return name if split == model.split else f"{name} on {shown(split)}"


def shown(split: str) -> str:
    """A split's name for lists and logs; a request, which names its patients, by a hash."""
    return f"request-{sha256_of_json(split)[:6]}" if "=" in split else split


class Board:
    """State of every cell: which may run next, and what a failure keeps from running.

    Args:
        cells: each behind those that it waits for.
        costs: of each, in any unit; without them every cell takes the same.
    """

    def __init__(self, cells: Sequence[SweepCell], costs: Mapping[str, float] | None = None) -> None:
        self.cells = {cell.name: cell for cell in cells}
        self.state: dict[str, State] = dict.fromkeys(self.cells, "to do")
        self.reason: dict[str, str] = {}
        self._cost_ahead = self._critical_paths(costs or {})

    def _critical_paths(self, costs: Mapping[str, float]) -> dict[str, float]:
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

    def running(self) -> list[str]:
        return [name for name, state in self.state.items() if state == "running"]

    def ready(self) -> list[SweepCell]:
        """Cells that may start now, the one with the longest way ahead first."""
        taken = {self.cells[name].alone for name in self.running()}
        ready = []
        for cell in sorted(self.cells.values(), key=lambda cell: -self._cost_ahead[cell.name]):
            if self.state[cell.name] != "to do" or (cell.alone and cell.alone in taken):
                continue
            needs_met = all(self.state[name] == "done" for name in cell.needs)
            if needs_met and all(self.state[name] not in _OPEN for name in cell.after):
                ready.append(cell)
                taken.add(cell.alone)
        return ready

    def start(self, name: str) -> None:
        self.state[name] = "running"

    def settle(self, name: str, state: State, reason: str = "") -> list[str]:
        """Note the end of a cell; returns the names of those that will not run because of it."""
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
