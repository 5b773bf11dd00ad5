"""The differences that MedForget's findings are read from.

Each is a weighted sum of the numbers shown in the report, under draws of patients that its terms share: a patient
in two forget sets is drawn once for both. m is the unlearned, t the target, r the retrained model, f the model of
the same method unlearned on the flat split of as many sections; all are shares of 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.papers.medforget.sweep import (
    FLAT,
    FORGET,
    GENERAL,
    GIVEN,
    GROUPS,
    IDENTIFIERS,
    MEASURES,
    REPHRASE,
    RETAIN,
    Group,
    LevelMeasure,
    Scope,
    flat,
    ladder,
    level_term,
)
from medunlearn.papers.sweeps.models import RETRAINED_MODEL, TARGET_MODEL, SweepDraws, unlearned

COLUMNS = ("contrast", "split", "method", "group", "measure", "value", "low", "high", "n_subjects", "reason")
M, T, R, F = "m", "t", "r", "f"
NONE, ALL = GIVEN[IDENTIFIERS[0]], GIVEN[IDENTIFIERS[-1]]
"""The forget set under the attack with no name, and with all of them, in front of the question."""

LevelPart = tuple[float, str, Group, str]
"""Weight, model (m, t, r or f), group of questions, split."""


def of_split(split: str, level: str) -> Iterator[tuple[str, Group, tuple[LevelPart, ...]]]:
    """Name, group and parts of the contrasts on one split."""
    for group in GROUPS:
        name = "forgotten" if group.lower else "lost"
        yield name, group, ((1, T, group, split), (-1, M, group, split))
        # On the forget set, above 0: more is left than a model knows that never saw it.
        yield "over retrained", group, ((1, M, group, split), (-1, R, group, split))
    yield "rephrased over original", REPHRASE, ((1, M, REPHRASE, split), (-1, M, FORGET, split))
    if level != FLAT:
        yield "flat over hierarchical", FORGET, ((1, F, FORGET, split), (-1, M, FORGET, split))
    yield "leaks", ALL, ((1, M, ALL, split), (-1, R, ALL, split))
    yield "identifiers help", ALL, ((1, M, ALL, split), (-1, M, NONE, split))


def known(split: str) -> tuple[LevelPart, ...]:
    """Above 0: there is something to forget."""
    return ((1, T, FORGET, split), (-1, R, FORGET, split))


def of_levels(coarse: str, finer: Sequence[str]) -> Iterator[tuple[str, str, Group, tuple[LevelPart, ...]]]:
    """Name, split, group and parts of the coarsest level's contrasts with finer ones, the finest last."""
    fine = finer[-1]
    for name, group in (("forgotten more", FORGET), ("lost more", RETAIN), ("lost more", GENERAL)):
        dropped = ((1, T, group, coarse), (-1, M, group, coarse))
        yield name, coarse, group, (*dropped, (-1, T, group, fine), (1, M, group, fine))
    for split in finer:
        leak = ((1, M, ALL, split), (-1, R, ALL, split), (-1, M, ALL, coarse), (1, R, ALL, coarse))
        yield "leaks more", split, ALL, leak


def contrasts(draws: SweepDraws, context: str, scopes: Mapping[str, Scope]) -> pd.DataFrame:
    """Every contrast of every method and measure (:data:`COLUMNS`); one without a value says why.

    Args:
        scopes: split -> scope, levels from the coarsest to the finest.
    """
    rows: list[dict[str, Any]] = []
    models = draws.models

    def add(
        name: str, split: str, method: str, group: Group, measure: LevelMeasure, parts: Sequence[LevelPart]
    ) -> None:
        who = {M: unlearned(method), T: TARGET_MODEL, R: RETRAINED_MODEL, F: flat(method)}
        drawn = tuple(sorted({at for *_, at in parts}))
        terms = [
            level_term(draws, context, drawn, weight, at, who[model], of, measure)
            for weight, model, of, at in parts
        ]
        contrast = draws.contrast(terms)
        # Splits are named as a report may name them.
        labels = (name, scopes[split].split, method, group.name, measure.name)
        edges = (contrast.value, contrast.low, contrast.high, contrast.n_subjects, contrast.reason)
        rows.append(dict(zip(COLUMNS, (*labels, *edges), strict=True)))

    for measure in MEASURES:
        for split, scope in scopes.items():
            add("known", split, "", FORGET, measure, known(split))
            for method in models.methods:
                if unlearned(method) in models.of(context, split):
                    for name, group, parts in of_split(split, scope.level):
                        add(name, split, method, group, measure, parts)
        for method in models.methods:
            levels = [name for name in ladder(scopes) if unlearned(method) in models.of(context, name)]
            if len(levels) >= 2:
                for name, split, group, parts in of_levels(levels[0], levels[1:]):
                    add(name, split, method, group, measure, parts)
    return pd.DataFrame(rows, columns=list(COLUMNS))
