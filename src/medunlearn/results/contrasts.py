"""Contrasts: weighted sums of several models' numbers, with shared bootstrap draws of subjects.

``U(unlearned) - 0.8 U(target)`` has a correct interval only if both numbers come from the same draws of subjects. A
:class:`Stratum` selects the rows of the score table that are drawn together; strata contain different subjects and
are drawn independently. Terms may come from several strata, and numbers of several training seeds are averaged.

Utility kept, and how much more a model leaks than the retrained one with identifiers in front::

    draws = Draws(scores, ("context", "split", "role", "method", "side", "fold", "kind"), rollup="kind",
                  composites=("MU", "AFE", "DS"), seed=0)
    retain = Stratum.of(stable_seed("sweep", "retain", 0), split="random_05", side="retain")
    cell = {"split": "random_05", "role": "unlearned", "method": "NPO", "fold": "train", "kind": "all"}
    target = {**cell, "role": "target", "method": ""}
    kept = draws.contrast([Term(1, cell, "MU", retain), Term(-0.8, target, "MU", retain)])
    leak = draws.contrast([Term(1, {**cell, "fold": "given all"}, "rouge_l_f", forget),
                           Term(-1, {**retrained, "fold": "given all"}, "rouge_l_f", forget)])

For nested forget sets the subjects are drawn once: ``split=("random_01", "random_10")``. If all runs must have a
score, as over epochs, items without one are dropped first (:func:`complete_items`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from medunlearn.errors import InputError
from medunlearn.results.composites import REGISTRY, bounds_of, composite_named
from medunlearn.results.matrix import Array, ScoreMatrix, groups, score_matrix
from medunlearn.statistics.bootstrap import REPLICATES, Observations, Resampled, pool_seeds, resample_together
from medunlearn.statistics.intervals import UNBOUNDED, UNIT, Bounds, Uncertainty, why_no_interval


@dataclass(frozen=True, slots=True)
class Stratum:
    """Rows of the score table whose subjects are drawn together, with the seed of the draws; None for all."""

    seed: int
    rows: tuple[tuple[str, tuple[object, ...]], ...] = ()
    subjects: frozenset[object] | None = None

    @staticmethod
    def of(seed: int, *, subjects: Collection[object] | None = None, **rows: object) -> Stratum:
        """The stratum of the rows with these labels: ``side="forget", split=("random_01", "random_10")``."""
        admitted = tuple((name, value if isinstance(value, tuple) else (value,)) for name, value in rows.items())
        return Stratum(seed, admitted, None if subjects is None else frozenset(subjects))


@dataclass(frozen=True, slots=True)
class Term:
    """``weight`` times the number of a measure or composite in the cell with these labels, over all seeds."""

    weight: float
    cell: Mapping[str, object]
    measure: str
    stratum: Stratum


@dataclass(frozen=True, slots=True)
class Contrast:
    """A weighted sum of numbers, averaged over training seeds.

    Attributes:
        value, low, high: number and 95% interval over subjects, and over seeds if there are several.
        n_subjects: smallest number over the terms.
        reason: why there is no value, or no interval; "" otherwise.
        measure: displayed measure; the name of a composite with missing parts lists its parts.
        by_seed: the value for every training seed. uncertainty: basis of the interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n_subjects: int = 0
    reason: str = ""
    measure: str = ""
    by_seed: tuple[float, ...] = ()
    uncertainty: Uncertainty | None = None


@dataclass(frozen=True, slots=True)
class CellDraws:
    """Means of one cell's measures, and of composites with transformed scores, by column of ``means``."""

    columns: Mapping[str, int]
    means: Resampled

    def numbers(self, measure: str, parts: Sequence[str]) -> tuple[float, Array]:
        """The number of a measure, or a composite of these parts: of the data, and of every replicate [B], NaN if
        undrawn.
        """
        columns = [self.columns[part] for part in parts]
        point, draws = self.means.point[columns], self.means.draws[:, columns]
        if measure not in REGISTRY or REGISTRY[measure].transform is not None:
            return float(point[0]), draws[:, 0]
        complete = ~np.isnan(draws).any(axis=1)
        values = np.full(len(draws), np.nan)
        values[complete] = REGISTRY[measure].of(draws[complete])
        return float(REGISTRY[measure].of(point)), values

    def bounds(self, measure: str, parts: Sequence[str]) -> Bounds:
        """Bounds of the number: 0 and 1 for a composite, and for a measure with scores in that range."""
        columns = [self.columns[part] for part in parts]
        of_scores = UNIT if measure in REGISTRY or self.means.unit[columns].all() else UNBOUNDED
        return bounds_of(measure) or of_scores

    def observed(self) -> set[str]:
        """Measures with a score."""
        return {name for name, column in self.columns.items() if not np.isnan(self.means.point[column])}

    def n_subjects(self, parts: Sequence[str]) -> int:
        """Number of subjects of the part with the fewest."""
        return int(self.means.n_clusters[[self.columns[part] for part in parts]].min())

    def n_effective(self, parts: Sequence[str]) -> float:
        """Effective number of subjects of the part with the fewest."""
        return self.means.n_effective([self.columns[part] for part in parts])


class Draws:
    """Means of every cell of a score table, with each stratum's subjects drawn once for all its cells.

    Args:
        scores: concatenated score tables of all models.
        cells: labels that distinguish cells.
        rollup: one of them; adds cells ``all`` over all its values.
        seeds: the label of training seeds; None if there are none.
        composites: registered composites that terms may name.
        replicates: number of draws of the subjects. seed: seed for draws of training seeds.

    Raises:
        InputError: as for :func:`~medunlearn.results.matrix.score_matrix`.
    """

    def __init__(
        self,
        scores: pd.DataFrame,
        cells: Sequence[str],
        *,
        rollup: str | None = None,
        seeds: str | None = "seed",
        composites: Sequence[str] = (),
        replicates: int = REPLICATES,
        seed: int = 0,
    ) -> None:
        self.labels, self.rollup, self.seeds = tuple(cells), rollup, seeds
        self.replicates, self.seed = replicates, seed
        self._by = [*cells, *([seeds] if seeds else [])]
        self._matrix = score_matrix(scores, self._by)
        self._subjects = np.array(self._matrix.subjects, dtype=object)
        self._composites = [composite_named(name) for name in composites]
        self._drawn: dict[Stratum, list[tuple[Mapping[str, object], CellDraws]]] = {}
        self._indexed: dict[
            tuple[Stratum, tuple[str, ...]], Mapping[tuple[object, ...], list[tuple[object, CellDraws]]]
        ] = {}

    def of(self, stratum: Stratum) -> list[tuple[Mapping[str, object], CellDraws]]:
        """Labels (including the seed) and means of every cell of a stratum, all with the same draws."""
        if stratum not in self._drawn:
            self._drawn[stratum] = self._draw(stratum)
        return self._drawn[stratum]

    def cell(self, stratum: Stratum, cell: Mapping[str, object]) -> dict[object, CellDraws]:
        """Training seed -> means of one cell; empty without scores.

        Raises:
            InputError: several cells have these labels.
        """
        by_seed: dict[object, CellDraws] = {}
        for seed, means in self._cells(stratum, tuple(cell)).get(tuple(cell.values()), ()):
            if seed in by_seed:
                raise InputError(f"The labels {dict(cell)} are those of several cells. Name more labels.")
            by_seed[seed] = means
        return by_seed

    def _cells(
        self, stratum: Stratum, names: tuple[str, ...]
    ) -> Mapping[tuple[object, ...], list[tuple[object, CellDraws]]]:
        """Values of these labels -> seed and means of the matching cells."""
        if (stratum, names) not in self._indexed:
            index: dict[tuple[object, ...], list[tuple[object, CellDraws]]] = {}
            for labels, means in self.of(stratum):
                seed = labels[self.seeds] if self.seeds else None
                index.setdefault(tuple(labels[name] for name in names), []).append((seed, means))
            self._indexed[stratum, names] = index
        return self._indexed[stratum, names]

    def contrast(self, terms: Sequence[Term]) -> Contrast:
        """The weighted sum of the terms' numbers, averaged over the seeds common to all terms.

        Composites use the parts common to all terms, so that they are comparable.

        Raises:
            InputError: terms of several measures.
        """
        if not terms:
            return Contrast(None, reason="there is nothing to compare")
        if len(measures := {term.measure for term in terms}) > 1:
            raise InputError(f"A contrast is of one measure, not of {', '.join(sorted(measures))}.")
        cells = [self.cell(term.stratum, term.cell) for term in terms]
        missing = [term for term, seeds in zip(terms, cells, strict=True) if not seeds]
        if missing:
            return Contrast(None, reason=f"nothing was measured of {_words(missing[0].cell)}")
        seeds = sorted(
            set.intersection(*(set(by_seed) for by_seed in cells)), key=lambda seed: (str(type(seed)), seed)
        )
        if not seeds:
            return Contrast(None, reason="no seed has all the models")
        every = [by_seed[seed] for by_seed in cells for seed in seeds]
        title, parts = _parts(terms[0].measure, every)
        if not parts:
            return Contrast(None, reason=f"{title} was not measured")
        points, draws = np.zeros(len(seeds)), np.zeros((self.replicates, len(seeds)))
        least = most = 0.0
        for term, by_seed in zip(terms, cells, strict=True):
            for place, seed in enumerate(seeds):
                point, replicates = by_seed[seed].numbers(term.measure, parts)
                points[place] += term.weight * point
                draws[:, place] += term.weight * replicates
            edges = [term.weight * edge for seed in seeds for edge in by_seed[seed].bounds(term.measure, parts)]
            least, most = least + min(edges), most + max(edges)
        n = min(means.n_subjects(parts) for means in every)
        effective = min(means.n_effective(parts) for means in every)
        pooled = pool_seeds(points, draws, n, effective=effective, bounds=(least, most), seed=self.seed)
        reason = why_no_interval(n, effective)
        values = () if pooled.value is None else tuple(points.tolist())
        return Contrast(pooled.value, pooled.low, pooled.high, n, reason, title, values, pooled.uncertainty)

    def _draw(self, stratum: Stratum) -> list[tuple[Mapping[str, object], CellDraws]]:
        matrix, subjects = self._within(stratum)
        labels, columns, tables = [], [], []
        for group in groups(matrix, self._by, self.rollup):
            present = np.flatnonzero(matrix.rows_of[group.rows].any(axis=0))
            names = [matrix.measures[column] for column in present]
            values = matrix.values[group.rows][:, present]
            for composite in self._composites:
                if composite.transform is not None and composite.parts[0] in names:
                    values = np.column_stack(
                        [values, composite.transform(values[:, names.index(composite.parts[0])])]
                    )
                    names.append(composite.name)
            labels.append(group.labels)
            columns.append({name: place for place, name in enumerate(names)})
            tables.append(Observations(values, subjects[group.rows].tolist()))
        if not tables:
            return []
        replicates = resample_together(tables, replicates=self.replicates, seed=stratum.seed)
        cells = (CellDraws(names, means) for names, means in zip(columns, replicates, strict=True))
        return list(zip(labels, cells, strict=True))

    def _within(self, stratum: Stratum) -> tuple[ScoreMatrix, np.ndarray[tuple[int], np.dtype[np.object_]]]:
        keys, inside = self._matrix.keys, np.ones(len(self._subjects), dtype=np.bool_)
        for name, values in stratum.rows:
            if name not in keys:
                raise InputError(f"A stratum needs labels of the cells ({', '.join(self._by)}), not {name!r}.")
            inside &= keys[name].isin(list(values)).to_numpy()
        if stratum.subjects is not None:
            inside &= np.array([subject in stratum.subjects for subject in self._subjects], dtype=np.bool_)
        subjects = self._subjects[inside]
        part = ScoreMatrix(
            keys[inside].reset_index(drop=True),
            subjects.tolist(),
            self._matrix.measures,
            self._matrix.values[inside],
            self._matrix.rows_of[inside],
        )
        return part, subjects


def complete_items(scores: pd.DataFrame, across: Sequence[str]) -> pd.DataFrame:
    """Rows of the items and measures with a score in every combination of some labels (listwise deletion).

    Args:
        across: labels, for example ``("model", "epoch")``, over all values of which an item needs a score.
    """
    combinations = len(scores[list(across)].drop_duplicates())
    scored = scores[scores["value"].notna()].groupby(["item", "measure"])["value"].size()
    complete = scored[scored == combinations].index
    return scores[pd.MultiIndex.from_frame(scores[["item", "measure"]]).isin(complete)]


def _parts(measure: str, cells: Sequence[CellDraws]) -> tuple[str, tuple[str, ...]]:
    """The displayed measure, and its columns available in all cells."""
    common = set.intersection(*(means.observed() for means in cells))
    composite = REGISTRY.get(measure)
    if composite is None or composite.transform is not None:
        return measure, (measure,) if measure in common else ()
    parts = composite.measured_parts(common)
    return composite.shown_as(parts), parts


def _words(cell: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in cell.items() if value != "")
