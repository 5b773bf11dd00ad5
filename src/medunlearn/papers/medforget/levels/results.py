"""From the evaluated models of a sweep over levels to the content of its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.swept.cells import Cell
from medunlearn.papers.amnesia.swept.draws import Draws, Stratum, Term
from medunlearn.papers.medforget.levels.attacked import attacks_of
from medunlearn.papers.medforget.levels.cells import LevelCells, scopes
from medunlearn.papers.medforget.levels.contrasts import GIVEN, contrasts
from medunlearn.papers.medforget.levels.examples import said
from medunlearn.papers.medforget.report.content import (
    GEN_SCORE,
    GROUPS,
    LEVELS,
    MEASURES,
    Group,
    LevelContent,
    Measure,
    Scope,
    Who,
)
from medunlearn.pipeline.report.gather import caveats_of
from medunlearn.reports.verdicts import FEWEST_SUBJECTS
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.bootstrap import REPLICATES

_COLUMNS = ("split", "role", "method", "measure", "value", "low", "high", "n_scored", "n_unscored", "n_subjects")


def gather_levels(
    title: str,
    models: Sequence[Evaluated],
    benchmark: Benchmark,
    *,
    missing: Sequence[tuple[str, str]] = (),
    search: pd.DataFrame | None = None,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> LevelContent:
    """Everything that MedForget's report shows.

    A number of several seeds is their mean, with an interval over patients and seeds. A number of fewer than five
    patients has no interval. What was found by the reconstruction attack is looked for beside each model.

    Args:
        models: target on every split, retrained models on their own, unlearned ones on their own; those of splits
            without hierarchy also on the levels' splits. Of several context modes the first is reported.
        show_text: show questions, answers and responses of real records; an invented benchmark's are always shown.

    Raises:
        InputError: no model; another benchmark's; models that were asked different questions on one split.
    """
    context = models[0].context if models else ""
    reported = [model for model in models if model.context == context]
    cells = LevelCells(reported, benchmark, attacks_of(reported))
    found = scopes(cells)
    draws = Draws(cells, replicates, seed)
    return LevelContent(
        title=title,
        benchmark=benchmark.facts(),
        scopes=tuple(found.values()),
        methods=cells.methods,
        seeds=cells.seeds,
        numbers=_table(draws, context, found, {group.name: group for group in GROUPS}, "group"),
        attacked=_table(draws, context, found, GIVEN, "identifiers"),
        contrasts=contrasts(draws, context, found),
        said=said(cells, context, found, show_text=show_text),
        context=context,
        caveats=tuple(_caveats(cells, reported, models, found)),
        missing=tuple(missing),
        search=search,
        replicates=replicates,
    )


def _table(
    draws: Draws, context: str, found: Mapping[str, Scope], groups: Mapping[str, Group], place: str
) -> pd.DataFrame:
    rows = [
        {"split": scope.split, "role": who[0], "method": who[1], place: name, "measure": measure.name, **row}
        for split, scope in found.items()
        for who, seeds in draws.cells.of(context, split).items()
        for name, group in groups.items()
        for measure in MEASURES
        for row in _number(draws, context, split, who, group, measure, list(seeds.values()))
    ]
    return pd.DataFrame(rows, columns=[*_COLUMNS[:3], place, *_COLUMNS[3:], "by_seed"])


def _number(
    draws: Draws, context: str, split: str, who: Who, group: Group, measure: Measure, cells: Sequence[Cell]
) -> Iterator[dict[str, Any]]:
    """One row, or none where no such question was asked or the metric was not wanted."""
    counts = [_counts(cell, group, measure) for cell in cells]
    if not any(scored + unscored for scored, unscored in counts):
        return
    stratum = Stratum(context, (split,), group.side)
    term = Term(measure.scale, stratum, split, who, group.fold, measure.kind, measure.metric)
    contrast, by_seed = draws.contrast([term])
    yield {
        "value": contrast.value,
        "low": contrast.low,
        "high": contrast.high,
        "n_scored": sum(scored for scored, _ in counts),
        "n_unscored": sum(unscored for _, unscored in counts),
        "n_subjects": contrast.n_subjects,
        "by_seed": by_seed,
    }


def _counts(cell: Cell, group: Group, measure: Measure) -> tuple[int, int]:
    """Questions with and without a score."""
    places = cell.places(group.side).get((group.fold, measure.kind))
    column = cell.columns.get(measure.metric)
    if places is None or column is None:
        return 0, 0
    missing = int(np.isnan(cell.values[places, column]).sum())
    return len(places) - missing, missing


def _caveats(
    cells: LevelCells, reported: Sequence[Evaluated], models: Sequence[Evaluated], found: Mapping[str, Scope]
) -> Iterator[str]:
    yield from caveats_of(cells.benchmark.facts(), reported)
    if len(reported) < len(models):
        yield f"Models were asked in several context modes; this report shows {reported[0].context} alone."
    if not any(GEN_SCORE.metric in cell.columns for cell in cells):
        yield (
            "No judge rated the answers, so there is no factuality and no Gen Score: ROUGE-L, its other part, "
            "stands under its own name, and is not comparable with Gen Score. `medunlearn judge` adds both."
        )
    if not any((group.side, group.fold) in _asked(cells) for group in GROUPS if group.name == "general"):
        yield "No general questions were asked: build the benchmark with general=FILE, and ask fold utility."
    few = [scope.split for name, scope in found.items() if _patients(cells, name) < FEWEST_SUBJECTS]
    if few:
        yield (
            f"Fewer than {FEWEST_SUBJECTS} patients are in the forget set of some splits ({', '.join(few)}): their "
            "numbers have no interval, and no finding can be settled by them."
        )
    levels = [scope for scope in found.values() if scope.level in LEVELS]
    if len({scope.sections for scope in levels}) > 1:
        amounts = ", ".join(f"{scope.split}: {scope.sections}" for scope in levels)
        yield (
            f"The levels forget different amounts (sections to forget: {amounts}), because a share of few nodes "
            "is rounded. Differences between levels mix the level with the amount."
        )
    if len(cells.seeds) == 1:
        yield (
            "Every model was trained with one seed. Intervals say how patients differ, not how another training "
            "run would come out."
        )


def _asked(cells: LevelCells) -> set[tuple[str, str]]:
    return {(side, fold) for cell in cells for side in ("forget", "retain") for fold, _ in cell.places(side)}


def _patients(cells: LevelCells, split: str) -> int:
    """Patients with something in a split's forget set."""
    asked = next(cell for cell in cells if cell.split == split).questions
    return int(asked.loc[(asked["side"] == "forget") & (asked["fold"] == "train"), "subject"].nunique())
