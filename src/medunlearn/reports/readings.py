"""Lookup of a report's numbers, and selection of the trade-off's metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from medunlearn.data.origins import is_drawn, marked, real_name
from medunlearn.data.records import FOLDS, KINDS, RECORD
from medunlearn.errors import InputError
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.formatting import ABSENT, ALL, UNSCORED, decimal, interval, interval_note, signed
from medunlearn.reports.provenance import undecided
from medunlearn.results.composites import COMPOSITES, DEGRADATION
from medunlearn.results.forgetting_check import WORDS

if TYPE_CHECKING:
    from medunlearn.results.forgetting_check import ForgettingCheck

_DEGRADATION_TEXT = ("Degradation score", "0-1, higher = more output has collapsed into repetition or nothing")


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of one model; ``value`` is None if unscored."""

    value: float | None
    low: float | None
    high: float | None
    n_scored: int
    n_unscored: int
    n_subjects: int
    n_effective: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Gap:
    """A model minus the retrained model; with an interval if compared on the same subjects."""

    difference: float
    low: float | None = None
    high: float | None = None

    @property
    def tells_apart(self) -> bool | None:
        """True if the interval excludes 0; None without an interval."""
        return None if self.low is None or self.high is None else self.low > 0.0 or self.high < 0.0


def value_text(reading: Reading | None) -> str:
    """A value; ``unscored`` if null; a dash without such a row."""
    if reading is None:
        return ABSENT
    return UNSCORED if reading.value is None else decimal(reading.value)


def reading_note(reading: Reading | None) -> str:
    """Note under a value: its interval, number of subjects, and number of unscored questions."""
    if reading is None:
        return ""
    unscored = f"{reading.n_unscored:,} unscored" if reading.n_unscored else ""
    note = "" if reading.value is None else _interval_note(reading)
    return ", ".join(filter(None, (note, unscored)))


def _interval_note(reading: Reading) -> str:
    return interval_note(reading.low, reading.high, reading.n_subjects, reading.n_effective)


def signed_with_interval(gap: Gap) -> str:
    """``+0.031 [0.010, 0.052]``."""
    return f"{signed(gap.difference)} {interval(gap.low, gap.high)}".strip()


class Place(NamedTuple):
    """A group of questions: side, fold and kind."""

    side: str
    fold: str
    kind: str


class Results:
    """The numbers of a report by model, place and metric.

    Raises:
        InputError: two models with one label.
    """

    def __init__(self, content: ReportContent) -> None:
        labels = [model.label for model in content.models]
        if len(set(labels)) < len(labels):
            raise InputError(f"Two models of a report have one label: {', '.join(labels)}. Rename one.")
        self.models = content.models
        self.retrained = next((model for model in content.models if model.role == "retrained"), None)
        self.reference = content.reference
        self.undecided = undecided(content.benchmark)
        refused = content.reference is not None and not content.reference.passed
        self.forgetting = {} if refused else content.forgetting
        self._metrics = content.metrics
        self._readings = {
            (model.label, *_key(row)): reading_of(row) for model in content.models for row in rows_of(model.summary)
        }
        self._gaps = {
            (str(row["model"]), *_key(row)): Gap(difference, number(row["low"]), number(row["high"]))
            for row in rows_of(content.comparisons)
            if self.retrained is not None and row["against"] == self.retrained.label
            if (difference := number(row["difference"])) is not None
        }

    def reading(self, model: ModelResult, place: Place, metric: str | None) -> Reading | None:
        """A number; None if the model has no such row."""
        return None if metric is None else self._readings.get((model.label, place, metric))

    def entries(self) -> Iterator[tuple[ModelResult, Place, str, Reading]]:
        """Every number, in order of the models and their tables."""
        models = {model.label: model for model in self.models}
        for (label, place, metric), reading in self._readings.items():
            yield models[label], place, metric, reading

    def gap(self, model: ModelResult, place: Place, metric: str | None) -> Gap | None:
        """Model minus retrained model: the paired comparison if there is one, else the difference of the values."""
        if self.retrained is None or metric is None or model is self.retrained:
            return None
        if paired := self._gaps.get((model.label, place, metric)):
            return paired
        ours, theirs = self.reading(model, place, metric), self.reading(self.retrained, place, metric)
        if ours is None or theirs is None or ours.value is None or theirs.value is None:
            return None
        return Gap(ours.value - theirs.value)

    def places(self) -> list[Place]:
        """Every group of questions, forget first, kinds in benchmark order, ``all`` last."""
        return sorted({place for _, place, _ in self._readings}, key=_order)

    def axis(self, place: Place) -> str | None:
        """The main metric of a place: the composite that most models have a value for.

        Composites of different parts are not comparable. Without any composite value, the metric with the most
        values; without any values, a composite's name.
        """
        counts: dict[str, int] = {}
        for (_, where, metric), reading in self._readings.items():
            if where == place and metric != DEGRADATION and not is_drawn(metric):
                counts[metric] = counts.get(metric, 0) + (reading.value is not None)
        valued = [metric for metric in counts if counts[metric]] or list(counts)
        candidates = list(filter(is_composite, valued)) or valued
        return max(candidates, key=lambda metric: (counts[metric], metric.count(",")), default=None)

    def describe(self, metric: str, side: str) -> tuple[str, str]:
        """Title and meaning of a metric. A composite with missing parts is titled by its parts."""
        if metric in self._metrics:
            return self._metrics[metric]
        if is_drawn(metric):
            title, meaning = self.describe(real_name(metric), side)
            return marked(title), meaning
        if metric == DEGRADATION:
            return _DEGRADATION_TEXT
        for composite in COMPOSITES:
            if metric == composite.name:
                return composite.title, composite.meaning
            if metric.startswith("H(") and side == composite.side:
                return f"Harmonic mean of {metric[2:-1]}", composite.meaning
        return metric, "range and direction not given"


@dataclass(frozen=True, slots=True)
class Plane:
    """The two metrics of a trade-off, for one fold and kind; None if no model has one."""

    fold: str
    kind: str
    utility: str | None
    forgetting: str | None

    @property
    def retain(self) -> Place:
        return Place("retain", self.fold, self.kind)

    @property
    def forget(self) -> Place:
        return Place("forget", self.fold, self.kind)


@dataclass(frozen=True, slots=True)
class Standing:
    """Numbers of one model, and its gaps to the retrained model.

    Attributes:
        degradation: DS on forget.
        check: whether its forgetting exceeds what damage explains; None if that was not checked.
    """

    model: ModelResult
    utility: Reading | None
    forgetting: Reading | None
    degradation: Reading | None
    utility_gap: Gap | None
    forgetting_gap: Gap | None
    check: ForgettingCheck | None = None

    @property
    def distance(self) -> float | None:
        """Euclidean norm of both gaps, 0 = equal to the retrained model; None if one is missing."""
        if self.utility_gap is None or self.forgetting_gap is None:
            return None
        return math.hypot(self.utility_gap.difference, self.forgetting_gap.difference)

    @property
    def distance_beyond_damage(self) -> float | None:
        """The distance where forgetting counts only beyond the share lost of what is retained; None if one part
        is missing. Damage alone never shortens it.
        """
        gap = None if self.check is None else self.check.gap_beyond_damage
        return None if gap is None or self.utility_gap is None else math.hypot(self.utility_gap.difference, gap)

    @property
    def forgets(self) -> bool:
        """True if it works, and its forgetting exceeds what damage explains."""
        return not self.model.problems and self.check is not None and self.check.passed

    @property
    def doubt(self) -> str:
        """Why it is not shown to have forgotten, in a few words; "" if it is, and of target and retrained model."""
        if self.model.role != "unlearned" or self.forgets:
            return ""
        obstacle = "not checked" if self.check is None else self.check.obstacle
        return "broken" if self.model.problems or obstacle is None else WORDS[obstacle]

    @property
    def placed(self) -> bool:
        """True if it has both numbers, so that it can be plotted."""
        return all(axis is not None and axis.value is not None for axis in (self.utility, self.forgetting))


def main_plane(results: Results) -> Plane:
    """The trade-off over all kinds on the train fold, or on the first fold with both numbers."""
    folds = sorted(dict.fromkeys(place.fold for place in results.places()), key=lambda fold: fold != "train")
    planes = [_plane(results, fold, ALL) for fold in folds] or [Plane("train", ALL, None, None)]
    return next((where for where in planes if drawable(results, where)), planes[0])


def panel_planes(results: Results) -> list[Plane]:
    """The trade-offs of each fold and single kind with both numbers."""
    keys = dict.fromkeys((place.fold, place.kind) for place in results.places() if place.kind not in (ALL, RECORD))
    planes = [_plane(results, fold, kind) for fold, kind in keys]
    return [where for where in planes if drawable(results, where)]


def _plane(results: Results, fold: str, kind: str) -> Plane:
    utility, forgetting = (results.axis(Place(side, fold, kind)) for side in ("retain", "forget"))
    return Plane(fold, kind, utility, forgetting)


def drawable(results: Results, where: Plane) -> bool:
    """True if some model has both numbers, so that there is a point."""
    return any(standing.placed for standing in standings(results, where))


def standings(results: Results, where: Plane) -> list[Standing]:
    """Target, retrained, then the unlearned models: those whose forgetting exceeds damage, then all others, each
    closest to the retrained model first.
    """

    def standing(model: ModelResult) -> Standing:
        utility, forgetting = (results.reading(model, *axis) for axis in axes)
        utility_gap, forgetting_gap = (results.gap(model, *axis) for axis in axes)
        degradation = results.reading(model, where.forget, DEGRADATION)
        check = results.forgetting.get(model.label)
        return Standing(model, utility, forgetting, degradation, utility_gap, forgetting_gap, check)

    axes = ((where.retain, where.utility), (where.forget, where.forgetting))
    models = map(standing, results.models)
    roles = ("target", "retrained", "unlearned")

    def place(entry: Standing) -> tuple[int, bool, float]:
        distance = entry.distance_beyond_damage if entry.forgets else entry.distance
        return roles.index(entry.model.role), not entry.forgets, math.inf if distance is None else distance

    return sorted(models, key=place)


def is_composite(metric: str) -> bool:
    """True if a row is a harmonic mean of several metrics, named by the paper or by its parts."""
    return metric.startswith("H(") or metric in {composite.name for composite in COMPOSITES}


def number(value: Any) -> float | None:
    """A finite float, or None for null, NaN and infinity."""
    try:
        finite = float(value)
    except (TypeError, ValueError):
        return None
    return finite if math.isfinite(finite) else None


def rows_of(frame: Any) -> Iterable[Mapping[str, Any]]:
    """A table's rows as mappings; empty for a table without rows, whatever its columns."""
    rows: list[Mapping[str, Any]] = frame.to_dict("records") if len(frame) else []
    return rows


def reading_of(row: Mapping[str, Any]) -> Reading:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    scored, unscored, subjects = (int(row[name]) for name in ("n_scored", "n_unscored", "n_subjects"))
    effective = number(row.get("n_effective"))
    return Reading(value, low, high, scored, unscored, subjects, n_effective=effective)


def _key(row: Mapping[str, Any]) -> tuple[Place, str]:
    return Place(*(str(row[name]) for name in Place._fields)), str(row["measure"])


def _order(place: Place) -> tuple[int, int, str, int, str]:
    folds, kinds = list(FOLDS), list(KINDS)
    fold_at = folds.index(place.fold) if place.fold in folds else len(folds)
    kind_at = kinds.index(place.kind) if place.kind in kinds else len(kinds)
    return int(place.side != "forget"), fold_at, place.fold, kind_at + (place.kind == ALL), place.kind
