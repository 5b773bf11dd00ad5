"""What brings it back: the battery on unlearned models of an invented hospital, beside target and retrained model.

    python benchmarks_perf/battery.py OUT --patients 60
    python benchmarks_perf/battery.py OUT --patients 100 --attacks battery --seed 1

OUT gets the benchmark, the runs, and ``page/`` with the page; the same call goes on where it was cut off. Prints
the table, and CPU seconds of each part.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medunlearn import api
from medunlearn.attacks.attack_run import AttackBattery
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.write import write_report

METHODS = ("npo", "counterfactual", "graddiff", "rmu")
SPLIT = "random_10"


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.process_time()
    yield
    print(f"{what}: {time.process_time() - start:.0f} CPU s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--patients", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attacks", default="quick")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--width", type=int, default=0, help="of the tiny model; 0: its own")
    chosen = parser.parse_args()
    folder, runs = chosen.out / "bench", chosen.out / "runs"
    if not folder.exists():
        build(AmnesiaSettings(synthetic=chosen.patients, seed=chosen.seed)).save(folder)
    width = {"tiny_width": chosen.width} if chosen.width else {}
    models = {}
    for name, more in (("target", {}), ("retrained", {"without": SPLIT})):
        with timed(name):
            how = {"model": "tiny", "seed": chosen.seed, "quiet": True, **width, **more}
            models[name] = api.train(folder, out=runs / name, **how)
    for method in chosen.methods.split(","):
        with timed(method):
            how = {"split": SPLIT, "seed": chosen.seed, "quiet": True}
            models[method] = api.unlearn(runs / "target", folder, method=method, out=runs / method, **how)
    settings = attack_settings({"split": SPLIT, "attacks": chosen.attacks, "allow_broken": True})
    order = [models[name] for name in (*chosen.methods.split(","), "target", "retrained")]
    with timed(f"attacks {chosen.attacks} on {len(models)} models"):
        attacks = AttackBattery(api.load(folder), settings).attack_each(order, quiet=True)
    page = BroughtBack.of(attacks).page(attacks, "What brings it back")
    write_report(page, chosen.out / "page")
    print(to_markdown(page))


if __name__ == "__main__":
    main()
