"""Cost of a deletion for others: what the model says of other patients, and on general tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import pandas as pd

from medunlearn.data.records import DIRECT, RECORD
from medunlearn.probes.utility.numbers import Utility
from medunlearn.request.battery_checks import measurement
from medunlearn.request.case.evidence import CostReading, Measurement
from medunlearn.request.standings import GAP
from medunlearn.results.evaluated import Evaluated

CostGroup = Literal["relatives", "neighbours", "other patients", "one patient", "general"]
LEAST_ANSWERED = 0.3
"""Mean ROUGE-L of answers to direct questions from which a model counts as able to answer them."""
LEAST_OF_ONE = 0.5
"""Share of the score before that a single patient keeps at least: one patient's few answers vary by chance."""


def costs(
    before: Evaluated,
    after: Evaluated,
    retrained: Evaluated | None,
    *,
    relatives: Collection[str],
    neighbours: Collection[str],
    unseen: Collection[str],
    floor: float | None,
    pseudonyms: Mapping[str, str],
) -> list[CostReading]:
    """Loss on others' answers: ROUGE-L on retained patients, by their nearness to the patients of the request.

    Answers to direct questions have readings of their own: they have a floor only if the model could answer them
    before (:data:`LEAST_ANSWERED`). Each relative has a reading, and so has the patient who lost most.

    Args:
        relatives: retained patients who share an identifier with a patient of the request.
        neighbours: retained patients of the same group.
    """
    models = [model.table for model in (before, after, retrained) if model is not None]
    means = [_means(table, unseen, direct=False) for table in models]
    readings = [
        *_group_costs(means, relatives, neighbours, "Answers", floor),
        *_direct_costs([_means(table, unseen, direct=True) for table in models], relatives, neighbours, floor),
    ]
    singles = {who: _of_one(who, means, floor, pseudonyms) for who in means[0]}
    shares = {who: one.retained_share for who, one in singles.items() if one.retained_share is not None}
    shown = dict.fromkeys([*(who for who in sorted(relatives) if who in singles), *_worst(shares)])
    return [*readings, *(singles[who] for who in shown)]


def _group_costs(
    means: Sequence[Mapping[str, float]],
    relatives: Collection[str],
    neighbours: Collection[str],
    answers: str,
    floor: float | None,
) -> Iterator[CostReading]:
    """A reading for each group of patients with answers."""
    groups: Mapping[CostGroup, tuple[str, Collection[str]]] = {
        "relatives": ("patients who share an identifier", {*relatives}),
        "neighbours": ("patients of the same group", {*neighbours} - {*relatives}),
        "other patients": ("other patients", {*means[0]} - {*neighbours, *relatives}),
    }
    for group, (whom, members) in groups.items():
        values = [[model[who] for who in sorted(members) if who in model] for model in means]
        if values[0]:
            numbers = [measurement(of_patients, len(of_patients), "patients") for of_patients in values]
            yield _cost(group, f"{answers} on {whom}", "ROUGE-L", numbers, floor)


def _direct_costs(
    means: Sequence[Mapping[str, float]],
    relatives: Collection[str],
    neighbours: Collection[str],
    floor: float | None,
) -> Iterator[CostReading]:
    for reading in _group_costs(means, relatives, neighbours, "Answers to direct questions", floor):
        score = reading.before.value
        can_answer = score is not None and score >= LEAST_ANSWERED
        update = {"name": f"direct {reading.name}", "floor": floor if can_answer else None}
        yield reading.model_copy(update=update)


def _worst(shares: Mapping[str, float]) -> list[str]:
    return [min(shares, key=lambda who: (shares[who], who))] if shares else []


def _of_one(
    patient: str, means: Sequence[Mapping[str, float]], floor: float | None, pseudonyms: Mapping[str, str]
) -> CostReading:
    values = [measurement([model[patient]] if patient in model else [], 1, "patients") for model in means]
    pseudonym = pseudonyms[patient]
    title = f"Answers on patient {pseudonym[:12]}"
    reading = _cost("one patient", title, "ROUGE-L", values, None if floor is None else min(floor, LEAST_OF_ONE))
    return reading.model_copy(update={"name": f"patient {pseudonym[:12]}", "patient": pseudonym})


def general_cost(before: Utility, after: Utility, retrained: Utility | None, *, floor: float | None) -> CostReading:
    """Loss on tasks of lm-evaluation-harness."""

    def measured(utility: Utility) -> Measurement:
        row = utility.summary.iloc[-1]
        n = int(row["n_scored"])
        if utility.value is None:
            return Measurement(value=None, n=n, unit="questions", reason=utility.reason)
        low, high = (None if pd.isna(row[name]) else float(row[name]) for name in ("low", "high"))
        return Measurement(value=utility.value, low=low, high=high, n=n, unit="questions")

    values = [measured(utility) for utility in (before, after, retrained) if utility is not None]
    return _cost("general", "Answers on general tasks", before.description, values, floor)


def _cost(
    group: CostGroup, title: str, measure: str, values: Sequence[Measurement], floor: float | None
) -> CostReading:
    """Cost from the values before and after, and of the retrained model if there is one."""
    before, after, *retrained = values
    return CostReading(
        name=group,
        title=title,
        group=group,
        measure=measure,
        higher_is_better=True,
        before=before,
        after=after,
        retrained=retrained[0] if retrained else None,
        floor=floor,
    )


def _means(table: pd.DataFrame, unseen: Collection[str], *, direct: bool) -> dict[str, float]:
    """Mean over the answers about each retained patient: to direct questions, or to all others."""
    rows = table[(table["side"] == "retain") & (table["measure"] == "rouge_l") & (table["kind"] != RECORD)]
    rows = rows[~rows["subject"].isin([*unseen]) & rows["value"].notna() & ((rows["kind"] == DIRECT) == direct)]
    # Gaps are answered badly by a model that was trained on notes: what is lost does not show there.
    rows = rows[rows["kind"] != GAP] if (rows["kind"] != GAP).any() else rows
    return {str(who): float(value) for who, value in rows.groupby("subject")["value"].mean().items()}
