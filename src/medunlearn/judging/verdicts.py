"""From judgements to one verdict a case: the majority of the panel, or a reason why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from medunlearn.judging.judges import PANEL
from medunlearn.judging.task import JudgingTask


def majority(votes: Sequence[str | None], split: str) -> tuple[str | None, str | None]:
    """What more than half of the judges say.

    Args:
        votes: a verdict a judge; None from one that gave none. It counts as a judge all the same, so that a panel
            of three that lost two does not pass off the third as its majority.
        split: the verdict where no majority is to be had, though more than half of the judges spoke.

    Returns:
        The verdict and None, or None and the reason.
    """
    given = [vote for vote in votes if vote is not None]
    if not votes or 2 * len(given) <= len(votes):
        return None, f"{len(given)} of {len(votes)} judges gave a verdict"
    verdict, times = Counter(given).most_common(1)[0]
    return (verdict, None) if 2 * times > len(votes) else (split, None)


def mean_rating(votes: Sequence[str | None]) -> tuple[float | None, str | None]:
    """The mean of all judges' ratings; none where one is missing, since judges differ in how strict they are."""
    given = [float(vote) for vote in votes if vote is not None]
    if not votes or len(given) < len(votes):
        return None, f"{len(given)} of {len(votes)} judges gave a rating"
    return sum(given) / len(given), None


def wide(judgements: pd.DataFrame, judges: Sequence[str], case_ids: Sequence[str]) -> dict[str, list[str | None]]:
    """Judge -> its verdict on each case, in the order of ``case_ids``; None where it gave none."""
    found = {
        (row["case_id"], row["judge"]): row["verdict"]
        for row in judgements.to_dict("records")
        if isinstance(row["verdict"], str)
    }
    return {judge: [found.get((case_id, judge)) for case_id in case_ids] for judge in judges}


def panel_table(task: JudgingTask, judgements: pd.DataFrame, judges: Sequence[str]) -> pd.DataFrame:
    """One row a case: case_id, verdict (null for ratings), rating (null for verdicts), n_verdicts, reason.

    ``reason`` says why a case has neither: what became of the judges that gave none.
    """
    case_ids = list(dict.fromkeys(judgements["case_id"]))
    votes = wide(judgements, judges, case_ids)
    failed: dict[str, list[str]] = {}
    for row in judgements.to_dict("records"):
        if not isinstance(row["verdict"], str):
            failed.setdefault(row["case_id"], []).append(f"{row['judge']}: {row['status']}, {row['reason']}")
    rows = []
    for place, case_id in enumerate(case_ids):
        of_case = [votes[judge][place] for judge in judges]
        verdict, rating, why = None, None, None
        if task.rates:
            rating, why = mean_rating(of_case)
        else:
            verdict, why = majority(of_case, task.split)
        reason = f"{why} ({'; '.join(failed.get(case_id, []))})" if why else None
        n_verdicts = sum(vote is not None for vote in of_case)
        rows.append((case_id, verdict, rating, n_verdicts, reason))
    kinds = {"case_id": "str", "verdict": "object", "rating": "Float64", "n_verdicts": "int64", "reason": "object"}
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return pd.DataFrame(
        {name: pd.Series(column, dtype=kind) for (name, kind), column in zip(kinds.items(), columns, strict=True)}
    )


def all_verdicts(
    task: JudgingTask, judgements: pd.DataFrame, judges: Sequence[str], case_ids: Sequence[str]
) -> dict[str, list[str | None]]:
    """:func:`wide` with the panel's verdicts last, where there is more than one judge and they are no ratings."""
    found = wide(judgements, judges, case_ids)
    if len(judges) > 1 and not task.rates:
        found[PANEL] = [
            majority([found[judge][place] for judge in judges], task.split)[0] for place in range(len(case_ids))
        ]
    return found
