"""Estimated work of a deletion request, stage by stage, and the part already done. Runs and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medunlearn.attacks.attacked import FOLDER
from medunlearn.config import EvaluateSettings, ForgetSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.sample_loss import default_template
from medunlearn.reports.formatting import count
from medunlearn.request.case.case_folder import is_case
from medunlearn.request.forget_request import BEFORE, EXACT, RETRAINED, ForgetRequest
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_benchmarks import RequestBenchmarks, make_benchmarks
from medunlearn.request.trial_search import ForgetCandidate, rate_of_size, trial_folder
from medunlearn.results.runs import FILE, Run, is_complete
from medunlearn.study.cost.capacity import capacity_of, is_gpu
from medunlearn.study.cost.forecast import Forecast, PlannedStage
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.cost.stage_states import evaluation_stage, unlearning_stage

BYTES_A_WEIGHT = 4
"""Of the exported model, at most."""
KEPT = 2
"""Tries whose weights lie on the disk at once: the best so far, and the one that is trained."""


@dataclass(frozen=True)
class ForgetForecast:
    """Estimated cost of a request.

    Attributes:
        cost: cost of every stage; further trials run only if earlier ones are not good enough.
        least_flops: remaining FLOPs if the first trial is good enough.
        patients: numbers of patients asked about: of the request, retained, unseen, of earlier requests.
        invented: whether the unseen ones are invented.
        questions: numbers of questions per model: to choose settings, and to verify.
        facts: numbers of facts ranked in answers and in notes, per verified model.
        models: most models to measure, those before and after included.
    """

    cost: Forecast
    least_flops: float
    patients: dict[str, int]
    invented: bool
    questions: dict[str, int]
    facts: int
    models: int

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON; sizes in bytes."""
        more = {name: value for name, value in vars(self).items() if name != "cost"}
        return {**self.cost.facts(), **more}

    def lines(self) -> Iterator[str]:
        """Lines printed below the table of stages."""
        who = ", ".join(f"{number} {words}" for words, number in self.patients.items() if number)
        yield f"Patients who are asked about: {who}{' (invented)' if self.invented else ''}."
        question_counts = ", ".join(f"{number} {words}" for words, number in self.questions.items() if number)
        yield f"Questions to a model: {question_counts}; {self.facts} facts are ranked to verify it."
        if self.cost.warnings:
            yield "Settings of the tries begin with --unlearn here: --unlearn.trainable lora."
        yield f"Models that are measured: at most {self.models}. The tries end with the first that is good enough."


def foresee(
    model: str | Path, notes: Path, settings: ForgetSettings, out: Path, *, device: str = "auto"
) -> ForgetForecast:
    """Forecast the cost of a request and the part already done; parameters as for :func:`~.graph.forget`.

    Raises:
        InputError: as in `forget`: a patient who is unknown or was forgotten before, notes that cannot be used.
        ModelError: no model, or one that cannot be estimated.
    """
    request = ForgetRequest.open(model, notes, settings, out, planned=True, device=device, quiet=True)
    benchmarks = make_benchmarks(notes, settings, request.ledger, request.secret, quiet=True, few=True)
    return _RequestForecast(request, benchmarks).whole


@dataclass
class _RequestForecast:
    request: ForgetRequest
    made: RequestBenchmarks

    @property
    def settings(self) -> ForgetSettings:
        return self.request.settings

    @property
    def _candidates(self) -> Sequence[ForgetCandidate]:
        return self.request.candidates[: self.settings.budget]

    @cached_property
    def target(self) -> Run | None:
        """The adopted model, if adoption is done."""
        folder = self.request.work / BEFORE
        return Run.open(folder) if is_complete(folder) else None

    @cached_property
    def pricing(self) -> Pricing:
        source = self.request.source()
        model = Path(source.model if isinstance(source, Run) else source)
        template = self.settings.template or default_template(LightTokenizer.of_model(str(model)), model)
        rendering = Rendering(template) if self.target is None else self.target.rendering()
        return self._priced(str(model), self.made.benchmark, rendering)

    def _priced(self, model: str, benchmark: Benchmark, rendering: Rendering) -> Pricing:
        settings = check(TrainSettings, {"model": model})
        return Pricing.of(benchmark, settings, rendering=rendering, on_gpu=is_gpu(self.request.device))

    @property
    def parameters(self) -> int:
        return self.pricing.shape.parameters

    @cached_property
    def meter(self) -> ModelMeter:
        return self.request.meter(self.made)

    @property
    def whole(self) -> ForgetForecast:
        stages, later = self._stages()
        capacity = capacity_of(self.request.device, self.request.work)
        guessed = bool(self.pricing.shape.doubt)
        cost = Forecast("Deletion request", stages, capacity, self.pricing.doubts, tuple(self._missing()), guessed)
        tries = len(self._candidates) if self.meter.searches else 0
        return ForgetForecast(
            cost,
            cost.total.flops - later,
            self._patients(),
            self.made.has_invented,
            self._questions(),
            self._facts(),
            2 + (self.settings.retrained is not None) + tries,
        )

    def _stages(self) -> tuple[tuple[PlannedStage, ...], float]:
        """All stages, and the FLOPs of the trials after the first."""
        if is_case(self.request.out):
            return (PlannedStage("deletion request", "done"),), 0.0
        first = [PlannedStage("adopt the model", "done" if self.target else "to do")]
        first += self._verified("the model before", self.request.work / BEFORE)
        tries, last = [*self._tries()], list[PlannedStage]()
        if self.settings.retrained is not None:
            last += self._verified("the retrained model", self.request.work / RETRAINED)
        last += [*self._verified("the model after", None), *self._earlier(), *self._general()]
        last.append(PlannedStage("write model and case", cost=Cost(disk=BYTES_A_WEIGHT * self.parameters)))
        later = sum(stage.cost.flops for own in tries[1:] for stage in own)
        return (*first, *(stage for own in tries for stage in own), *last), later

    def _patients(self) -> dict[str, int]:
        benchmark, made = self.made.benchmark, self.made
        subjects = {benchmark.subject(question.record_id) for question in benchmark.questions}
        earlier = len(made.earlier.split("earlier").forget) if made.earlier else 0
        return {
            "to forget": len(made.patients),
            "retained": len(subjects - {*made.patients} - made.unseen),
            "whom no model saw": len(subjects & made.unseen),
            "of earlier requests": earlier,
        }

    def _questions(self) -> dict[str, int]:
        benchmark, split = self.made.benchmark, self.made.benchmark.split(REQUEST)
        settings_by_purpose = {"to verify it": self.meter.verifying_settings}
        if self.meter.searches:
            settings_by_purpose = {"to choose by": self.meter.choosing_settings, **settings_by_purpose}
        return {words: len(questions_to_ask(benchmark, split, how)) for words, how in settings_by_purpose.items()}

    def _facts(self) -> int:
        return round(self.pricing.ranks(self.meter.verifying_settings).facts)

    def _missing(self) -> Iterator[str]:
        if self.settings.utility_tasks and find_spec("lm_eval") is None:
            yield "utility_tasks: lm-evaluation-harness is not installed: pip install 'medunlearn[utility]'."

    def _tries(self) -> Iterator[list[PlannedStage]]:
        """Each trial, and its evaluations for the choice; an exact deletion is a single one."""
        if self.settings.method == EXACT:
            yield [*self._exact()]
            return
        for place, candidate in enumerate(self._candidates):
            folder = trial_folder(self.request.work, place, candidate)
            settings = candidate.settings(
                self.made.benchmark,
                self.settings.unlearn,
                rate=rate_of_size(self.parameters),
                seed=self.settings.seed,
            )
            stage = unlearning_stage(candidate.method, self.pricing, settings, folder)
            sequences = f"at most {2 * settings.batch_size} sequences"
            words = f"{count(stage.cost.steps, 'step')} of {sequences}" if stage.cost.steps else ""
            name = f"try {place + 1}: {candidate.words}"
            cost = stage.cost if place < KEPT else replace(stage.cost, disk=0)
            stages = [replace(stage, name=name, cost=cost, note="; ".join(filter(None, (stage.note, words))))]
            if self.meter.searches:
                stages.append(self._asked(f"ask try {place + 1}", self.meter.choosing_settings, folder))
            yield stages

    def _exact(self) -> Iterator[PlannedStage]:
        """Training without the patients, twice; dropping an adapter costs nothing."""
        plan, is_retrained = self.request.plan_exactly(), is_complete(self.request.model_out)
        for name in ("make the model without the patients", "make it a second time, to compare"):
            cost = Cost()
            if isinstance(plan.making, TrainSettings) and not is_retrained:
                cost = Pricing.of(plan.benchmark, plan.making, on_gpu=is_gpu(self.request.device)).training(
                    plan.making
                )
            yield PlannedStage(name, "done" if is_retrained else "to do", cost=cost)

    def _general(self) -> Iterator[PlannedStage]:
        """General tasks, for each verified model."""
        models = ["before", *(["retrained"] if self.settings.retrained else []), "after"]
        for model in models if self.settings.utility_tasks else ():
            name = "general tasks of the " + (f"model {model}" if model != "retrained" else "retrained model")
            yield PlannedStage(name, note="cost not estimated")

    def _verified(self, name: str, folder: Path | None) -> list[PlannedStage]:
        """Verification of a model by questions and attacks; for the model before, also the evaluations for the
        choice.
        """
        stages = [self._asked(f"ask {name}", self.meter.verifying_settings, folder)]
        if folder == self.request.work / BEFORE and self.meter.searches:
            stages.append(self._asked(f"ask {name} to choose by", self.meter.choosing_settings, folder))
        finished_attacks = set() if folder is None else _attacks_done(folder)
        for attack, stage in self._attacks.items():
            title = f"{attack} of {name}"
            stages.append(PlannedStage(title, "done") if attack in finished_attacks else replace(stage, name=title))
        return stages

    def _earlier(self) -> list[PlannedStage]:
        """Evaluation of the models before and after on patients of earlier requests."""
        if self.made.earlier is None:
            return []
        pricing = self._priced(self.pricing.trained.model, self.made.earlier, self.pricing.rendering)
        name, settings = "ask {} about earlier requests", self.meter.earlier_settings
        before = evaluation_stage(name.format("the model before"), pricing, settings, self.request.work / BEFORE)
        return [before, evaluation_stage(name.format("the model after"), pricing, settings, None)]

    @cached_property
    def _attacks(self) -> Mapping[str, PlannedStage]:
        """Name of each attack of the battery -> its stage on a new model."""
        settings = self.meter.attacking_settings
        if settings is None:
            return {}
        prices = self.pricing.attacks(settings)
        return {name: PlannedStage(name, note=price.note, cost=price.cost) for name, price in prices.items()}

    def _asked(self, name: str, settings: EvaluateSettings, folder: Path | None) -> PlannedStage:
        return evaluation_stage(name, self.pricing, settings, folder)


def _attacks_done(folder: Path) -> set[str]:
    """Names of completed attacks on a run."""
    records = (file.parent for file in (folder / FOLDER).glob(f"*/{FILE}"))
    return {kind for record in records if is_complete(record) for kind in Run.open(record).info.results}
