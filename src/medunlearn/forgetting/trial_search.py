"""Tries of a request: each is run, what the choice sees of it is measured, and the best one is kept.

A method that learns alternative answers and finds none in the patient's notes is passed over.

Every try has its folder below ``case-work/trials/`` and is found again. A try that is not the best loses its
weights; its record and its numbers stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medunlearn.data.leftovers import part_of, remove_stray_parts
from medunlearn.forgetting.candidates import ForgetCandidate, TrialReading, rate_of_size
from medunlearn.forgetting.request_battery import RequestBattery
from medunlearn.forgetting.standings import Standings
from medunlearn.pipeline.alternative_answers import NoAlternativesError
from medunlearn.pipeline.unlearn import unlearn
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, RunRecord

NO_ALTERNATIVES = "nobody is named in the patient's notes, and no value stands there that another could replace"
"""Reason why a method that learns alternative answers cannot be used."""


@dataclass(frozen=True)
class ForgetTrial:
    """A model that was tried, and what the choice saw of it.

    Attributes:
        place: in the list of candidates.
    """

    place: int
    candidate: ForgetCandidate
    run: Run
    settings: Mapping[str, Any]
    reading: TrialReading | None


@dataclass(frozen=True)
class TrialSearch:
    """The tries of a request.

    Attributes:
        battery: measures them.
        candidates: in order.
        work: ``case-work/``.
        passed_over: methods without an alternative answer in the patient's notes, once the best was searched for.
    """

    battery: RequestBattery
    candidates: Sequence[ForgetCandidate]
    work: Path
    passed_over: dict[str, NoAlternativesError] = field(default_factory=dict)

    def only(self) -> ForgetTrial:
        """The one try of a method that was named; no number is looked at."""
        return self._trial(0, self.candidates[0], None)

    def best(self) -> tuple[list[ForgetTrial], int]:
        """Try in order until one is good enough. All tries, and the place of the best, which keeps its model.

        Raises:
            NoAlternativesError: every method of the list was passed over.
        """
        battery, settings, trials = self.battery, self.battery.settings, list[ForgetTrial]()
        before = battery.meter.choosing(battery.target)
        for place, candidate in enumerate(self.candidates):
            if candidate.method in self.passed_over:
                continue
            if len(trials) == settings.budget:
                break
            try:
                trial = self._trial(place, candidate, before)
            except NoAlternativesError as error:
                self.passed_over[candidate.method] = error
                battery.say(f"{candidate.method} is passed over: {NO_ALTERNATIVES}")
                continue
            trials.append(trial)
            assert trial.reading is not None
            battery.say(f"try {place + 1}: {candidate.words}: {trial.reading.words}")
            best = self._best(trials)
            for other in {*range(len(trials))} - {best}:
                drop_weights(trials[other].run)  # each is as large as the target
            if trial.reading.good_enough(settings.margin, settings.utility_floor):
                break
        if not trials:
            raise next(iter(self.passed_over.values()))
        best = self._best(trials)
        if is_dropped(trials[best].run):
            # The floor or the number of tries was another one when it was dropped.
            trials[best] = replace(
                trials[best], run=self._trained_again(trials[best].place, trials[best].candidate)
            )
        return trials, best

    def _best(self, trials: list[ForgetTrial]) -> int:
        floor = self.battery.settings.utility_floor
        distances = [trial.reading.distance(floor) for trial in trials if trial.reading]
        return distances.index(min(distances))

    def _trial(
        self, place: int, candidate: ForgetCandidate, before: tuple[Evaluated, Standings] | None
    ) -> ForgetTrial:
        run, reading = self._unlearned(place, candidate), None
        if before is not None:
            meter = self.battery.meter
            if is_dropped(run) and not meter.has_chosen(run):
                run = self._trained_again(place, candidate)  # something else is asked of it now
            evaluated, standing = meter.choosing(run)
            lost = self.battery.lost(before[0], evaluated, None)
            reading = TrialReading.of(self.battery.material(before[1], standing), lost)
        return ForgetTrial(place, candidate, run, run.info.config, reading)

    def _unlearned(self, place: int, candidate: ForgetCandidate) -> Run:
        battery, settings = self.battery, self.battery.settings
        benchmark, target = battery.benchmarks.benchmark, battery.target
        rate = rate_of_size(target.info.results["parameters"])
        chosen = candidate.settings(benchmark, dict(settings.unlearn), rate=rate, seed=settings.seed)
        folder = trial_folder(self.work, place, candidate)
        return unlearn(target, benchmark, chosen, folder, device=battery.device, quiet=battery.quiet)

    def _trained_again(self, place: int, candidate: ForgetCandidate) -> Run:
        """A try whose model was dropped, with its model."""
        folder = trial_folder(self.work, place, candidate)
        self.battery.say(f"try {place + 1} is trained again: its weights were dropped")
        remove_stray_parts(folder.parent, f".{folder.name}.*.part")
        # Moved at once, so that a kill leaves no half of a run.
        folder.replace(gone := part_of(folder))
        shutil.rmtree(gone, ignore_errors=True)
        return self._unlearned(place, candidate)


def trial_folder(work: Path, place: int, candidate: ForgetCandidate) -> Path:
    """Folder of a try's run."""
    return work / "trials" / f"{place + 1:02d}-{candidate.method.replace(':', '-')}"


def is_dropped(run: Run) -> bool:
    """True if a try's model was deleted, or is being deleted (:func:`drop_weights`)."""
    return "fingerprint" in run.info.results


def drop_weights(run: Run) -> None:
    """Delete a model that was not chosen; its record and what was measured of it stay."""
    if run.model.is_dir():
        record = RunRecord.read(run.folder)
        record.results["fingerprint"] = run.fingerprint
        record.write(run.folder)
        shutil.rmtree(run.model, ignore_errors=True)
