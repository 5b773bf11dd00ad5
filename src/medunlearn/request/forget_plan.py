"""Plan of a deletion request: the stages of its graph, with their states and prices. Runs and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from medunlearn.config import ForgetSettings
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.reports.view import ResultView
from medunlearn.request.case.case_folder import is_case
from medunlearn.request.forget_request import ForgetRequest
from medunlearn.request.graph import RequestGraph, request_graph
from medunlearn.request.note_reading import EARLIER
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.request.request_pricing import RequestPricing
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.plans.capacity import capacity_of
from medunlearn.study.plans.forecast import Forecast, PlannedStage
from medunlearn.terminal import short_number

NO_HARNESS = "utility_tasks: lm-evaluation-harness is not installed: pip install 'medunlearn[utility]'."


@dataclass(frozen=True)
class PartedStage(PlannedStage):
    """A stage of a request with its parts, of which each is stored for itself."""

    parts: tuple[PlannedStage, ...] = ()

    @staticmethod
    def of(name: str, parts: tuple[PlannedStage, ...], *, done: bool) -> PartedStage:
        """A stage of these parts; without any it is ``done`` or to do."""
        states = {part.state for part in parts} or {"done" if done else "to do"}
        state = states.pop() if len(states) == 1 else "resumes"
        notes = dict.fromkeys(part.note for part in parts if part.note)
        return PartedStage(name, state, "; ".join(notes), sum((part.cost for part in parts), Cost()), parts)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "parts": [part.facts() for part in self.parts]}


@dataclass(frozen=True)
class ForgetPlan:
    """Plan of a request.

    Attributes:
        cost: price of every stage; further tries run only if earlier ones are not good enough.
        least_flops: remaining FLOPs if the first try is good enough.
        patients: numbers of patients asked about: of the request, retained, unseen, of earlier requests.
        invented: whether the unseen ones are invented.
        questions: numbers of questions per model: to choose settings, and to verify.
        ranked_facts: numbers of facts ranked in answers and in notes, per verified model.
        models: most models to measure, those before and after included.
    """

    cost: Forecast
    least_flops: float
    patients: dict[str, int]
    invented: bool
    questions: dict[str, int]
    ranked_facts: int
    models: int

    def facts(self) -> dict[str, Any]:
        """All numbers for JSON; sizes in bytes."""
        own = {name: value for name, value in vars(self).items() if name not in ("cost", "ranked_facts")}
        return {**self.cost.facts(), **own, "facts": self.ranked_facts}

    def view(self, *, every: bool = False) -> ResultView:
        """The price of its stages, and whom and what it asks, for the terminal."""
        blocks = self.cost.view(every=every, stages=self.rows()).blocks
        return ResultView(self.facts, chain(blocks, self.lines()))

    def rows(self) -> Iterator[PlannedStage]:
        """Each stage, followed by its parts if it has several."""
        for stage in self.cost.stages:
            yield stage
            parts = stage.parts if isinstance(stage, PartedStage) else ()
            yield from (replace(part, name=f"  {part.name}") for part in parts if len(parts) > 1)

    def lines(self) -> Iterator[str]:
        """Lines printed below the summary."""
        who = ", ".join(f"{number} {words}" for words, number in self.patients.items() if number)
        yield f"Patients who are asked about: {who}{' (invented)' if self.invented else ''}."
        questions = ", ".join(f"{number} {words}" for words, number in self.questions.items() if number)
        yield f"Questions to a model: {questions}; {self.ranked_facts} facts are ranked to verify it."
        if self.cost.warnings:
            yield "Settings of the tries begin with --unlearn here: --unlearn.trainable lora."
        yield f"Models that are measured: at most {self.models}. The tries end with the first that is good enough."
        yield f"FLOPs that are left: {short_number(self.least_flops)} to {short_number(self.cost.total.flops)}."


def foresee(
    model: str | Path, notes: Path, settings: ForgetSettings, out: Path, *, device: str = "auto"
) -> ForgetPlan:
    """The plan of a request; parameters as for :func:`~.graph.forget`.

    Raises:
        InputError: as in `forget`: a patient who is unknown or was forgotten before, notes that cannot be used.
        ModelError: no model, or one that cannot be estimated.
    """
    request = ForgetRequest.open(model, notes, settings, out, planned=True, device=device, quiet=True)
    graph, pricing = request_graph(request), RequestPricing.of(request)
    stages = {stage.name: stage for stage in planned_stages(graph, pricing)}
    shape, harness = pricing.model.shape, not request.settings.utility_tasks or find_spec("lm_eval")
    cost = Forecast(
        "Deletion request",
        tuple(stages.values()),
        capacity_of(device, request.work),
        pricing.model.doubts,
        () if harness else (NO_HARNESS,),
        bool(shape.doubt),
    )
    later = sum(stages[trial.name].cost.flops for trial in graph.tries[1:])
    searches = min(len(graph.tries), request.settings.budget) if pricing.meter.searches else 0
    return ForgetPlan(
        cost,
        cost.total.flops - later,
        _patients(pricing.benchmarks),
        pricing.benchmarks.has_invented,
        _questions(pricing),
        round(pricing.model.ranks(pricing.meter.verifying_settings).facts),
        2 + (request.settings.retrained is not None) + searches,
    )


def planned_stages(graph: RequestGraph, pricing: RequestPricing) -> Iterator[PartedStage]:
    """Every stage with its price and its state; of a request whose case is there all are done.

    A stage without a price, which is a function of results, is done where all that it takes is done.
    """
    done, is_closed = set[str](), is_case(pricing.request.out)
    for stage in graph.cells:
        names = {other.name for other in stage.needs}
        parts = () if is_closed else tuple(stage.price(pricing))
        plan = PartedStage.of(stage.name, parts, done=is_closed or (bool(names) and names <= done))
        if plan.state == "done":
            done.add(stage.name)
        yield plan


def _patients(benchmarks: RequestBenchmarks) -> dict[str, int]:
    """Numbers of patients who are asked about, by kind."""
    benchmark, earlier = benchmarks.benchmark, benchmarks.earlier
    subjects = {benchmark.subject(question.record_id) for question in benchmark.questions}
    return {
        "to forget": len(benchmarks.patients),
        "retained": len(subjects - {*benchmarks.patients} - benchmarks.unseen),
        "whom no model saw": len(subjects & benchmarks.unseen),
        "of earlier requests": len(earlier.split(EARLIER).forget) if earlier else 0,
    }


def _questions(pricing: RequestPricing) -> dict[str, int]:
    """Numbers of questions to a model, by purpose."""
    benchmark, meter = pricing.benchmarks.benchmark, pricing.meter
    settings = {"to choose by": meter.choosing_settings} if meter.searches else {}
    settings["to verify it"] = meter.verifying_settings
    split = benchmark.split(REQUEST)
    return {purpose: len(questions_to_ask(benchmark, split, how)) for purpose, how in settings.items()}
