"""Requests one after the other: what each forgets, whether earlier ones come back, and what is kept.

The numbers that ICU-Bench asks of continual unlearning, by request: forgetting of the request itself, historical
forgetting (all earlier requests, asked again), its stability (that minus the same questions right after their own
request), and the retain set without what earlier requests forgot. The finding on sequences reads weighted sums of
these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from medunlearn.papers.medforget.measures import LevelMeasure
from medunlearn.papers.medforget.sweep import LevelModels
from medunlearn.papers.sweeps.contrasts import edges
from medunlearn.papers.sweeps.models import TARGET, UNLEARNED
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.results.contrasts import Contrast, Draws, Stratum, Term
from medunlearn.results.evaluated import Evaluated
from medunlearn.seeds import stable_seed

BEFORE, OWN, EARLIER, THEN, KEPT = "before", "own", "earlier", "then", "kept"
KNOWN, KNOWN_KEPT = "target on earlier", "target on kept"
CAME_BACK, GONE, STAYS, STILL_WORKS = "came back", "forgotten then", "stays forgotten", "works"
STAYING = 0.9
"""Share of what an earlier request took away that must still be gone."""
COMBINED = {
    CAME_BACK: {EARLIER: 1.0, THEN: -1.0},
    GONE: {KNOWN: 1.0, THEN: -1.0},
    STAYS: {KNOWN: 1.0 - STAYING, THEN: STAYING, EARLIER: -1.0},
    STILL_WORKS: {KEPT: 1.0, KNOWN_KEPT: -0.5},
}
"""Number -> the sets that it is a weighted sum of; what stays is t - m - :data:`STAYING` (t - then)."""
SHOWN = {
    BEFORE: "target on it",
    OWN: "forgotten now",
    EARLIER: "earlier requests",
    CAME_BACK: "of these came back",
    KEPT: "retain set",
}
"""A number of a step -> its head in the table."""
LABELS = ("method", "step", "set", "kind")
COLUMNS = (
    *("method", "step", "split", "set", "measure", "value", "low", "high", "p"),
    *("n_subjects", "by_seed", "reason"),
)


@dataclass(frozen=True)
class _Asked:
    """Evaluated models of one training seed: (method, made for, asked about) -> model; of the target no method."""

    models: dict[tuple[str, str, str], Evaluated]

    @staticmethod
    def by_seed(models: Sequence[Evaluated]) -> dict[int, _Asked]:
        by_seed: dict[int, _Asked] = {}
        for model in models:
            if model.run.role in (TARGET, UNLEARNED):
                asked = str(model.record.info.split)
                made_for = asked if model.run.role == TARGET else str(model.run.info.made_for)
                method = "" if model.run.role == TARGET else model.run.label
                seed = int(model.run.info.config["seed"])
                by_seed.setdefault(seed, _Asked({})).models[method, made_for, asked] = model
        return by_seed


def requests_before(model: Evaluated) -> tuple[str, ...]:
    """Splits that a model's run was made to forget before its own, in order."""
    return tuple(model.run.info.results.get("forgotten_before", ()))


def sequence_numbers(
    models: Sequence[Evaluated], swept: LevelModels, measures: Sequence[LevelMeasure], request: SweepRequest
) -> pd.DataFrame:
    """Numbers of every method and step as shares of 1 (:data:`COLUMNS`); empty where none was in sequence."""
    steps: dict[tuple[str, int], str] = {}
    tables: list[pd.DataFrame] = []
    if any(requests_before(model) for model in models):
        for seed, asked in _Asked.by_seed(models).items():
            for (method, made_for, on), model in asked.models.items():
                if method and made_for == on:
                    step = len(requests_before(model)) + 1
                    steps[method, step] = made_for
                    tables += [
                        part.assign(method=method, step=step, seed=seed) for part in _step(asked, model, swept)
                    ]
    if not tables:
        return pd.DataFrame(columns=list(COLUMNS))
    draws = Draws(pd.concat(tables, ignore_index=True), LABELS, replicates=request.replicates, seed=request.seed)
    rows = []
    for (method, step), split in sorted(steps.items()):
        for measure in measures:
            for name in (*SHOWN, GONE, STAYS, STILL_WORKS):
                number = _number(draws, method, step, name, measure, request.seed)
                counts = {key: getattr(number, key) for key in ("n_subjects", "by_seed", "reason")}
                place = {"method": method, "step": step, "split": swept.scopes[split].split, "set": name}
                rows.append({**place, "measure": measure.name, **edges(number), **counts})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _step(asked: _Asked, model: Evaluated, swept: LevelModels) -> Iterator[pd.DataFrame]:
    """Score tables of one step: the request's own questions, those of earlier ones, and what is to stay."""
    method, own, before = model.run.label, str(model.run.info.made_for), requests_before(model)
    gone = {
        record.record_id
        for name in before
        for record in swept.benchmark.records_of(swept.benchmark.split(name), "forget")
    }
    left = {q.question_id for q in swept.benchmark.questions if q.record_id not in gone}
    table = _trained(model, own, swept)
    yield table[table["side"] == "forget"].assign(set=OWN)
    yield table[(table["side"] == "retain") & table["item"].isin(left)].assign(set=KEPT)
    target = asked.models.get(("", own, own))
    if target is not None:
        knew = _trained(target, own, swept)
        yield knew[(knew["side"] == "retain") & knew["item"].isin(left)].assign(set=KNOWN_KEPT)
    places = {BEFORE: [("", own, own)], EARLIER: [(method, own, name) for name in before]}
    places[THEN] = [(method, name, name) for name in before]
    places[KNOWN] = [("", name, name) for name in before]
    for name, keys in places.items():
        if keys and all(key in asked.models for key in keys):
            parts = [_trained(asked.models[key], key[2], swept) for key in keys]
            yield pd.concat([part[part["side"] == "forget"] for part in parts]).assign(set=name)


def _trained(model: Evaluated, split: str, swept: LevelModels) -> pd.DataFrame:
    table = swept.scores(model, split)
    return table[table["fold"] == "train"]


def _number(draws: Draws, method: str, step: int, name: str, measure: LevelMeasure, seed: int) -> Contrast:
    """A step's number on a set, or a weighted sum of several (:data:`COMBINED`)."""
    weights = COMBINED.get(name, {name: 1.0})
    drawn = (EARLIER, THEN) if name in (EARLIER, CAME_BACK) else tuple(weights)
    stratum = Stratum.of(stable_seed("sequence", *drawn, seed), method=method, step=step, set=drawn)
    return draws.contrast(
        [
            Term(
                weight * measure.scale,
                {"method": method, "step": step, "set": of, "kind": measure.kind},
                measure.measure,
                stratum,
            )
            for of, weight in weights.items()
        ]
    )
