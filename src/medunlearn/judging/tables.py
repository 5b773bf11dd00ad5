"""Tables of a judge panel: majority verdicts, distributions, agreement; intervals over subjects.

Nothing is dropped: a judge without a verdict is a row of its own, outside the shares' numerators but not outside
their denominators.

Source: AMNESIA, Appendices F and G.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.judging.judges import PANEL
from medunlearn.judging.task import JudgingCase, JudgingTask
from medunlearn.statistics.agreement import cohen_kappa, fleiss_kappa, in_words, observed_agreement, row_agreement
from medunlearn.statistics.bootstrap import Estimate, bootstrap_mean

NONE = "no verdict"
ALL = "all"


@dataclass(frozen=True)
class JudgePanel:
    """A panel's judgements, ready to be counted.

    Attributes:
        task: what was judged.
        cases: in the order of the tables.
        judges: their names, in order.
        judgements: as :func:`medunlearn.judging.panel.ask` gives them.
        replicates, seed: of the bootstrap over subjects.
    """

    task: JudgingTask
    cases: Sequence[JudgingCase]
    judges: Sequence[str]
    judgements: pd.DataFrame
    replicates: int = 1000
    seed: int = 0

    def verdicts(self) -> dict[str, list[str | None]]:
        """Judge (and panel) -> its verdict on each case."""
        verdicts = wide(self.judgements, self.judges, [case.case_id for case in self.cases])
        if len(self.judges) > 1 and not self.task.rates:
            votes = list(zip(*verdicts.values(), strict=True))
            verdicts[PANEL] = [majority(of_case, self.task.split)[0] for of_case in votes]
        return verdicts

    @property
    def subjects(self) -> list[str]:
        return [case.subject for case in self.cases]

    def panel_verdicts(self) -> pd.DataFrame:
        """One row a case; see :func:`panel_table`."""
        return panel_table(self.task, self.judgements, self.judges)


def majority(votes: Sequence[str | None], split: str) -> tuple[str | None, str | None]:
    """Verdict of more than half of the judges.

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
    verdicts = {
        (row["case_id"], row["judge"]): row["verdict"]
        for row in judgements.to_dict("records")
        if isinstance(row["verdict"], str)
    }
    return {judge: [verdicts.get((case_id, judge)) for case_id in case_ids] for judge in judges}


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


def distribution(panel: JudgePanel) -> pd.DataFrame:
    """Verdicts by judge, of all cases and of each group (Tables 8, 9 and 12).

    Returns:
        One row a group (``all`` first), judge (the panel last) and verdict: n, share (of the group's cases; 0-1),
        low, high (95%), n_cases, n_subjects.
    """
    rows: list[dict[str, Any]] = []
    for group, places in _groups(panel.cases):
        subjects = [panel.subjects[place] for place in places]
        for judge, all_of_judge in panel.verdicts().items():
            said = [all_of_judge[place] for place in places]
            for verdict in _shown(panel.task, judge):
                hits = [(one or NONE) == verdict for one in said]
                found = bootstrap_mean(
                    [float(hit) for hit in hits], subjects, replicates=panel.replicates, seed=panel.seed
                )
                row = {"group": group, "judge": judge, "verdict": verdict, "n": sum(hits)}
                rows.append(row | numbers(found, "share") | {"n_cases": found.n})
    return pd.DataFrame(rows)


def ratings(panel: JudgePanel) -> pd.DataFrame:
    """Mean rating by judge, of all cases and of each group; for a task that rates.

    Returns:
        One row a group and judge (the panel last): mean (1-10), low, high, n_scored, n_unscored, n_subjects.
    """
    of_panel = {row["case_id"]: row["rating"] for row in panel.panel_verdicts().to_dict("records")}
    given = {judge: [_number(one) for one in votes] for judge, votes in panel.verdicts().items()}
    if len(panel.judges) > 1:
        given[PANEL] = [_number(of_panel.get(case.case_id)) for case in panel.cases]
    rows = []
    for group, places in _groups(panel.cases):
        subjects = [panel.subjects[place] for place in places]
        for judge, values in given.items():
            found = bootstrap_mean(
                [values[place] for place in places], subjects, replicates=panel.replicates, seed=panel.seed
            )
            counts = {"n_scored": found.n, "n_unscored": len(places) - found.n}
            rows.append({"group": group, "judge": judge} | numbers(found, "mean") | counts)
    return pd.DataFrame(rows)


def agreements(panel: JudgePanel) -> pd.DataFrame:
    """How far the judges agree (Tables 10 and 13); empty for a single judge.

    The papers' pairwise agreement is on the verdicts as given, their Fleiss' kappa on two classes, the positive
    verdict against all others. Both are here of both: ``on`` is ``verdicts`` or ``two classes`` (for ratings:
    ``ratings`` as categories, and with quadratic weights).

    Returns:
        One row a measure, scale and pair (or all judges): measure, on, first, second, value, low, high, words
        (of a kappa), n_cases (that all of them judged), n_subjects.
    """
    said = {judge: votes for judge, votes in panel.verdicts().items() if judge != PANEL}
    if len(said) < 2:
        return pd.DataFrame(columns=_AGREEMENT)
    rows: list[dict[str, Any]] = []
    for on, categories, collapse in _scales(panel.task):
        votes = {judge: [None if one is None else collapse(one) for one in own] for judge, own in said.items()}
        for first, second in combinations(votes, 2):
            rows += pair_rows(panel, on, (first, second), (votes[first], votes[second]), categories)
        together = [list(of_case) for of_case in zip(*votes.values(), strict=True)]
        how: dict[str, Any] = {"replicates": panel.replicates, "seed": panel.seed}
        kappa = fleiss_kappa(together, panel.subjects, categories, **how)
        rows.append(agreed("fleiss_kappa", on, "all", "", kappa, words=True))
        share = row_agreement(together, panel.subjects, categories, **how)
        rows.append(agreed("row_agreement", on, "all", "", share))
    return pd.DataFrame(rows, columns=_AGREEMENT)


def criteria(panel: JudgePanel) -> pd.DataFrame:
    """How often each judge found each criterion met, for a task whose answers say so; empty for others."""
    rows = []
    for judge in panel.judges:
        own = panel.judgements[panel.judgements["judge"] == judge]
        given = {row["case_id"]: row["detail"] for row in own.to_dict("records")}
        details = {case_id: json.loads(detail) for case_id, detail in given.items() if isinstance(detail, str)}
        names = dict.fromkeys(n for detail in details.values() for n, v in detail.items() if isinstance(v, bool))
        for name in names:
            values = [float(details[c.case_id][name]) if c.case_id in details else np.nan for c in panel.cases]
            found = bootstrap_mean(values, panel.subjects, replicates=panel.replicates, seed=panel.seed)
            rows.append({"judge": judge, "criterion": name} | numbers(found, "share") | {"n_cases": found.n})
    return pd.DataFrame(rows)


_AGREEMENT = ["measure", "on", "first", "second", "value", "low", "high", "words", "n_cases", "n_subjects"]


def _groups(cases: Sequence[JudgingCase]) -> Iterator[tuple[str, list[int]]]:
    """``all`` and every group, with the places of their cases; no group where all are of one."""
    yield ALL, list(range(len(cases)))
    names = sorted({case.group for case in cases})
    for name in names if len(names) > 1 else []:
        yield name, [place for place, case in enumerate(cases) if case.group == name]


def _shown(task: JudgingTask, judge: str) -> tuple[str, ...]:
    return (*task.verdicts, *((task.split,) if judge == PANEL else ()), NONE)


def _scales(task: JudgingTask) -> Iterator[tuple[str, tuple[str, ...], Callable[[str], str]]]:
    yield "ratings" if task.rates else "verdicts", task.verdicts, lambda one: one
    if not task.rates and len(task.verdicts) > 2:
        other = f"not {task.positive}"
        yield "two classes", (task.positive, other), lambda one: one if one == task.positive else other


def pair_rows(
    panel: JudgePanel,
    on: str,
    names: tuple[str, str],
    votes: tuple[Sequence[str | None], Sequence[str | None]],
    categories: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Agreement of two raters: the share of equal verdicts, Cohen's kappa and, of ratings, its weighted form."""
    how: dict[str, Any] = {"replicates": panel.replicates, "seed": panel.seed}
    yield agreed("agreement", on, *names, observed_agreement(*votes, panel.subjects, **how))
    kappa = cohen_kappa(*votes, panel.subjects, categories, **how)
    yield agreed("cohen_kappa", on, *names, kappa, words=True)
    if panel.task.rates:
        kappa = cohen_kappa(*votes, panel.subjects, categories, weights="quadratic", **how)
        yield agreed("weighted_kappa", on, *names, kappa, words=True)


def agreed(
    measure: str, on: str, first: str, second: str, estimate: Estimate, *, words: bool = False
) -> dict[str, Any]:
    """A row of a table of agreement."""
    named = {"measure": measure, "on": on, "first": first, "second": second}
    meaning = in_words(estimate.value) if words else ""
    return named | numbers(estimate, "value") | {"words": meaning, "n_cases": estimate.n}


def numbers(estimate: Estimate, name: str) -> dict[str, Any]:
    """Value, interval and subjects behind it, as cells of a table."""
    low, high, n_subjects = estimate.low, estimate.high, estimate.n_clusters
    return {name: estimate.value, "low": low, "high": high, "n_subjects": n_subjects}


def _number(value: Any) -> float:
    return np.nan if value is None or pd.isna(value) else float(value)
