"""One sweep on local processes, on a real Ray cluster of this machine and as submitit's jobs; each is cut off once.

    pip install 'medunlearn[ray,slurm]'
    python benchmarks_perf/cluster_sweeps.py OUT [--only ray]
    python benchmarks_perf/cluster_sweeps.py OUT --only slurm --sbatch --preempt "scontrol requeue {job}"
    python benchmarks_perf/cluster_sweeps.py OUT --only slurm --sbatch --kill

While the target trains, the process of its Ray task is killed with SIGKILL, as Ray does when memory is short;
submitit's job gets the signal by which Slurm takes a machine back. Their results must be those of the local sweep,
digit for digit. submitit's scheduler for one machine stands in for Slurm: the same jobs, signals and requeueing,
but no sbatch. With ``--sbatch`` it is the Slurm of this machine, and ``--preempt`` is the command that takes the
job's machine away; ``{job}`` stands for the job's number. Slurm's signal is ``scancel --full --signal USR2 {job}``.
With ``--kill`` the sweep's own process is killed; its job goes on, and the next call takes it over.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from medunlearn.data.storage import read_json
from medunlearn.study.slots import slurm
from medunlearn.study.slots.process_launch import MODULE
from medunlearn.study.sweep.sweep_plan import plan
from medunlearn.study.sweep.sweep_run import run_sweep

SETTINGS: dict[str, Any] = {
    "name": "Cut off once",
    "seeds": [0],
    "benchmark": {"builder": "amnesia", "synthetic": 20},
    "splits": ["random_10"],
    "train": {"model": "tiny", "tiny_width": 64, "tiny_layers": 2, "epochs": 12, "precision": "fp32"},
    "retrain": False,
    "unlearn": {"methods": ["graddiff", "npo"], "epochs": 1, "precision": "fp32", "lr": 1e-3},
    "evaluate": {"limit": 4, "replicates": 200, "max_new_tokens": 16},
}
PATIENCE = 600.0


def kill_ray_task(out: Path) -> None:
    """Kill the Ray task's process; the cell's processes find out by themselves."""
    for process in psutil.process_iter():
        try:
            worker = process.parent() if MODULE in process.cmdline() else None
            if worker is not None and "ray::" in " ".join(worker.cmdline()):
                worker.kill()
        except psutil.Error:
            continue


def preempt_job(out: Path) -> None:
    """Send the job's process the signal by which Slurm takes its machine back."""
    from submitit.local.local import LocalJobEnvironment

    for process in psutil.process_iter():
        try:
            if "submitit.core._submit" in process.cmdline():
                process.send_signal(LocalJobEnvironment._usr_sig())
        except psutil.Error:
            continue


def by_command(command: str) -> Callable[[Path], None]:
    """Takes the target's machine away with a command of Slurm's."""

    def preempt(out: Path) -> None:
        job = read_json(out / slurm.FOLDER / slurm.JOBS)["target"]
        subprocess.run(command.replace("{job}", job), shell=True, check=True)

    return preempt


def once_it_trains(out: Path, cut_off: Callable[[Path], None]) -> threading.Thread:
    """A thread that cuts the target's training off behind its first checkpoint."""

    def wait() -> None:
        limit = time.monotonic() + PATIENCE
        while not list(out.glob("target-*/checkpoints/*/*/state.json")):
            time.sleep(0.02)
            if time.monotonic() > limit:
                return
        cut_off(out)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def killed_sweep(on: str, out: Path) -> pd.DataFrame:
    """The results of a second call, after the first was killed; the target's job is the first one's."""
    command = multiprocessing.get_context("fork").Process(target=sweep, args=(on, out))
    command.start()
    once_it_trains(out, lambda _: command.kill()).join()
    command.join()
    job = read_json(out / slurm.FOLDER / slurm.JOBS)["target"]
    table = sweep(on, out)
    results = sorted(file.name for file in (out / slurm.FOLDER).glob("*/*_result.pkl"))
    print(f"the target was job {job}; results of jobs: {', '.join(results)}", flush=True)
    return table


def sweep(on: str, out: Path, cut_off: Callable[[Path], None] | None = None) -> pd.DataFrame:
    """The results of the sweep on an engine."""
    train = {**SETTINGS["train"], "checkpoint_seconds": 0}
    thread = once_it_trains(out, cut_off) if cut_off else None
    started = time.perf_counter()
    swept = run_sweep(plan({**SETTINGS, "train": train, "on": on, "out": out}), jobs=2, device="cpu", quiet=True)
    if swept.failed:
        sys.exit(f"{on}: failed: {swept.cells[['name', 'status', 'reason']].to_string()}")
    cut = "" if thread is None else f"; cut off: {'no' if thread.is_alive() else 'yes'}"
    print(f"{on}: {len(swept.cells)} cells in {time.perf_counter() - started:.0f} s{cut}", flush=True)
    return swept.table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", choices=("ray", "slurm"))
    parser.add_argument("--sbatch", action="store_true", help="the Slurm of this machine")
    parser.add_argument("--preempt", default="scontrol requeue {job}", help="with --sbatch")
    parser.add_argument("--kill", action="store_true", help="kill the sweep's process instead")
    arguments = parser.parse_args()
    slurm.CLUSTER = "slurm" if arguments.sbatch else "local"
    preempt = by_command(arguments.preempt) if arguments.sbatch else preempt_job
    shutil.rmtree(arguments.out / "local", ignore_errors=True)
    expected = sweep("local", arguments.out / "local")
    for on, cut_off in (("ray", kill_ray_task), ("slurm", preempt)):
        if arguments.only in (None, on):
            shutil.rmtree(arguments.out / on, ignore_errors=True)
            kill = arguments.kill and on == "slurm"
            table = killed_sweep(on, arguments.out / on) if kill else sweep(on, arguments.out / on, cut_off)
            pd.testing.assert_frame_equal(table, expected)
            print(f"{on}: {len(table)} numbers, all as in the local sweep", flush=True)


if __name__ == "__main__":
    main()
