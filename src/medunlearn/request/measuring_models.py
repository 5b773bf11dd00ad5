"""Evaluations and attacks of a request: those used to choose settings, and those that verify the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import Attacked
from medunlearn.config import AttackSettings, EvaluateSettings, ForgetSettings, UtilitySettings, check
from medunlearn.config.forgetting import AUTOMATIC, MEASURES
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.data.records import DIRECT, Fold
from medunlearn.data.value_halves import Half
from medunlearn.models.prompts import TEMPLATES, TemplateName
from medunlearn.probes.rank_plan import RankPlan, rank_plan
from medunlearn.probes.sample_loss import NEAR
from medunlearn.probes.utility.numbers import Utility
from medunlearn.request.note_reading import EARLIER
from medunlearn.request.request_benchmarks import RequestBenchmarks
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
        earlier: numbers on patients of earlier requests; None if they were not asked about.
        earlier_before: those of the model before, which is asked only if one of these patients is found.
        second_template: in which direct questions were asked, too.
        utility: score on general tasks; None if none were named.
    """

    run: Run
    evaluated: Evaluated
    standings: Standings
    attacked: bool
    utility: Utility | None
    earlier: Standings | None = None
    earlier_before: Standings | None = None
    second_template: str | None = None


@dataclass(frozen=True)
class ModelMeter:
    """Measures models on a request's patients, on retained and on unseen patients; resumes.

    Attributes:
        second_template: direct questions are asked in this one too (:func:`template_in_doubt`).
        retrained, before: the request's retrained model and the model before, which attacks may use beside the one
            they attack; None without.
    """

    benchmarks: RequestBenchmarks
    settings: ForgetSettings
    device: str
    quiet: bool
    second_template: TemplateName | None = None
    retrained: Run | None = None
    before: Run | None = None

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
        return self._is_stored(run, self.benchmark, self.choosing_settings)

    @cached_property
    def direct_benchmark(self) -> Benchmark | None:
        """Direct questions about the patients and the unseen ones, where these are asked in a second template."""
        benchmark, whom = self.benchmark, {*self.benchmarks.patients, *self.benchmarks.unseen}
        if self.second_template is None:
            return None
        about = {
            question.question_id: benchmark.subject(question.record_id)
            for question in benchmark.questions
            if question.kind == DIRECT and question.fold in (*VERIFYING, UNSEEN)
        }
        if not {*about.values()} & {*self.benchmarks.patients}:
            return None
        # Those of the train fold belong to the texts that a model was trained on, and are not asked.
        questions = tuple(
            question
            for question in benchmark.questions
            if question.fold == "train" or about.get(question.question_id) in whom
        )
        name = f"{benchmark.name}, direct questions"
        return replace(benchmark, name=name, questions=questions, folder=None)

    @property
    def second_settings(self) -> EvaluateSettings:
        """Settings of the evaluations on direct questions in the second template."""
        return self.verifying_settings.model_copy(update={"template": self.second_template, "rank_in": "questions"})

    def is_measured_in_second(self, run: Run) -> bool:
        """True if a run's answers in the second template are on disk."""
        direct = self.direct_benchmark
        return direct is not None and self._is_stored(run, direct, self.second_settings)

    def is_measured_on_earlier(self, run: Run) -> bool:
        """True if a run's answers about patients of earlier requests are on disk."""
        earlier = self.benchmarks.earlier
        return earlier is not None and self._is_stored(run, earlier, self.earlier_settings)

    def _is_stored(self, run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> bool:
        from medunlearn.probes.evaluation_folder import evaluation_folder

        return is_complete(evaluation_folder(run, benchmark, settings))

    def choosing(self, run: Run) -> tuple[Evaluated, Standings]:
        """The evaluation used to choose settings."""
        settings = self.choosing_settings
        evaluated = self._evaluated(run, self.benchmark, settings)
        return evaluated, standings(evaluated, self.benchmark, {}, CHOOSING, _plan(self.benchmark, settings))

    def verify(self, run: Run) -> MeasuredModel:
        """Evaluation, attacks and general tasks that verify a model on the patients of the request."""
        settings = self.verifying_settings
        evaluated, plan = self._evaluated(run, self.benchmark, settings), _plan(self.benchmark, settings)
        standing = standings(evaluated, self.benchmark, self._attacked(run), VERIFYING, plan)
        attacked, utility = self.attacking_settings is not None, self._utility(run)
        measured = MeasuredModel(run, evaluated, standing, attacked, utility)
        return self._with_second(measured) if self.direct_benchmark is not None else measured

    def _with_second(self, measured: MeasuredModel) -> MeasuredModel:
        """With the direct questions in the second template as further ways of asking."""
        direct, how, template = self.direct_benchmark, self.second_settings, str(self.second_template)
        assert direct is not None
        own = standings(self._evaluated(measured.run, direct, how), direct, {}, VERIFYING, _plan(direct, how))
        both = measured.standings.with_ways_of(own, template)
        return replace(measured, standings=both, second_template=template)

    def on_earlier(self, run: Run) -> Standings | None:
        """Standings on the patients of earlier requests whose turn it is, without attacks; None without any."""
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
        from medunlearn.attacks.attack_run import attack_each, attack_folder, attack_is_done

        settings = self.attacking_settings
        if settings is None:
            return {}
        # Earlier versions generated answers in every condition, which no way of asking reads.
        with_answers = _without_ranks_only(settings)
        others = [run for run in (self.before, self.retrained) if run is not None]
        if attack_is_done(attack_folder(run, self.benchmark, with_answers, others)):
            settings = with_answers
        how: dict[str, Any] = {"others": others, "device": self.device, "quiet": self.quiet}
        attacks = attack_each([run], self.benchmark, settings, **how)
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


def template_in_doubt(run: Run) -> TemplateName | None:
    """The other template in which an adopted model answers about as well as in its own; None without a doubt."""
    choice = run.info.results.get("template_choice") or {}
    losses, template = choice.get("losses", {}), choice.get("template")
    if template not in losses:
        return None
    own, others = (
        losses[template],
        {name: losses[name] for name in TEMPLATES if name in losses and name != template},
    )
    near = {name: loss for name, loss in others.items() if abs(loss - own) <= NEAR * own}
    return min(near, key=near.__getitem__, default=None)


def _without_ranks_only(settings: AttackSettings) -> AttackSettings:
    """The settings with answers in every condition."""
    arguments = {
        name: {key: value for key, value in own.items() if key != "ranks_only"}
        for name, own in settings.arguments.items()
    }
    return settings.model_copy(update={"arguments": arguments})


def _plan(benchmark: Benchmark, settings: EvaluateSettings) -> RankPlan:
    """The plan of an evaluation's ranks."""
    from medunlearn.probes.evaluate import metric_names

    return rank_plan(benchmark, settings.split, settings, metric_names(benchmark, settings))
