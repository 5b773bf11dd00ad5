"""The papers' experiments in small, each to its report: ``--scale tiny`` of the three files under examples/.

    python benchmarks_perf/paper_twins.py --released ../shared/data/lume --out runs/twins [--processes 2]

With ``--processes`` a sweep's trainings are shared by as many processes that torchrun starts.
LUME's runs twice: trained, and adopted from a folder without a tokenizer, as the released model lies. Prints cells
or models, failures, processor seconds, and whether the report has what the paper's needs. Stopped, it goes on where
it was.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable
from pathlib import Path

import medunlearn as mu
from medunlearn.config import read_yaml
from medunlearn.results.runs import Run

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDED = {
    "amnesia-llama3-8b": ("Table 2", "Judged by panels", "cancer_25", "cardiovascular_15"),
    "medforget-lingshu": ("Gen Score", "Figure 6", "institution_25", "flat_25"),
    "lume-olmo": ("regurgitation", "NGDiff"),
    "lume-olmo, adopted": ("regurgitation", "NGDiff"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--released", type=Path, required=True, help="folder with forget.jsonl and retain.jsonl")
    parser.add_argument("--out", type=Path, default=Path("runs/twins"))
    parser.add_argument("--only", default="", help="names that begin with this")
    parser.add_argument("--processes", type=int, default=1, help="of a training in a sweep")
    arguments = parser.parse_args()
    work: dict[str, Callable[[Path], tuple[int, list[str], Path | None]]] = {
        "lume-olmo": lambda out: run("lume-olmo", out, arguments.released, {}),
        "lume-olmo, adopted": lambda out: run("lume-olmo", out, arguments.released, adopted(arguments.out)),
        "medforget-lingshu": lambda out: sweep("medforget-lingshu", out, arguments.processes),
        "amnesia-llama3-8b": lambda out: sweep("amnesia-llama3-8b", out, arguments.processes),
    }
    for name, of_twin in work.items():
        if not name.startswith(arguments.only):
            continue
        before = seconds()
        count, failed, report = of_twin(arguments.out / name.replace(", ", "-"))
        text = report.with_suffix(".md").read_text(encoding="utf-8") if report else ""
        missing = [words for words in NEEDED[name] if words not in text]
        print(f"{name}: {count} cells or models, {len(failed)} failed, {seconds() - before:.0f} s of the processor")
        print(f"  report: {report}; lacks: {', '.join(missing) or 'nothing'}")
        for line in failed:
            print(f"  failed: {line}")


def sweep(name: str, out: Path, processes: int) -> tuple[int, list[str], Path | None]:
    """A sweep's twin: number of cells, failures, report."""
    engine = {"on": "torchrun", "processes": processes} if processes > 1 else {}
    swept = mu.sweep(EXAMPLES / f"{name}.yaml", scale="tiny", out=out, jobs=1, quiet=True, **engine)
    return len(swept.cells), [f"{cell}: {reason}" for cell, reason in swept.failed], swept.report


def run(name: str, out: Path, released: Path, more: dict[str, object]) -> tuple[int, list[str], Path | None]:
    """An experiment's twin: number of models, failures, report."""
    values = read_yaml(EXAMPLES / f"{name}.yaml")
    done = mu.run(values, **{"scale": "tiny", "out": out, "benchmark.released": str(released), **more}, quiet=True)
    return len(list(out.glob("*/run.json"))), [f"{model}: {why}" for model, why in done.failed], done.report


def adopted(out: Path) -> dict[str, object]:
    """The trained twin's target as a released model: weights in one folder, the tokenizer in another."""
    (target,) = (path.parent for path in (out / "lume-olmo").glob("target-*/run.json"))
    released, words = out / "released", out / "words"
    if not words.exists():
        mu.export(Run.open(target).folder, released)
        words.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            os.replace(released / file, words / file)
    own = read_yaml(EXAMPLES / "lume-olmo.yaml")["adopt"]
    return {"adopt": {**own, "model": str(released), "tokenizer": str(words), "weights": "fp32"}}


def seconds() -> float:
    """Processor seconds of this process and those that it waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
