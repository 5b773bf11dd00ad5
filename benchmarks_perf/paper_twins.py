"""The papers' experiments in small, each to its report: ``--scale tiny`` of the four files under examples/.

    python benchmarks_perf/paper_twins.py --released ../shared/data/lume --out runs/twins [--processes 2]

With ``--processes`` so many processes, started by torchrun, share a sweep's trainings, and LUME's experiment.
LUME's runs twice: trained, and adopted from a folder without a tokenizer, as the released model lies. Prints cells
or models, failures, processor seconds, and whether the report has what the paper's needs. Stopped, it goes on where
it was.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import medunlearn as mu
from medunlearn.config import read_yaml
from medunlearn.paper import Exhibit, find_paper
from medunlearn.results.runs import Run

EXAMPLES = Path(__file__).parents[1] / "examples"
PAPERS = {
    "amnesia-llama3-8b": "amnesia",
    "medforget-lingshu": "medforget",
    "memorization-llama3-8b": "memorization",
}
"""Twin -> its paper; of others LUME's."""
PAGES = ("runs", "sweep", "audits")
"""Reports; tables of other commands are not looked for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--released", type=Path, required=True, help="folder with forget.jsonl and retain.jsonl")
    parser.add_argument("--out", type=Path, default=Path("runs/twins"))
    parser.add_argument("--only", default="", help="names that begin with this")
    parser.add_argument("--processes", type=int, default=1, help="of a training in a sweep")
    arguments = parser.parse_args()
    work: dict[str, Callable[[Path], tuple[int, list[str], Path | None]]] = {
        "lume-olmo": lambda out: run(out, arguments.released, {}, arguments.processes),
        "lume-olmo, adopted": lambda out: run(out, arguments.released, adopted(arguments.out), arguments.processes),
        "medforget-lingshu": lambda out: sweep("medforget-lingshu", out, arguments.processes),
        "amnesia-llama3-8b": lambda out: sweep("amnesia-llama3-8b", out, arguments.processes),
        "memorization-llama3-8b": adapt,
    }
    for name, of_twin in work.items():
        if not name.startswith(arguments.only):
            continue
        before = seconds()
        count, failed, report = of_twin(arguments.out / name.replace(", ", "-"))
        text = report.with_suffix(".md").read_text(encoding="utf-8") if report else ""
        exhibits = find_paper(PAPERS.get(name, "lume")).exhibits()
        own_part = text.partition("What the paper published")[0]
        missing = [shown for shown in exhibits if shown.page in PAGES and shown.at not in own_part]
        print(f"{name}: {count} cells or models, {len(failed)} failed, {seconds() - before:.0f} s of the processor")
        print(f"  report: {report}; lacks: {', '.join(map(lacking, missing)) or 'nothing'}")
        for line in failed:
            print(f"  failed: {line}")


def lacking(exhibit: Exhibit) -> str:
    return f"{exhibit.number} ({exhibit.needs})" if exhibit.needs else exhibit.number


def adapt(out: Path) -> tuple[int, list[str], Path | None]:
    """The memorization paper's twin: number of models, failures, report."""
    done: Any = mu.run(EXAMPLES / "memorization-llama3-8b.yaml", scale="tiny", out=out, quiet=True)
    return len(done.models), [], done.report


def sweep(name: str, out: Path, processes: int) -> tuple[int, list[str], Path | None]:
    """A sweep's twin: number of cells, failures, report."""
    engine: dict[str, Any] = {"on": "torchrun", "processes": processes} if processes > 1 else {}
    swept = mu.sweep(EXAMPLES / f"{name}.yaml", scale="tiny", out=out, jobs=1, quiet=True, **engine)
    return len(swept.cells), [f"{cell}: {reason}" for cell, reason in swept.failed], swept.report


def run(out: Path, released: Path, more: dict[str, Any], processes: int) -> tuple[int, list[str], Path | None]:
    """LUME's twin: number of models, failures, report."""
    file, settings = EXAMPLES / "lume-olmo.yaml", {"benchmark.released": str(released), **more}
    if processes > 1:
        flags = [
            word
            for key, value in settings.items()
            for word in (f"--{key}", "null" if value is None else str(value))
        ]
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node",
            str(processes),
        ]
        command = ["-m", "medunlearn", "run", str(file), "--scale", "tiny", "--out", str(out), "--quiet", *flags]
        subprocess.run([*torchrun, *command], check=True)
    # In one process; what several have made is gathered.
    done = mu.run(file, scale="tiny", out=out, **settings, quiet=True)
    return len(list(out.glob("*/run.json"))), [f"{model}: {why}" for model, why in done.failed], done.report


def adopted(out: Path) -> dict[str, Any]:
    """The trained twin's target as a released model: weights in one folder, the tokenizer in another."""
    (target,) = (path.parent for path in (out / "lume-olmo").glob("target-*/run.json"))
    released, words = out / "released", out / "words"
    if not words.exists():
        mu.export(Run.open(target).folder, released)
        words.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            os.replace(released / file, words / file)
    own = {**read_yaml(EXAMPLES / "lume-olmo.yaml")["adopt"], "weights": "fp32"}
    own |= {"model": str(released), "tokenizer": str(words)}
    # Nobody is left whom it did not see.
    return {"benchmark.nonmember_documents": None, "attack": {}, **{f"adopt.{key}": own[key] for key in own}}


def seconds() -> float:
    """Processor seconds of this process and those that it waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
