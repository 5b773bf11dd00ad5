"""Tables of a judge panel: majority verdicts, distributions, agreement; intervals over subjects.

Nothing is dropped: missing verdicts have their own row, and count in the denominators of the shares, not in the
numerators.

Source: AMNESIA, Appendices F and G.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.origins import Provenance, any_drawn
from medunlearn.judging.judges import PANEL
from medunlearn.judging.rater_agreement import AGREEMENT_COLUMNS, agreement_row, pair_rows
from medunlearn.judging.tasks import JudgingCase, JudgingTask
from medunlearn.results.summary import summarize
from medunlearn.statistics.agreement import Scale, fleiss_kappa, krippendorff_alpha, row_agreement

NONE = "no verdict"
ALL = "all"
Votes = list[str | None]
_INTERVAL = ["low", "high", "n_subjects"]
_PANEL_COLUMNS = {
    "case_id": "str",
    "verdict": "object",
    "rating": "Float64",
    "n_verdicts": "int64",
    "reason": "object",
}


@dataclass(frozen=True)
class JudgePanel:
    """Judgements of a panel (:func:`medunlearn.judging.panel.ask`), input of all tables.

    Cases and judges are in the order of the tables; replicates and seed belong to the bootstrap over subjects.

    Attributes:
        controls: judgements of the control cases (:mod:`medunlearn.judging.controls`); empty if none were asked.
        provenance: one entry per judge; empty if it was not recorded.
    """

    task: JudgingTask
    cases: Sequence[JudgingCase]
    judges: Sequence[str]
    judgements: pd.DataFrame
    replicates: int = 1000
    seed: int = 0
    controls: pd.DataFrame = field(default_factory=pd.DataFrame)
    provenance: tuple[Provenance, ...] = ()

    @property
    def drawn(self) -> bool:
        """True if any judge's verdicts were drawn at random."""
        return any_drawn(self.provenance)

    @property
    def bootstrap(self) -> dict[str, Any]:
        """Bootstrap settings."""
        return {"replicates": self.replicates, "seed": self.seed}

    @property
    def subjects(self) -> list[str]:
        return [case.subject for case in self.cases]

    @cached_property
    def votes(self) -> dict[str, Votes]:
        """Judge -> its verdict on each case; None if it gave none."""
        rows = self.judgements[["case_id", "judge", "verdict"]].itertuples(index=False)
        verdicts = {(case, judge): verdict for case, judge, verdict in rows if isinstance(verdict, str)}
        return {judge: [verdicts.get((case.case_id, judge)) for case in self.cases] for judge in self.judges}

    def verdicts(self) -> dict[str, Votes]:
        """:attr:`votes`, plus those of the panel if several judges gave verdicts."""
        if len(self.judges) < 2 or self.task.rates:
            return self.votes
        by_case = zip(*self.votes.values(), strict=True)
        return {**self.votes, PANEL: [majority(of_case, self.task.split)[0] for of_case in by_case]}

    def pair_rows(
        self, on: str, raters: tuple[str, str], votes: tuple[Votes, Votes], categories: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Agreement of two raters of its cases (:func:`~medunlearn.judging.rater_agreement.pair_rows`)."""
        return pair_rows(on, raters, votes, self.subjects, categories, ordered=self.task.rates, **self.bootstrap)

    def panel_verdicts(self) -> pd.DataFrame:
        """One row per case: case_id, verdict (null for ratings), rating (null for verdicts), n_verdicts, reason.

        ``reason`` explains why a case has neither.
        """
        failed: dict[str, list[str]] = {}
        for row in self.judgements[self.judgements["verdict"].isna()].to_dict("records"):
            failed.setdefault(row["case_id"], []).append(f"{row['judge']}: {row['status']}, {row['reason']}")
        rows = []
        for place, case in enumerate(self.cases):
            votes = [of_judge[place] for of_judge in self.votes.values()]
            verdict, rating, why = None, None, None
            if self.task.rates:
                rating, why = mean_rating(votes)
            else:
                verdict, why = majority(votes, self.task.split)
            reason = f"{why} ({'; '.join(failed.get(case.case_id, []))})" if why else None
            rows.append((case.case_id, verdict, rating, sum(vote is not None for vote in votes), reason))
        return pd.DataFrame(rows, columns=list(_PANEL_COLUMNS), dtype=object).astype(_PANEL_COLUMNS)


def majority(votes: Sequence[str | None], split: str) -> tuple[str | None, str | None]:
    """The verdict of more than half of the judges and None, or None and the reason.

    A missing verdict (None) counts in the number of judges, so the only verdict of three judges is no majority.
    ``split``: more than half of the judges gave a verdict, without a majority.
    """
    verdicts = [vote for vote in votes if vote is not None]
    if not votes or 2 * len(verdicts) <= len(votes):
        return None, f"{len(verdicts)} of {len(votes)} judges gave a verdict"
    verdict, times = Counter(verdicts).most_common(1)[0]
    return (verdict, None) if 2 * times > len(votes) else (split, None)


def mean_rating(votes: Sequence[str | None]) -> tuple[float | None, str | None]:
    """The mean of all judges' ratings; None if one is missing, since judges differ in strictness."""
    values = [float(vote) for vote in votes if vote is not None]
    if not votes or len(values) < len(votes):
        return None, f"{len(values)} of {len(votes)} judges gave a rating"
    return sum(values) / len(values), None


def distribution(panel: JudgePanel) -> pd.DataFrame:
    """Verdicts by judge, over all cases and for each group (Tables 8, 9 and 12).

    Returns:
        One row per group (``all`` first), judge (the panel last) and verdict: n, share (of the group's cases; 0-1),
        low, high (95%), n_subjects, n_cases.
    """
    judges = panel.verdicts()
    rows = [
        (judge, verdict, case, float((vote or NONE) == verdict))
        for verdict in (*panel.task.verdicts, panel.task.split, NONE)
        for judge, votes in judges.items()
        if verdict != panel.task.split or judge == PANEL
        for case, vote in zip(panel.cases, votes, strict=True)
    ]
    table = _summary(panel, rows).rename(columns={"measure": "verdict", "value": "share", "n_scored": "n_cases"})
    table["n"] = (table["share"] * table["n_cases"]).round().astype("int64")
    return table[["group", "judge", "verdict", "n", "share", *_INTERVAL, "n_cases"]]


def ratings(panel: JudgePanel) -> pd.DataFrame:
    """Mean rating by judge, over all cases and for each group; for a rating task.

    Returns:
        One row per group and judge (the panel last): mean (1-10), low, high, n_subjects, n_scored, n_unscored.
    """
    ratings_of = {
        judge: [np.nan if vote is None else float(vote) for vote in votes] for judge, votes in panel.votes.items()
    }
    if len(panel.judges) > 1:
        ratings_of[PANEL] = panel.panel_verdicts()["rating"].astype("float64").tolist()
    rows = [
        (judge, "rating", case, rating)
        for judge, values in ratings_of.items()
        for case, rating in zip(panel.cases, values, strict=True)
    ]
    table = _summary(panel, rows).rename(columns={"value": "mean"})
    return table[["group", "judge", "mean", *_INTERVAL, "n_scored", "n_unscored"]]


def criteria(panel: JudgePanel) -> pd.DataFrame:
    """Share of cases that meet each criterion, by judge; empty for tasks without criteria."""
    rows = []
    for judge in panel.judges:
        rows_of = panel.judgements[(panel.judgements["judge"] == judge) & panel.judgements["detail"].notna()]
        pairs = zip(rows_of["case_id"], rows_of["detail"], strict=True)
        details = {case: json.loads(detail) for case, detail in pairs}
        names = dict.fromkeys(n for detail in details.values() for n, v in detail.items() if isinstance(v, bool))
        for name in names:
            rows += [
                (judge, name, case, float(details[case.case_id][name]) if case.case_id in details else np.nan)
                for case in panel.cases
            ]
    if not rows:
        return pd.DataFrame()
    table = _summary(panel, rows)
    table = table[table["group"] == ALL].rename(
        columns={"measure": "criterion", "value": "share", "n_scored": "n_cases"}
    )
    return table[["judge", "criterion", "share", *_INTERVAL, "n_cases"]]


def _summary(panel: JudgePanel, rows: Sequence[tuple[str, str, JudgingCase, float]]) -> pd.DataFrame:
    """Means by judge and measure (in row order) over all cases, then for every group if there are several."""
    scores = pd.DataFrame(
        [(judge, measure, case.case_id, case.subject, case.group, value) for judge, measure, case, value in rows],
        columns=["judge", "measure", "item", "subject", "group", "value"],
    )
    parts = [scores.assign(group=ALL)]
    if scores["group"].nunique() > 1:
        parts.append(scores.sort_values("group", kind="stable"))
    summaries = [summarize(part, ("group", "judge"), **panel.bootstrap) for part in parts]
    floats = dict.fromkeys(("value", "low", "high"), "float64")
    return pd.concat(summaries, ignore_index=True).astype(floats)


def agreements(panel: JudgePanel) -> pd.DataFrame:
    """Agreement of the judges (Tables 10 and 13); empty for a single judge.

    The papers' pairwise agreement is on the verdicts as given, their Fleiss' kappa on two classes, the positive
    verdict against all others. Both scales are reported for both measures: ``on`` is ``verdicts`` or ``two
    classes`` (for ratings: ``ratings`` as categories, and with quadratic weights). Fleiss' kappa needs a verdict of
    every judge; Krippendorff's alpha (nominal; interval for ratings) uses every case with two verdicts.

    Returns:
        One row per measure, scale and pair (or all judges): measure, on, first, second, value, low, high, words
        (interpretation of a kappa), n_cases, n_subjects.
    """
    rows: list[dict[str, Any]] = []
    for on, categories, collapse in _scales(panel.task) if len(panel.judges) > 1 else ():
        votes = {
            judge: [None if vote is None else collapse(vote) for vote in own] for judge, own in panel.votes.items()
        }
        for first, second in combinations(votes, 2):
            rows += panel.pair_rows(on, (first, second), (votes[first], votes[second]), categories)
        together = [list(of_case) for of_case in zip(*votes.values(), strict=True)]
        for measure, function in (("fleiss_kappa", fleiss_kappa), ("row_agreement", row_agreement)):
            estimate = function(together, panel.subjects, categories, **panel.bootstrap)
            rows.append(agreement_row(measure, on, "all", "", estimate))
        scale: Scale = "interval" if panel.task.rates else "nominal"
        alpha = krippendorff_alpha(together, panel.subjects, categories, scale=scale, **panel.bootstrap)
        rows.append(agreement_row("krippendorff_alpha", on, "all", "", alpha))
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _scales(task: JudgingTask) -> Iterator[tuple[str, Sequence[str], Callable[[str], str]]]:
    yield "ratings" if task.rates else "verdicts", task.verdicts, lambda verdict: verdict
    if not task.rates and len(task.verdicts) > 2:
        other = f"not {task.positive}"
        yield "two classes", (task.positive, other), lambda verdict: verdict if verdict == task.positive else other
