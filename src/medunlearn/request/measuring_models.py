"""Evaluations and attacks of a request: those used to choose settings, and those that verify the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import Attacked
from medunlearn.config import AttackSettings, EvaluateSettings, ForgetSettings, UtilitySettings, check
from medunlearn.config.forgetting import AUTOMATIC, MEASURES
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.data.records import Fold
from medunlearn.data.value_halves import Half
from medunlearn.probes.rank_plan import RankPlan, rank_plan
from medunlearn.probes.utility.numbers import Utility
from medunlearn.request.request_benchmarks import EARLIER, RequestBenchmarks
from medunlearn.request.standings import SINGLE, UNSEEN, Standings, standings
from medunlearn.request.verifying_attacks import Verifying, verifying_attacks
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, is_complete

CHOOSING: tuple[Fold, ...] = ("train", "choosing")
VERIFYING: tuple[Fold, ...] = ("holdout", "rephrase")
ALTERNATIVES = 59


@dataclass(frozen=True)
class MeasuredModel:
    """A model as it was measured for verification.

    Attributes:
        evaluated, standings: its evaluation, and its numbers on each patient.
        attacked: whether the attacks of the battery had a prompt.
        earlier: numbers on patients of earlier requests; None without any.
        utility: score on general tasks; None if none were named.
    """

    run: Run
    evaluated: Evaluated
    standings: Standings
    attacked: bool
    earlier: Standings | None
    utility: Utility | None


@dataclass(frozen=True)
class ModelMeter:
    """Measures models on a request's patients, on retained and on unseen patients; resumes."""

    benchmarks: RequestBenchmarks
    settings: ForgetSettings
    device: str
    quiet: bool

    @property
    def benchmark(self) -> Benchmark:
        return self.benchmarks.benchmark

    @property
    def searches(self) -> bool:
        """True if settings are chosen by measuring, so that half of the values is held out for verification."""
        return self.settings.method == AUTOMATIC

    @property
    def _held_back(self) -> Half:
        return "reporting" if self.searches else "all"

    @property
    def choosing_settings(self) -> EvaluateSettings:
        """Settings of the evaluations used to choose: probes as in training, one half of the values."""
        return self._settings(REQUEST, CHOOSING, "choosing" if self.searches else "all")

    @property
    def verifying_settings(self) -> EvaluateSettings:
        """Settings of the evaluations used to verify: other probes, the other half of the values."""
        return self._settings(REQUEST, VERIFYING, self._held_back)

    @property
    def earlier_settings(self) -> EvaluateSettings:
        """Settings of the evaluations on the patients of earlier requests."""
        return self._settings(EARLIER, VERIFYING, "all")

    def is_measured(self, run: Run) -> bool:
        """True if a run's evaluations for the choice are on disk, so that its weights are not needed."""
        from medunlearn.probes.evaluation_folder import evaluation_folder

        return is_complete(evaluation_folder(run, self.benchmark, self.choosing_settings))

    def choosing(self, run: Run) -> tuple[Evaluated, Standings]:
        """The evaluation used to choose settings."""
        settings = self.choosing_settings
        evaluated = self._evaluated(run, self.benchmark, settings)
        return evaluated, standings(evaluated, self.benchmark, {}, CHOOSING, _plan(self.benchmark, settings))

    def verify(self, run: Run, *, on_earlier: bool = True) -> MeasuredModel:
        """Everything that verifies a model: evaluation, attacks, general tasks, patients of earlier requests."""
        settings = self.verifying_settings
        evaluated, plan = self._evaluated(run, self.benchmark, settings), _plan(self.benchmark, settings)
        standing = standings(evaluated, self.benchmark, self._attacked(run), VERIFYING, plan)
        attacked, earlier = self.attacking_settings is not None, self._on_earlier(run) if on_earlier else None
        return MeasuredModel(run, evaluated, standing, attacked, earlier, self._utility(run))

    def _on_earlier(self, run: Run) -> Standings | None:
        """Standings on patients of earlier requests, without attacks; None without any."""
        earlier = self.benchmarks.earlier
        if earlier is None:
            return None
        settings = self.earlier_settings
        return standings(self._evaluated(run, earlier, settings), earlier, {}, VERIFYING, _plan(earlier, settings))

    def _utility(self, run: Run) -> Utility | None:
        if not self.settings.utility_tasks:
            return None
        from medunlearn.probes.utility.harness_run import utility_one

        settings = check(UtilitySettings, {"tasks": self.settings.utility_tasks, "seed": self.settings.seed})
        return utility_one(run, settings, device=self.device, quiet=self.quiet)

    def _settings(self, split: str, folds: tuple[Fold, ...], values: Half) -> EvaluateSettings:
        own: dict[str, Any] = {
            "metrics": MEASURES,
            "ranked": None,
            "alternatives": ALTERNATIVES,
            "facts": self.settings.facts,
            "rank_in": "both",
            "rank_retained": False,
            "other_texts": split == EARLIER,
            **self.settings.evaluate,
            "split": split,
            "folds": [*folds, UNSEEN],
            "values": values,
            "seed": self.settings.seed,
        }
        return check(EvaluateSettings, own)

    def _evaluated(self, run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> Evaluated:
        from medunlearn.probes.evaluate import evaluate_one

        return evaluate_one(run, benchmark, settings, device=self.device, quiet=self.quiet)

    @property
    def attacks(self) -> Verifying:
        """The attacks that verify."""
        return verifying_attacks(self.settings.battery)

    def _attacked(self, run: Run) -> Mapping[str, Attacked]:
        """Name of an attack -> its results, or the reason why there are none."""
        from medunlearn.attacks.attack_run import attack_each

        settings = self.attacking_settings
        if settings is None:
            return {}
        attacks = attack_each([run], self.benchmark, settings, device=self.device, quiet=self.quiet)
        record = attacks.models[0].record
        return {cls.name: Attacked(run, record, cls.family) for cls in self.attacks.values()}

    @property
    def attacking_settings(self) -> AttackSettings | None:
        """Settings of the verifying attacks; None without attacks, or without a prompt for them."""
        attacks, fold = self.attacks, VERIFYING[0]
        questions = self.benchmark.questions_of(self.benchmark.split(REQUEST), "forget", [fold])
        if not attacks or not questions:
            return None
        shared: dict[str, Any] = {
            "fold": fold,
            # Texts that are continued tell more than gaps and questions.
            "kinds": tuple(sorted({question.kind for question in questions} - {*SINGLE})),
            "unseen": True,
            "subjects": None,
            "facts": self.settings.facts,
            "values": self._held_back,
            "alternatives": ALTERNATIVES,
        }
        evaluate = self.settings.evaluate
        return attack_settings(
            {
                "split": REQUEST,
                "attacks": tuple(attacks),
                "seed": self.settings.seed,
                "arguments": {name: cls.in_deletion(shared) for name, cls in attacks.items()},
                **{name: evaluate[name] for name in ("batch_size", "weights") if name in evaluate},
            }
        )


def _plan(benchmark: Benchmark, settings: EvaluateSettings) -> RankPlan:
    """The plan of an evaluation's ranks."""
    from medunlearn.probes.evaluate import metric_names

    return rank_plan(benchmark, settings.split, settings, metric_names(benchmark, settings))
