"""The differences that MedForget's findings are read from.

Each is a weighted sum of the numbers shown in the report, under draws of patients that its terms share: a patient
in two forget sets is drawn once for both. m is the unlearned, t the target, r the retrained model, f the model of
the same method unlearned on the flat split of as many sections; all are shares of 1.

- ``known``: t - r. Above 0: there is something to forget.
- ``forgotten``: t - m, on forget and rephrase; ``lost``: the same on retain and general.
- ``over retrained``: m - r. Above 0 on forget: more is left than a model knows that never saw it.
- ``forgotten more``: t - m on forget at the coarsest level, minus the same at the finest.
- ``lost more``: the same on retain, and on general.
- ``rephrased over original``: m on the rephrased questions minus m on the original ones.
- ``flat over hierarchical``: f - m on the forget set of the level.

Under the reconstruction attack, on the forget set, with all identifiers in front of the question:

- ``leaks``: m - r.
- ``identifiers help``: m - m without identifiers.
- ``leaks more``: m - r, minus the same of the model unlearned at the coarsest level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.papers.amnesia.swept.draws import Draws, Stratum, Term
from medunlearn.papers.medforget.report.content import (
    FLAT,
    GROUPS,
    IDENTIFIERS,
    LEVELS,
    MEASURES,
    RETRAINED_MODEL,
    TARGET_MODEL,
    Group,
    Measure,
    Scope,
    Who,
    flat,
    unlearned,
)

COLUMNS = ("contrast", "split", "method", "group", "measure", "value", "low", "high", "n_subjects", "reason")
_BY_NAME = {group.name: group for group in GROUPS}
FORGET, RETAIN, REPHRASE, GENERAL = (_BY_NAME[name] for name in ("forget", "retain", "rephrase", "general"))
GIVEN = {name: Group(f"given {name}", name, "forget", f"given {name}", True) for name in IDENTIFIERS}
NONE, ALL = GIVEN[IDENTIFIERS[0]], GIVEN[IDENTIFIERS[-1]]
T, R = TARGET_MODEL, RETRAINED_MODEL


@dataclass(frozen=True, slots=True)
class _Part:
    """One number of a difference: whose, on which split and set."""

    weight: float
    split: str
    who: Who
    group: Group


def contrasts(draws: Draws, context: str, scopes: dict[str, Scope]) -> pd.DataFrame:
    """Every difference of every method and measure; one without a value says why.

    Args:
        scopes: split -> scope, levels from the coarsest to the finest.

    Returns:
        contrast, split, method, group, measure, value, low, high, n_subjects, reason.
    """
    rows: list[dict[str, Any]] = []
    for measure in MEASURES:
        for split, scope in scopes.items():
            rows += _known(draws, context, split, measure)
            for method in draws.cells.methods:
                if unlearned(method) in draws.cells.of(context, split):
                    rows += _of_split(draws, context, split, scope, method, measure)
        for method in draws.cells.methods:
            rows += _of_levels(draws, context, scopes, method, measure)
    # Splits are named as a report may name them.
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(split=table["split"].map({name: scope.split for name, scope in scopes.items()}))


def _known(draws: Draws, context: str, split: str, measure: Measure) -> Iterator[dict[str, Any]]:
    parts = [_Part(1, split, T, FORGET), _Part(-1, split, R, FORGET)]
    yield _row(draws, context, "known", split, "", FORGET, measure, parts)


def _of_split(
    draws: Draws, context: str, split: str, scope: Scope, method: str, measure: Measure
) -> Iterator[dict[str, Any]]:
    m = unlearned(method)

    def row(name: str, group: Group, parts: Sequence[_Part]) -> dict[str, Any]:
        return _row(draws, context, name, split, method, group, measure, parts)

    for group in GROUPS:
        below = [_Part(1, split, T, group), _Part(-1, split, m, group)]
        yield row("forgotten" if group.lower else "lost", group, below)
        yield row("over retrained", group, [_Part(1, split, m, group), _Part(-1, split, R, group)])
    yield row("rephrased over original", REPHRASE, [_Part(1, split, m, REPHRASE), _Part(-1, split, m, FORGET)])
    if scope.level != FLAT:
        parts = [_Part(1, split, flat(method), FORGET), _Part(-1, split, m, FORGET)]
        yield row("flat over hierarchical", FORGET, parts)
    yield row("leaks", ALL, _leak(split, m))
    yield row("identifiers help", ALL, [_Part(1, split, m, ALL), _Part(-1, split, m, NONE)])


def _leak(split: str, who: Who, weight: float = 1.0) -> list[_Part]:
    return [_Part(weight, split, who, ALL), _Part(-weight, split, R, ALL)]


def _of_levels(
    draws: Draws, context: str, scopes: dict[str, Scope], method: str, measure: Measure
) -> Iterator[dict[str, Any]]:
    """The coarsest level against finer ones, where the method was run on both."""
    m = unlearned(method)
    there = [name for name in ladder(scopes) if m in draws.cells.of(context, name)]
    if len(there) < 2:
        return
    coarse, fine = there[0], there[-1]
    for name, group in (("forgotten more", FORGET), ("lost more", RETAIN), ("lost more", GENERAL)):
        parts = [
            _Part(sign * weight, split, who, group)
            for sign, split in ((1, coarse), (-1, fine))
            for weight, who in ((1, T), (-1, m))
        ]
        yield _row(draws, context, name, coarse, method, group, measure, parts)
    for split in there[1:]:
        parts = [*_leak(split, m), *_leak(coarse, m, -1.0)]
        yield _row(draws, context, "leaks more", split, method, ALL, measure, parts)


def ladder(scopes: dict[str, Scope]) -> list[str]:
    """One split a level, from the coarsest; of several the one that forgets least."""
    found: dict[str, str] = {}
    for name, scope in scopes.items():
        if scope.level in LEVELS:
            found.setdefault(scope.level, name)
    return list(found.values())


def _row(
    draws: Draws,
    context: str,
    name: str,
    split: str,
    method: str,
    group: Group,
    measure: Measure,
    parts: Sequence[_Part],
) -> dict[str, Any]:
    splits = tuple(sorted({part.split for part in parts}))
    terms = [
        Term(
            part.weight * measure.scale,
            Stratum(context, splits, part.group.side),
            part.split,
            part.who,
            part.group.fold,
            measure.kind,
            measure.metric,
        )
        for part in parts
    ]
    found, _ = draws.contrast(terms)
    return {
        "contrast": name,
        "split": split,
        "method": method,
        "group": group.name,
        "measure": measure.name,
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n_subjects": found.n_subjects,
        "reason": found.reason,
    }
