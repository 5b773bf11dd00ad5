"""CPU seconds of a sweep of 2 methods x 4 rates x 2 seeds, by kind of cell, in one worker.

Both ways run in this process, one after the other: with everything that is loaded looked through for garbage after
each cell, and with it kept aside. Trainings are counted apart, since no cell shares them.

    python benchmarks_perf/sweep.py --patients 24
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from medunlearn.pipeline.experiment import benchmark_folder
from medunlearn.pipeline.sweep import jobs
from medunlearn.pipeline.sweep.pool import Slot
from medunlearn.pipeline.sweep.sweep_plan import plan


def seconds(out: Path, patients: int, epochs: int) -> dict[str, float]:
    """CPU seconds by kind of cell of one sweep, from nothing."""
    sweep = plan(
        {
            "name": "sweep",
            "out": out,
            "seeds": [0, 1],
            "benchmark": {"builder": "amnesia", "synthetic": patients},
            "splits": ["random_10"],
            "train": {"model": "tiny", "tiny_width": 64, "tiny_layers": 2, "epochs": epochs},
            "retrain": False,
            "unlearn": {"methods": ["graddiff", "npo"], "epochs": 1},
            "evaluate": {"limit": 6, "replicates": 200},
            "contexts": ["closed_book"],
        }
    )
    sweep.benchmark()
    taken: dict[str, float] = defaultdict(float)
    for cell in sweep.cells:
        rates = (1e-4, 3e-4, 1e-3, 3e-3) if cell.kind == "unlearn" else (None,)
        for rate in rates:
            job = jobs.job_of(cell, sweep, benchmark_folder(sweep.settings))
            measure = sweep.evaluating(cell) if cell.kind == "unlearn" else job.measure
            settings = job.settings if rate is None else sweep.unlearning(cell, rate)
            if cell.kind == "evaluate" and cell.method:
                continue  # each rate's evaluation is its cell's
            started = time.process_time()
            output = jobs.perform(replace(job, settings=settings, measure=measure), Slot("cpu", 1))
            taken[cell.kind] += time.process_time() - started
            cell.folder, cell.status = output.folder, "done"
    return dict(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    kept = jobs.keep_loaded
    for name in ("first", "looked through", "kept aside"):
        jobs.keep_loaded = kept if name == "kept aside" else lambda: None
        gc.unfreeze()
        with TemporaryDirectory() as folder:
            taken = seconds(Path(folder) / "out", chosen.patients, chosen.epochs)
        rest = sum(value for kind, value in taken.items() if kind != "target")
        kinds = ", ".join(f"{kind} {value:.1f}" for kind, value in taken.items())
        print(f"{name:15} {rest:.1f} s without trainings ({kinds})")


if __name__ == "__main__":
    main()
