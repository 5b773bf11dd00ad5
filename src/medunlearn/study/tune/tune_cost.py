"""Cost of a tuning before it starts: FLOPs of trials, models, questions. Runs and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.reports.blocks import Block
from medunlearn.reports.view import ResultView, plain_table
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.plans.capacity import capacity_of
from medunlearn.study.plans.forecast import Forecast, PlannedStage
from medunlearn.study.plans.missing import missing_parts
from medunlearn.study.tune.tune_graph import tune_graph
from medunlearn.study.tune.tune_plan import Tuning
from medunlearn.terminal import short_number


class TrialCosts:
    """FLOPs of a trial's training by method and settings, without its evaluations.

    Non-integer settings scale a term of the loss without changing FLOPs, so trials that differ only in these are
    priced once.
    """

    def __init__(self, tuning: Tuning, benchmark: Benchmark, device: str) -> None:
        self.tuning, self.benchmark, self.device = tuning, benchmark, device
        self._flops_by_method: dict[str, float | None] = {}

    @cached_property
    def pricing(self) -> Pricing:
        return Pricing.of(self.benchmark, self.tuning.base.training(self.tuning.seeds[0]))

    def __call__(self, method: str, params: Mapping[str, Any]) -> float | None:
        """FLOPs of a trial; None if the model cannot be priced."""
        fixed = {name: value for name, value in params.items() if not isinstance(value, float)}
        key = repr((method, sorted(fixed.items())))
        if key not in self._flops_by_method:
            try:
                self._flops_by_method[key] = self._estimate(method, fixed)
            except MedunlearnError:
                self._flops_by_method[key] = None
        return self._flops_by_method[key]

    def _estimate(self, method: str, params: Mapping[str, Any]) -> float:
        settings = self.tuning.unlearning(method, params, self.tuning.seeds[0], trial=False)
        return float(self.pricing.unlearning(settings).flops)

    def check_budget(self) -> None:
        """Refuse a budget in FLOPs that is too small for a method's untuned trial, or cannot be estimated.

        Raises:
            InputError: names the least number of FLOPs.
        """
        if self.tuning.settings.flops is None:
            return
        needs = {method: self(method, {}) for method in self.tuning.methods}
        if unknown := [method for method, flops in needs.items() if flops is None]:
            raise InputError(f"flops: those of {', '.join(unknown)} cannot be estimated here. Use runs instead.")
        most = max(needs, key=lambda method: needs[method] or 0.0)
        if (least := needs[most] or 0.0) > self.tuning.share:
            raise InputError(
                f"flops={self.tuning.settings.flops:g}: the share of each method, {self.tuning.share:.3g}, is "
                f"less than one untuned run of {most} needs ({least:.3g}). Use at least {least * len(needs):.3g}."
            )


@dataclass(frozen=True)
class MethodForecast:
    """Forecast of a method's trials.

    Attributes:
        trials: number of trials in its budget; None if that is in FLOPs.
        epochs: untuned and largest number of epochs; 0 for a weight-editing method.
        flops: of an untuned trial's training, and of the longest one in the space; None if unknown.
    """

    method: str
    trials: int | None
    done: int
    epochs: tuple[int, int]
    flops: tuple[float | None, float | None]
    space: str


@dataclass(frozen=True)
class TuneForecast:
    """Cost of a tuning.

    Attributes:
        models: number of models trained or unlearned besides the trials, by kind.
        questions: half -> number asked after every epoch of a trial, or for each model at the end.
        budget: budget in words.
        cost: of all trials and models from nothing, the trials at their longest; None without a benchmark.
    """

    name: str
    methods: tuple[MethodForecast, ...]
    models: dict[str, int]
    subjects: dict[str, dict[str, int]]
    questions: dict[str, int]
    budget: str
    notes: tuple[str, ...]
    cost: Forecast | None = None

    def table(self) -> pd.DataFrame:
        """One row per method."""
        return pd.DataFrame([asdict(method) for method in self.methods])

    def facts(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        cost = None if self.cost is None else self.cost.facts()
        return {**asdict(replace(self, cost=None)), "cost": cost}

    def view(self, *, every: bool = False) -> ResultView:
        """Trials of each method and the price, for the terminal; with ``every`` a table of stages too."""

        def work(method: MethodForecast) -> str:
            flops = (short_number(each) for each in method.flops if each is not None)
            return " to ".join(dict.fromkeys(flops)) or "not known"

        def blocks() -> Iterator[Block | str | None]:
            yield f"{self.name}. {self.summary()}"
            if every and self.cost is not None:
                yield from self.cost.view(every=True).blocks
            rows = ((of.method, of.trials, of.done, work(of), of.space) for of in self.methods)
            yield plain_table(("Method", "Trials", "Done", "FLOPs of a trial", "Searched"), rows, "Trials")
            yield from self.lines()

        return ResultView(self.facts, blocks())

    def summary(self) -> str:
        """Price of the whole in one line; empty if it is not known."""
        if self.cost is None:
            return ""
        return self.cost.summary().replace("Left:", "From nothing, and trials at their longest:")

    def lines(self) -> Iterator[str]:
        """Lines printed below the table."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.models.items())
        yield f"Budget: {self.budget}. Besides: {kinds}."
        for half, what in (("choosing", "after every epoch of a trial"), ("reporting", "of each model at the end")):
            if half in self.questions:
                subjects = self.subjects[half]
                yield (
                    f"{half.capitalize()} half: {subjects['forget']} forget and {subjects['retain']} retain "
                    f"subjects, {self.questions[half]} questions {what}."
                )
        yield from self.notes
        if self.cost is not None:
            yield from (*self.cost.doubts, *self.cost.missing, *self.cost.warnings)


def foresee(tuning: Tuning, *, device: str = "auto") -> TuneForecast:
    """Cost of a tuning; for a benchmark that is not built yet, only the content of its file.

    Raises:
        InputError: a budget in FLOPs that is too small or cannot be counted.
    """
    settings, benchmark = tuning.settings, tuning.base.opened
    costs = None if benchmark is None else TrialCosts(tuning, benchmark, device)
    if costs is not None:
        costs.check_budget()
    methods = tuple(_method(tuning, method, benchmark, costs) for method in tuning.methods)
    kinds = {"target": "targets", "retrained": "retrained models", "unlearn": "unlearned models"}
    kinds["evaluate"] = "evaluations"
    numbers = Counter(cell.kind for cell in tune_graph(tuning, None, lambda method, params: None).cells)
    models = {words: numbers[kind] for kind, words in kinds.items() if numbers[kind]}
    subjects, questions = dict[str, dict[str, int]](), dict[str, int]()
    if benchmark is not None:
        subjects, split = tuning.subject_counts(benchmark), benchmark.split(settings.split)
        evaluations = {"choosing": tuning.measures()[0], "reporting": tuning.evaluating("reporting")}
        questions = {half: len(questions_to_ask(benchmark, split, how)) for half, how in evaluations.items()}
    budget = f"{tuning.budget}, {len(methods)} methods"
    cost = None if costs is None else _whole(tuning, costs, methods, models, device)
    return TuneForecast(settings.name, methods, models, subjects, questions, budget, tuning.notes, cost)


def _whole(
    tuning: Tuning, costs: TrialCosts, methods: Sequence[MethodForecast], models: Mapping[str, int], device: str
) -> Forecast:
    """Price of all trials and models."""
    pricing, seed = costs.pricing, tuning.seeds[0]
    target = tuning.base.training(seed)
    stages = [PlannedStage("targets", cost=pricing.training(target).times(models.get("targets", 0)))]
    if number := models.get("retrained models"):
        retrained = target.model_copy(update={"without": tuning.settings.split})
        stages.append(PlannedStage("retrained models", cost=pricing.training(retrained).times(number)))
    for of in methods:
        params = {"epochs": of.epochs[1]} if of.epochs[1] != of.epochs[0] else {}
        trial = pricing.unlearning(tuning.unlearning(of.method, params, seed, trial=True))
        trials = of.trials if of.trials is not None else tuning.share / max(1.0, trial.flops)
        stages.append(PlannedStage(f"trials of {of.method}", cost=trial.times(trials)))
    evaluation = pricing.evaluating(tuning.evaluating("reporting"))
    stages.append(PlannedStage("evaluations", cost=evaluation.times(models.get("evaluations", 0))))
    model, judges = str(target.model), tuning.base.judges.judges if tuning.base.judges else ()
    missing = missing_parts(pricing.benchmark, model, tuning.evaluating("reporting"), judges=judges)
    capacity = capacity_of(device, tuning.settings.out)
    return Forecast(tuning.settings.name, tuple(stages), capacity, pricing.doubts, tuple(missing))


def _method(tuning: Tuning, method: str, benchmark: Benchmark | None, costs: TrialCosts | None) -> MethodForecast:
    untuned = tuning.unlearning(method, {}, tuning.seeds[0], trial=False).epochs
    space = tuning.spaces[method]
    longest = max(
        (int(end) for d in space if d.name == "epochs" for end in d.ends if not isinstance(end, str)),
        default=untuned,
    )
    flops: tuple[float | None, float | None] = (None, None)
    finished_trials = 0
    if benchmark is not None and costs is not None:
        if tuning.settings.out.exists():
            from medunlearn.study.tune.method_trials import MethodTrials  # loads torch

            finished_trials = len(MethodTrials.open(tuning, method, benchmark, costs).finished)
        first = costs(method, {})
        flops = (first, first if longest == untuned else costs(method, {"epochs": longest}))
    words = "; ".join(f"{dimension.name} {dimension.text}" for dimension in space)
    trials = int(tuning.share) if tuning.settings.runs else None
    return MethodForecast(method, trials, finished_trials, (untuned, longest), flops, words)
