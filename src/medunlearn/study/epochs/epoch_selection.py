"""``epochs.parquet``: its rows, and the best epoch by a stated rule.

Training uses the validation loss (:data:`VALIDATION_RULE`): the lowest is best. Unlearning uses the harmonic mean
of utility and forgetting (:func:`forgetting_rule`), so that both are needed. Its parts, on the first evaluated
fold:

- where the benchmark's paper breaks its measures down by node (LUME: regurgitation and knowledge of each task),
  each on retain unchanged, and on forget as 1 minus it; knowledge by type of identifier repeats a task's
  knowledge and is not a part;
- otherwise the composites of all kinds together: MU on retain and AFE on forget, or their available parts.

A part without a value is skipped. An epoch that lacks a part of another epoch is not comparable and has no number.
Ties go to the earlier epoch. The target, epoch 0, is never chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.paper import IDENTIFIER, paper_of
from medunlearn.results.composites import COMPOSITES, harmonic_mean
from medunlearn.results.evaluated import Evaluated, joined
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.study.choose import Worth, choose

if TYPE_CHECKING:
    from medunlearn.attacks.attacked import Attacked

TABLE = "epochs.parquet"
VALIDATION_LOSS = "validation loss"
"""Its measure in ``epochs.parquet``."""
UTILITY = "utility"
"""Measure of rows that belong to no question: utility on general tasks."""
_FIRST_COLUMNS = ("epoch", "level", "node", "measure")


@dataclass(frozen=True)
class EpochStanding:
    """Value of one epoch by the rule.

    Attributes:
        parts: parts of the number, 0-1, higher = better.
        value: harmonic mean of the parts, 0-1, higher = more utility and forgetting together; None without a part
            of each side, or if another epoch has parts that this one lacks. For the validation rule: the loss.
        least: True if the lowest value is best.
        problem: why the model is broken after this epoch; "" if it is healthy.
    """

    epoch: int
    parts: dict[str, float]
    value: float | None
    least: bool = False
    problem: str = ""

    @property
    def worth(self) -> Worth:
        """Worth in a choice."""
        loss = self.value if self.value is None or self.least else -self.value
        return Worth(loss, bool(self.problem))

    def facts(self) -> dict[str, Any]:
        broken = {"problem": self.problem} if self.problem else {}
        return {"epoch": self.epoch, "value": self.value, "parts": self.parts, **broken}


def best_of(standings: Sequence[EpochStanding]) -> EpochStanding | None:
    """The best epoch so far; ties go to the first; None if no epoch has a number.

    An epoch with a broken model is best only if all epochs with a number have one.
    """
    best = choose([standing.worth for standing in standings])
    return None if best is None else standings[best]


def is_over(standings: Sequence[EpochStanding], patience: int) -> bool:
    """True if at least ``patience`` epochs passed since the best one; never with a patience of 0.

    Without any number the first epoch counts as the best.
    """
    if not patience or not standings:
        return False
    best = best_of(standings) or standings[0]
    return standings[-1].epoch - best.epoch >= patience


def stop_epoch(standings: Sequence[EpochStanding], patience: int) -> int | None:
    """The epoch after which a run with this patience stops; None if it trains to its last epoch."""
    return next(
        (standing.epoch for place, standing in enumerate(standings, 1) if is_over(standings[:place], patience)),
        None,
    )


class Rule(NamedTuple):
    """A rule for the best epoch: function from ``epochs.parquet`` to standings after the first epoch, with a
    description.
    """

    standings: Callable[[pd.DataFrame], list[EpochStanding]]
    words: Callable[[Sequence[EpochStanding]], str]


def forgetting_rule(fold: str) -> Rule:
    """Utility on retain and forgetting on forget, on one fold."""

    def words(standings: Sequence[EpochStanding]) -> str:
        parts = max((list(standing.parts) for standing in standings), key=len, default=[])
        names = ", ".join(parts) or "no part was scored"
        return (
            f"harmonic mean of utility on retain and forgetting on forget ({names}), fold {fold}; "
            "higher is better, of equal epochs the earlier"
        )

    return Rule(lambda epochs: by_forgetting(epochs, fold), words)


def by_forgetting(epochs: pd.DataFrame, fold: str) -> list[EpochStanding]:
    """Standings of every epoch after the target by the forgetting rule, in order."""
    rows = epochs[(epochs["epoch"] > 0) & (epochs["fold"] == fold) & (epochs["level"] != IDENTIFIER)]
    parts = {epoch: _parts(rows[rows["epoch"] == epoch]) for epoch in sorted(rows["epoch"].unique().tolist())}
    names = set().union(*parts.values())
    both_sides = all(any(name.endswith(f" on {side}") for name in names) for side in ("forget", "retain"))
    return [
        EpochStanding(
            epoch, values, harmonic_mean(list(values.values())) if both_sides and values.keys() == names else None
        )
        for epoch, values in parts.items()
    ]


def _parts(rows: pd.DataFrame) -> dict[str, float]:
    """Name of each part with its side -> its value, higher = better."""
    scored = rows[rows["value"].notna()]
    parts: dict[str, float] = {}
    if (rows["node"] != "").any():
        for row in scored[scored["node"] != ""].to_dict("records"):
            value, name = float(row["value"]), f"{row['measure']} of {row['node']} on {row['side']}"
            parts |= {f"1-{name}": 1.0 - value} if row["side"] == "forget" else {name: value}
        return parts
    composites = scored[(scored["kind"] == ALL_KINDS) & (scored["parts"] != "")]
    for composite in COMPOSITES:
        for row in composites[composites["side"] == composite.side].to_dict("records"):
            if row["metric"] == composite.shown_as(str(row["parts"]).split(",")):
                parts[f"{row['metric']} on {composite.side}"] = float(row["value"])
    return parts


def by_validation_loss(epochs: pd.DataFrame) -> list[EpochStanding]:
    """Standings of every epoch after the first by validation loss."""
    rows = epochs[(epochs["epoch"] > 0) & (epochs["measure"] == VALIDATION_LOSS)].sort_values("epoch")
    values = [None if pd.isna(value) else float(value) for value in rows["value"]]
    return [
        EpochStanding(int(epoch), {} if value is None else {VALIDATION_LOSS: value}, value, least=True)
        for epoch, value in zip(rows["epoch"], values, strict=True)
    ]


VALIDATION_RULE = Rule(by_validation_loss, lambda standings: "least validation loss; of equal epochs the earlier")
"""Source: Memorization in Large Language Models in Medicine, Section 3.3 (early stopping)."""


def evaluation_rows(evaluated: Evaluated) -> pd.DataFrame:
    """Rows of one evaluation run, without the epoch."""
    summary = evaluated.summary
    return joined([summary.assign(level="", node="", metric=summary["measure"]), evaluated.groups])


def attack_rows(attacked: Attacked, benchmark: Benchmark) -> list[dict[str, Any]]:
    """Rows of the attacks on a model, by group of documents where the benchmark has groups."""
    from medunlearn.attacks.attacked import all_families

    grouping = paper_of(benchmark.builder).grouping
    parts = [replace(attacked, family=family) for family in all_families([attacked.record])]
    level = "" if grouping is None else grouping.level
    return [row for part in parts if part.measured for row in part.family.epoch_rows(part, level)]


def tracked_numbers(table: pd.DataFrame) -> dict[str, float]:
    """Numbers over the whole split for a tracker: ``forget/train/factual/rouge_l``."""
    whole = table[(table["level"] == "") & table["value"].notna()]
    labels = [name for name in ("side", "fold", "kind", "metric") if name in whole.columns]
    return {
        "/".join(str(row[name]) for name in labels if row[name]): float(row["value"])
        for row in whole.to_dict("records")
    }


def watched_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    columns = ("level", "node", "measure", "metric", "value", "low", "high", "n_scored", "n_unscored", "n_subjects")
    labels = dict.fromkeys(("side", "fold", "kind", "parts"), "")
    nowhere = {"level": "", "node": ""}
    table = pd.DataFrame(
        [{**labels, "replicates_dropped": 0, **{name: (nowhere | row)[name] for name in columns}} for row in rows]
    )
    counts = dict.fromkeys(("n_scored", "n_unscored", "n_subjects", "replicates_dropped"), "int64")
    return table.astype({**dict.fromkeys(("value", "low", "high"), "Float64"), **counts})


def with_epoch(table: pd.DataFrame, epoch: int) -> pd.DataFrame:
    """Rows with their epoch, and columns in order."""
    table = table.assign(epoch=epoch)
    return table[[*_FIRST_COLUMNS, *(name for name in table.columns if name not in _FIRST_COLUMNS)]]
