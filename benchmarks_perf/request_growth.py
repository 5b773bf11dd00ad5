"""How a deletion request grows with the hospital and with the ledger: CPU seconds, peak memory, exponents.

    python benchmarks_perf/request_growth.py OUT [--notes 1600 6400 25600 102400] [--write]

*Plan* is `forget --plan`. *First question* is what `forget` does with the notes before it asks a model anything:
it reads them, makes probes, saves both, and draws the values that facts are ranked among. Each size has a process
of its own, measured without its imports. Each cell is also a SHA-256 of what is asked and of the facts that are
ranked, so that two versions of the program can be compared. An exponent is that of the last two sizes; 1 is linear.
``--write`` puts the tables, and that of rotations over earlier patients, into docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_tables import markdown, replace_table
from plan_budget import WORDS, write_notes

STEPS = ("plan", "first question")
EARLIER, DRAWN = (12, 24, 50, 100, 200, 1000), 12
"""Numbers of earlier patients in the table of rotations, and how many a request asks about."""


def measured(out: Path, notes: int, step: str) -> dict[str, Any]:
    """CPU seconds, peak memory in GiB, and a hash of what is asked; in this process."""
    from medunlearn.config import ForgetSettings, check
    from medunlearn.data.deletion_requests import REQUEST
    from medunlearn.data.storage import sha256_of_json
    from medunlearn.models.tiny import build_tiny
    from medunlearn.probes.question_selection import questions_to_ask
    from medunlearn.request.case.signing_keys import make_key
    from medunlearn.request.forget_plan import foresee
    from medunlearn.request.forget_request import ForgetRequest
    from medunlearn.request.measuring_models import _plan

    folder = out / f"{notes}"
    folder.mkdir(parents=True, exist_ok=True)
    table, model, key = folder / "notes.csv", out / "model", out / "owner" / "signing.key"
    if not table.exists():
        write_notes(table, notes)
    if not key.exists():
        build_tiny(WORDS, vocabulary=2048).save(model)
        make_key(key)
    settings = check(ForgetSettings, {"patient": "p17", "key": key, "method": "npo"})
    case = folder / f"case-{time.time_ns()}"
    started = time.process_time()
    if step == "plan":
        plan = foresee(model, table, settings, case, device="cpu")
        content: Any = plan.questions
    else:
        request = ForgetRequest.open(model, table, settings, case, device="cpu", quiet=True)
        benchmarks = request.read_notes()
        benchmark, how = benchmarks.benchmark, request.meter(benchmarks).verifying_settings
        questions = questions_to_ask(benchmark, benchmark.split(REQUEST), how)
        ranks = _plan(benchmark, how)
        facts = [[[alternatives.texts for _, alternatives in ranks.facts_of(q)]] for q in questions]
        content = [[(q.question_id, q.question, q.answer) for q in questions], facts]
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds, "memory": memory, "sha256": sha256_of_json(content)}


def cell(out: Path, notes: int, step: str) -> dict[str, Any]:
    """A measurement in a process of its own; one that is stored is read."""
    file = out / f"{notes}-{step.replace(' ', '-')}.json"
    if not file.exists():
        command = [sys.executable, __file__, str(out), "--one", str(notes), step]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        file.write_text(line)
    numbers: dict[str, Any] = json.loads(file.read_text())
    return numbers


def rows(out: Path, sizes: list[int]) -> Iterator[dict[str, str]]:
    before: dict[str, tuple[int, float]] = {}
    for notes in sizes:
        line = {"notes": f"{notes:,}"}
        for step in STEPS:
            numbers = cell(out, notes, step)
            line[f"{step}, CPU s"] = f"{numbers['seconds']:.1f}"
            size, seconds = before.get(step, (0, 0.0))
            exponent = math.log(numbers["seconds"] / seconds) / math.log(notes / size) if size else None
            line[f"exponent of {step}"] = "–" if exponent is None else f"{exponent:.2f}"
            line[f"memory of {step}, GiB"] = f"{numbers['memory']:.1f}"
            before[step] = notes, numbers["seconds"]
            print(notes, step, json.dumps(numbers), flush=True)
        yield line


def rotation_rows() -> Iterator[dict[str, str]]:
    """Chances that a rotation over earlier patients finds them."""
    from medunlearn.statistics.rotations import chance_to_find, rounds_until_all, rounds_until_found

    for earlier in EARLIER:
        tenth = math.ceil(earlier / 10)
        yield {
            "earlier patients": f"{earlier:,}",
            "asked about": f"{min(DRAWN, earlier)}",
            "one came back: in this request": f"{chance_to_find(earlier, DRAWN, 1):.0%}",
            "at the latest after": f"{rounds_until_all(earlier, DRAWN)}",
            "95% after": f"{rounds_until_found(earlier, DRAWN, 1, 0.95)}",
            "a tenth came back: in this request": f"{chance_to_find(earlier, DRAWN, tenth):.0%}",
            "95% after ": f"{rounds_until_found(earlier, DRAWN, tenth, 0.95)}",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--notes", type=int, nargs="+", default=[1600, 6400, 25_600, 102_400])
    parser.add_argument("--one", nargs=2, metavar=("NOTES", "STEP"), help="measure one cell in this process")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/results.md")
    own = parser.parse_args()
    if own.one:
        print(json.dumps(measured(own.out, int(own.one[0]), own.one[1])))
        return
    own.out.mkdir(parents=True, exist_ok=True)
    for name, table in (("request growth", rows(own.out, own.notes)), ("earlier rotation", rotation_rows())):
        text = markdown([*table])
        print(text)
        if own.write:
            replace_table("results.md", name, text)


if __name__ == "__main__":
    main()
