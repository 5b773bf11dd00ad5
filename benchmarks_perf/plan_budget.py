"""GPU-hours of AMNESIA at the paper's size by the plan, for docs/scale.md; and the CPU time of the plan.

python benchmarks_perf/plan_budget.py --device H100 --cells 52
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from medunlearn.config.reading import merged
from medunlearn.study.sweep.survey import foresee
from medunlearn.study.sweep.sweep_plan import plan

EXAMPLE = Path(__file__).parents[1] / "examples" / "amnesia-llama3-8b.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="H100")
    parser.add_argument("--cells", type=int, default=52, help="unlearned models, each with its evaluation")
    given = parser.parse_args()
    started = time.process_time()
    cost = foresee(plan(merged(EXAMPLE, {"device_name": given.device}))).cost
    print(f"The plan took {time.process_time() - started:.0f} CPU seconds.\n")
    print(f"| cells | number | {given.device}-hours a cell | of all | memory | disk |\n|---|---|---|---|---|---|")
    hours = dict[str, float]()
    for kind in cost.kinds:
        hours[kind.label] = (kind.hours or 0.0) / kind.cells
        memory = kind.work.memory.total / 2**30 if kind.work.memory else 0.0
        of_all, disk = f"{kind.hours:.1f}", f"{kind.disk / 2**30:.1f} GiB"
        print(f"| {kind.label} | {kind.cells} | {hours[kind.label]:.2f} | {of_all} | {memory:.0f} GiB | {disk} |")
    print(
        f"| all | {sum(kind.cells for kind in cost.kinds)} | | {cost.hours:.0f} | | {cost.disk / 2**30:.0f} GiB |"
    )
    methods = [one for label, one in hours.items() if label.startswith("unlearn ")]
    each = sum(methods) / len(methods) + hours["evaluate"]
    total = hours["train"] + given.cells * each
    print(f"\n{given.cells} unlearned and evaluated, and the target: {total:.1f} {given.device}-hours.")


if __name__ == "__main__":
    main()
