"""Learning rate and length of an unlearning run, from the size of the model and of the forget set."""

from __future__ import annotations

import math

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.methods import is_edit
from medunlearn.probes.material import training_data

STEPS = 60
"""Steps of a run whose epochs nobody gave, at least: as many as the first try of `forget`."""
_RATES = ((2e6, 1e-3), (8e9, 2e-5))


def rate_of_size(parameters: int) -> float:
    """Learning rate from model size: a line in log-log space through two known points.

    The points: 1e-3 for the tiny model (about 2 million parameters, benchmarks_perf/tiny_rates.py) and 2e-5 for 8
    billion (AMNESIA, Table 6); at most 1e-3.
    """
    (small, most), (large, least) = _RATES
    slope = math.log(least / most) / math.log(large / small)
    return min(most, most * math.exp(slope * math.log(parameters / small)))


def forget_items(benchmark: Benchmark, settings: UnlearnSettings) -> int:
    """Number of records and questions of the forget set that a run trains on, at least 1."""
    sides = benchmark.sides(benchmark.split(settings.split))
    records, questions = training_data(benchmark, None, settings.train_on)
    record_ids = [*(record.record_id for record in records), *(question.record_id for question in questions)]
    return max(1, sum(sides[name] == "forget" for name in record_ids))


def epochs_of_steps(steps: int, benchmark: Benchmark, settings: UnlearnSettings) -> int:
    """Epochs that take at least so many steps."""
    return math.ceil(steps / math.ceil(forget_items(benchmark, settings) / settings.batch_size))


def fit_to_model(settings: UnlearnSettings, parameters: int | None, benchmark: Benchmark) -> UnlearnSettings:
    """The settings with a learning rate and a number of epochs where neither a user nor a preset gave one.

    Few patients and a large model would otherwise get three steps at a rate that moves nothing.

    Args:
        parameters: number of the model's parameters; None if it is unknown: the rate stays.
    """
    if is_edit(settings.method):
        return settings
    own: dict[str, float] = {}
    if "lr" not in settings.model_fields_set and parameters is not None:
        own["lr"] = rate_of_size(parameters)
    if "epochs" not in settings.model_fields_set:
        own["epochs"] = max(settings.epochs, epochs_of_steps(STEPS, benchmark, settings))
    return settings.model_copy(update=own)
