"""Checks of a battery from the models' standings on patients: a way of asking each, and means over ways."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal, get_args

from medunlearn.attacks.attack_protocol import AskedSubject, AskingWay
from medunlearn.reports.formatting import count
from medunlearn.request.case.evidence import (
    Baseline,
    BatteryCheck,
    Comparison,
    Measurement,
    PatientTest,
    ProbeSet,
    Unit,
    Untested,
)
from medunlearn.request.case.residual_tests import found_before
from medunlearn.request.standings import Standings
from medunlearn.statistics.others import (
    LEAST_OTHERS,
    OthersGap,
    chance_of_hits,
    chance_of_share,
    chance_of_surprise,
    compare_with_others,
)

LEAST_SPREAD = 0.25
"""Of the margin: least spread among patients whom no model saw, so that no hair's breadth is a finding."""
NOT_ASKED = Measurement(value=None, n=0, unit="probes", reason="not asked, as nobody is found now")
MEAN_TITLES: Mapping[AskedSubject, str] = {
    "identifiers": "All identifiers, as far as they were found before",
    "values": "All values, as far as they were found before",
    "answers": "All that it says, as far as it was found before",
}


@dataclass(frozen=True)
class BatteryMaterial:
    """Models and patients that the checks compare.

    Attributes:
        before, after, retrained: standings of the models; ``retrained`` never saw the patients. The model
            before may not have been asked about earlier patients.
        patients: patients that the checks are about, with their pseudonyms.
        unseen: patients that no model saw.
        invented: whether the unseen patients are invented.
        margin: an excess up to this counts as none.
    """

    before: Standings
    after: Standings
    retrained: Standings | None
    patients: Mapping[str, str]
    unseen: Sequence[str]
    invented: bool
    margin: float
    concerns: Literal["this request", "earlier requests"] = "this request"

    def checks(self) -> Iterator[BatteryCheck]:
        """One check for each way of asking measured in both models; of earlier patients, in the model after."""
        for name, way in self.after.ways.items():
            is_asked = self.concerns == "earlier requests" or name in self.before.ways
            if self.after.of(name, self.patients) and is_asked:
                yield self._check(name, way)

    def means(self, alpha: float) -> Iterator[BatteryCheck]:
        """The mean over probes of the ways of asking that found a patient before, for each subject by itself.

        A single way has few facts and can detect a difference of 0.3 at best, even for a model that never saw the
        patient. The mean over all probes has a smaller variance. Identifiers and values stand apart, so that
        neither pays for the other.

        Ways that find the patients before at this level, each taken by itself, belong to the mean too: whatever may
        have known somebody has to be shown to have forgotten, and more probes tell more. None is evidence of
        forgetting by that alone.

        Args:
            alpha: level at which a way counts as having found a patient.
        """
        checks = [*self.checks()]
        able = {name for name, _ in found_before(checks, alpha)} | {
            check.name for check in checks if _may_have_found(check, alpha)
        }
        for subject in get_args(AskedSubject):
            parts = [check for check in checks if check.name in able and check.subject == subject]
            if parts:
                yield self._mean(subject, parts)

    def _mean(self, subject: AskedSubject, parts: Sequence[BatteryCheck]) -> BatteryCheck:
        ways, n, name = [check.name for check in parts], sum(check.probes.n for check in parts), f"all {subject}"

        def measured(model: Standings) -> Measurement:
            return measurement([*self._means(model.values, ways, self.patients).values()], n, "probes")

        after = self._centred(self.after, ways)
        means, theirs = self._means(self.after.values, ways, self.patients), self._means(after, ways, self.patients)
        strangers = self._means(self.after.values, ways, self.unseen)
        tests = (
            PatientTest(patient=self.patients[who], value=value, n=self._probes(ways, who), excess=theirs.get(who))
            for who, value in means.items()
        )
        return BatteryCheck(
            name=name,
            title=MEAN_TITLES[subject],
            measure="mean over their probes",
            higher="more is left",
            subject=subject,
            mean_of=tuple(ways),
            patients=tuple(tests),
            probes=ProbeSet(name=name, kind=f"{len(ways)} of them", n=n, held_out=True),
            unseen=measurement([*strangers.values()], len(self.unseen), "patients"),
            comparison=self._comparison(self._mean_excess(after, ways), self._mean_excess_before(ways)),
            **self._by_model(measured),
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
            subject=way.subject,
            patients=tuple(self._patient_tests(name)),
            probes=ProbeSet(name=check_name, kind=way.prompt, n=by_model["after"].n, held_out=True),
            unseen=measurement(unseen, len(unseen), "patients") if unseen else None,
            comparison=self._comparison(
                self._excess(self.after, name, self.patients), self._excess(self.before, name, self.patients)
            ),
            **by_model,
        )

    def _patient_tests(self, name: str) -> Iterator[PatientTest]:
        """Each patient against single unseen patients."""
        for patient, pseudonym in self.patients.items():
            if patient in self.after.values[name]:
                after, before = (self._excess(model, name, [patient]) for model in (self.after, self.before))
                yield PatientTest(
                    patient=pseudonym,
                    value=self.after.values[name][patient],
                    n=self.after.probes[name][patient],
                    excess=None if after is None else after.value,
                    p=None if after is None else after.p,
                    p_before=None if before is None else before.p,
                )

    def _by_model(self, measured: Callable[[Standings], Measurement]) -> dict[str, Any]:
        retrained = None if self.retrained is None else measured(self.retrained)
        before = measured(self.before) if self.before.ways else NOT_ASKED
        return {"before": before, "after": measured(self.after), "retrained": retrained}

    def _probes(self, ways: Sequence[str], patient: str) -> int:
        return sum(self.after.probes[way].get(patient, 0) for way in ways)

    def _means(
        self,
        values: Mapping[str, Mapping[str, float]],
        ways: Sequence[str],
        patients: Collection[str],
    ) -> dict[str, float]:
        """Each patient's mean over the probes of some ways of asking, for patients with probes."""
        means = {}
        for patient in patients:
            probes = {way: self.after.probes[way].get(patient, 0) for way in ways if patient in values.get(way, {})}
            if total := sum(probes.values()):
                means[patient] = fsum(values[way][patient] * n for way, n in probes.items()) / total
        return means

    def _centred(self, model: Standings, ways: Sequence[str]) -> dict[str, dict[str, float]]:
        """Each patient's excess in each way over the way's mean of the unseen patients."""
        above: dict[str, dict[str, float]] = {}
        for way in ways:
            values, probes = self._differences(model, way), model.probes[way]
            strangers = [who for who in self.unseen if who in values]
            if number := sum(probes[who] for who in strangers):
                centre = fsum(values[who] * probes[who] for who in strangers) / number
                above[way] = {who: value - centre for who, value in values.items()}
        return above

    def _mean_excess(self, centred: Mapping[str, Mapping[str, float]], ways: Sequence[str]) -> OthersGap | None:
        few, others = (self._means(centred, ways, patients) for patients in (self.patients, self.unseen))
        own, theirs = ([self._probes(ways, who) for who in means] for means in (few, others))
        least_spread = LEAST_SPREAD * self.margin
        return compare_with_others(
            [*few.values()], [*others.values()], sizes=(own, theirs), least_spread=least_spread
        )

    def _mean_excess_before(self, ways: Sequence[str]) -> OthersGap | None:
        return self._mean_excess(self._centred(self.before, ways), ways)

    def _excess(self, model: Standings, name: str, patients: Collection[str]) -> OthersGap | None:
        """Excess of patients over unseen patients; with a retrained model, over that model.

        p is at least that of an exact test, if there is one: of ranks, and of shares of what is said.
        """
        values, probes = self._differences(model, name), model.probes.get(name, {})
        few, others = ([who for who in group if who in values] for group in (patients, self.unseen))
        own, theirs = ([probes[who] for who in group] for group in (few, others))
        gap = compare_with_others(
            [values[who] for who in few],
            [values[who] for who in others],
            sizes=(own, theirs),
            least_spread=LEAST_SPREAD * self.margin,
        )
        return None if gap is None else replace(gap, p=self._chance(model, name, patients, gap.p))

    def _chance(self, model: Standings, name: str, patients: Collection[str], p: float) -> float:
        """Chance of the patients' numbers if nothing is known of them, from that of their mean."""
        if (tests := model.surprises.get(name)) is not None:
            theirs, others = ([tests[who] for who in group if who in tests] for group in (patients, self.unseen))
            exact = None if self.retrained is not None else chance_of_surprise(theirs, others)
            return p if exact is None else exact
        values, probes = model.values.get(name, {}), model.probes.get(name, {})
        hits, strangers = (
            [(values[who], probes[who]) for who in group if who in values] for group in (patients, self.unseen)
        )
        number = sum(n for _, n in hits)
        p = max(p, chance_of_share(fsum(share * n for share, n in hits) / number, number, strangers))
        counts = [facts for who, facts in model.said.get(name, {}).items() if who in patients]
        if not counts:
            return p
        number_asked = sum(facts.facts for facts in counts)
        chance = fsum(facts.chance * facts.facts for facts in counts) / number_asked
        return max(p, chance_of_hits(sum(facts.beyond for facts in counts), number_asked, chance))

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


def _may_have_found(check: BatteryCheck, alpha: float) -> bool:
    """True for a way that found the patients before, without correction for the number of ways."""
    comparison = check.comparison
    return comparison is not None and comparison.p_before is not None and comparison.p_before < alpha


def measurement(values: Sequence[float], n: int, unit: Unit) -> Measurement:
    """The mean of the patients' numbers, or a reason without any."""
    if not values:
        return Measurement(value=None, n=0, unit=unit, reason="no probe of this kind could be scored")
    return Measurement(value=fsum(values) / len(values), n=n, unit=unit)
