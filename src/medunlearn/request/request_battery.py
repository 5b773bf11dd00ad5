"""The battery of a request: checks from what was measured on the model before, the model after, and a retrained one
if given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from medunlearn.config import ForgetSettings
from medunlearn.data.deletion_requests import relatives_of
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.vocabulary import Vocabulary, vocabulary_owners
from medunlearn.request.baseline_check import baseline_fault
from medunlearn.request.battery_checks import BatteryMaterial
from medunlearn.request.case.evidence import (
    Battery,
    BatteryCheck,
    CostReading,
    EarlierPatients,
    FactCoverage,
    Untested,
    UntestedFacts,
)
from medunlearn.request.case.residual_tests import found_before, is_above, patient_tests
from medunlearn.request.case.verdicts import RULES
from medunlearn.request.measuring_models import MeasuredModel, ModelMeter
from medunlearn.request.note_reading import EARLIER
from medunlearn.request.others_kept import costs, general_cost
from medunlearn.request.patient_choice import PatientGroups
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.request.standings import Standings
from medunlearn.request.verifying_attacks import never_tested, untested_attacks, verifying_attacks
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run

NAME, VERSION = "forget", RULES
ALPHA = 0.05
IDENTIFYING = ("identifier", "date")
"""Kinds of facts that tell who somebody is (:class:`~.facts_tested.FactTested`)."""


@dataclass(frozen=True)
class RequestBattery:
    """The checks of a request. It measures nothing: see :class:`~.measuring_models.ModelMeter`."""

    benchmarks: RequestBenchmarks
    settings: ForgetSettings

    def finds_patients(self, before: MeasuredModel) -> bool:
        """True if a way of asking finds the patients in the model before; also without a baseline, since nothing
        can be tested.
        """
        checks = [*self.material(before.standings, before.standings).checks()]
        tested = any(test.patient.p_before is not None for test in patient_tests(checks))
        return not tested or bool(found_before(checks, ALPHA))

    def compare(self, before: MeasuredModel, after: MeasuredModel, retrained: MeasuredModel | None) -> Battery:
        """The checks of the model after."""
        beside = None if retrained is None else retrained.standings
        material = self.material(before.standings, after.standings, beside)
        return Battery(
            name=NAME,
            version=VERSION,
            alpha=ALPHA,
            checks=(*material.means(ALPHA), *material.checks(), *self._earlier_checks(after)),
            untested=(
                *material.untested(),
                *self._untested_attacks(before, retrained, after),
                *never_tested(),
                self._untested_tokenizer(after.run),
            ),
            coverage=tuple(self._coverage(after)),
            templates=tuple(_templates(after)),
            earlier=self._earlier_patients(after),
            problems=after.standings.problems,
            # Beside a retrained model nothing rests on the strangers' own level.
            baseline_fault=None if retrained else self.baseline_fault(before.standings, after.standings),
        )

    def baseline_fault(self, *models: Standings) -> str | None:
        """Why invented patients are no baseline for one of the models; None if they are, or if they are real."""
        unseen = self.benchmarks.unseen
        faults = (baseline_fault(model, unseen) for model in models if self.benchmarks.has_invented)
        return next(filter(None, faults), None)

    def costs(
        self, before: MeasuredModel, after: MeasuredModel, retrained: MeasuredModel | None
    ) -> list[CostReading]:
        """Cost of the model after for other patients, and on general tasks if there are any."""
        readings = self.lost(before.evaluated, after.evaluated, retrained.evaluated if retrained else None)
        if before.utility is not None and after.utility is not None:
            beside, floor = retrained.utility if retrained else None, self.settings.utility_floor
            readings.append(general_cost(before.utility, after.utility, beside, floor=floor))
        return readings

    def material(self, before: Standings, after: Standings, retrained: Standings | None = None) -> BatteryMaterial:
        """Models and patients that the checks of this request compare."""
        own, margin = self.benchmarks, self.settings.margin
        patients = {who: own.pseudonyms[who] for who in own.patients}
        return BatteryMaterial(before, after, retrained, patients, sorted(own.unseen), own.has_invented, margin)

    def lost(self, before: Evaluated, after: Evaluated, retrained: Evaluated | None) -> list[CostReading]:
        """Loss of answers about other patients from one evaluation to another."""
        benchmarks = self.benchmarks
        return costs(
            before,
            after,
            retrained,
            relatives=relatives_of(benchmarks.benchmark, benchmarks.patients),
            neighbours=PatientGroups.of(benchmarks.benchmark).neighbours(benchmarks.patients),
            unseen=benchmarks.unseen,
            floor=self.settings.utility_floor,
            pseudonyms=benchmarks.pseudonyms,
        )

    def _coverage(self, after: MeasuredModel) -> Iterator[FactCoverage]:
        """Numbers of each patient's facts, tested and not, the latter by kind and reason."""
        from medunlearn.request.facts_tested import facts_tested

        benchmarks = self.benchmarks
        facts = facts_tested(after.evaluated, benchmarks.benchmark, benchmarks.patients)
        for patient in benchmarks.patients:
            own = [fact for fact in facts if fact.patient == patient]
            untested = Counter((fact.kind, fact.type, fact.reason) for fact in own if fact.reason is not None)
            yield FactCoverage(
                patient=benchmarks.pseudonyms[patient],
                tested=sum(fact.reason is None for fact in own),
                facts=len(own),
                identifiers_tested=sum(fact.reason is None and fact.kind in IDENTIFYING for fact in own),
                identifiers=sum(fact.kind in IDENTIFYING for fact in own),
                untested=tuple(
                    UntestedFacts(kind=kind, type=name, reason=reason, number=number)
                    for (kind, name, reason), number in sorted(untested.items())
                ),
            )

    def _untested_attacks(self, *models: MeasuredModel | None) -> Iterator[Untested]:
        """Attacks that were left out, that could not be run, and parts that could not be measured."""
        attacks, missing = verifying_attacks(self.settings.battery), dict[str, str]()
        for model in filter(None, models):
            missing |= model.standings.missing
            for name, ways in model.standings.attacks.items():
                if not any(model.standings.of(way, self.benchmarks.patients) for way in ways):
                    missing.setdefault(name, "no fact of the patients could be asked about under it")
        if not all(model.attacked for model in models if model is not None):
            missing = {cls.name: "no prompt for it could be made of the notes" for cls in attacks.values()}
        return untested_attacks(attacks, missing)

    def _untested_tokenizer(self, run: Run) -> Untested:
        """Note that no check covers the tokenizer, which unlearning never changes."""
        reason = "the tokenizer is that of the model before"
        backend = getattr(load_tokenizer(run.model), "backend_tokenizer", None)
        if backend is not None:
            benchmarks = self.benchmarks
            owners = vocabulary_owners(Vocabulary.of(backend), benchmarks.benchmark, benchmarks.patients)
            if number := sum(token.identifier for token in owners.forgotten):
                reason += (
                    f", and {number} of its tokens, if it was fitted on these notes, tell of an identifier that "
                    "nobody else has: such a value may stay likelier than made-up ones in a model that never saw "
                    "the patient"
                )
        return Untested(name="tokenizer", title="Strings of the patient's in the tokenizer", reason=reason)

    def with_earlier(self, after: MeasuredModel, meter: ModelMeter, before: Run | None) -> MeasuredModel:
        """The model after with its numbers on earlier patients.

        The verdict rests on these alone. The model before is asked only if they find somebody, to tell whether that
        patient was back before.

        Args:
            before: the model before; None if it cannot be asked any more.
        """
        after = replace(after, earlier=meter.on_earlier(after.run))
        tests = patient_tests(self._earlier_checks(after))
        found = any(test.patient.p is not None and test.patient.p < ALPHA and is_above(test) for test in tests)
        if not found or before is None:
            return after
        return replace(after, earlier_before=meter.on_earlier(before))

    def _earlier_checks(self, after: MeasuredModel) -> list[BatteryCheck]:
        """Checks that the patients of earlier requests whose turn it is are still forgotten."""
        earlier = self.benchmarks.earlier
        if earlier is None or after.earlier is None:
            return []
        patients = {who: self.benchmarks.pseudonyms[who] for who in sorted(earlier.split(EARLIER).forget)}
        material = self.material(after.earlier_before or Standings(), after.earlier)
        return [*replace(material, patients=patients, concerns="earlier requests").checks()]

    def _earlier_patients(self, after: MeasuredModel) -> EarlierPatients | None:
        """Earlier patients who were asked about, who were not, and who cannot be."""
        totals = self.benchmarks.totals
        asked = () if after.earlier is None else totals.asked
        not_asked = tuple(sorted({*totals.asked, *totals.not_asked} - {*asked}))
        everybody = (*asked, *not_asked, *totals.absent)
        return EarlierPatients(asked=asked, not_asked=not_asked, absent=totals.absent) if everybody else None


def _templates(after: MeasuredModel) -> Iterator[str]:
    """Names of the templates that a model was asked in; a file's name may say something of its owner."""
    template = after.run.rendering().template
    yield template if isinstance(template, str) else "a file"
    if after.second_template is not None:
        yield after.second_template
