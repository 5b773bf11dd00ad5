"""``--method auto``: a short, stated list of settings, tried in order until one is good enough.

| # | method | steps | more |
|---|---|---|---|
| 1 | counterfactual | 60 | |
| 2 | counterfactual | 120 | |
| 3 | counterfactual | 120 | twice the learning rate |
| 4 | counterfactual | 240 | |
| 5 | counterfactual | 240 | from weights mixed with a quarter of noise |
| 6 | npo | 60 | |

``counterfactual`` caps identifying values as wholes here: token by token they stayed known on notes of one patient
(benchmarks_perf/single_patients.py).

A search over ranges (`tune`) needs more patients than one to choose by: her numbers are few, and the best of many
trials on them is chance. Steps rather than epochs, since one patient's notes make one or two steps an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medunlearn.cases.evidence import CostReading
from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.forgetting.battery_checks import BatteryMaterial
from medunlearn.methods import is_edit
from medunlearn.pipeline.material import training_data
from medunlearn.pipeline.presets import unlearn_settings


@dataclass(frozen=True)
class ForgetCandidate:
    """One entry of the list."""

    method: str
    steps: int
    rate: float = 1.0
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """For a line of progress."""
        more = [f"{self.rate:g} x the learning rate"] if self.rate != 1.0 else []
        for name, value in self.arguments.items():
            more.append(name.replace("_", " ") if value is True else f"{name} {value}")
        steps = [f"about {self.steps} steps"] if self.steps else []
        return ", ".join([self.method, *steps, *more])

    def usual_settings(self, given: Mapping[str, Any], seed: int) -> UnlearnSettings:
        """Settings of `unlearn` but for the learning rate and the number of epochs; what the user gives wins.

        Raises:
            ConfigError: every mistake in what the user gives.
        """
        arguments = {f"{self.method}.{name}": value for name, value in self.arguments.items()}
        usual = {} if is_edit(self.method) else {"batch_size": BATCH}
        fixed = {"method": self.method, "split": REQUEST, "seed": seed, **usual, **arguments, **given}
        return unlearn_settings(fixed, tiny=None, shared=False)

    def settings(
        self, benchmark: Benchmark, given: Mapping[str, Any], *, rate: float, seed: int
    ) -> UnlearnSettings:
        """Settings of `unlearn`; what the user gives wins.

        Args:
            rate: learning rate of the first try (:func:`rate_of_size`).
        """
        usual, own = self.usual_settings(given, seed), dict[str, Any]()
        if is_edit(self.method):
            return usual
        if "epochs" not in given and self.steps:
            own["epochs"] = math.ceil(self.steps / math.ceil(forget_items(benchmark, usual) / usual.batch_size))
        if "lr" not in given and "preset" not in given:
            own["lr"] = self.rate * rate
        return usual.model_copy(update=own)


BATCH = 8
"""Sequences a side in a step: one patient's notes are few, and a retain batch of 64 beside them costs the most."""
_RATES = ((2e6, 1e-3), (8e9, 2e-5))
WHOLE = {"whole_values": True}
AUTO = (
    ForgetCandidate("counterfactual", 60, arguments=WHOLE),
    ForgetCandidate("counterfactual", 120, arguments=WHOLE),
    ForgetCandidate("counterfactual", 120, rate=2.0, arguments=WHOLE),
    ForgetCandidate("counterfactual", 240, arguments=WHOLE),
    ForgetCandidate("counterfactual", 240, arguments={**WHOLE, "noise": 0.25}),
    ForgetCandidate("npo", 60),
)


def rate_of_size(parameters: int) -> float:
    """Learning rate by a model's size: a line in log-log space through two that are known to do.

    1e-3 of the tiny model (about 2 million parameters, benchmarks_perf/tiny_rates.py) and 2e-5 of 8 billion
    (AMNESIA, Table 6); 1e-3 at most.
    """
    (small, most), (large, least) = _RATES
    slope = math.log(least / most) / math.log(large / small)
    return min(most, most * math.exp(slope * math.log(parameters / small)))


def forget_items(benchmark: Benchmark, settings: UnlearnSettings) -> int:
    """Number of sequences of the forget set."""
    sides = benchmark.sides(benchmark.split(REQUEST))
    items = training_data(benchmark, None, settings.train_on)
    return max(1, sum(sides[one.record_id] == "forget" for part in items for one in part))


@dataclass(frozen=True)
class TrialReading:
    """The numbers of a trial that a choice sees.

    Attributes:
        most, mean: excess over patients whom no model saw, of ways that found the patient before: the largest and
            the mean; None where no way did.
        least: the least one: far below 0, the forgetting is a trace of its own.
        kept: the least share that is kept of what others' answers scored; None where it cannot be told.
        problems: why the model is broken.
    """

    most: float | None
    mean: float | None
    least: float | None
    kept: float | None
    problems: tuple[str, ...]

    @staticmethod
    def of(material: BatteryMaterial, costs: list[CostReading], alpha: float = 0.05) -> TrialReading:
        compared = [check.comparison for check in material.checks() if check.comparison is not None]
        telling = [one.excess.value for one in compared if one.p_before is not None and one.p_before < alpha]
        found = [value for value in telling if value is not None]
        kept = [cost.kept for cost in costs if cost.kept is not None]
        mean = math.fsum(found) / len(found) if found else None
        ends = max(found, default=None), mean, min(found, default=None)
        return TrialReading(*ends, min(kept, default=None), material.after.problems)

    def good_enough(self, margin: float, floor: float) -> bool:
        """True if the search ends here: no excess above the margin or below minus it, on average at most half."""
        if self.most is None or self.mean is None or self.least is None:
            return False
        small = self.most <= margin and self.mean <= margin / 2 and self.least >= -margin
        return small and not self.problems and (self.kept is None or self.kept >= floor)

    def distance(self, floor: float) -> float:
        """Distance from nothing left and nothing lost, 0 and up: what others lost below the floor counts most."""
        lost = max(0.0, floor - (1.0 if self.kept is None else self.kept))
        left = max(0.0, 1.0 if self.most is None else self.most)
        trace = max(0.0, 0.0 if self.least is None else -self.least)
        return (100.0 if self.problems else 0.0) + 10.0 * lost + left + 0.5 * trace

    @property
    def words(self) -> str:
        """For a line of progress."""
        excess = "no way of asking found the patient before"
        if self.mean is not None and self.most is not None:
            excess = f"excess {self.mean:+.3f} on average, {self.least:+.3f} to {self.most:+.3f}"
        kept = "" if self.kept is None else f", others keep {self.kept:.1%}"
        return f"{excess}{kept}{', broken' if self.problems else ''}"
