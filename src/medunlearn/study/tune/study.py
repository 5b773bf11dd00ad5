"""Optuna by ask and tell: the next trial's settings, and whether a trial continues after an epoch.

A study is rebuilt in memory from the trials so far, so only their table is stored. Its answers depend only on the
trials, the seed and the trial's number, in any process.

Source: tree-structured Parzen estimator, Bergstra et al. 2011; asynchronous successive halving, Li et al. 2020
(arXiv 1810.05934), both as Optuna implements them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.errors import InputError
from medunlearn.seeds import stable_seed
from medunlearn.study.tune.objective import WORST, AxisValues, TuneObjective
from medunlearn.study.tune.space import Space
from medunlearn.study.tune.trials import TuneTrial

if TYPE_CHECKING:
    import optuna

STARTUP = 5
"""Trials until which settings are drawn at random; then the sampler goes by those before."""
_RUNG = "completed_rung_"


def check_installed() -> None:
    """Raises InputError: Optuna is not installed."""
    if find_spec("optuna") is None:
        raise InputError("Settings are searched by Optuna, which is not installed: pip install 'medunlearn[tune]'.")


def next_params(
    space: Space, trials: Sequence[TuneTrial], untuned: Mapping[str, Any], number: int, seed: int
) -> dict[str, Any]:
    """Settings of the next trial; empty for trial 0, the untuned method.

    Args:
        untuned: values of the untuned method, those of trial 0.
    """
    if number == 0:
        return {}
    import optuna

    method = trials[0].method if trials else ""
    draws = optuna.samplers.TPESampler(
        seed=stable_seed("tune", method, seed, number) % 2**32, n_startup_trials=STARTUP
    )
    study = _new_study(sampler=draws)
    distributions = {dimension.name: dimension.distribution() for dimension in space}
    for trial in trials:
        values = {name: {**untuned, **trial.params}.get(name) for name in distributions}
        # The untuned settings may lie outside of a user's ranges: then nothing is told of them.
        if trial.state != "running" and all(d.holds(values[d.name]) for d in space):
            study.add_trial(_frozen_trial(trial, params=values, distributions=distributions))
    params = study.ask(distributions).params
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in params.items()}


def _new_study(**parts: Any) -> optuna.study.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(**{"pruner": optuna.pruners.NopPruner(), "direction": "minimize", **parts})


def _frozen_trial(trial: TuneTrial, **more: Any) -> optuna.trial.FrozenTrial:
    """A finished trial in Optuna's format."""
    import optuna

    states = optuna.trial.TrialState
    # A failed trial and a broken model are the worst of all, so that the sampler leaves their surroundings.
    bad = trial.state == "failed" or trial.problem or trial.value is None
    return optuna.trial.create_trial(
        state=states.PRUNED if trial.state == "pruned" and not bad else states.COMPLETE,
        value=WORST if bad else trial.value,
        intermediate_values={e: WORST if v is None else v for e, v in trial.by_epoch.items() if e > 0},
        system_attrs=dict(trial.rungs),
        **more,
    )


class Pruner:
    """Successive halving of a running trial, called with its table of epochs.

    Attributes:
        by_epoch: epoch -> objective, the target's as epoch 0.
        standings: epoch -> axis values of the model.
        stopped: True if the trial was stopped early.
    """

    def __init__(self, objective: TuneObjective, trials: Sequence[TuneTrial], halving: int, planned: int) -> None:
        self.objective, self.trials, self.halving, self.planned = objective, trials, halving, planned
        self.by_epoch: dict[int, float | None] = {}
        self.standings: dict[int, AxisValues] = {}
        self.stopped = False

    def __call__(self, epochs: pd.DataFrame) -> bool:
        """Process new epochs; True stops the trial."""
        for epoch in sorted({int(epoch) for epoch in epochs["epoch"]} - set(self.by_epoch)):
            standing = AxisValues.of(epochs[epochs["epoch"] == epoch], self.objective.fold)
            self.standings[epoch], self.by_epoch[epoch] = standing, self.objective.of(standing)
            if epoch == 0 or not self.halving or self.stopped:
                continue
            value = self.by_epoch[epoch]
            self._live.report(WORST if value is None else value, epoch)
            # After the last epoch nothing is left to save.
            self.stopped = self._live.should_prune() and epoch < self.planned
        return self.stopped

    @property
    def rungs(self) -> dict[str, float]:
        """The pruner's records, for later trials."""
        if "_live" not in vars(self):
            return {}
        attributes = self._live.study._storage.get_trial(self._live._trial_id).system_attrs
        return {name: float(value) for name, value in attributes.items() if name.startswith(_RUNG)}

    @cached_property
    def _live(self) -> optuna.trial.Trial:
        import optuna

        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=self.halving)
        study = _new_study(pruner=pruner)
        study.add_trials([_frozen_trial(trial) for trial in self.trials if trial.state != "running"])
        return study.ask()
