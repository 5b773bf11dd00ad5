"""Sequential requests: what each forgets, whether earlier ones come back, and what is retained.

ICU-Bench's numbers of continual unlearning, by request: forgetting of the request itself, historical
forgetting (all earlier requests, asked again), its stability (that minus the same questions right after their own
request), and the retain set without what earlier requests forgot. The finding on sequences reads weighted sums of
these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.measures import LevelMeasure
from medunlearn.papers.medforget.models import LevelModels
from medunlearn.papers.sweeps.contrasts import contrast_row
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
TABLE_HEADS = {
    BEFORE: "target on it",
    OWN: "forgotten now",
    EARLIER: "earlier requests",
    CAME_BACK: "of these came back",
    KEPT: "retain set",
}
"""A number of a step -> its head in the table."""
LABELS = ("method", "step", "set", "kind", "level")
COLUMNS = (
    *("method", "step", "split", "set", "measure", "value", "low", "high", "p"),
    *("n_subjects", "by_seed", "reason"),
)


_Tables = Mapping[tuple[str, str, str], pd.DataFrame]
"""(Method, made for, asked about) -> scores of one training seed on trained questions; of the target no method."""


def sequence_numbers(
    models: Sequence[Evaluated], swept: LevelModels, measures: Sequence[LevelMeasure], request: SweepRequest
) -> pd.DataFrame:
    """Numbers of every method and step as shares of 1 (:data:`COLUMNS`); empty without sequential requests."""
    before: dict[tuple[str, str], Sequence[str]] = {
        (model.run.label, str(model.run.info.made_for)): model.run.info.results.get("forgotten_before", ())
        for model in models
    }
    if not any(before.values()):
        return pd.DataFrame(columns=list(COLUMNS))
    steps: dict[tuple[str, int], str] = {}
    parts: list[pd.DataFrame] = []
    for seed, tables in _trained_scores(models, swept).items():
        for method, made_for, split in tables:
            if method and made_for == split:
                earlier = before[method, split]
                step = len(earlier) + 1
                steps[method, step] = split
                sets = _step(tables, method, split, earlier, swept.benchmark)
                parts += [table.assign(method=method, step=step, seed=seed) for table in sets]
    draws = Draws(pd.concat(parts, ignore_index=True), LABELS, replicates=request.replicates, seed=request.seed)
    rows, scopes = [], swept.forget_sets.scopes
    for (method, step), split in sorted(steps.items()):
        for measure in measures:
            for name in (*TABLE_HEADS, GONE, STAYS, STILL_WORKS):
                number = _number(draws, method, step, name, measure, request.seed)
                place = {"method": method, "step": step, "split": scopes[split].split, "set": name}
                rows.append(contrast_row(number) | place | {"measure": measure.name})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _trained_scores(models: Sequence[Evaluated], swept: LevelModels) -> dict[int, _Tables]:
    by_seed: dict[int, dict[tuple[str, str, str], pd.DataFrame]] = defaultdict(dict)
    for model in models:
        if model.run.role in (TARGET, UNLEARNED):
            split, scores = str(model.record.info.split), swept.labelled(model.table)
            trained = scores[(scores["fold"] == "train") & (scores["variant"] == "")]
            made_for = (model.run.label, str(model.run.info.made_for))
            place = (*(("", split) if model.run.role == TARGET else made_for), split)
            by_seed[int(model.run.info.config["seed"])][place] = trained
    return dict(by_seed)


def _step(
    tables: _Tables, method: str, own: str, before: Sequence[str], benchmark: Benchmark
) -> Iterator[pd.DataFrame]:
    """Score tables of one step: the request's own questions, those of earlier ones, and those to retain."""
    forgotten = {r.record_id for name in before for r in benchmark.records_of(benchmark.split(name), "forget")}
    retained = {q.question_id for q in benchmark.questions if q.record_id not in forgotten}
    for name, place in ((KEPT, (method, own, own)), (KNOWN_KEPT, ("", own, own))):
        if place in tables:
            table = tables[place]
            yield table[(table["side"] == "retain") & table["item"].isin(retained)].assign(set=name)
    places = {
        OWN: [(method, own, own)],
        BEFORE: [("", own, own)],
        EARLIER: [(method, own, name) for name in before],
        THEN: [(method, name, name) for name in before],
        KNOWN: [("", name, name) for name in before],
    }
    for name, keys in places.items():
        if keys and all(key in tables for key in keys):
            table = pd.concat([tables[key] for key in keys])
            yield table[table["side"] == "forget"].assign(set=name)


def _number(draws: Draws, method: str, step: int, name: str, measure: LevelMeasure, seed: int) -> Contrast:
    """A step's number on a set, or a weighted sum of several (:data:`COMBINED`)."""
    weights = COMBINED.get(name, {name: 1.0})
    joint = (EARLIER, THEN) if name in (EARLIER, CAME_BACK) else tuple(weights)
    stratum = Stratum.of(stable_seed("sequence", *joint, seed), method=method, step=step, set=joint)
    terms = []
    for part, weight in weights.items():
        cell = {"method": method, "step": step, "set": part, **measure.labels}
        terms.append(Term(weight * measure.scale, cell, measure.measure, stratum))
    return draws.contrast(terms)
