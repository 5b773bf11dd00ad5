"""Judges held against people, and people against each other (AMNESIA, Appendix F.3 and Table 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pandas as pd

from medunlearn.judging.tables import Panel, agreed, numbers
from medunlearn.statistics.agreement import Rating, cohen_kappa, confusion, fleiss_kappa, observed_agreement
from medunlearn.statistics.bootstrap import bootstrap_mean

AGREEMENT = (
    *("measure", "annotator", "other", "value", "low", "high", "words"),
    *("n_cases", "n_excluded", "n_labelled", "n_subjects"),
)
CONFUSION = ("annotator", "judge", "human", "verdict", "n")


def confusions(panel: Panel, people: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """One row an annotator, judge (the panel last), human verdict and judge's verdict: how many cases (Table 11).

    A verdict that is no Yes or No (Ambiguous, Disagree, none) is in no cell; :func:`with_people` counts them.
    """
    categories = _categories(panel)
    rows = []
    for person, labels in people.items():
        own = _of_person(panel, labels)
        for judge, said in panel.verdicts().items():
            table = confusion(own, said, categories)
            rows += [
                (person, judge, human, verdict, int(table[row, column]))
                for row, human in enumerate(categories)
                for column, verdict in enumerate(categories)
            ]
    return pd.DataFrame(rows, columns=list(CONFUSION))


def with_people(panel: Panel, people: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Agreement of each annotator with each judge and the panel, and of annotators among themselves.

    Measures: ``agreement`` and ``cohen_kappa`` on the cases that both decided; for ratings ``weighted_kappa``
    (quadratic) as well; ``both_positive``, the share of all labelled cases that both call positive. AMNESIA's
    text reads this last one (814 of 900, 90.4%) as the agreement of its annotator with its panel; Table 11(d)
    gives 831 of 897, 92.6%. ``fleiss_kappa`` where three or more annotators labelled the same cases.

    Returns:
        One row a measure, annotator and other (a judge, ``panel``, or another annotator): value, low, high, words,
        n_cases (behind the value), n_excluded (labelled, but without such a verdict), n_labelled, n_subjects.
    """
    rows: list[dict[str, Any]] = []
    own = {person: _of_person(panel, labels) for person, labels in people.items()}
    for person, labelled in own.items():
        for judge, said in panel.verdicts().items():
            decided = [one if one in _categories(panel) else None for one in said]
            rows += _two(panel, person, judge, labelled, decided)
            if not panel.task.rates:
                rows.append(_both_positive(panel, person, judge, labelled, said))
    for first, second in combinations(own, 2):
        rows += _two(panel, first, second, own[first], own[second])
    if len(own) > 2:
        together = [list(of_case) for of_case in zip(*own.values(), strict=True)]
        found = fleiss_kappa(
            together, panel.subjects, _categories(panel), replicates=panel.replicates, seed=panel.seed
        )
        shared = sum(None not in of_case for of_case in together)
        rows.append(_named(agreed("fleiss_kappa", "", "all", "", found, words=True), shared))
    return pd.DataFrame(rows, columns=list(AGREEMENT))


def _categories(panel: Panel) -> tuple[str, ...]:
    return panel.task.verdicts if panel.task.rates else (panel.task.positive, panel.task.negative)


def _of_person(panel: Panel, labels: Mapping[str, str]) -> list[Rating]:
    return [labels.get(case.case_id) for case in panel.cases]


def _two(
    panel: Panel, person: str, other: str, labelled: list[Rating], said: list[Rating]
) -> Iterator[dict[str, Any]]:
    how: dict[str, Any] = {"replicates": panel.replicates, "seed": panel.seed}
    n_labelled = sum(one is not None for one in labelled)
    found = observed_agreement(labelled, said, panel.subjects, **how)
    yield _named(agreed("agreement", "", person, other, found), n_labelled)
    kappa = cohen_kappa(labelled, said, panel.subjects, _categories(panel), **how)
    yield _named(agreed("cohen_kappa", "", person, other, kappa, words=True), n_labelled)
    if panel.task.rates:
        kappa = cohen_kappa(labelled, said, panel.subjects, _categories(panel), weights="quadratic", **how)
        yield _named(agreed("weighted_kappa", "", person, other, kappa, words=True), n_labelled)


def _both_positive(
    panel: Panel, person: str, judge: str, labelled: list[Rating], said: list[Rating]
) -> dict[str, Any]:
    positive = panel.task.positive
    places = [place for place, one in enumerate(labelled) if one is not None]
    found = bootstrap_mean(
        [float(labelled[place] == said[place] == positive) for place in places],
        [panel.subjects[place] for place in places],
        replicates=panel.replicates,
        seed=panel.seed,
    )
    row = {"measure": "both_positive", "first": person, "second": judge, "words": "", "n_cases": found.n}
    return _named(row | numbers(found, "value"), len(places))


def _named(row: dict[str, Any], n_labelled: int) -> dict[str, Any]:
    renamed = {"annotator": row["first"], "other": row["second"]}
    return row | renamed | {"n_labelled": n_labelled, "n_excluded": n_labelled - row["n_cases"]}
