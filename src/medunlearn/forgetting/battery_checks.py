"""Checks of a battery from where models stand on patients, and what it cost others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

import pandas as pd

from medunlearn.cases.evidence import (
    TOGETHER,
    Baseline,
    BatteryCheck,
    Comparison,
    CostReading,
    Measurement,
    ProbeSet,
    Unit,
    Untested,
)
from medunlearn.data.records import RECORD
from medunlearn.forgetting.standings import GAP, AskingWay, Standings
from medunlearn.pipeline.utility.numbers import Utility
from medunlearn.reports.formatting import count
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.others import LEAST_OTHERS, OthersGap, chance_of_surprise, compare_with_others

LEAST_SPREAD = 0.25
"""Of the margin: least spread among patients whom no model saw, so that no hair's breadth is a finding."""


@dataclass(frozen=True)
class BatteryMaterial:
    """Models and patients that checks compare.

    Attributes:
        before, after, retrained: where the models stand; ``retrained`` never saw the patients.
        patients: whom the checks are about.
        unseen: patients whom no model saw.
        invented: whether these are invented.
        margin: an excess up to this counts as none.
        held_out: whether the choice of settings did not see the probes.
    """

    before: Standings
    after: Standings
    retrained: Standings | None
    patients: Sequence[str]
    unseen: Sequence[str]
    invented: bool
    margin: float
    held_out: bool
    concerns: Literal["this request", "earlier requests"] = "this request"

    def checks(self) -> Iterator[BatteryCheck]:
        """A check for each way of asking in which both models were measured."""
        for name, way in self.after.ways.items():
            after = self.after.of(name, self.patients)
            if after and name in self.before.ways:
                yield self._check(name, way)

    def together(self, alpha: float) -> BatteryCheck | None:
        """The mean over probes of the ways of asking that found the patients before; None of fewer than two.

        One patient has few facts of a kind, so each way alone can tell a difference of 0.3 at best, even of a model
        that never saw her. Her mean over all her probes is nearer to a stranger's where she is one.

        Args:
            alpha: largest p of a way that found them.
        """
        found = [check for check in self.checks() if _found_before(check, alpha)]
        if len(found) < 2:
            return None
        ways = [check.name for check in found]
        n = sum(check.probes.n for check in found)
        after, before = self._excess_over(self.after, ways), self._excess_over(self.before, ways)
        return BatteryCheck(
            name=TOGETHER,
            title="Together, as far as they found the patient before",
            measure="mean over their probes",
            higher="more is left",
            probes=ProbeSet(name=TOGETHER, kind=f"{len(ways)} of them", n=n, held_out=self.held_out),
            before=self._mean_measured(self.before, ways, n),
            after=self._mean_measured(self.after, ways, n),
            retrained=None if self.retrained is None else self._mean_measured(self.retrained, ways, n),
            unseen=measurement(self._means(self.after, ways, self.unseen), len(self.unseen), "patients"),
            comparison=self._compared(after, before),
        )

    def _mean_measured(self, standings: Standings, ways: Sequence[str], n: int) -> Measurement:
        return measurement(self._means(standings, ways, self.patients), n, "probes")

    def _means(self, standings: Standings, ways: Sequence[str], patients: Sequence[str]) -> list[float]:
        """Of each patient the mean over her probes in some ways of asking."""
        values = {way: standings.values[way] for way in ways}
        return [mean for who in patients if (mean := self._mean_of(who, values)) is not None]

    def _mean_of(self, who: str, values: Mapping[str, Mapping[str, float]]) -> float | None:
        """Mean of a patient's values by way of asking, each as often as she has probes there."""
        weights = {way: self.after.probes[way].get(who, 0) for way in values if who in values[way]}
        total = sum(weights.values())
        return fsum(values[way][who] * weight for way, weight in weights.items()) / total if total else None

    def _excess_over(self, standings: Standings, ways: Sequence[str]) -> OthersGap | None:
        """Excess of the patients' means over some ways, each way above its mean of those whom no model saw."""
        above: dict[str, dict[str, float]] = {}
        for way in ways:
            values = self._differences(standings, way)
            strangers = [values[who] for who in self.unseen if who in values]
            centre = fsum(strangers) / len(strangers)
            above[way] = {who: value - centre for who, value in values.items()}
        mine, theirs = (
            [mean for who in patients if (mean := self._mean_of(who, above)) is not None]
            for patients in (self.patients, self.unseen)
        )
        return compare_with_others(mine, theirs, least_spread=LEAST_SPREAD * self.margin)

    def _check(self, name: str, way: AskingWay) -> BatteryCheck:
        prefix, earlier = "", self.concerns == "earlier requests"
        if earlier:
            prefix = "earlier "
        n = sum(self.after.probes[name].get(patient, 0) for patient in self.patients)
        return BatteryCheck(
            name=prefix + name,
            title=way.title,
            measure=way.measure,
            higher="more is left",
            concerns=self.concerns,
            probes=ProbeSet(name=prefix + name, kind=way.given, n=n, held_out=self.held_out or earlier),
            before=self._measured(self.before, name),
            after=self._measured(self.after, name),
            retrained=None if self.retrained is None else self._measured(self.retrained, name),
            unseen=self._unseen(name),
            comparison=self._comparison(name),
        )

    def _measured(self, standings: Standings, name: str) -> Measurement:
        values = standings.of(name, self.patients)
        n = sum(standings.probes.get(name, {}).get(patient, 0) for patient in self.patients)
        return measurement(values, n, "probes")

    def _unseen(self, name: str) -> Measurement | None:
        values = self.after.of(name, self.unseen)
        return measurement(values, len(values), "patients") if values else None

    def _comparison(self, name: str) -> Comparison | None:
        return self._compared(self._excess(self.after, name), self._excess(self.before, name))

    def _compared(self, after: OthersGap | None, before: OthersGap | None) -> Comparison | None:
        if after is None:
            return None
        baseline: Baseline = "invented patients" if self.invented else "unseen patients"
        return Comparison(
            baseline="retrained model" if self.retrained is not None else baseline,
            excess=Measurement(value=after.value, low=after.low, high=after.high, n=after.others, unit="patients"),
            margin=self.margin,
            p=after.p,
            p_before=None if before is None else before.p,
        )

    def _excess(self, standings: Standings, name: str) -> OthersGap | None:
        """Excess of the patients over those whom no model saw; beside a retrained model, over it."""
        mine, theirs = (
            [values[who] for who in patients if who in values]
            for values, patients in (
                (self._differences(standings, name), self.patients),
                (self._differences(standings, name), self.unseen),
            )
        )
        gap = compare_with_others(mine, theirs, least_spread=LEAST_SPREAD * self.margin)
        chance = self._chance(standings, name)
        return gap if gap is None or chance is None else replace(gap, p=chance)

    def _chance(self, standings: Standings, name: str) -> float | None:
        """p of ranks by their exact tests; None beside a retrained model, or of what is no rank."""
        known = standings.surprises.get(name)
        if known is None or self.retrained is not None:
            return None
        few, others = ([known[who] for who in who_all if who in known] for who_all in (self.patients, self.unseen))
        return chance_of_surprise(few, others)

    def _differences(self, standings: Standings, name: str) -> Mapping[str, float]:
        values = standings.values.get(name, {})
        if self.retrained is None:
            return values
        beside = self.retrained.values.get(name, {})
        return {who: value - beside[who] for who, value in values.items() if who in beside}

    def untested(self) -> Iterator[Untested]:
        """Ways of asking without a baseline, and those in which not every patient could be asked."""
        for check in self.checks():
            number = len(self.after.of(check.name, self.patients))
            if number < len(self.patients):
                yield Untested(
                    name=f"{check.name} of all",
                    title=f"{check.title}: {len(self.patients) - number} of {count(len(self.patients), 'patient')}",
                    reason="no probe of this kind could be made of their notes",
                )
            if check.comparison is None:
                yield Untested(
                    name=f"{check.name} baseline",
                    title=f"{check.title}: against patients whom no model saw",
                    reason=f"fewer than {LEAST_OTHERS} of them could be asked in this way",
                )


def _found_before(check: BatteryCheck, alpha: float) -> bool:
    p = None if check.comparison is None else check.comparison.p_before
    return p is not None and p < alpha


def measurement(values: Sequence[float], n: int, unit: Unit) -> Measurement:
    """The mean of patients' numbers; without any, the reason."""
    if not values:
        return Measurement(value=None, n=0, unit=unit, reason="no probe of this kind could be scored")
    return Measurement(value=fsum(values) / len(values), n=n, unit=unit)


def costs(
    before: Evaluated,
    after: Evaluated,
    retrained: Evaluated | None,
    *,
    neighbours: Collection[str],
    unseen: Collection[str],
    floor: float | None,
) -> list[CostReading]:
    """Loss of others' answers: ROUGE-L on retained patients, those of the same group apart."""
    found = []
    for group, title in (
        ("neighbours", "Answers on patients of the same group"),
        ("other patients", "Answers on other patients"),
    ):
        tables = [
            None if one is None else _others(one.table, group, neighbours, unseen)
            for one in (before, after, retrained)
        ]
        if tables[0] is None or tables[0].empty:
            continue
        readings = [None if table is None else _mean(table) for table in tables]
        found.append(
            CostReading.model_validate(
                {
                    "name": group,
                    "title": title,
                    "group": group,
                    "measure": "ROUGE-L",
                    "higher_is_better": True,
                    "before": readings[0],
                    "after": readings[1],
                    "retrained": readings[2],
                    "floor": floor,
                }
            )
        )
    return found


def general_cost(before: Utility, after: Utility, retrained: Utility | None, *, floor: float | None) -> CostReading:
    """Loss on tasks of lm-evaluation-harness."""

    def measured(one: Utility) -> Measurement:
        row = one.summary.iloc[-1]
        n = int(row["n_scored"])
        if one.value is None:
            return Measurement(value=None, n=n, unit="questions", reason=one.reason)
        low, high = (None if pd.isna(row[name]) else float(row[name]) for name in ("low", "high"))
        return Measurement(value=one.value, low=low, high=high, n=n, unit="questions")

    return CostReading(
        name="general",
        title="Answers on general tasks",
        group="general",
        measure=before.description,
        higher_is_better=True,
        before=measured(before),
        after=measured(after),
        retrained=None if retrained is None else measured(retrained),
        floor=floor,
    )


def _others(table: pd.DataFrame, group: str, neighbours: Collection[str], unseen: Collection[str]) -> pd.DataFrame:
    rows = table[(table["side"] == "retain") & (table["measure"] == "rouge_l") & (table["kind"] != RECORD)]
    rows = rows[~rows["subject"].isin([*unseen]) & rows["value"].notna()]
    # Gaps are answered badly by a model that was trained on notes: what is lost does not show there.
    rows = rows[rows["kind"] != GAP] if (rows["kind"] != GAP).any() else rows
    near = rows["subject"].isin([*neighbours])
    return rows[near if group == "neighbours" else ~near]


def _mean(rows: pd.DataFrame) -> Measurement:
    values = rows.groupby("subject")["value"].mean().tolist()
    return measurement(values, len(values), "patients")
