"""One trial in a worker: unlearn, evaluate every epoch on the choosing half, and stop by successive halving."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from medunlearn.config import EvaluateSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_frame
from medunlearn.errors import FrozenParametersError, NonFiniteLossError, OutOfMemoryError
from medunlearn.results.runs import Run, RunRecord
from medunlearn.study.epochs.epoch_selection import TABLE
from medunlearn.study.epochs.epoch_settings import epoch_settings
from medunlearn.study.slots.slot import Slot
from medunlearn.study.sweep.jobs import edits
from medunlearn.study.tune.objective import AxisValues, TuneObjective
from medunlearn.study.tune.study import Pruner
from medunlearn.study.tune.trials import TuneTrial
from medunlearn.training.processes import join


@dataclass(frozen=True)
class TrialJob:
    """A trial with all inputs resolved.

    Attributes:
        folder: folder of its run.
        target: run whose model is unlearned.
        measure: evaluation settings of a weight-editing method, which has no epochs; None for one that trains.
        trial: the running trial, with its number and settings.
        trials: earlier trials.
    """

    benchmark: Path
    folder: Path
    target: Path
    settings: UnlearnSettings
    measure: EvaluateSettings | None
    objective: TuneObjective
    halving: int
    trial: TuneTrial
    trials: tuple[TuneTrial, ...]

    @property
    def shared(self) -> bool:
        """True if the slot's processes share it."""
        return not edits(self.settings)


def perform_trial(job: TrialJob, slot: Slot) -> TuneTrial:
    """Run a trial and return it finished. It fails if it diverges, changes nothing, or does not fit in memory."""
    from medunlearn.study.unlearn import unlearn  # not for a plan

    started, work = time.perf_counter(), slot.work
    benchmark = Benchmark.load(job.benchmark) if work is None else work.benchmark(job.benchmark)
    pruner = Pruner(job.objective, job.trials, job.halving, job.settings.epochs)
    try:
        run = unlearn(
            Run.open(job.target),
            benchmark,
            job.settings,
            job.folder,
            device=slot.device,
            quiet=True,
            stop=pruner,
            work=work,
        )
        processes = join()
        trial = processes.on_main(lambda: _score_trial(job, run, benchmark, pruner, processes.device(slot.device)))
    except (FrozenParametersError, NonFiniteLossError, OutOfMemoryError) as error:
        trial = replace(
            job.trial, state="failed", reason=str(error), by_epoch=pruner.by_epoch, epochs=job.trial.planned
        )
    return replace(trial, seconds=round(time.perf_counter() - started, 2))


def _score_trial(job: TrialJob, run: Run, benchmark: Benchmark, pruner: Pruner, device: str) -> TuneTrial:
    if job.measure is not None:
        from medunlearn.probes.evaluate import evaluate_one

        scored = evaluate_one(run, benchmark, job.measure, device=device, quiet=True)
        standing, last_epoch = AxisValues.of(scored.summary, job.objective.fold), 0
        problem = "; ".join(scored.record.info.problems)
    else:
        # Again, for a run that ended before its trial was written down.
        pruner(read_frame(run.folder / TABLE))
        last_epoch = max(pruner.by_epoch)
        standing, problem = pruner.standings[last_epoch], _problem(job, run.epoch(last_epoch), benchmark)
    value = job.objective.of(standing)
    missing = ", ".join(standing.missing(job.objective.needs))
    reason = f"stopped after epoch {last_epoch} by successive halving" if pruner.stopped else ""
    return replace(
        job.trial,
        state="failed" if missing else "pruned" if pruner.stopped else "complete",
        value=value,
        utility=standing.utility,
        forgetting=standing.forgetting,
        ranks=standing.ranks,
        by_epoch=pruner.by_epoch,
        rungs=pruner.rungs,
        epochs=last_epoch,
        reason=f"no answer was scored on: {missing}" if missing else reason,
        problem=problem,
    )


def _problem(job: TrialJob, run: Run, benchmark: Benchmark) -> str:
    """Reason why the model is broken after its last epoch, from that epoch's evaluation."""
    from medunlearn.probes.evaluation_folder import evaluation_folder

    settings = epoch_settings(job.settings, job.settings.split)
    assert settings is not None
    return "; ".join(RunRecord.read(evaluation_folder(run, benchmark, settings)).problems)
