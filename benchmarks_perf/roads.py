"""Minutes and words of the roads: types each command of a page as a new user does, in a scratch folder.

Each `bash` line runs in a shell of its own with `examples/` beside it; what a command writes, the next one reads.
Lines of `--first` run before: they make what the reader has already, such as a model. A command that fails is told,
and the next one runs, as a reader would go on.

    python benchmarks_perf/roads.py docs/roads/owner.md docs/roads/researcher.md --out results
    python benchmarks_perf/roads.py docs/roads/auditor.md --skip http:// --out results
    python benchmarks_perf/roads.py --read benchmarks_perf/results/roads.json --write

Prints a table a page, seconds a command (CPU seconds too, which a busy machine does not stretch), and writes
OUT/roads.json after each command. `medunlearn` is that of the environment that runs the script.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page_tables import markdown, replace_table

ROOT = Path(__file__).resolve().parents[1]
LINES = re.compile(r"^ *```bash\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
TOLD = 12
"""Last lines of a failed command that are stored."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument(
        "--first", nargs="*", default=[], metavar="COMMAND", help="what the reader has: run, not timed"
    )
    parser.add_argument(
        "--skip", nargs="*", default=[], metavar="TEXT", help="commands that hold one of these texts"
    )
    parser.add_argument("--change", nargs=2, metavar=("OLD", "NEW"), help="in each command")
    parser.add_argument("--out", type=Path, help="folder of roads.json")
    parser.add_argument("--work", type=Path, help="scratch folder, kept")
    parser.add_argument("--read", type=Path, metavar="FILE", help="print the tables of a stored roads.json")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results.md")
    options = parser.parse_args()
    roads = json.loads(options.read.read_text(encoding="utf-8")) if options.read else typed(options)
    show(roads)
    if options.write:
        replace_table("results.md", "roads", table(roads))


def typed(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each page's commands with their seconds."""
    roads: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for page in options.pages:
            text = page.read_text(encoding="utf-8")
            road: dict[str, Any] = {"road": page.stem, "words": words(text), "commands": []}
            roads.append(road)
            folder = (options.work or Path(scratch)) / page.stem
            folder.mkdir(parents=True)
            shutil.copytree(ROOT / "examples", folder / "examples")
            for line in options.first:
                perform(line, folder)
            for line in commands(text):
                line = line.replace(*options.change) if options.change else line
                if not any(part in line for part in options.skip):
                    road["commands"].append(perform(line, folder))
                    store(roads, options.out)
    return roads


def commands(text: str) -> list[str]:
    """Lines of the page's `bash` blocks, in order."""
    return [line.strip() for block in LINES.findall(text) for line in block.splitlines() if line.strip()]


def words(text: str) -> int:
    """Words that a reader reads: of prose, tables and commands, without addresses of links and signs."""
    plain = re.sub(r"\]\([^)]*\)", "]", text)
    return sum(1 for word in plain.split() if re.search(r"\w", word))


def perform(line: str, folder: Path) -> dict[str, Any]:
    """Run a command; its seconds, exit code and, if it failed, its last lines."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        line, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{seconds:7.1f} s  {cpu:7.1f} CPU s  exit {done.returncode}  {line}", file=sys.stderr, flush=True)
    (folder / "output.txt").open("a", encoding="utf-8").write(f"$ {line}\n{done.stdout}{done.stderr}\n")
    failed = {"output": (done.stdout + done.stderr).splitlines()[-TOLD:]} if done.returncode else {}
    timed = {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)}
    return {"command": line, **timed, "exit": done.returncode, **failed}


def store(roads: list[dict[str, Any]], out: Path | None) -> None:
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "roads.json").write_text(json.dumps(roads, indent=1), encoding="utf-8")


def table(roads: list[dict[str, Any]]) -> str:
    """A row a road."""
    rows = [
        {
            "road": road["road"],
            "words": str(road["words"]),
            "commands": str(len(road["commands"])),
            "failed": str(sum(command["exit"] != 0 for command in road["commands"])),
            "CPU minutes": f"{sum(command['cpu_seconds'] for command in road['commands']) / 60:.1f}",
            "longest": "`{command}` ({cpu_seconds:.0f} CPU s)".format(
                **max(road["commands"], key=lambda command: command["cpu_seconds"])
            ),
        }
        for road in roads
        if road["commands"]
    ]
    return markdown(rows)


def show(roads: list[dict[str, Any]]) -> None:
    print(table(roads))
    for road in roads:
        for command in road["commands"]:
            print("{cpu_seconds:8.1f} CPU s  exit {exit}  {command}".format(**command))


if __name__ == "__main__":
    main()
