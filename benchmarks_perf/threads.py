"""Threads of the tiny model on a busy machine: seconds and CPU seconds of training under four settings.

    python benchmarks_perf/threads.py [--epochs 2] [--patients 12] [--busy N]

Each setting trains the same model in a process of its own: with the default of torch (a thread for each core, which
spins while it waits), with OMP_WAIT_POLICY=PASSIVE, with one thread, and with no setting, which is what users have.
``--busy`` starts N processes besides that only compute.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "threads of all cores, spinning": {"OMP_NUM_THREADS": str(os.cpu_count()), "OMP_WAIT_POLICY": "ACTIVE"},
    "threads of all cores, passive": {"OMP_NUM_THREADS": str(os.cpu_count()), "OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "no setting": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--patients", type=int, default=12)
    parser.add_argument("--busy", type=int, default=0)
    chosen = parser.parse_args()
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(chosen.busy)]
    try:
        with tempfile.TemporaryDirectory() as top:
            measure(Path(top), chosen.epochs, chosen.patients)
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(top: Path, epochs: int, patients: int) -> None:
    run("build", "amnesia", "--synthetic", str(patients), "--out", str(top / "bench"), settings={})
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {epochs} epochs of {patients} patients")
    print(f"{'setting':<34}{'seconds':>9}{'CPU seconds':>13}")
    for number, (name, settings) in enumerate(SETTINGS.items()):
        words = ("train", str(top / "bench"), "--model", "tiny", "--epochs", str(epochs), "--quiet")
        seconds, cpu = run(*words, "--out", str(top / f"run-{number}"), settings=settings)
        print(f"{name:<34}{seconds:>9.1f}{cpu:>13.1f}", flush=True)


def run(*words: str, settings: dict[str, str]) -> tuple[float, float]:
    """Seconds and CPU seconds of a command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MKL_"))}
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "medunlearn", *words]
    subprocess.run(command, env=environment | settings, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start, cpu


if __name__ == "__main__":
    main()
