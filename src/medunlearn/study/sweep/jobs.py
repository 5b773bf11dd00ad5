"""Work of a cell: the same calls as single commands, in the same folders."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medunlearn.attacks import attack_class, expand
from medunlearn.config import AttackSettings, EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.methods import is_edit
from medunlearn.models.folders import model_identity
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.experiment import run_folder
from medunlearn.study.slots.slot import Slot
from medunlearn.training.processes import join

if TYPE_CHECKING:
    from medunlearn.probes.shared_work import SharedWork


class JobOutput(NamedTuple):
    """Folder of the run, folder of its evaluation or attack, and seconds if known."""

    folder: Path
    evaluation: Path | None
    seconds: float | None


@dataclass(frozen=True)
class Job:
    """A cell with all inputs resolved.

    Attributes:
        label: ``target`` or ``retrained`` of a training run, else "".
        model: run whose model is unlearned or evaluated; None for training.
        settings: settings of training or unlearning; None if a model is only evaluated.
        measure: settings of the evaluation or attack that follows; None without one.
        beside: runs of second models of attacks.
    """

    benchmark: Path
    out: Path
    label: str = ""
    model: Path | None = None
    settings: TrainSettings | UnlearnSettings | None = None
    measure: EvaluateSettings | AttackSettings | None = None
    beside: tuple[Path, ...] = ()

    @property
    def shared(self) -> bool:
        """False for weight editing, attacks that cannot be shared and an engine of vLLM, which take one process."""
        if self.settings is not None:
            return not edits(self.settings)
        if isinstance(self.measure, AttackSettings):
            return any(attack_class(name).shared for name in expand(self.measure.attacks))
        return self.measure is not None and self.measure.backend == "own"

    def folder(self, benchmark: Benchmark, known: Callable[[str], str] = model_identity) -> Path:
        """Folder of the run that the job makes or evaluates."""
        settings, model = self.settings, self.model
        if isinstance(settings, TrainSettings):
            return run_folder(benchmark, settings, self.label, settings.model, self.out, identity=known)
        if model is None:
            raise AssertionError("a job without a training works on a model")
        if settings is None:
            return model
        return run_folder(benchmark, settings, settings.method, model, self.out, identity=known)

    def output(self, benchmark: Benchmark, known: Callable[[str], str] = model_identity) -> JobOutput | None:
        """The job's output, if complete on disk."""
        folder = self.folder(benchmark, known)
        if not is_complete(folder):
            return None
        parts, evaluation = [folder] if self.settings else [], None
        if self.measure is not None:
            run, measure = Run.open(folder), self.measure
            if isinstance(measure, EvaluateSettings):
                from medunlearn.probes.evaluation_folder import evaluation_folder

                evaluation = evaluation_folder(run, benchmark, measure)
                is_done = is_complete(evaluation)
            else:
                from medunlearn.attacks.attack_run import attack_folder, attack_is_done

                evaluation = attack_folder(run, benchmark, measure, [*map(Run.open, self.beside)])
                is_done = attack_is_done(evaluation)
            if not is_done:
                return None
            parts.append(evaluation)
        seconds = [Run.open(part).info.seconds for part in parts]
        return JobOutput(folder, evaluation, None if None in seconds else sum(filter(None, seconds), 0.0))


def edits(settings: TrainSettings | UnlearnSettings) -> bool:
    """True for unlearning by weight editing, which has no epochs and runs in one process."""
    return isinstance(settings, UnlearnSettings) and is_edit(settings.method)


def perform(job: Job, slot: Slot) -> JobOutput:
    """Run a job in a worker, or in the slot's processes. Raises MedunlearnError like the commands."""
    # A plan makes jobs and performs none: it loads no torch.
    from medunlearn.study.train import train
    from medunlearn.study.unlearn import unlearn

    started, evaluation, device, work = time.perf_counter(), None, slot.device, slot.work
    benchmark = Benchmark.load(job.benchmark) if work is None else work.benchmark(job.benchmark)
    folder = job.folder(benchmark)
    if work is not None and (isinstance(job.settings, TrainSettings) or isinstance(job.measure, AttackSettings)):
        work.base.drop()
    if isinstance(job.settings, TrainSettings):
        train(benchmark, job.settings, folder, device=device, quiet=True)
    elif job.settings is not None and job.model is not None:
        unlearn(Run.open(job.model), benchmark, job.settings, folder, device=device, quiet=True, work=work)
    if job.measure is not None:
        evaluation = _measure(job, benchmark, folder, device, work)
    return JobOutput(folder, evaluation, round(time.perf_counter() - started, 2))


def _measure(job: Job, benchmark: Benchmark, folder: Path, device: str, work: SharedWork | None) -> Path:
    if isinstance(job.measure, EvaluateSettings):
        from medunlearn.probes.evaluate import evaluate_together

        processes = join()
        how: dict[str, Any] = {"device": processes.device(device), "quiet": True, "work": work}
        return evaluate_together(Run.open(folder), benchmark, job.measure, processes, **how).record.folder
    assert job.measure is not None
    from medunlearn.attacks.attack_run import attack_each

    others = [*map(Run.open, job.beside)]
    attacked = attack_each([Run.open(folder)], benchmark, job.measure, others=others, device=device, quiet=True)
    if attacked.failed:
        reasons = "; ".join(reason for _, _, reason in attacked.failed)
        raise MedunlearnError(f"{reasons} Other attacks of this cell are kept.")
    return attacked.models[0].record.folder
