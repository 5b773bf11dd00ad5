"""Prices of the stages of a deletion request, with what stands of each on disk. Runs and writes nothing.

A method prices one stage of :mod:`medunlearn.request.graph`, in parts that are stored each for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from medunlearn.attacks.attacked import FOLDER
from medunlearn.config import TrainSettings, check
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.models.folders import model_folder
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.probes.sample_loss import default_template
from medunlearn.reports.formatting import count
from medunlearn.request.forget_request import AFTER, BEFORE, EXACT, REQUEST_FILE, RETRAINED, ForgetRequest
from medunlearn.request.request_benchmarks import BENCHMARK, RequestBenchmarks, make_benchmarks
from medunlearn.request.trial_search import ForgetCandidate, begun, trial_folder
from medunlearn.results.runs import FILE, Run, is_complete
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.plans.capacity import is_gpu
from medunlearn.study.plans.forecast import PlannedStage
from medunlearn.study.plans.stage_states import evaluation_stage, unlearning_stage
from medunlearn.study.sized_defaults import rate_of_size

if TYPE_CHECKING:
    from medunlearn.models.prompts import TemplateName
    from medunlearn.request.measuring_models import ModelMeter

BYTES_A_WEIGHT = 4
"""Of the exported model, at most."""
KEPT = 2
"""Tries whose weights lie on the disk at once: the best so far, and the one that is trained."""

IF_IN_DOUBT = "a second template only if the model answers about as well in it"

Parts = Iterator[PlannedStage]


@dataclass
class RequestPricing:
    """Prices of a request's stages.

    Attributes:
        benchmarks: notes of the patients, and of a sample of others.
        model: prices of the input model's stages.
        possible_template: of a model that is not asked yet and may answer about as well in two; None if it has one
            alone, or if it is known.
    """

    request: ForgetRequest
    benchmarks: RequestBenchmarks
    model: Pricing
    possible_template: TemplateName | None = None

    @staticmethod
    def of(request: ForgetRequest) -> RequestPricing:
        """The prices of a request.

        Raises:
            Other errors: those of :func:`~.request_benchmarks.make_benchmarks`.
            ModelError: no model, or one that cannot be estimated.
        """
        # What was asked of a half-done request's benchmark is found under that benchmark alone.
        is_built = (request.work / BENCHMARK / MANIFEST).exists()
        benchmarks = make_benchmarks(
            request.notes, request.settings, request.ledger, request.secret, quiet=True, few=not is_built
        )
        source, adopted = request.source(), request.work / BEFORE
        folder = Path(model_folder(source.model if isinstance(source, Run) else source))
        possible: TemplateName | None = None
        if is_complete(adopted):
            rendering = Run.open(adopted).rendering()
        else:
            template = request.settings.template or default_template(LightTokenizer.of_model(str(folder)), folder)
            rendering = Rendering(template)
            is_open = request.settings.template is None and not isinstance(source, Run)
            possible = "plain" if is_open and template == "chat" else None
        model = _prices(str(folder), benchmarks.benchmark, rendering, request.device)
        return RequestPricing(request, benchmarks, model, possible)

    @cached_property
    def meter(self) -> ModelMeter:
        meter = self.request.meter(self.benchmarks)
        return replace(meter, second_template=self.possible_template) if self.possible_template else meter

    def receipt(self) -> Parts:
        yield _stored_part("record", (self.request.work / REQUEST_FILE).exists())

    def notes(self) -> Parts:
        yield _stored_part("benchmark", (self.request.work / BENCHMARK / MANIFEST).exists())

    def target(self) -> Parts:
        yield _stored_part("run", is_complete(self.request.work / BEFORE))

    def retrained_model(self) -> Parts:
        yield _stored_part("run", is_complete(self.request.work / RETRAINED))

    def measurement_before(self) -> Parts:
        return self._verification("the model before", self.request.work / BEFORE)

    def measurement_after(self) -> Parts:
        """Verification of the chosen model, whose run is known in advance unless numbers choose it."""
        request, chosen = self.request, None
        if request.settings.method == EXACT:
            chosen = request.work / AFTER
        elif not self.meter.searches:
            chosen = trial_folder(request.work, 0, request.candidates[0])
        return self._verification("the model after", chosen, on_earlier=True)

    def measurement_retrained(self) -> Parts:
        return self._verification("the retrained model", self.request.work / RETRAINED)

    def baseline(self) -> Parts:
        """Evaluation of the model before that tries are compared with."""
        if self.meter.searches:
            yield self._evaluation("ask the model before to choose by", self.request.work / BEFORE)

    def trial(self, place: int, candidate: ForgetCandidate) -> Parts:
        """A try, and its evaluation for the choice."""
        settings = self.request.settings
        if place >= settings.budget:
            return  # Only in place of an earlier one that is passed over.
        candidate = begun(self.request.work, place, candidate, settings.unlearn)
        folder = trial_folder(self.request.work, place, candidate)
        values = candidate.settings(
            self.benchmarks.benchmark,
            settings.unlearn,
            rate=rate_of_size(self.model.shape.parameters),
            seed=settings.seed,
        )
        stage = unlearning_stage(f"unlearn try {place + 1}", self.model, values, folder)
        if stage.cost.steps:
            words = f"{count(round(stage.cost.steps), 'step')} of at most {2 * values.batch_size} sequences"
            stage = replace(stage, note="; ".join(filter(None, (stage.note, words))))
        yield stage if place < KEPT else replace(stage, cost=replace(stage.cost, disk=0))
        if self.meter.searches:
            yield self._evaluation(f"ask try {place + 1}", folder)

    def exact_deletion(self) -> Parts:
        """For an exact deletion, training without the patients, twice; dropping an adapter costs nothing."""
        if self.request.settings.method != EXACT:
            return
        plan, is_there = self.request.plan_exactly(), is_complete(self.request.model_out)
        cost = Cost()
        if isinstance(plan.making, TrainSettings) and not is_there:
            on_gpu = is_gpu(self.request.device)
            cost = Pricing.of(plan.benchmark, plan.making, on_gpu=on_gpu).training(plan.making)
        for name in ("make the model without the patients", "make it a second time, to compare"):
            yield replace(_stored_part(name, is_there), cost=cost)

    def export(self) -> Parts:
        yield PlannedStage("model", cost=Cost(disk=BYTES_A_WEIGHT * self.model.shape.parameters))

    def _evaluation(self, name: str, folder: Path | None) -> PlannedStage:
        """An evaluation for the choice of settings."""
        return evaluation_stage(name, self.model, self.meter.choosing_settings, folder)

    def _verification(self, title: str, folder: Path | None, *, on_earlier: bool = False) -> Parts:
        """Everything that verifies a model (:meth:`~.measuring_models.ModelMeter.verify`).

        Args:
            folder: its run; None for a model that is not chosen yet.
        """
        meter, earlier = self.meter, self.benchmarks.earlier
        yield evaluation_stage(f"ask {title}", self.model, meter.verifying_settings, folder)
        if (direct := meter.direct_benchmark) is not None:
            name = f"ask {title} in the template {meter.second_template}"
            stage = evaluation_stage(name, self._prices_of(direct), meter.second_settings, folder)
            yield replace(stage, note=IF_IN_DOUBT) if self.possible_template else stage
        complete = set() if folder is None else _complete_attacks(folder)
        for attack, stage in self._attacks.items():
            name = f"{attack} of {title}"
            yield PlannedStage(name, "done") if attack in complete else replace(stage, name=name)
        if on_earlier and earlier is not None:
            name = f"ask {title} about earlier requests"
            yield evaluation_stage(name, self._prices_of(earlier), meter.earlier_settings, folder)
        if self.request.settings.utility_tasks:
            yield PlannedStage(f"general tasks of {title}", note="general tasks: cost not estimated")

    def _prices_of(self, benchmark: Benchmark) -> Pricing:
        """Prices of the model's stages on another benchmark."""
        return _prices(self.model.trained.model, benchmark, self.model.rendering, self.request.device)

    @cached_property
    def _attacks(self) -> Mapping[str, PlannedStage]:
        """Name of each attack of the battery -> its stage on a new model."""
        settings = self.meter.attacking_settings
        prices = {} if settings is None else self.model.attacks(settings)
        return {name: PlannedStage(name, note=price.note, cost=price.cost) for name, price in prices.items()}


def _prices(model: str, benchmark: Benchmark, rendering: Rendering, device: str) -> Pricing:
    settings = check(TrainSettings, {"model": model})
    return Pricing.of(benchmark, settings, rendering=rendering, on_gpu=is_gpu(device))


def _stored_part(name: str, is_there: bool) -> PlannedStage:
    """A part whose result is a file or a folder, at no cost."""
    return PlannedStage(name, "done" if is_there else "to do")


def _complete_attacks(folder: Path) -> set[str]:
    """Names of completed attacks on a run."""
    records = (file.parent for file in (folder / FOLDER).glob(f"*/{FILE}"))
    return {kind for record in records if is_complete(record) for kind in Run.open(record).info.results}
