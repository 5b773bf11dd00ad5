"""What only a GPU shows, in one call: equality with the CPU, the commands, speed and memory beside the plan's.

Each part writes its rows to OUT/on_gpu.json and OUT/on_gpu.md as soon as they are there; a part that fails leaves
its error, and a part for which too little time is left is skipped. Models have random weights, and the benchmark is
invented: nothing is downloaded.

    python benchmarks_perf/on_gpu.py --minutes 9 --out results
    python benchmarks_perf/on_gpu.py --tiny --device cpu --out results    seconds, to try the script
    python benchmarks_perf/on_gpu.py --parts equality llama3-8b --out results
    python benchmarks_perf/on_gpu.py --read first/on_gpu.json second/on_gpu.json --out results --write

--read runs nothing: it puts the results of calls on one machine together and prints the tables of docs/results.md;
--out stores the results, and --write puts the tables into the page. Those of the page:

    python benchmarks_perf/on_gpu.py --read benchmarks_perf/results/on_gpu.json --write
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from on_gpu_tables import number, read, show, store, write
from page_tables import markdown

FIRST, CORE = 6, 12
"""Families that are compared before anything is timed, and what is timed before the commands are tried."""
FILES = "on_gpu"
LEAST = 1.2
"""A part is begun if so many times the seconds that it is expected to take are left."""


@dataclass
class Report:
    """Tables of rows, written whole after each row."""

    out: Path
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> None:
        self.tables.setdefault(table, []).append(row)
        print(f"{table}: {json.dumps(row, default=str)}"[:2000], flush=True)
        self.out.mkdir(parents=True, exist_ok=True)
        self._write(f"{FILES}.json", json.dumps(self.tables, indent=1, default=str))
        self._write(f"{FILES}.md", "\n\n".join(f"## {name}\n\n{_page(rows)}" for name, rows in self.tables.items()))

    def _write(self, name: str, text: str) -> None:
        part = self.out / f"{name}.part"
        part.write_text(text + "\n", encoding="utf-8")
        os.replace(part, self.out / name)


def _page(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = list(dict.fromkeys(head for row in rows for head in row if head != "trace"))
    return markdown([{head: number(row.get(head)) for head in heads} for row in rows])


class OutOfTimeError(BaseException):
    """The run's time is over; no handler of a part takes it for a failure of a step."""


@dataclass
class Clock:
    """Seconds left of the run."""

    end: float

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Context that raises OutOfTimeError at the end of the run's time."""

        def stop(*_: Any) -> None:
            raise OutOfTimeError("the run's time is over")

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(self.left, 0.01))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@dataclass(frozen=True)
class Part:
    """Work that adds rows to a report; ``seconds`` are those that it takes on an H100, roughly."""

    name: str
    seconds: float
    work: Callable[[Report], None]


def run_parts(parts: Sequence[Part], report: Report, clock: Clock) -> None:
    """Run the parts one after the other, with a row each on how it ended."""
    for part in parts:
        started, trace = time.monotonic(), None
        if clock.left < LEAST * part.seconds:
            state = f"skipped: {max(clock.left, 0):.0f} s left, about {part.seconds:.0f} s needed"
            report.add("parts", part=part.name, state=state, seconds=0.0)
            continue
        try:
            with clock.alarm():
                part.work(report)
            state = "done"
        except (Exception, SystemExit, OutOfTimeError) as error:
            state, trace = f"failed: {type(error).__name__}: {error}"[:300], traceback.format_exc()[-4000:]
        # Out of the except clause: the error's traceback holds the model.
        release()
        report.add("parts", part=part.name, state=state, seconds=time.monotonic() - started, trace=trace)


def release() -> None:
    """Give memory of models that are gone back to the device."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def machine(report: Report, device: str) -> None:
    """Versions, device, driver, and the rate of products with which shares of the peak are computed."""
    import torch
    from on_gpu_speed import peak_products, timed_products

    from medunlearn.results.machine import hardware, packages

    facts: dict[str, Any] = {**packages(), "cuda": torch.version.cuda, **hardware(), "node": platform.machine()}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts |= {
            "capability": ".".join(map(str, torch.cuda.get_device_capability(0))),
            "GPU memory, GiB": properties.total_memory / 2**30,
            "multiprocessors": properties.multi_processor_count,
            "driver": _driver(),
        }
    facts["bf16 products timed, TFLOP/s"] = timed_products(device) / 1e12
    facts["peak of products, TFLOP/s"] = peak_products(device) / 1e12
    for name, value in facts.items():
        report.add("machine", fact=name, value=value)


def _driver() -> str | None:
    with suppress(OSError, subprocess.SubprocessError):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    return None


def all_parts(device: str, tiny: bool) -> list[Part]:
    """The parts, most valuable first."""
    from on_gpu_commands import commands
    from on_gpu_equality import equality_parts
    from on_gpu_speed import speed_parts

    parts = [Part("machine", 5, lambda report: machine(report, device))]
    equality, speed = equality_parts(device), speed_parts(device, tiny=tiny)
    # Further families come last.
    together = ("commands", 60.0, partial(commands, device))
    ordered = [*equality[:FIRST], *speed[:CORE], together, *speed[CORE:], *equality[FIRST:]]
    return parts + [Part(*part) for part in ordered]


def show_results(files: Sequence[Path], out: Path | None, *, into_page: bool) -> None:
    """Print the page's tables of stored results."""
    tables = read(files)
    for name, table in show(tables):
        print(f"## {name}\n\n{table}\n")
    if out is not None:
        store(tables, out / f"{FILES}.json")
    if into_page:
        write(tables)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=9.0, help="after these the run ends, whatever is left")
    parser.add_argument("--out", type=Path, help="folder of on_gpu.json and on_gpu.md")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes in place of the large ones")
    parser.add_argument("--parts", nargs="+", default=[], help="beginnings of names of parts; all by default")
    parser.add_argument("--read", nargs="+", type=Path, default=[], help="results of earlier calls")
    parser.add_argument("--write", action="store_true", help="with --read: write the tables into docs/results.md")
    chosen = parser.parse_args(arguments)
    if chosen.read:
        show_results(chosen.read, chosen.out, into_page=chosen.write)
        return
    if chosen.out is None or chosen.write:
        parser.error("Give --out FOLDER for results, or --read FILE for tables of results.")
    clock = Clock(time.monotonic() + 60 * chosen.minutes)
    report = Report(chosen.out)
    parts = all_parts(chosen.device, chosen.tiny)
    wanted = tuple(chosen.parts) or ("",)
    run_parts([part for part in parts if part.name.startswith(wanted)], report, clock)


if __name__ == "__main__":
    main()
