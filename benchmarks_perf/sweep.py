"""CPU seconds of a sweep of 2 methods x 4 rates x 2 seeds, by kind of cell, in one worker.

Both ways run in this process, one after the other: each cell by itself, and with the worker's shared work. Every
number of every model and evaluation is compared. Trainings of targets are counted apart, since no cell shares them.

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
from typing import Any

import pandas as pd
import torch

from medunlearn.data.storage import sha256_of
from medunlearn.probes.shared_work import SharedWork
from medunlearn.results.scores import FILE as SCORES
from medunlearn.study.slots.call import run_here
from medunlearn.study.slots.slot import Slot
from medunlearn.study.sweep.jobs import Job, JobOutput, perform
from medunlearn.study.sweep.sweep_graph import sweep_graph
from medunlearn.study.sweep.sweep_plan import Sweep, plan

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
TRAININGS = ("target",)


def sweep_of(out: Path, options: argparse.Namespace) -> Sweep:
    """The sweep, at a size that the command line says."""
    limit = {"limit": options.limit} if options.limit else {}
    return plan(
        {
            "name": "sweep",
            "out": out,
            "seeds": list(range(options.seeds)),
            "benchmark": {"builder": "amnesia", "synthetic": options.patients},
            "splits": ["random_10"],
            "train": {
                "model": "tiny",
                "tiny_width": options.width,
                "tiny_layers": options.layers,
                "epochs": options.epochs,
            },
            "retrain": False,
            "unlearn": {"methods": options.methods.split(","), "epochs": 1},
            "evaluate": {"replicates": 200, **limit},
            "contexts": ["closed_book"],
        }
    )


def seconds(sweep: Sweep, work: SharedWork | None) -> tuple[dict[str, float], dict[str, str]]:
    """CPU seconds by kind of cell of one sweep, from nothing; and what came out, by model."""
    stages = sweep_graph(sweep, sweep.benchmark())
    graph = stages.graph
    spent: dict[str, float] = defaultdict(float)
    results: dict[str, str] = {}

    def run(kind: str, job: Job) -> JobOutput:
        started = time.process_time()
        output = run_here(perform, job, Slot("cpu", 1, work=work))
        spent[kind] += time.process_time() - started
        return output

    cells: Any = stages.cells
    for cell in cells:
        job = cell.job(graph.inputs)
        if cell.kind == "unlearn":
            for rate in RATES:
                job = replace(job, settings=sweep.unlearning(cell.method, cell.split, cell.seed, rate))
                output = run("unlearn", job)
                graph.succeed(cell, output)
                output = run("evaluate", replace(job, measure=sweep.evaluating(cell.split)))
                results[f"{cell.name} {rate}"] = digest(output)
        elif cell.kind == "evaluate" and not cell.method:
            results[cell.name] = digest(run("evaluate", job))
        elif cell.kind != "evaluate":  # that of each rate is done
            graph.succeed(cell, run(cell.kind, job))
    return dict(spent), results


def digest(output: JobOutput) -> str:
    """Hash of a model's weights and of its scores."""
    assert output.evaluation is not None
    scores = pd.read_parquet(output.evaluation / SCORES).to_csv(index=False)
    weights = sorted((output.folder / "model").glob("*.safetensors"))
    return str(hash((scores, *map(sha256_of, weights))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=3, help="of the target")
    parser.add_argument("--limit", type=int, default=6, help="subjects a side; 0 for all")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--methods", default="graddiff,npo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    spent, results = {}, {}
    # Once before, for what is loaded on the way.
    for way in ("warm-up", "alone", "shared"):
        gc.unfreeze()
        few = argparse.Namespace(**{**vars(options), "seeds": 1} if way == "warm-up" else vars(options))
        with TemporaryDirectory() as folder:
            work = SharedWork() if way == "shared" else None
            spent[way], results[way] = seconds(sweep_of(Path(folder) / "out", few), work)
    print(f"{'cells':12} {'alone':>8} {'shared':>8}   ratio")
    cells = [kind for kind in spent["alone"] if kind not in TRAININGS]
    for label, kinds in [*((kind, [kind]) for kind in (*TRAININGS, *cells)), ("all but it", cells)]:
        alone, shared = (sum(spent[way][kind] for kind in kinds) for way in ("alone", "shared"))
        print(f"{label:12} {alone:7.1f}s {shared:7.1f}s   {shared / alone:.2f}")
    differ = [name for name, value in results["alone"].items() if results["shared"][name] != value]
    print(f"{len(results['alone']) - len(differ)} of {len(results['alone'])} models and evaluations are the same")
    if differ:
        raise SystemExit(f"not the same: {', '.join(differ)}")


if __name__ == "__main__":
    main()
