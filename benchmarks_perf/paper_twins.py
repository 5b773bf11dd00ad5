"""The papers' experiments in small, each to its report: ``--scale tiny`` of the four files under examples/.

    python benchmarks_perf/paper_twins.py --released ../shared/data/lume --out runs/twins [--processes 2]

With ``--processes`` so many processes, started by torchrun, share a sweep's trainings, and LUME's experiment.
LUME's runs twice: trained, and adopted from a folder without a tokenizer, as the released model lies. Prints cells
or models, failures, processor seconds, and what stands under the heading of each of the paper's tables and figures
in the report's page. Stopped, it goes on where it was; on finished twins it costs seconds. ``--write`` puts the
table into docs/results.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from page_tables import markdown, replace_table

import medunlearn as mu
from medunlearn.cli.main import app
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
"""Reports."""
COMMANDS = ("inspect", "list")
"""Commands that need the twin's benchmark at most."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--released", type=Path, required=True, help="folder with forget.jsonl and retain.jsonl")
    parser.add_argument("--out", type=Path, default=Path("runs/twins"))
    parser.add_argument("--only", default="", help="names that begin with this")
    parser.add_argument("--processes", type=int, default=1, help="of a training in a sweep")
    parser.add_argument("--write", action="store_true", help="the table into docs/results.md")
    arguments = parser.parse_args()
    work: dict[str, Callable[[Path], tuple[int, list[str], Path | None]]] = {
        "lume-olmo": lambda out: run(out, arguments.released, {}, arguments.processes),
        "lume-olmo, adopted": lambda out: run(out, arguments.released, adopted(arguments.out), arguments.processes),
        "medforget-lingshu": lambda out: sweep("medforget-lingshu", out, arguments.processes),
        "amnesia-llama3-8b": lambda out: sweep("amnesia-llama3-8b", out, arguments.processes),
        "memorization-llama3-8b": adapt,
    }
    rows: dict[str, dict[str, str]] = {}
    for name, of_twin in work.items():
        if not name.startswith(arguments.only):
            continue
        before, out = seconds(), arguments.out / name.replace(", ", "-")
        count, failed, report = of_twin(out)
        paper = PAPERS.get(name, "lume")
        shown = [(exhibit, place(exhibit, out, report)) for exhibit in find_paper(paper).exhibits()]
        missing = [exhibit for exhibit, content in shown if exhibit.page and not content]
        print(f"{name}: {count} cells or models, {len(failed)} failed, {seconds() - before:.0f} s of the processor")
        print(f"  report: {report}; lacks: {', '.join(map(lacking, missing)) or 'nothing'}")
        for line in failed:
            print(f"  failed: {line}")
        for exhibit, content in shown:
            rows.setdefault(f"{paper} {exhibit.number}", row(paper, exhibit, content))
    table = markdown([*rows.values()])
    print(table)
    if arguments.write:
        replace_table("results.md", "exhibits", table)


def row(paper: str, exhibit: Exhibit, content: str) -> dict[str, str]:
    """Row of the table: where the exhibit stands, and what the twin has there."""
    where = f"{exhibit.page}: {exhibit.at}" if exhibit.page in PAGES else f"`{exhibit.at}`"
    nothing = f"nothing (needs {exhibit.needs})" if exhibit.needs else "nothing"
    return {
        "paper": paper,
        "number": exhibit.number,
        "shows": exhibit.shows,
        "where": where if exhibit.page else "nowhere",
        "in the twin": (content or nothing) if exhibit.page else exhibit.lacks,
    }


def lacking(exhibit: Exhibit) -> str:
    return f"{exhibit.number} ({exhibit.needs})" if exhibit.needs else exhibit.number


def place(exhibit: Exhibit, out: Path, report: Path | None) -> str:
    """What a twin has of a table or figure: blocks under its heading, or lines of its command; "" if nothing."""
    if exhibit.page in PAGES and report is not None:
        page = Headings()
        page.feed(report.read_text(encoding="utf-8"))
        return page.content(exhibit.at)
    if exhibit.page in COMMANDS:
        bench = next(out.glob("bench*"), out)
        words = [str(bench) if word == "bench/" else word for word in shlex.split(exhibit.at)[1:]]
        said = CliRunner().invoke(app, words)
        lines = [line for line in said.stdout.splitlines() if line.strip()]
        return f"{len(lines)} lines" if said.exit_code == 0 else ""
    return ""


class Headings(HTMLParser):
    """Numbers of figures, tables and paragraphs under each heading of a report, without published numbers."""

    END = "What the paper published"
    LEVELS = ("h1", "h2", "h3", "h4", "h5")
    BLOCKS = ("figure", "table", "p")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[dict[str, Any]] = []
        self.sections: list[dict[str, Any]] = []
        self.in_heading = self.is_over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.is_over:
            return
        if tag in self.LEVELS:
            self.in_heading = True
            self.open = [entry for entry in self.open if entry["level"] < tag]
            entry = {"level": tag, "title": "", **dict.fromkeys(self.BLOCKS, 0)}
            self.open.append(entry)
            self.sections.append(entry)
        for entry in self.open if tag in self.BLOCKS else ():
            entry[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in self.LEVELS:
            self.in_heading = False
            self.is_over |= bool(self.open) and self.END in self.open[-1]["title"]

    def handle_data(self, data: str) -> None:
        if self.in_heading and self.open:
            self.open[-1]["title"] += data

    def content(self, heading: str) -> str:
        """Figures and tables under the first heading that begins so, or that it has words alone; "" if nothing."""
        for entry in self.sections:
            parts = [f"{n} {block}{'s' * (n > 1)}" for block in ("figure", "table") if (n := entry[block])]
            if " ".join(entry["title"].split()).startswith(heading) and (parts or entry["p"]):
                return ", ".join(parts) or "words"
        return ""


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
