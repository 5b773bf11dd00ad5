"""The cells of a sweep and what each waits for."""

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


@dataclass(frozen=True)
class Cell:
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
class Made:
    """What a cell left.

    Attributes:
        folder: of the run; of an ``evaluate`` or ``attack`` cell, the run whose model was asked.
        evaluation: of a ``search`` or ``evaluate`` cell; of an ``attack`` cell, the attack.
        seconds: that it took; None where it is not known.
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
) -> list[Cell]:
    """Every cell of a sweep, each behind those that it waits for.

    Args:
        retrained: splits that get retrained models.
        contexts: modes to ask each model in; empty for each model's own.
        search: its split and rates; it is done once, with the first seed, for each method that trains.
        attacked: every model is attacked on the splits that it is asked about, but for those of ``asked_about``.
        asked_about: split -> other splits that its unlearned models are asked about.
    """
    cells: list[Cell] = []
    searched = [method for method in methods if search and not is_edit(method)]
    for seed in seeds:
        end = f", seed {seed}" if len(seeds) > 1 else ""
        target = Cell(f"target{end}", "target", seed)
        cells.append(target)
        if search and seed == seeds[0]:
            cells += _searching(target, searched, *search)
        models = [Cell(f"retrained {shown(s)}{end}", "retrained", seed, s) for s in splits if s in retrained]
        for split in splits:
            for method in methods:
                needs = (target.name, *((f"choose {method}",) if method in searched else ()))
                models.append(Cell(f"{method} {shown(split)}{end}", "unlearn", seed, split, method, needs=needs))
        cells += models
        asked = [(target, split) for split in splits] + [(cell, str(cell.split)) for cell in models]
        across = [
            (cell, split)
            for cell in models
            if cell.kind == "unlearn"
            for split in (asked_about or {}).get(str(cell.split), ())
        ]
        cells += [one for model, split in asked + across for one in _evaluating(model, split, contexts, end)]
        if attacked:
            cells += [_attacking(model, split, contexts, end) for model, split in asked]
    return cells


def _searching(target: Cell, methods: Sequence[str], split: str, rates: Sequence[float]) -> Iterator[Cell]:
    for method in methods:
        tries = [
            Cell(f"search {method} {rate:g}", "search", target.seed, split, method, rate, needs=(target.name,))
            for rate in rates
        ]
        yield from tries
        names = tuple(cell.name for cell in tries)
        yield Cell(f"choose {method}", "choose", target.seed, split, method, needs=(target.name,), after=names)


def _evaluating(model: Cell, split: str, contexts: Sequence[Context], end: str) -> Iterator[Cell]:
    stem = f"evaluate {_on(model, split, end)}"
    for context in contexts or (None,):
        name = stem + (f" in {context}" if len(contexts) > 1 else "") + end
        alone = _store(model, context)
        yield Cell(
            name, "evaluate", model.seed, split, model.method, context=context, needs=(model.name,), alone=alone
        )


def _attacking(model: Cell, split: str, contexts: Sequence[Context], end: str) -> Cell:
    """An attack may ask the model and keep its responses where those of the first context are."""
    return Cell(
        f"attack {_on(model, split, end)}{end}",
        "attack",
        model.seed,
        split,
        model.method,
        needs=(model.name,),
        alone=_store(model, next(iter(contexts), None)),
    )


def _on(model: Cell, split: str, end: str) -> str:
    """A model's name, with the split where its own name does not say it."""
    name = model.name.removesuffix(end)
    return name if split == model.split else f"{name} on {shown(split)}"


def _store(model: Cell, context: Context | None) -> str:
    return f"{model.name} in {context}"


def shown(split: str) -> str:
    """A split's name for lists and logs; a request on the desk, which names its patients, by a hash."""
    return f"request-{sha256_of_json(split)[:6]}" if "=" in split else split
