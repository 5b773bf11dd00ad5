"""GPU-hours of AMNESIA at the paper's size by the plan, for docs/results.md; and the CPU time of plans.

python benchmarks_perf/plan_budget.py --device H100 --cells 52
python benchmarks_perf/plan_budget.py --speed                    a sweep of 26 models; a request among 20,000 notes
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from medunlearn.config.reading import merged
from medunlearn.study.sweep.survey import foresee
from medunlearn.study.sweep.sweep_plan import plan

EXAMPLES = Path(__file__).parents[1] / "examples"
WORDS = ("admitted", "chest", "pain", "fever", "clear", "stable", "metformin", "aspirin", "clinic", "treated")
MODELS = {
    "benchmark": {"builder": "amnesia", "synthetic": 100},
    "splits": ["random_05", "random_10", "random_15", "random_25"],
    "train": {"model": "tiny"},
    "retrain": ["random_25"],
    "unlearn": {"methods": ["ga", "graddiff", "kl_min", "npo", "simnpo", "rmu"], "epochs": 3},
    "evaluate": {"folds": ["train", "holdout"]},
}
"""A target, a retrained and 24 unlearned models."""


def hours(device: str, cells: int) -> None:
    """Print the table of docs/results.md."""
    cost = foresee(plan(merged(EXAMPLES / "amnesia-llama3-8b.yaml", {"device_name": device}))).cost
    print(f"| cells | number | {device}-hours a cell | of all | memory | disk |\n|---|---|---|---|---|---|")
    each = dict[str, float]()
    for kind in cost.kinds:
        each[kind.label] = (kind.hours or 0.0) / kind.cells
        memory, disk = cost.capacity.needed(kind.cost.memory) / 2**30, f"{kind.cost.disk / 2**30:.1f} GiB"
        of_all = f"{kind.hours:.1f}"
        print(f"| {kind.label} | {kind.cells} | {each[kind.label]:.2f} | {of_all} | {memory:.0f} GiB | {disk} |")
    number = sum(kind.cells for kind in cost.kinds)
    print(f"| all | {number} | | {cost.hours:.0f} | | {cost.disk / 2**30:.0f} GiB |")
    methods = [one for label, one in each.items() if label.startswith("unlearn ")]
    total = each["train"] + cells * (sum(methods) / len(methods) + each["evaluate"])
    print(f"\n{cells} unlearned and evaluated, and the target: {total:.1f} {device}-hours.")


def write_notes(file: Path, count: int) -> None:
    """Invented notes of one patient each."""
    draw = random.Random(0)
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(("note_id", "patient_id", "text"))
        for number in range(count):
            words = " ".join(draw.choice(WORDS) for _ in range(draw.randrange(80, 250)))
            name, pressure = f"Nr{number} Fam{draw.randrange(500)}", draw.randrange(100, 180)
            head = f"Patient {name}, MRN {100000 + number}. BP {pressure}/80."
            writer.writerow((f"n{number}", f"p{number}", f"{head} {words}."))


def speed(notes: int) -> None:
    """Print the CPU seconds of plans, of their settings, and of imports."""
    from medunlearn.config import ForgetSettings, check
    from medunlearn.request.case.signing_keys import make_key
    from medunlearn.request.forget_plan import foresee as foresee_request

    with TemporaryDirectory() as here:
        out = Path(here)
        started = time.process_time()
        sweep = plan({"name": "26 models", "out": out / "sweep", **MODELS})
        read = time.process_time()
        cost = foresee(sweep).cost
        done = time.process_time()
        models = sum(kind.cells for kind in cost.kinds if kind.label.startswith(("train", "unlearn")))
        print(f"sweep of {models} models: settings and benchmark {read - started:.2f} s, plan {done - read:.2f} s")
        print(cost.summary())
        from medunlearn.models.tiny import build_tiny

        write_notes(out / "notes.csv", notes)
        build_tiny(WORDS, vocabulary=2048).save(out / "model")
        make_key(out / "signing.key")
        settings = check(ForgetSettings, {"patient": "p17", "key": out / "signing.key"})
        started = time.process_time()
        forecast = foresee_request(out / "model", out / "notes.csv", settings, out / "case")
        print(f"request among {notes} notes: plan {time.process_time() - started:.2f} s")
        print(forecast.cost.summary())


def main() -> None:
    started = time.process_time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="H100")
    parser.add_argument("--cells", type=int, default=52, help="unlearned models, each with its evaluation")
    parser.add_argument("--speed", action="store_true", help="only the CPU seconds of plans")
    parser.add_argument("--notes", type=int, default=20_000)
    given = parser.parse_args()
    print(f"CPU seconds of the start, imports included: {started:.2f}\n")
    if given.speed:
        speed(given.notes)
    else:
        hours(given.device, given.cells)
        print(f"\nThe plan took {time.process_time() - started:.2f} CPU seconds.")


if __name__ == "__main__":
    main()
