"""Search for the learning rate of each method, by the same rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

import pandas as pd

from medunlearn.data.origins import DRAWN
from medunlearn.errors import MedunlearnError
from medunlearn.results.composites import COMPOSITES, Composite, harmonic_mean
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.study.choose import Worth, choose

FOLD = "train"
UTILITY, FORGETTING = COMPOSITES
RULE = (
    "The rate with the largest harmonic mean of utility and forgetting on the train fold of the search's split; of "
    "equal ones the smaller rate. A rate that failed is not chosen, nor one of a broken model while another works."
)


@dataclass(frozen=True)
class Trial:
    """One method at one learning rate.

    Attributes:
        utility: MU's available parts on the retain set, 0-1, higher = the model retains more.
        forgetting: AFE's available parts on the forget set, 0-1, higher = the model forgot more.
        score: the harmonic mean of both; None if one is missing.
        utility_name, forgetting_name: ``MU`` and ``AFE`` only with all their parts, else the parts.
        reason: why there is no score.
        problem: why its model is broken, if it is.
    """

    method: str
    lr: float
    utility: float | None = None
    forgetting: float | None = None
    score: float | None = None
    chosen: bool = False
    utility_name: str = ""
    forgetting_name: str = ""
    reason: str = ""
    problem: str = ""


def trial_of(method: str, lr: float, summary: pd.DataFrame, problem: str = "", undecided: str = "") -> Trial:
    """Utility and forgetting at a rate, from the summary of its model's evaluation.

    Args:
        undecided: reason why these numbers decide nothing, so that the rate gets no score.
    """
    utility, utility_name = composite_value(summary, UTILITY)
    forgetting, forgetting_name = composite_value(summary, FORGETTING)
    trial = Trial(
        method, lr, utility, forgetting, utility_name=utility_name, forgetting_name=forgetting_name, problem=problem
    )
    if utility is None or forgetting is None:
        missing = UTILITY if utility is None else FORGETTING
        return replace(trial, reason=f"no part of {missing.name} was scored on the {missing.side} set")
    if undecided:
        return replace(trial, reason=undecided)
    return replace(trial, score=harmonic_mean([utility, forgetting]))


def composite_value(summary: pd.DataFrame, composite: Composite, fold: str = FOLD) -> tuple[float | None, str]:
    """A composite's value over all kinds of a fold, and its name, which depends on the available parts."""
    places = (summary["side"] == composite.side) & (summary["fold"] == fold) & (summary["kind"] == ALL_KINDS)
    for row in summary[places].to_dict("records"):
        parts = [part for part in row["parts"].split(",") if part]
        if row["measure"] == composite.shown_as(parts) and not pd.isna(row["value"]):
            return float(row["value"]), str(row["measure"])
    return None, composite.name


def best_rate(rows: Sequence[Trial]) -> float:
    """The best learning rate of one method; where numbers were drawn at random, the smallest, for a rehearsal.

    Raises:
        MedunlearnError: no rate has a score; with reasons.
    """
    if any(DRAWN in row.reason for row in rows):
        return min(row.lr for row in rows)
    best = choose([Worth(None if row.score is None else -row.score, bool(row.problem), row.lr) for row in rows])
    if best is None:
        why = "; ".join(f"{row.lr:g}: {row.reason}" for row in rows)
        raise MedunlearnError(f"No learning rate of the search has a score ({why}). Try other rates.")
    return rows[best].lr


def at_edge(rows: Sequence[Trial], lr: float) -> str:
    """Warning for a rate at the edge of the search; "" inside it, or for a single rate."""
    rates = {row.lr for row in rows}
    if len(rates) > 1 and lr in (min(rates), max(rates)):
        side, other = ("largest", "larger") if lr == max(rates) else ("smallest", "smaller")
        return f"the {side} rate tried: try {other} ones"
    return ""


def search_table(rows: Sequence[Trial]) -> pd.DataFrame:
    """One row per method and rate: method, lr, utility, forgetting, score, chosen, and the names and reasons."""
    table = pd.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(Trial)])
    return table.astype(dict.fromkeys(("utility", "forgetting", "score"), "Float64"))
