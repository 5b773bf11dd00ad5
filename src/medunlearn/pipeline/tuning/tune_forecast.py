"""Work of a tuning before it starts, and what is done of it. Runs and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.pipeline.question_selection import questions_to_ask
from medunlearn.pipeline.tuning.method_trials import MethodTrials
from medunlearn.pipeline.tuning.tune_costs import TrialCosts
from medunlearn.pipeline.tuning.tune_plan import Tuning
from medunlearn.pipeline.tuning.tune_record import subject_counts


@dataclass(frozen=True)
class MethodForecast:
    """A method's trials.

    Attributes:
        trials: of its budget; None where that is in FLOPs.
        epochs: of the untuned settings, and at most; 0 of a method that edits.
        flops: of an untuned trial's training, and of the longest one of the space; None where not known.
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
        models: trained or unlearned besides the trials, by kind.
        questions: half -> asked after every epoch of a trial, or of each model at the end.
        budget: in words.
    """

    name: str
    methods: tuple[MethodForecast, ...]
    models: dict[str, int]
    subjects: dict[str, dict[str, int]]
    questions: dict[str, int]
    budget: str
    notes: tuple[str, ...]

    def table(self) -> pd.DataFrame:
        """One row a method."""
        return pd.DataFrame([asdict(method) for method in self.methods])

    def facts(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Lines below the table."""
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


def foresee(tuning: Tuning, *, device: str = "auto") -> TuneForecast:
    """Cost of a tuning; of a benchmark that is yet to be built, only what its file says.

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
    models = {
        words: number
        for kind, words in kinds.items()
        if (number := sum(cell.kind == kind for cell in tuning.cells))
    }
    subjects, questions = dict[str, dict[str, int]](), dict[str, int]()
    if benchmark is not None:
        subjects, split = subject_counts(tuning, benchmark), benchmark.split(settings.split)
        asked = {"choosing": tuning.measures[0], "reporting": tuning.evaluating("reporting")}
        questions = {half: len(questions_to_ask(benchmark, split, how)) for half, how in asked.items()}
    budget = f"{tuning.share:g} {'trials' if settings.runs else 'FLOPs'} a method, {len(methods)} methods"
    return TuneForecast(settings.name, methods, models, subjects, questions, budget, tuning.notes)


def _method(tuning: Tuning, method: str, benchmark: Benchmark | None, costs: TrialCosts | None) -> MethodForecast:
    untuned = tuning.unlearning(method, {}, tuning.seeds[0], trial=False).epochs
    space = tuning.spaces[method]
    longest = max(
        (int(end) for d in space if d.name == "epochs" for end in d.ends if not isinstance(end, str)),
        default=untuned,
    )
    flops: tuple[float | None, float | None] = (None, None)
    done = 0
    if benchmark is not None and costs is not None:
        done = len(MethodTrials.open(tuning, method, benchmark, costs).finished)
        first = costs(method, {})
        flops = (first, first if longest == untuned else costs(method, {"epochs": longest}))
    words = "; ".join(f"{dimension.name} {dimension.text}" for dimension in space)
    trials = int(tuning.share) if tuning.settings.runs else None
    return MethodForecast(method, trials, done, (untuned, longest), flops, words)
