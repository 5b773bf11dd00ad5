"""FLOPs of trials by the estimate of `--plan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.pipeline.estimate.blueprint import blueprint
from medunlearn.pipeline.estimate.stage_cost import Planner
from medunlearn.pipeline.material import rendering_for
from medunlearn.pipeline.tuning.tune_plan import Tuning


class TrialCosts:
    """FLOPs of a trial's training by method and settings; its evaluations are not counted.

    A number that is not whole scales a term of the loss and changes no FLOPs, so trials that differ in such numbers
    alone are estimated once.
    """

    def __init__(self, tuning: Tuning, benchmark: Benchmark, device: str) -> None:
        self.tuning, self.benchmark, self.device = tuning, benchmark, device
        self._planner: Planner | None = None
        self._known: dict[str, float | None] = {}

    def __call__(self, method: str, params: Mapping[str, Any]) -> float | None:
        """None where it cannot be estimated: a model with images, or a plug-in that reads its tensors' values."""
        fixed = {name: value for name, value in params.items() if not isinstance(value, float)}
        key = repr((method, sorted(fixed.items())))
        if key not in self._known:
            try:
                self._known[key] = self._estimate(method, fixed)
            except (MedunlearnError, RuntimeError, TypeError, ValueError, NotImplementedError):
                self._known[key] = None
        return self._known[key]

    def _estimate(self, method: str, params: Mapping[str, Any]) -> float:
        tuning = self.tuning
        seed = tuning.seeds[0]
        if self._planner is None:
            training = tuning.base.training(seed)
            model = blueprint(self.benchmark, training)
            self._planner = Planner(self.benchmark, model, rendering_for(training), self.device)
        settings = tuning.unlearning(method, params, seed, trial=False)
        return float(self._planner.unlearning(settings).work.flops)

    def check_budget(self) -> None:
        """Refuse a budget in FLOPs that a method's untuned trial does not fit into, or that cannot be counted.

        Raises:
            InputError: says how many FLOPs are needed at least.
        """
        if self.tuning.settings.flops is None:
            return
        needs = {method: self(method, {}) for method in self.tuning.methods}
        if unknown := [method for method, flops in needs.items() if flops is None]:
            raise InputError(f"flops: those of {', '.join(unknown)} cannot be estimated here. Give runs instead.")
        most = max(needs, key=lambda method: needs[method] or 0.0)
        if (least := needs[most] or 0.0) > self.tuning.share:
            raise InputError(
                f"flops={self.tuning.settings.flops:g}: the share of each method, {self.tuning.share:.3g}, is less "
                f"than one untuned run of {most} takes ({least:.3g}). Give {least * len(needs):.3g} at least."
            )
