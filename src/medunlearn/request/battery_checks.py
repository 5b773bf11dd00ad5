"""Checks of a battery from the models' standings on patients, and the cost for others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal

import pandas as pd

from medunlearn.attacks.attack_protocol import AskingWay
from medunlearn.data.records import RECORD
from medunlearn.probes.utility.numbers import Utility
from medunlearn.reports.formatting import count
from medunlearn.request.case.evidence import (
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
from medunlearn.request.standings import GAP, Standings
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.others import LEAST_OTHERS, OthersGap, chance_of_surprise, compare_with_others

CostGroup = Literal["neighbours", "other patients", "general"]
LEAST_SPREAD = 0.25
"""Of the margin: least spread among patients whom no model saw, so that no hair's breadth is a finding."""


@dataclass(frozen=True)
class BatteryMaterial:
    """Models and patients that the checks compare.

    Attributes:
        before, after, retrained: standings of the models; ``retrained`` never saw the patients.
        patients: patients that the checks are about.
        unseen: patients that no model saw.
        invented: whether the unseen patients are invented.
        margin: an excess up to this counts as none.
    """

    before: Standings
    after: Standings
    retrained: Standings | None
    patients: Sequence[str]
    unseen: Sequence[str]
    invented: bool
    margin: float
    concerns: Literal["this request", "earlier requests"] = "this request"

    def checks(self) -> Iterator[BatteryCheck]:
        """One check for each way of asking measured in both models."""
        for name, way in self.after.ways.items():
            if self.after.of(name, self.patients) and name in self.before.ways:
                yield self._check(name, way)

    def together(self, alpha: float) -> BatteryCheck | None:
        """The mean over probes of the ways of asking that found the patients before; None for fewer than two ways.

        One patient has few facts of a kind, so a single way can detect a difference of 0.3 at best, even for a
        model that never saw the patient. The mean over all probes has a smaller variance.

        Args:
            alpha: significance level at which a way counts as having found them.
        """
        parts = [check for check in self.checks() if is_found_before(check.comparison, alpha)]
        if len(parts) < 2:
            return None
        ways = [check.name for check in parts]
        n = sum(check.probes.n for check in parts)
        after, before = self._mean_excess(self.after, ways), self._mean_excess(self.before, ways)
        return BatteryCheck(
            name=TOGETHER,
            title="Together, as far as they found the patient before",
            measure="mean over their probes",
            higher="more is left",
            probes=ProbeSet(name=TOGETHER, kind=f"{len(ways)} of them", n=n, held_out=True),
            unseen=measurement(self._means(self.after.values, ways, self.unseen), len(self.unseen), "patients"),
            comparison=self._comparison(after, before),
            **self._by_model(
                lambda model: measurement(self._means(model.values, ways, self.patients), n, "probes")
            ),
        )

    def _check(self, name: str, way: AskingWay) -> BatteryCheck:
        def measured(model: Standings) -> Measurement:
            probes = model.probes.get(name, {})
            n = sum(probes.get(patient, 0) for patient in self.patients)
            return measurement(model.of(name, self.patients), n, "probes")

        check_name = f"earlier {name}" if self.concerns == "earlier requests" else name
        by_model, unseen = self._by_model(measured), self.after.of(name, self.unseen)
        return BatteryCheck(
            name=check_name,
            title=way.title,
            measure=way.measure,
            higher="more is left",
            concerns=self.concerns,
            probes=ProbeSet(name=check_name, kind=way.prompt, n=by_model["after"].n, held_out=True),
            unseen=measurement(unseen, len(unseen), "patients") if unseen else None,
            comparison=self._comparison(self._excess(self.after, name), self._excess(self.before, name)),
            **by_model,
        )

    def _by_model(self, measured: Callable[[Standings], Measurement]) -> dict[str, Any]:
        retrained = None if self.retrained is None else measured(self.retrained)
        return {"before": measured(self.before), "after": measured(self.after), "retrained": retrained}

    def _means(
        self, values: Mapping[str, Mapping[str, float]], ways: Sequence[str], patients: Sequence[str]
    ) -> list[float]:
        """Each patient's mean over the probes of some ways of asking, for patients with probes."""
        means = []
        for patient in patients:
            probes = {way: self.after.probes[way].get(patient, 0) for way in ways if patient in values[way]}
            if total := sum(probes.values()):
                means.append(fsum(values[way][patient] * n for way, n in probes.items()) / total)
        return means

    def _mean_excess(self, model: Standings, ways: Sequence[str]) -> OthersGap | None:
        """Excess of the patients' means over some ways, relative to each way's mean over unseen patients."""
        above: dict[str, dict[str, float]] = {}
        for way in ways:
            values = self._differences(model, way)
            strangers = [values[who] for who in self.unseen if who in values]
            centre = fsum(strangers) / len(strangers)
            above[way] = {who: value - centre for who, value in values.items()}
        few, others = (self._means(above, ways, patients) for patients in (self.patients, self.unseen))
        return compare_with_others(few, others, least_spread=LEAST_SPREAD * self.margin)

    def _excess(self, model: Standings, name: str) -> OthersGap | None:
        """Excess of the patients over unseen patients; with a retrained model, over that model.

        For ranks, p is from the exact test; with a retrained model there is none.
        """
        values = self._differences(model, name)
        few, others = ([values[who] for who in group if who in values] for group in (self.patients, self.unseen))
        gap = compare_with_others(few, others, least_spread=LEAST_SPREAD * self.margin)
        tests = model.surprises.get(name)
        if gap is None or tests is None or self.retrained is not None:
            return gap
        theirs = [tests[who] for who in self.patients if who in tests]
        p = chance_of_surprise(theirs, [tests[who] for who in self.unseen if who in tests])
        return gap if p is None else replace(gap, p=p)

    def _differences(self, model: Standings, name: str) -> Mapping[str, float]:
        values = model.values.get(name, {})
        if self.retrained is None:
            return values
        beside = self.retrained.values.get(name, {})
        return {who: value - beside[who] for who, value in values.items() if who in beside}

    def _comparison(self, after: OthersGap | None, before: OthersGap | None) -> Comparison | None:
        if after is None:
            return None
        baseline: Baseline = "invented patients" if self.invented else "unseen patients"
        return Comparison(
            baseline=baseline if self.retrained is None else "retrained model",
            excess=Measurement(value=after.value, low=after.low, high=after.high, n=after.others, unit="patients"),
            margin=self.margin,
            p=after.p,
            p_before=None if before is None else before.p,
        )

    def untested(self) -> Iterator[Untested]:
        """Ways of asking without a baseline, and those without probes for some patients."""
        for check in self.checks():
            missing = len(self.patients) - len(self.after.of(check.name, self.patients))
            if missing:
                yield Untested(
                    name=f"{check.name} of all",
                    title=f"{check.title}: {missing} of {count(len(self.patients), 'patient')}",
                    reason="no probe of this kind could be made of their notes",
                )
            if check.comparison is None:
                yield Untested(
                    name=f"{check.name} baseline",
                    title=f"{check.title}: against patients whom no model saw",
                    reason=f"fewer than {LEAST_OTHERS} of them could be asked in this way",
                )


def is_found_before(comparison: Comparison | None, alpha: float) -> bool:
    """True if a check distinguished the patient from unseen patients in the model before."""
    return comparison is not None and comparison.p_before is not None and comparison.p_before < alpha


def measurement(values: Sequence[float], n: int, unit: Unit) -> Measurement:
    """The mean of the patients' numbers, or a reason without any."""
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
    """Loss on others' answers: ROUGE-L on retained patients, with those of the same group separate."""
    tables = [_retained_answers(model.table, unseen) for model in (before, after, retrained) if model is not None]
    groups: tuple[tuple[CostGroup, str], ...] = (
        ("neighbours", "Answers on patients of the same group"),
        ("other patients", "Answers on other patients"),
    )
    readings = []
    for group, title in groups:
        rows = [table[table["subject"].isin([*neighbours]) == (group == "neighbours")] for table in tables]
        if not rows[0].empty:
            means = [part.groupby("subject")["value"].mean().tolist() for part in rows]
            values = [measurement(of_patients, len(of_patients), "patients") for of_patients in means]
            readings.append(_cost(group, title, "ROUGE-L", values, floor))
    return readings


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


def _retained_answers(table: pd.DataFrame, unseen: Collection[str]) -> pd.DataFrame:
    rows = table[(table["side"] == "retain") & (table["measure"] == "rouge_l") & (table["kind"] != RECORD)]
    rows = rows[~rows["subject"].isin([*unseen]) & rows["value"].notna()]
    # Gaps are answered badly by a model that was trained on notes: what is lost does not show there.
    return rows[rows["kind"] != GAP] if (rows["kind"] != GAP).any() else rows
