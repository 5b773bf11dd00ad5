"""Work of a cell: the same calls as the single commands, in the same folders."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from medunlearn.attacks.run import attack, attack_folder
from medunlearn.config import AttackSettings, EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.pipeline.estimate.forecast import complete
from medunlearn.pipeline.evaluate import evaluate_one, evaluation_folder
from medunlearn.pipeline.experiment import trained_folder, unlearned_folder
from medunlearn.pipeline.material import identity
from medunlearn.pipeline.sweep.cells import CellOutput, SweepCell
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.pipeline.sweep.pool import Slot
from medunlearn.pipeline.train import train
from medunlearn.pipeline.unlearn import unlearn
from medunlearn.results.runs import Run

Outputs = Mapping[str, CellOutput]


@dataclass(frozen=True)
class Job:
    """A cell with everything that it depends on known.

    Attributes:
        benchmark: its folder.
        out: folder of the sweep.
        label: ``target`` or ``retrained`` of a training, else "".
        model: run whose model is unlearned or asked; None of a training.
        settings: of the training or unlearning; None where a model is only asked.
        evaluate: None where nothing is asked.
        attack: None where nothing is attacked.
    """

    benchmark: Path
    out: Path
    label: str = ""
    model: Path | None = None
    settings: TrainSettings | UnlearnSettings | None = None
    evaluate: EvaluateSettings | None = None
    attack: AttackSettings | None = None

    def folder(self, benchmark: Benchmark, known: Callable[[str], str] = identity) -> Path:
        """Folder of the run that the job makes or asks."""
        if isinstance(self.settings, TrainSettings):
            return trained_folder(benchmark, self.settings, self.label, self.out, known=known)
        if self.model is None:
            raise AssertionError("a job without a training works on a model")
        if self.settings is None:
            return self.model
        return unlearned_folder(benchmark, self.settings, self.model, self.out, known=known)

    def output(self, benchmark: Benchmark, known: Callable[[str], str] = identity) -> CellOutput | None:
        """The job's output, if all of it is on disk."""
        folder = self.folder(benchmark, known)
        if not complete(folder):
            return None
        evaluation = None
        if self.evaluate is not None:
            evaluation = evaluation_folder(Run.open(folder), benchmark, self.evaluate)
        elif self.attack is not None:
            evaluation = attack_folder(Run.open(folder), benchmark, self.attack)
        if evaluation is not None and not complete(evaluation):
            return None
        parts = ([folder] if self.settings else []) + ([evaluation] if evaluation else [])
        seconds = [Run.open(part).info.seconds for part in parts]
        known_seconds = [float(second) for second in seconds if second is not None]
        return CellOutput(folder, evaluation, sum(known_seconds) if len(known_seconds) == len(parts) else None)


def job_of(cell: SweepCell, sweep: Sweep, benchmark: Path, outputs: Outputs) -> Job:
    """The job of a cell whose needs are met; of every kind but ``choose``."""
    out = sweep.settings.out
    if cell.kind in ("target", "retrained"):
        return Job(benchmark, out, cell.kind, settings=sweep.training(cell.seed, cell.split))
    model = outputs[cell.needs[0]].folder
    if cell.kind == "evaluate":
        return Job(benchmark, out, model=model, evaluate=sweep.evaluating(cell))
    if cell.kind == "attack":
        return Job(benchmark, out, model=model, attack=sweep.attacking(cell))
    rate = cell.lr if cell.kind == "search" else next((outputs[name].lr for name in cell.needs[1:]), None)
    evaluate = sweep.evaluating(cell) if cell.kind == "search" else None
    return Job(benchmark, out, model=model, settings=sweep.unlearning(cell, rate), evaluate=evaluate)


def perform(job: Job, slot: Slot) -> CellOutput:
    """Do a job in a worker.

    Raises:
        MedunlearnError: as the commands do.
    """
    torch.set_num_threads(slot.threads)
    started = time.perf_counter()
    try:
        benchmark = _benchmark(job.benchmark)
        folder = job.folder(benchmark)
        if isinstance(job.settings, TrainSettings):
            train(benchmark, job.settings, folder, device=slot.device, quiet=True)
        elif job.settings is not None and job.model is not None:
            unlearn(Run.open(job.model), benchmark, job.settings, folder, device=slot.device, quiet=True)
        evaluation = None
        if job.evaluate is not None:
            evaluated = evaluate_one(Run.open(folder), benchmark, job.evaluate, device=slot.device, quiet=True)
            evaluation = evaluated.record.folder
        elif job.attack is not None:
            attacked = attack(Run.open(folder), benchmark, job.attack, device=slot.device, quiet=True)
            evaluation = attacked.models[0].record.folder
    finally:
        # The next cell of this worker is to find the memory that this one found.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return CellOutput(folder, evaluation, round(time.perf_counter() - started, 2))


@lru_cache(maxsize=1)
def _benchmark(folder: Path) -> Benchmark:
    return Benchmark.load(folder)
