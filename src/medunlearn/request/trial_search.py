"""``--method auto``: try candidates in order until one is good enough; keep the best.

| # | method | steps | more |
|---|---|---|---|
| 1 | counterfactual | 60 | |
| 2 | counterfactual | 120 | |
| 3 | counterfactual | 120 | twice the learning rate |
| 4 | counterfactual | 240 | |
| 5 | counterfactual | 240 | from weights mixed with a quarter of noise |
| 6 | npo | 60 | |

``counterfactual`` caps identifying values as wholes here: token by token they stayed known on notes of one patient
(benchmarks_perf/single_patients.py). Once a try went below unseen patients by more than the margin, later ones also
hold these values up to a stranger's level (``hold``). A method that learns alternative answers is skipped if the
patient's notes offer none.

A search over ranges (`tune`) needs several patients: with one, the numbers are few, and the best of many trials is
chance. Lengths are in steps rather than epochs, since one patient's notes make one or two steps per epoch.

Every trial has a folder below ``case-work/trials/`` and resumes. The weights of trials that are not the best are
deleted; record and numbers stay.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.data.leftovers import part_of, part_pattern, remove_stray_parts
from medunlearn.methods import is_edit, keeps_target
from medunlearn.request.battery_checks import BatteryMaterial
from medunlearn.request.case.evidence import CostReading
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.standings import Standings
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, RunRecord
from medunlearn.study.choose import Worth, choose
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.sized_defaults import epochs_of_steps, rate_of_size

if TYPE_CHECKING:
    from medunlearn.study.alternative_answers import NoAlternativesError

NO_ALTERNATIVES = "nobody is named in the patient's notes, and no value stands there that another could replace"
"""Reason why a method that learns alternative answers cannot be used."""


@dataclass(frozen=True)
class ForgetCandidate:
    """One candidate of the list."""

    method: str
    steps: int
    rate: float = 1.0
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Description for a progress line."""
        more = [f"{self.rate:g} x the learning rate"] if self.rate != 1.0 else []
        for name, value in self.arguments.items():
            more.append(name.replace("_", " ") if value is True else f"{name} {value}")
        steps = [f"about {self.steps} steps"] if self.steps else []
        return ", ".join([self.method, *steps, *more])

    def held(self, overrides: Mapping[str, Any]) -> ForgetCandidate:
        """The same with whole values held up to a stranger's level.

        Itself where nothing caps them as wholes, or the user's ``overrides`` say how values are capped or held.
        """
        own = {f"{self.method}.{name}" for name in (*WHOLE, *HOLD)} & overrides.keys()
        if own or not self.arguments.get("whole_values"):
            return self
        return replace(self, arguments={**self.arguments, **HOLD})

    def usual_settings(self, overrides: Mapping[str, Any], seed: int) -> UnlearnSettings:
        """Settings of `unlearn` except for the learning rate and the number of epochs.

        Raises:
            ConfigError: every mistake in ``overrides``.
        """
        arguments = {f"{self.method}.{name}": value for name, value in self.arguments.items()}
        usual: dict[str, Any] = {} if is_edit(self.method) else {"batch_size": BATCH}
        if keeps_target(self.method):
            usual |= {"train_on": "direct", "relatives": RELATIVES}
        values = {"method": self.method, "split": REQUEST, "seed": seed, **usual, **arguments, **overrides}
        return unlearn_settings(values, tiny=None, shared=False)

    def settings(
        self, benchmark: Benchmark, overrides: Mapping[str, Any], *, rate: float, seed: int
    ) -> UnlearnSettings:
        """Settings of `unlearn`.

        Args:
            overrides: the user's.
            rate: learning rate of the first trial (:func:`medunlearn.study.sized_defaults.rate_of_size`).
        """
        usual, own = self.usual_settings(overrides, seed), dict[str, Any]()
        if is_edit(self.method):
            return usual
        if "epochs" not in overrides and self.steps:
            own["epochs"] = epochs_of_steps(self.steps, benchmark, usual)
        if "lr" not in overrides and "preset" not in overrides:
            own["lr"] = self.rate * rate
        return usual.model_copy(update=own)


BATCH = 8
"""Sequences a side in a step: one patient's notes are few, and a retain batch of 64 beside them costs the most."""
RELATIVES = 0.25
"""Least share of the retain set's sequences that is about relatives, who are harmed first."""
WHOLE = {"whole_values": True}
HOLD = {"hold": 1.0}
AUTO = (
    ForgetCandidate("counterfactual", 60, arguments=WHOLE),
    ForgetCandidate("counterfactual", 120, arguments=WHOLE),
    ForgetCandidate("counterfactual", 120, rate=2.0, arguments=WHOLE),
    ForgetCandidate("counterfactual", 240, arguments=WHOLE),
    ForgetCandidate("counterfactual", 240, arguments={**WHOLE, "noise": 0.25}),
    ForgetCandidate("npo", 60),
)


@dataclass(frozen=True)
class TrialReading:
    """A trial's numbers used for the choice.

    Attributes:
        excess: over unseen patients, for each way that found a patient before, and of each patient for each subject
            of these; a value far below 0 is itself a trace of forgetting.
        retained: lowest share of the earlier score on others' answers; None if unknown.
        problems: why the model is broken.
    """

    excess: tuple[float, ...]
    retained: float | None
    problems: tuple[str, ...]

    @staticmethod
    def of(material: BatteryMaterial, costs: Sequence[CostReading], alpha: float = 0.05) -> TrialReading:
        means = [*material.means(alpha)]
        able = {name for mean in means for name in mean.mean_of}
        of_ways = (
            check.comparison.excess.value
            for check in material.checks()
            if check.name in able and check.comparison is not None
        )
        of_patients = (test.excess for mean in means for test in mean.patients if len(mean.patients) > 1)
        judged = (cost for cost in costs if cost.floor is not None)  # others could not be answered before either
        shares = (cost.retained_share for cost in judged if cost.group != "one patient" or cost.within is False)
        return TrialReading(
            tuple(value for value in (*of_ways, *of_patients) if value is not None),
            min((share for share in shares if share is not None), default=None),
            material.after.problems,
        )

    @property
    def mean(self) -> float:
        return math.fsum(self.excess) / len(self.excess)

    def good_enough(self, margin: float, floor: float) -> bool:
        """True if the search ends here: no excess beyond the margin in either direction, on average at most half of
        it.
        """
        if not self.excess or self.problems or (self.retained is not None and self.retained < floor):
            return False
        return max(self.excess) <= margin and self.mean <= margin / 2 and not self.leaves_trace(margin)

    def leaves_trace(self, margin: float) -> bool:
        """True if a value is below unseen patients by more than the margin: forgotten so far that it shows."""
        return min(self.excess, default=0.0) < -margin

    def distance(self, floor: float) -> float:
        """Distance from the goal of no excess and no cost, >= 0; cost for others below the floor weighs most."""
        shortfall = max(0.0, floor - (1.0 if self.retained is None else self.retained))
        residual = max(0.0, max(self.excess, default=1.0))
        trace = max(0.0, -min(self.excess, default=0.0))
        return (100.0 if self.problems else 0.0) + 10.0 * shortfall + residual + 0.5 * trace

    @property
    def words(self) -> str:
        """Description for a progress line."""
        words = "no way of asking found the patient before"
        if self.excess:
            words = f"excess {self.mean:+.3f} on average, {min(self.excess):+.3f} to {max(self.excess):+.3f}"
        retention = "" if self.retained is None else f", others keep {self.retained:.1%}"
        return f"{words}{retention}{', broken' if self.problems else ''}"


@dataclass(frozen=True)
class ForgetTrial:
    """A trained trial, and its numbers used for the choice.

    Attributes:
        place: index in the list of candidates.
        reading: None for a method chosen by the user, which is not measured.
    """

    place: int
    candidate: ForgetCandidate
    run: Run
    settings: Mapping[str, Any]
    reading: TrialReading | None

    @property
    def words(self) -> str:
        return f"{self.candidate.words}: {self.reading.words if self.reading else 'not chosen by numbers'}"


@dataclass(frozen=True)
class Tries:
    """Trials so far.

    Attributes:
        passed_over: methods without alternative answers in the patient's notes.
        over: whether no further one is needed.
    """

    trials: tuple[ForgetTrial, ...] = ()
    passed_over: Mapping[str, NoAlternativesError] = field(default_factory=dict)
    over: bool = False


@dataclass(frozen=True)
class TrialSearch:
    """Trials of a request on one target.

    Attributes:
        before: the target's evaluation for the choice; None for a method chosen by the user, which is not measured.
        work: ``case-work/``.
    """

    battery: RequestBattery
    meter: ModelMeter
    target: Run
    before: tuple[Evaluated, Standings] | None
    work: Path
    say: Callable[[str], None]

    def go_on(self, tries: Tries, place: int, candidate: ForgetCandidate) -> Tries:
        """The trials with this candidate's, if one is still needed and the method is not passed over."""
        from medunlearn.study.alternative_answers import NoAlternativesError

        settings = self.battery.settings
        if tries.over or candidate.method in tries.passed_over or len(tries.trials) == settings.budget:
            return tries
        if any(trial.reading and trial.reading.leaves_trace(settings.margin) for trial in tries.trials):
            candidate = candidate.held(settings.unlearn)
        try:
            trial = self._trial(place, candidate)
        except NoAlternativesError as error:
            if self.before is None:
                raise
            self.say(f"{candidate.method} is passed over: {NO_ALTERNATIVES}")
            return replace(tries, passed_over={**tries.passed_over, candidate.method: error})
        trials = (*tries.trials, trial)
        if trial.reading is None:
            return Tries(trials, over=True)
        self.say(f"try {place + 1}: {trial.words}")
        best = self.best_place(trials)
        for other in {*range(len(trials))} - {best}:
            drop_weights(trials[other].run)  # each is as large as the target
        return Tries(trials, tries.passed_over, trial.reading.good_enough(settings.margin, settings.utility_floor))

    def best(self, tries: Tries) -> tuple[tuple[ForgetTrial, ...], int]:
        """All trials and the index of the best, which has its model.

        Raises:
            NoAlternativesError: every method of the list was passed over.
        """
        trials = tries.trials
        if not trials:
            raise next(iter(tries.passed_over.values()))
        best = self.best_place(trials)
        if is_dropped(trials[best].run):
            # The floor or the number of tries was another one when it was dropped.
            run = self._train_again(trials[best].place, trials[best].candidate)
            trials = (*trials[:best], replace(trials[best], run=run), *trials[best + 1 :])
        return trials, best

    def best_place(self, trials: Sequence[ForgetTrial]) -> int:
        """Index of the trial that is nearest to the goal; the first of equal ones."""
        floor = self.battery.settings.utility_floor

        readings = (trial.reading for trial in trials)
        best = choose([Worth(reading.distance(floor) if reading else 0.0) for reading in readings])
        assert best is not None
        return best

    def _trial(self, place: int, candidate: ForgetCandidate) -> ForgetTrial:
        run, reading, meter = self._unlearned(place, candidate), None, self.meter
        if self.before is not None:
            if is_dropped(run) and not meter.is_measured(run):
                run = self._train_again(place, candidate)  # something else is asked of it now
            evaluated, standing = meter.choosing(run)
            retention_loss = self.battery.lost(self.before[0], evaluated, None)
            reading = TrialReading.of(self.battery.material(self.before[1], standing), retention_loss)
        return ForgetTrial(place, candidate, run, run.info.config, reading)

    def _unlearned(self, place: int, candidate: ForgetCandidate) -> Run:
        from medunlearn.study.unlearn import unlearn

        settings, meter = self.battery.settings, self.meter
        rate = rate_of_size(self.target.info.results["parameters"])
        values = candidate.settings(meter.benchmark, settings.unlearn, rate=rate, seed=settings.seed)
        folder = trial_folder(self.work, place, candidate)
        return unlearn(self.target, meter.benchmark, values, folder, device=meter.device, quiet=meter.quiet)

    def _train_again(self, place: int, candidate: ForgetCandidate) -> Run:
        """Train a trial again whose weights were deleted."""
        folder = trial_folder(self.work, place, candidate)
        self.say(f"try {place + 1} is trained again: its weights were dropped")
        remove_stray_parts(folder.parent, part_pattern(folder.name))
        # Moved at once, so that a kill leaves no half of a run.
        folder.replace(part := part_of(folder))
        shutil.rmtree(part, ignore_errors=True)
        return self._unlearned(place, candidate)


def trial_folder(work: Path, place: int, candidate: ForgetCandidate) -> Path:
    held = "-held" if HOLD.items() <= candidate.arguments.items() else ""
    return work / "trials" / f"{place + 1:02d}-{candidate.method.replace(':', '-')}{held}"


def begun(work: Path, place: int, candidate: ForgetCandidate, overrides: Mapping[str, Any]) -> ForgetCandidate:
    """The candidate as a search with this folder has begun it: held, if that one has a trial; else as it is."""
    held = candidate.held(overrides)
    return held if trial_folder(work, place, held).exists() else candidate


def is_dropped(run: Run) -> bool:
    """True if a trial's model was deleted, or is being deleted (:func:`drop_weights`)."""
    return "fingerprint" in run.info.results


def drop_weights(run: Run) -> None:
    """Delete a model that was not chosen; its record and its measurements stay."""
    if run.model.is_dir():
        record = RunRecord.read(run.folder)
        record.results["fingerprint"] = run.fingerprint
        record.write(run.folder)
        shutil.rmtree(run.model, ignore_errors=True)
