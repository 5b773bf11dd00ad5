"""Numbers of a sweep under shared draws of subjects, so that any difference of them has a right interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medunlearn.papers.amnesia.report.content import EVERYONE, Contrast
from medunlearn.papers.amnesia.swept.cells import COLLAPSED, Cell, Cells
from medunlearn.reports.verdicts import FEWEST_SUBJECTS
from medunlearn.results.composites import COMPOSITES, DEGRADATION, Composite
from medunlearn.results.matrix import Array
from medunlearn.seeds import stable_seed
from medunlearn.statistics.bootstrap import Observations, Resampled, resample_together
from medunlearn.statistics.joint import pool_seeds

UTILITY, FORGETTING = "utility", "forgetting"
_COMPOSITE: Mapping[str, Composite] = {
    UTILITY: next(composite for composite in COMPOSITES if composite.side == "retain"),
    FORGETTING: next(composite for composite in COMPOSITES if composite.side == "forget"),
}


@dataclass(frozen=True, slots=True)
class Stratum:
    """Subjects that are drawn together.

    Attributes:
        splits: one; or two, one forget set inside the other, whose subjects are drawn once for both.
    """

    context: str
    splits: tuple[str, ...]
    side: str
    group: str = EVERYONE


@dataclass(frozen=True, slots=True)
class Term:
    """A share of a difference: ``weight`` times the number of one model on one group of questions."""

    weight: float
    stratum: Stratum
    split: str
    who: tuple[str, str]
    fold: str
    kind: str
    measure: str


@dataclass(frozen=True)
class Drawn:
    """Means of one cell's columns on one fold and kind, of the data and of every replicate."""

    columns: Mapping[str, int]
    means: Resampled


class Draws:
    """Means of all models of a sweep, each stratum's subjects drawn once for all of them.

    Strata hold different subjects and are drawn independently of each other: forget set, retain set, and the
    retained subjects with and without the disease.
    """

    def __init__(self, cells: Cells, replicates: int, seed: int) -> None:
        self.cells, self.replicates, self.seed = cells, replicates, seed
        self._kept: dict[Stratum, dict[tuple[str, tuple[str, str], int, str, str], Drawn]] = {}

    def of(self, stratum: Stratum) -> dict[tuple[str, tuple[str, str], int, str, str], Drawn]:
        """(split, role and method, seed, fold, kind) -> means."""
        if stratum not in self._kept:
            self._kept[stratum] = self._draw(stratum)
        return self._kept[stratum]

    def _draw(self, stratum: Stratum) -> dict[tuple[str, tuple[str, str], int, str, str], Drawn]:
        keys, tables, columns = [], [], []
        for split in stratum.splits:
            subjects = self.cells.group(split, stratum.group)
            for who, seeds in self.cells.of(stratum.context, split).items():
                for seed, cell in seeds.items():
                    for fold, kind, table in _tables(cell, stratum.side, subjects):
                        keys.append((split, who, seed, fold, kind))
                        tables.append(table)
                        columns.append(cell.columns)
        if not tables:
            return {}
        seed = stable_seed("sweep", stratum.side, stratum.group, self.seed)
        drawn = resample_together(tables, replicates=self.replicates, seed=seed)
        return {key: Drawn(names, means) for key, names, means in zip(keys, columns, drawn, strict=True)}

    def contrast(self, terms: Sequence[Term]) -> tuple[Contrast, tuple[float, ...]]:
        """The weighted sum of the terms' numbers, averaged over the seeds that all terms have.

        Composites are made of the parts that every term has, so that like is compared with like.

        Returns:
            The contrast, and the number of each seed.
        """
        found = [self._seeds(term) for term in terms]
        missing = [term for term, seeds in zip(terms, found, strict=True) if not seeds]
        if missing:
            return Contrast(None, reason=_why_missing(missing[0])), ()
        common = sorted(set.intersection(*(set(seeds) for seeds in found)))
        if not common:
            return Contrast(None, reason="no seed has all the models"), ()
        metric, parts = _parts(terms[0].measure, [seeds[seed] for seeds in found for seed in common])
        if not parts:
            return Contrast(None, reason=f"{metric} was not measured"), ()
        points = np.zeros(len(common))
        draws = np.zeros((self.replicates, len(common)))
        for term, seeds in zip(terms, found, strict=True):
            for place, seed in enumerate(common):
                point, drawn = numbers(seeds[seed], term.measure, parts)
                points[place] += term.weight * point
                draws[:, place] += term.weight * drawn
        pooled = pool_seeds(points, draws, seed=self.seed)
        n = min(subjects_of(seeds[seed], parts) for seeds in found for seed in common)
        few = n < FEWEST_SUBJECTS
        low, high = (None, None) if few else (pooled.low, pooled.high)
        reason = f"fewer than {FEWEST_SUBJECTS} subjects: no interval" if few else ""
        return Contrast(pooled.value, low, high, n, reason, metric), pooled.by_seed

    def _seeds(self, term: Term) -> dict[int, Drawn]:
        drawn = self.of(term.stratum)
        return {
            seed: found
            for (split, who, seed, fold, kind), found in drawn.items()
            if (split, who, fold, kind) == (term.split, term.who, term.fold, term.kind)
        }


def numbers(drawn: Drawn, measure: str, parts: Sequence[str]) -> tuple[float, Array]:
    """A measure of the data and of every replicate; NaN where a part was not drawn."""
    columns = [drawn.columns[part] for part in parts]
    point, draws = drawn.means.point[columns], drawn.means.draws[:, columns]
    if measure not in _COMPOSITE:
        return float(point[0]), draws[:, 0]
    composite = _COMPOSITE[measure]
    whole = ~np.isnan(draws).any(axis=1)
    found = np.full(len(draws), np.nan)
    found[whole] = composite.of(draws[whole])
    return float(composite.of(point)), found


def subjects_of(drawn: Drawn, parts: Sequence[str]) -> int:
    """Subjects behind the part that has fewest."""
    return int(drawn.means.n_clusters[[drawn.columns[part] for part in parts]].min())


def _tables(cell: Cell, side: str, subjects: set[str] | None) -> Iterator[tuple[str, str, Observations]]:
    """The cell's values of every fold and kind, the roll-up of kinds among them."""
    inside = None if subjects is None else np.array([one in subjects for one in cell.subjects])
    for (fold, kind), places in cell.places(side).items():
        rows = places if inside is None else places[inside[places]]
        if len(rows):
            yield fold, kind, Observations(cell.values[rows], cell.subjects[rows].tolist())


def _parts(measure: str, drawn: Sequence[Drawn]) -> tuple[str, tuple[str, ...]]:
    """The measure as it is named, and the metrics that it is made of here."""
    observed = [
        {name for name, column in one.columns.items() if not np.isnan(one.means.point[column])} for one in drawn
    ]
    common = set.intersection(*observed)
    if measure in _COMPOSITE:
        used = _COMPOSITE[measure].used(common)
        return _COMPOSITE[measure].shown_as(used), used
    name = COLLAPSED if measure == DEGRADATION else measure
    return measure, (name,) if name in common else ()


def _why_missing(term: Term) -> str:
    role, method = term.who
    if role == "unlearned":
        return f"{method} was not asked such questions on this split"
    return f"no {role} model was asked such questions on this split"
