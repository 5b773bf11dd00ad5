"""CPU seconds of the methods that learn alternative answers, beside NPO's: before the first step, and a step.

python benchmarks_perf/method_costs.py OUT

OUT is the folder of hospitals.py; the target of its first hospital is unlearned on random_10 with the tiny model's
settings, at two lengths; what a step takes is their difference by steps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from page_tables import markdown, replace_table

from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.unlearn import unlearn

METHODS = ("counterfactual", "altpo", "npo")
SHORT, LONG = 2, 6


def cost(target: Run, benchmark: Benchmark, method: str, epochs: int) -> tuple[float, int]:
    """CPU seconds of a run, and its steps."""
    settings = unlearn_settings({"method": method, "split": "random_10", "epochs": epochs}, tiny=True)
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        run = unlearn(target, benchmark, settings, Path(folder) / "run", quiet=True)
        return time.process_time() - started, len(run.history())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    folder = parser.parse_args().out / "seed-0"
    (target,), (benchmark,) = (list(folder.glob(f"{name}-*")) for name in ("target", "bench"))
    model, questions = Run.open(target), Benchmark.load(benchmark)
    steps, first = dict[str, float](), dict[str, float]()
    for method in METHODS:
        (short, few), (long, many) = (cost(model, questions, method, epochs) for epochs in (SHORT, LONG))
        steps[method] = (long - short) / (many - few)
        first[method] = short - few * steps[method]
    table = markdown(
        [
            {
                "method": method,
                "CPU s before the first step": f"{first[method]:.1f}",
                "CPU s a step": f"{steps[method]:.3f}",
                "of NPO's": f"{steps[method] / steps['npo']:.2f}",
            }
            for method in METHODS
        ]
    )
    replace_table("results.md", "costs", table)
    print(table)


if __name__ == "__main__":
    main()
