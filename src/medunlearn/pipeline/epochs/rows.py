"""Membership and utility of a model in training, as rows of the table of epochs.

Their rows have no side, fold and kind, so that the rule of the best epoch does not read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacked
from medunlearn.attacks.membership.results import AUC
from medunlearn.attacks.membership.run import reference_likelihoods
from medunlearn.attacks.membership.sample import EVERY, Candidate
from medunlearn.attacks.run import attack_one, attackable
from medunlearn.config import AttackSettings, UtilitySettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.builders import GROUPINGS
from medunlearn.models.load import LanguageModel
from medunlearn.pipeline.utility.found import Utility
from medunlearn.pipeline.utility.measure import utility_one
from medunlearn.reports.epochs import MEMBERSHIP, UTILITY
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes


@dataclass
class Watch:
    """What is measured after each epoch besides the evaluation; nothing where both settings are None."""

    benchmark: Benchmark
    attack: AttackSettings | None = None
    utility: UtilitySettings | None = None
    quiet: bool = False

    def rows(
        self,
        run: Run,
        live: LanguageModel,
        processes: Processes | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> pd.DataFrame:
        """Measure a model; what was measured of this run before is not measured again.

        Args:
            run: the epoch's own.
            live: its model in memory, in evaluation mode.
            processes: that hold the same model and share the work; each calls this alike.
            check: raises KeyboardInterrupt where the run is to stop.
        """
        found = []
        if self.attack is not None:
            attacked = attack_one(
                run, self.benchmark, self._who, self.attack, self._likelihoods(str(live.device)),
                quiet=self.quiet, live=live, processes=processes,
            )  # fmt: skip
            found += membership_rows(attacked, self.benchmark) if attacked.tells_members else []
            check()
        if self.utility is not None:
            measured = utility_one(run, self.utility, quiet=self.quiet, live=live, processes=processes, check=check)
            found.append(utility_row(measured))
        return _frame(found)

    @cached_property
    def _who(self) -> list[Candidate]:
        assert self.attack is not None
        return attackable(self.benchmark, self.attack)

    def _likelihoods(self, device: str) -> Callable[[int | None], Sequence[float]]:
        """Of the reference model, which does not change from epoch to epoch."""
        if "_known" not in self.__dict__:
            settings = self.attack
            assert settings is not None

            @cache
            def known(longest: int | None) -> list[float]:
                source = str(settings.reference)
                return reference_likelihoods(source, self._who, longest, settings, device, self.quiet)

            self.__dict__["_known"] = known
        found: Callable[[int | None], Sequence[float]] = self.__dict__["_known"]
        return found


def membership_rows(attacked: Attacked, benchmark: Benchmark) -> list[dict[str, Any]]:
    """The area of each attack on each group of documents; ``metric`` is the attack."""
    grouping = GROUPINGS.get(benchmark.builder)
    return [
        {
            "level": "" if row["group"] == EVERY or grouping is None else grouping.level,
            "node": "" if row["group"] == EVERY else row["group"],
            "measure": MEMBERSHIP,
            "metric": row["attack"],
            "value": row["value"],
            "low": row["low"],
            "high": row["high"],
            "n_scored": row["n_members"] + row["n_nonmembers"],
            "n_unscored": row["n_unscored"],
            "n_subjects": row["n_subjects"],
        }
        for row in attacked.summary.to_dict("records")
        if row["measure"] == AUC
    ]


def utility_row(measured: Utility) -> dict[str, Any]:
    """Utility over all tasks that were named; ``metric`` is theirs."""
    row = measured.summary.iloc[-1]
    shown = {name: row[name] for name in ("metric", "value", "low", "high", "n_scored", "n_unscored")}
    return {"level": "", "node": "", "measure": UTILITY, "n_subjects": int(row["n_scored"]), **shown}


def _frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    if not rows:
        return pd.DataFrame()
    words = dict.fromkeys(("side", "fold", "kind", "parts"), "")
    table = pd.DataFrame([{**words, "replicates_dropped": 0, **row} for row in rows])
    counts = dict.fromkeys(("n_scored", "n_unscored", "n_subjects", "replicates_dropped"), "int64")
    return table.astype({**dict.fromkeys(("value", "low", "high"), "Float64"), **counts})
