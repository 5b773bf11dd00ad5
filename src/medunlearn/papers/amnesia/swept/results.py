"""From the evaluated models of a sweep to the content of its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.report.content import EVERYONE, MEAN_OF_KINDS, OTHER, SAME, SweepContent
from medunlearn.papers.amnesia.swept.cells import COLLAPSED, Cell, Cells
from medunlearn.papers.amnesia.swept.contrasts import TRAIN, contrasts, mean_of_kinds
from medunlearn.papers.amnesia.swept.draws import FORGETTING, UTILITY, Draws, Stratum, numbers, subjects_of
from medunlearn.pipeline.report.gather import caveats_of, metric_meanings
from medunlearn.reports.readings import is_composite, rows_of
from medunlearn.results.composites import DEGRADATION
from medunlearn.results.evaluated import Evaluated, as_metrics, summarize_evaluation
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.statistics.joint import Pooled, pool_seeds

_COLUMNS = (
    *("context", "split", "role", "method", "group", "side", "fold", "kind", "metric", "value", "low", "high"),
    *("n_scored", "n_unscored", "n_subjects", "parts", "n_seeds", "by_seed"),
)


def gather_sweep(
    title: str,
    models: Sequence[Evaluated],
    benchmark: Benchmark,
    *,
    missing: Sequence[tuple[str, str]] = (),
    search: pd.DataFrame | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> SweepContent:
    """Everything a sweep's report shows; no text of a record is read.

    A number of one seed is the row of the model's own summary. Over several seeds it is the mean, with an interval
    over subjects and seeds (:func:`medunlearn.statistics.joint.pool_seeds`).

    Args:
        models: target on every split, retrained models on their own, unlearned ones; of one or several seeds and
            contexts.
        missing: what could not be run, and why.
        search: method, lr, utility, forgetting, score, chosen.

    Raises:
        InputError: see :class:`~medunlearn.papers.amnesia.swept.cells.Cells`.
    """
    cells = Cells(models, benchmark)
    draws = Draws(cells, replicates, seed)
    rows = [row for found in _each(cells) for row in _numbers(draws, *found)]
    return SweepContent(
        title=title,
        benchmark=benchmark.facts(),
        steps=tuple(cells.steps.values()),
        contexts=cells.contexts,
        methods=cells.methods,
        seeds=cells.seeds,
        numbers=pd.DataFrame(rows, columns=list(_COLUMNS)),
        contrasts=contrasts(draws),
        metrics=metric_meanings(),
        caveats=tuple(_caveats(cells, models, benchmark)),
        missing=tuple(missing),
        search=search,
        replicates=replicates,
    )


def _each(cells: Cells) -> Iterator[tuple[str, str, tuple[str, str], list[Cell]]]:
    for context in cells.contexts:
        for split in cells.steps:
            for who, seeds in cells.of(context, split).items():
                yield context, split, who, [seeds[seed] for seed in sorted(seeds)]


def _numbers(
    draws: Draws, context: str, split: str, who: tuple[str, str], cells: Sequence[Cell]
) -> Iterator[dict[str, Any]]:
    """All numbers of one kind of model on one split, of everybody and by disease."""
    step = draws.cells.steps[split]
    for group in (EVERYONE, SAME, OTHER) if step.disease else (EVERYONE,):
        head = {"context": context, "split": step.split, "role": who[0], "method": who[1], "group": group}
        summaries = [_summary(draws, cell, group) for cell in cells]
        found = _of_seed(summaries[0]) if len(cells) == 1 else _over_seeds(draws, cells, group, summaries)
        yield from (head | row for row in found)
        if group != EVERYONE:
            yield from (head | row for row in _mean_of_kinds(draws, context, split, who, group))


def _summary(draws: Draws, cell: Cell, group: str) -> pd.DataFrame:
    """The model's own summary, or one of the retained subjects of a group."""
    subjects = draws.cells.group(cell.split, group)
    if subjects is None:
        return cell.evaluated.summary
    table = cell.evaluated.table
    inside = table[(table["side"] == "retain") & table["subject"].isin(subjects)]
    return as_metrics(summarize_evaluation(inside, replicates=draws.replicates, seed=draws.seed))


def _of_seed(summary: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for row in rows_of(summary):
        value = None if pd.isna(row["value"]) else float(row["value"])
        yield {**row, "value": value, "n_seeds": 1, "by_seed": () if value is None else (value,)}


def _over_seeds(
    draws: Draws, cells: Sequence[Cell], group: str, summaries: Sequence[pd.DataFrame]
) -> Iterator[dict[str, Any]]:
    """The means of the seeds that have a number under the same name, of the same parts."""
    key = ("side", "fold", "kind", "metric", "parts")
    found: dict[tuple[str, ...], list[tuple[Cell, Any]]] = {}
    for cell, summary in zip(cells, summaries, strict=True):
        for row in rows_of(summary):
            found.setdefault(tuple(str(row[name]) for name in key), []).append((cell, row))
    for (side, fold, kind, metric, parts), pairs in found.items():
        valued = [cell for cell, row in pairs if not pd.isna(row["value"])]
        pooled = Pooled(None, None, None, ())
        if valued:
            stratum = Stratum(valued[0].context, (valued[0].split,), side, group)
            pooled = _pooled(draws, stratum, valued, (fold, kind), metric, parts)
        yield {
            **dict(zip(key, (side, fold, kind, metric, parts), strict=True)),
            **{name: sum(int(row[name]) for _, row in pairs) for name in ("n_scored", "n_unscored")},
            "n_subjects": max(int(row["n_subjects"]) for _, row in pairs),
            **{name: getattr(pooled, name) for name in ("value", "low", "high", "by_seed")},
            "n_seeds": len(valued),
        }


def _pooled(
    draws: Draws, stratum: Stratum, cells: Sequence[Cell], place: tuple[str, str], metric: str, parts: str
) -> Pooled:
    means = draws.of(stratum)
    found = [means[cell.split, cell.who, cell.seed, *place] for cell in cells]
    measure = metric
    if is_composite(metric):
        measure = UTILITY if stratum.side == "retain" else FORGETTING
    columns = tuple(parts.split(",")) if is_composite(metric) else (metric,)
    if metric == DEGRADATION:
        columns = (COLLAPSED,)
    pairs = [numbers(one, measure, columns) for one in found]
    pooled = pool_seeds(
        np.array([point for point, _ in pairs], dtype=np.float64),
        np.column_stack([drawn for _, drawn in pairs]),
        seed=draws.seed,
    )
    if min(subjects_of(one, columns) for one in found) < 2:
        return Pooled(pooled.value, None, None, pooled.by_seed)
    return pooled


def _mean_of_kinds(
    draws: Draws, context: str, split: str, who: tuple[str, str], group: str
) -> Iterator[dict[str, Any]]:
    terms = mean_of_kinds(draws, context, split, who, group)
    found, by_seed = draws.contrast(terms)
    if found.value is not None:
        yield {
            "side": "retain",
            "fold": TRAIN,
            "kind": MEAN_OF_KINDS,
            "metric": found.metric,
            "parts": "kinds",
            **{name: getattr(found, name) for name in ("value", "low", "high", "n_subjects")},
            "n_scored": 0,
            "n_unscored": 0,
            "n_seeds": len(by_seed),
            "by_seed": by_seed,
        }


def _caveats(cells: Cells, models: Sequence[Evaluated], benchmark: Benchmark) -> Iterator[str]:
    yield from caveats_of(benchmark.facts(), models)
    if len(cells.seeds) == 1:
        yield (
            "Every model was trained with one seed. Intervals say how patients differ, not how another training "
            "run would come out."
        )
