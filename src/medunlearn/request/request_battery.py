"""The battery of a request: its checks on any model, compared with the model before and a retrained one if
given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from medunlearn.config import ForgetSettings
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.vocabulary import Vocabulary, vocabulary_owners
from medunlearn.request.battery_checks import BatteryMaterial, costs, general_cost
from medunlearn.request.case.evidence import Battery, BatteryCheck, CostReading, Untested
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_benchmarks import EARLIER, RequestBenchmarks, neighbours_of
from medunlearn.request.standings import Standings
from medunlearn.request.verifying_attacks import never_tested, untested_attacks
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run

Say = Callable[[str], None]
NAME, VERSION = "forget", "3"
ALPHA = 0.05


@dataclass(frozen=True)
class RequestBattery:
    """The battery of a request on any model. Measurements are stored in the models' runs and reused.

    Attributes:
        target: the model before.
        retrained: a model that never saw the patients.
    """

    benchmarks: RequestBenchmarks
    settings: ForgetSettings
    target: Run
    retrained: Run | None
    device: str
    quiet: bool
    say: Say = lambda line: None

    @cached_property
    def meter(self) -> ModelMeter:
        """Meter for one model."""
        return ModelMeter(self.benchmarks.benchmark, self.settings, self.device, self.quiet)

    @cached_property
    def before(self) -> tuple[Evaluated, Standings]:
        """Measurements of the model before."""
        return self.meter.verifying(self.target)

    @cached_property
    def beside(self) -> tuple[Evaluated, Standings] | None:
        """Measurements of the retrained model."""
        return None if self.retrained is None else self.meter.verifying(self.retrained)

    @property
    def finds_patients(self) -> bool:
        """True if a way of asking finds the patients in the model before; also without a baseline, since nothing
        can be tested.
        """
        checks = self.material(self.before[1], self.before[1]).checks()
        p_values = [check.comparison.p for check in checks if check.comparison is not None]
        return not p_values or min(p_values) < ALPHA / len(p_values)

    def on(self, run: Run) -> Battery:
        """The checks on a model."""
        after = self._verified(run)[1]
        material = self.material(self.before[1], after, self.beside[1] if self.beside else None)
        together = material.together(ALPHA)
        return Battery(
            name=NAME,
            version=VERSION,
            alpha=ALPHA,
            checks=(*material.checks(), *([together] if together else []), *self._earlier_checks(run)),
            untested=(
                *material.untested(),
                *self._untested_attacks(after),
                *never_tested(),
                self._untested_tokenizer(run),
            ),
            problems=after.problems,
        )

    def evaluations(self, run: Run) -> list[Evaluated]:
        """Evaluations used by the checks: of the model before, of the model, and of the retrained one."""
        models = [self.before, *([] if run is self.target else [self._verified(run)])]
        return [evaluated for evaluated, _ in (*models, *([self.beside] if self.beside else []))]

    def cost_of(self, run: Run) -> list[CostReading]:
        """Cost of a model for other patients."""
        beside = self.beside[0] if self.beside else None
        return [*self.lost(self.before[0], self._verified(run)[0], beside), *self._general_costs(run)]

    def material(self, before: Standings, after: Standings, retrained: Standings | None = None) -> BatteryMaterial:
        """Models and patients that the checks of this request compare."""
        own, margin = self.benchmarks, self.settings.margin
        return BatteryMaterial(before, after, retrained, own.patients, sorted(own.unseen), own.has_invented, margin)

    def lost(self, before: Evaluated, after: Evaluated, retrained: Evaluated | None) -> list[CostReading]:
        """Loss of answers about other patients from one evaluation to another."""
        benchmarks = self.benchmarks
        return costs(
            before,
            after,
            retrained,
            neighbours=neighbours_of(benchmarks.benchmark, benchmarks.patients),
            unseen=benchmarks.unseen,
            floor=self.settings.utility_floor,
        )

    def _verified(self, run: Run) -> tuple[Evaluated, Standings]:
        return self.before if run is self.target else self.meter.verifying(run)

    def _untested_attacks(self, after: Standings) -> Iterator[Untested]:
        """Attacks that were left out, that could not be run, and parts that could not be measured."""
        attacks, missing = self.meter.attacks, dict[str, str]()
        for standing in (self.before[1], self.beside[1] if self.beside else None, after):
            missing |= standing.missing if standing is not None else {}
        if self.meter.attacking_settings is None:
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

    def _general_costs(self, run: Run) -> list[CostReading]:
        before, after = self.meter.utility(self.target), self.meter.utility(run)
        if before is None or after is None:
            return []
        beside = None if self.retrained is None else self.meter.utility(self.retrained)
        return [general_cost(before, after, beside, floor=self.settings.utility_floor)]

    def _earlier_checks(self, run: Run) -> list[BatteryCheck]:
        """Checks that the patients of earlier requests are still forgotten."""
        earlier = self.benchmarks.earlier
        if earlier is None:
            return []
        self.say("verify: patients of earlier requests")
        before, after = (self.meter.earlier(model, earlier) for model in (self.target, run))
        patients = sorted(earlier.split(EARLIER).forget)
        material = replace(self.material(before, after), patients=patients, concerns="earlier requests")
        return [*material.checks()]
