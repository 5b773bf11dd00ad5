"""Estimated work of a deletion request, stage by stage, and the part already done. Runs and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from medunlearn.attacks.attacked import FOLDER
from medunlearn.config import ForgetSettings, TrainSettings, UnlearnSettings, check
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.models.sequences import Rendering
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.rank_plan import rank_plan
from medunlearn.probes.sample_loss import default_template
from medunlearn.probes.score import metric_names
from medunlearn.reports.formatting import count
from medunlearn.request.case.case_folder import is_case
from medunlearn.request.forget_request import BEFORE, EXACT, RETRAINED, ForgetRequest
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_benchmarks import RequestBenchmarks, make_benchmarks
from medunlearn.request.trial_search import ForgetCandidate, rate_of_size, trial_folder
from medunlearn.results.runs import FILE, Run, is_complete
from medunlearn.study.estimate.attack_cost import attack_stages
from medunlearn.study.estimate.blueprint import blueprint_of
from medunlearn.study.estimate.capacity import capacity_of
from medunlearn.study.estimate.forecast import Forecast
from medunlearn.study.estimate.stage_cost import Planner, Stage, train_stage

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
    request = ForgetRequest.open(model, notes, settings, out, device=device, quiet=True)
    benchmarks = make_benchmarks(notes, settings, request.ledger, request.secret, quiet=True)
    return _RequestForecast(request, benchmarks).whole


@dataclass
class _RequestForecast:
    request: ForgetRequest
    made: RequestBenchmarks
    _methods: dict[str, tuple[int, Stage]] = field(default_factory=dict)

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
    def planner(self) -> Planner:
        source = self.request.source()
        model = Path(source.model if isinstance(source, Run) else source)
        blueprint = blueprint_of(str(model))
        template = self.settings.template or default_template(blueprint.tokenizer, model)
        rendering = Rendering(template) if self.target is None else self.target.rendering()
        return Planner(self.made.benchmark, blueprint, rendering, self.request.device)

    @cached_property
    def parameters(self) -> int:
        with torch.device("meta"):
            model = self.planner.blueprint.make(torch.float32)
        return sum(tensor.numel() for tensor in model.parameters())

    @cached_property
    def meter(self) -> ModelMeter:
        return self.request.meter(self.made)

    @property
    def whole(self) -> ForgetForecast:
        stages, later = self._stages()
        doubt = self.planner.blueprint.doubt
        cost = Forecast(
            "Deletion request",
            stages,
            capacity_of(self.request.device, self.request.work),
            (doubt,) if doubt else (),
            bool(doubt),
        )
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

    def _stages(self) -> tuple[tuple[Stage, ...], float]:
        """All stages, and the FLOPs of the trials after the first."""
        if is_case(self.request.out):
            return (Stage("deletion request", "done"),), 0.0
        first = [Stage("adopt the model", "done" if self.target else "to do")]
        first += self._verified("the model before", self.request.work / BEFORE)
        tries, last = [*self._tries()], list[Stage]()
        if self.settings.retrained is not None:
            last += self._verified("the retrained model", self.request.work / RETRAINED)
        last += [*self._verified("the model after", None), *self._earlier(), *self._general()]
        last.append(Stage("write model and case", "to do", disk=BYTES_A_WEIGHT * self.parameters))
        later = sum(stage.work.flops for own in tries[1:] for stage in own)
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
        benchmark, settings = self.made.benchmark, self.meter.verifying_settings
        plan = rank_plan(benchmark, REQUEST, settings, metric_names(benchmark, settings))
        return sum(len(facts) for facts in (*plan.questions.values(), *plan.records.values()))

    def _tries(self) -> Iterator[list[Stage]]:
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
            stage = self._unlearning(candidate, settings, folder)
            sequences = f"at most {2 * settings.batch_size} sequences"
            words = f"{count(stage.work.steps, 'step')} of {sequences}" if stage.work.steps else ""
            name = f"try {place + 1}: {candidate.words}"
            disk = stage.disk if place < KEPT else 0
            stages = [replace(stage, name=name, disk=disk, note="; ".join(filter(None, (stage.note, words))))]
            if self.meter.searches:
                evaluation_cost = self.planner.evaluating(
                    f"ask try {place + 1}", self.meter.choosing_settings, folder
                )
                stages.append(evaluation_cost)
            yield stages

    def _exact(self) -> Iterator[Stage]:
        """Training without the patients, twice; dropping an adapter costs nothing."""
        plan, is_retrained = self.request.plan_exactly(), is_complete(self.request.model_out)
        for name in ("make the model without the patients", "make it a second time, to compare"):
            stage = None
            if isinstance(plan.making, TrainSettings) and not is_retrained:
                stage = train_stage(plan.benchmark, plan.making, self.request.device)
            yield replace(stage or Stage(name, "done" if is_retrained else "to do"), name=name)

    def _general(self) -> Iterator[Stage]:
        """General tasks, for each verified model."""
        models = ["before", *(["retrained"] if self.settings.retrained else []), "after"]
        for model in models if self.settings.utility_tasks else ():
            name = "general tasks of the " + (f"model {model}" if model != "retrained" else "retrained model")
            yield Stage(name, "to do", "cost not estimated")

    def _unlearning(self, candidate: ForgetCandidate, settings: UnlearnSettings, folder: Path) -> Stage:
        """A trial; its cost per epoch is estimated from earlier trials of the same method."""
        if folder.exists():
            return self.planner.unlearning(settings, folder)
        if candidate.method not in self._methods:
            self._methods[candidate.method] = settings.epochs, self.planner.unlearning(settings)
        epochs, stage = self._methods[candidate.method]
        share, work = settings.epochs / max(1, epochs), stage.work
        steps, tokens = round(share * work.steps), round(share * work.tokens)
        return replace(stage, work=replace(work, flops=share * work.flops, steps=steps, tokens=tokens))

    def _verified(self, name: str, folder: Path | None) -> list[Stage]:
        """Verification of a model by questions and attacks; for the model before, also the evaluations for the
        choice.
        """
        stages = [self.planner.evaluating(f"ask {name}", self.meter.verifying_settings, folder)]
        if folder == self.request.work / BEFORE and self.meter.searches:
            more = self.planner.evaluating(f"ask {name} to choose by", self.meter.choosing_settings, folder)
            stages.append(more)
        finished_attacks = set() if folder is None else _attacks_done(folder)
        for attack, stage in self._attacks.items():
            title = f"{attack} of {name}"
            stages.append(Stage(title, "done") if attack in finished_attacks else replace(stage, name=title))
        return stages

    def _earlier(self) -> list[Stage]:
        """Evaluation of the models before and after on patients of earlier requests."""
        if self.made.earlier is None:
            return []
        planner = Planner(self.made.earlier, self.planner.blueprint, self.planner.rendering, self.request.device)
        name, settings = "ask {} about earlier requests", self.meter.earlier_settings
        before = planner.evaluating(name.format("the model before"), settings, self.request.work / BEFORE)
        return [before, planner.evaluating(name.format("the model after"), settings, None)]

    @cached_property
    def _attacks(self) -> Mapping[str, Stage]:
        """Name of each attack of the battery -> its stage on a new model."""
        settings = self.meter.attacking_settings
        if settings is None:
            return {}
        trained = check(TrainSettings, {"model": self.request.model})
        return attack_stages(self.planner, settings, trained)


def _attacks_done(folder: Path) -> set[str]:
    """Names of completed attacks on a run."""
    records = (file.parent for file in (folder / FOLDER).glob(f"*/{FILE}"))
    return {kind for record in records if is_complete(record) for kind in Run.open(record).info.results}
