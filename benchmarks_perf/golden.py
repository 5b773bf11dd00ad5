"""Golden numbers: run commands at test size, collect every number that they write, compare two collections.

    python benchmarks_perf/golden.py run OUT [--only NAME ...] [--data FOLDER]
    python benchmarks_perf/golden.py numbers OUT > numbers.csv
    python benchmarks_perf/golden.py compare BEFORE.csv.gz AFTER.csv

A number is known by its scenario, by the *values* of all labels around it (model, side, measure, ...; never by the
name of a column, a key or a file), and by its size. Rows of `report.json` and of summary tables are kept whole:
value, interval, p, counts. Tables with a row an item are kept as digests: n, sum and sum of squares by label.

What changes on purpose stands in `golden_wanted.yaml`, each with its reason; `compare` exits with 1 for all else.
`golden/scenarios.yaml` has the command lines: edit them where a flag changes, never what they ask for.

One machine gives the same numbers again to the last digit, whatever else runs on it: `hospital`, `lume`, `xrays`,
`audit` and `diagnosis` were run twice, with one thread. Only seconds and memory differ, and are left out. On
another processor sums are taken in another order: make `before` and `after` on the same one. `before.csv.gz` was
made on an AMD EPYC without bf16; where a processor has it, `demo` takes it, since it has no flag for the precision.
All scenarios take 13 minutes of processor time; two processes may share them (`audit` reads what `hospital` made).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
import yaml
from pandas.api.types import is_bool_dtype, is_numeric_dtype

HERE = Path(__file__).resolve().parent
SCENARIOS = yaml.safe_load((HERE / "golden" / "scenarios.yaml").read_text())


# --- run -------------------------------------------------------------------------------------------------------


class Judges(BaseHTTPRequestHandler):
    """An OpenAI-compatible server whose verdicts depend on the judge and on what stands between a prompt's tags."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = next(message["content"] for message in body["messages"] if message["role"] == "user")
        said = json.dumps(
            verdict(body["model"], dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", prompt, re.DOTALL)), body)
        )
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        whole = 2 * len(prompt.split())  # fewer would say that the prompt did not arrive whole
        usage = {"prompt_tokens": whole, "completion_tokens": 10, "total_tokens": whole + 10}
        answer = json.dumps({"id": "x", "model": body["model"], "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        pass


def verdict(judge: str, parts: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    draw = int(hashlib.sha256(json.dumps([judge, sorted(parts.items())]).encode()).hexdigest(), 16)
    names = body["response_format"]["json_schema"]["schema"]["properties"]
    if "rating" in names:
        return {"reasoning": "x", "rating": 1 + draw % 10}
    if "correct_category" in names:
        own = parts["assigned_category"]
        other = next(one for one in names["correct_category"]["enum"] if one != own)
        wrong = draw % 5 == 0
        return {
            "reasoning": "x",
            "verdict": "Unsupported" if wrong else "Supported",
            "correct_category": other if wrong else own,
        }
    criteria = [name for name in names if name not in ("reasoning", "valid")]
    failed = criteria[draw % len(criteria)] if draw % 6 == 0 else None
    return {"reasoning": "x", **{name: name != failed for name in criteria}, "valid": failed is None}


def fill(sheet: Path, copy: Path) -> None:
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8-sig").splitlines()))
    with copy.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("case_id", "label"))
        for row in rows:
            draw = int(hashlib.sha256(row["case_id"].encode()).hexdigest(), 16)
            writer.writerow((row["case_id"], "No" if draw % 7 == 0 else "Yes"))


def run(out: Path, only: list[str], data: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    words = {"data": data.resolve(), "examples": HERE.parent / "examples"}
    words |= {"llm": f"http://127.0.0.1:{server.server_port}/v1"}
    words |= {name: Template(text).safe_substitute(words) for name, text in SCENARIOS["words"].items()}
    for name, scenario in SCENARIOS["scenarios"].items():
        if only and name not in only:
            continue
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path, text in scenario.get("files", {}).items():
            (folder / path).write_text(Template(text).substitute(words))
        for number, command in enumerate(scenario["commands"]):
            line = shlex.split(Template(command).substitute(words))
            if line[0] == "fill":
                fill(folder / line[1], folder / line[2])
                continue
            used, began = cpu_seconds(), time.time()
            said = f"said-{number}.json" if "--json" in line else "log.txt"
            with (folder / "log.txt").open("a") as log, (folder / said).open("a") as stdout:
                print(f"\n$ {command}", file=log, flush=True)
                whole = [sys.executable, "-m", "medunlearn", *line]
                alone = {**os.environ, "OMP_NUM_THREADS": "1"}
                done = subprocess.run(whole, cwd=folder, env=alone, stdout=stdout, stderr=log)
            took = f"{cpu_seconds() - used:.0f} s CPU, {time.time() - began:.0f} s"
            print(f"{name}: {took}: {command[:80]}", file=sys.stderr, flush=True)
            if done.returncode:
                sys.exit(f"{name}: exit code {done.returncode}, see {folder / 'log.txt'}")
    server.shutdown()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- numbers ---------------------------------------------------------------------------------------------------

MOST_LABELS = 30  # different values of a column that tells rows apart, and groups of several such columns
COLUMNS = ("scenario", "source", "labels", "value", "low", "high", "p", "counts")
VALUES = ("value", "difference")
BOUNDS = ("low", "high", "p")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole numbers that tell rows apart; every other whole number is a count or a value.
WHOLE_LABELS = words("epoch k prefix_tokens seed first last at_least segment sample level")
ITEMS = words("question_id record_id probe_id case_id item item_id subject")
PLACES = words("step threshold")  # of items, where they are numbers
# Of a machine or a moment, the paper's own numbers, settings, places in texts: not what a run measured.
LEFT_OUT = words(
    """seconds bytes mtime_ns peak_memory_bytes tokens micro_batch_size started created stages code folder money
    answer_tokens prompt_tokens published facts format fingerprint results replicates settings config inputs
    data source key prompt_version examples images example text response detail details reason place end word
    token token_end in_response in_suffix span owner_record"""
)
PROSE = words("title says claim rule advice observed meaning explanation how words reasoning")
TABLES_OF_INPUTS = words("records questions splits cases probes starts responses model llm")
CONTAINERS = words("evaluations attacks epochs baselines judgements report reports options audit")
Labels = frozenset[str]


def plain(value: Any) -> str | None:
    """A label's value as it is compared; None for prose, and for what is no label."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or "://" in str(value):
        return None
    text = re.sub(r"[^a-z0-9.+=]+", "_", str(value).lower()).strip("_.")
    return text if text and len(text) <= 60 and str(value).count(" ") <= 5 else None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_count(name: str, value: Any) -> bool:
    return is_number(value) and (name in ("n", "spans", "mentions") or name.startswith(("n_", "replicates_")))


def rows_of(name: str, fields: dict[str, Any], around: Labels) -> Iterator[tuple[Labels, dict[str, Any]]]:
    """A record of fields as rows: its labels, and one value each with what bounds it."""
    labels = set(around)
    numbers: dict[str, float] = {}
    counts: list[str] = []
    for key, value in fields.items():
        if key in LEFT_OUT | PROSE or value is None or isinstance(value, (dict, list, bool)):
            continue
        if isinstance(value, str) or key in WHOLE_LABELS:
            value = int(value) if isinstance(value, float) and value.is_integer() else value
            labels |= {label} if (label := plain(value)) else set()
        elif is_count(key, value):
            counts += [f"{key}={value:g}"] if value else []
        elif is_number(value):
            numbers[key] = float(value)
    if "verdict" in fields:
        yield frozenset(labels | {"verdict"}), {"value": 1.0}
    bounds = {key: numbers.pop(key) for key in BOUNDS if key in numbers}
    bounded = {key: {name: numbers.pop(f"{key}_{name}", None) for name in BOUNDS} for key in list(numbers)}
    owner = next((key for key in VALUES if key in numbers), next(reversed(numbers), None))
    if owner is None and counts and not any(key in fields for key in VALUES):
        yield frozenset(labels), {"counts": " ".join(counts)}
    for key, value in numbers.items():
        of = {**bounds, "counts": " ".join(counts)} if key == owner else bounded[key]
        own = set() if key in VALUES else {plain(key)} - {None}
        yield frozenset(labels | own), {"value": value, **of}


def walk(value: Any, around: Labels, name: str = "") -> Iterator[tuple[Labels, dict[str, Any]]]:
    """Rows of a JSON value: lists of records, tables by column, and mappings whose keys are labels."""
    if isinstance(value, list):
        if value and all(isinstance(one, dict) for one in value) and of_items(table := pd.DataFrame(value)):
            yield from digests(table, around)
            return
        for one in value:
            yield from walk(one, around, name)
    if not isinstance(value, dict) or not value:
        return
    parts = list(value.values())
    if all(isinstance(part, list) for part in parts) and len(parts) > 2 and len({len(part) for part in parts}) == 1:
        if of_items(table := pd.DataFrame(value)):
            yield from digests(table, around)
            return
        for cells in zip(*parts, strict=True):
            yield from rows_of(name, dict(zip(value, cells, strict=True)), around)
        return
    mapping = all(part is None or is_number(part) or isinstance(part, dict) for part in parts)
    if not mapping or any(key in VALUES for key in value):
        yield from rows_of(name, value, around)
        own = {plain(part) for key, part in value.items() if key not in LEFT_OUT | PROSE and not is_number(part)}
        around = around | {label for label in own if label}
        mapping = False
    for key, part in value.items():
        if key in LEFT_OUT:
            continue
        inside = around | ({plain(key)} - {None} if mapping and name else set())
        if mapping and is_number(part):
            yield inside | ({plain(key)} - {None}), {"value": float(part)}
        else:
            yield from walk(part, inside, key)


def of_items(table: pd.DataFrame) -> bool:
    return bool(ITEMS & set(table)) or any(is_numeric_dtype(table[name]) for name in PLACES & set(table))


def digests(table: pd.DataFrame, around: Labels) -> Iterator[tuple[Labels, dict[str, Any]]]:
    """Sums of a table with a row an item: by what is measured, and by that and every other label."""
    table = table.drop(columns=[name for name in table if name in ITEMS | PLACES | LEFT_OUT | PROSE])
    numeric = [name for name in table if is_numeric_dtype(table[name]) and name not in WHOLE_LABELS]
    texts = [
        name
        for name in table
        if name not in (*numeric, *VALUES) and table[name].map(lambda x: isinstance(x, (str, int))).any()
    ]
    texts = [name for name in texts if table[name].nunique() <= MOST_LABELS]
    measures = [name for name in texts if name in ("measure", "metric")]
    for keys in {tuple(measures), *((*measures, name) for name in texts if name not in measures), tuple(texts)}:
        if len(keys) > 2 and len(table[list(keys)].drop_duplicates()) > MOST_LABELS:
            continue
        groups = table.groupby(list(keys), dropna=False) if keys else [((), table)]
        for values, group in groups:
            labels = {plain(one) for one in values if isinstance(one, (str, int))} - {None}
            if "value" not in table:
                yield around | labels | {"rows"}, {"value": float(len(group))}
            for name in numeric:
                column = pd.to_numeric(group[name], errors="coerce").astype("float64")
                scored = column[column.notna()]
                own = set() if name in VALUES else {plain(name)} - {None}
                if len(scored) and not (is_bool_dtype(table[name]) and name in ("finished", "member")):
                    facts = {"value": math.fsum(scored), "high": math.fsum(scored**2)}
                    facts["counts"] = f"n={len(scored)} n_null={len(column) - len(scored)}"
                    yield around | labels | own | {"sum"}, facts


def about(path: Path, scenario: Path) -> Labels:
    """What a file is about, from the folders and the run records above it."""
    found = set()
    for folder in path.relative_to(scenario).parents:
        name = re.sub(r"-[0-9a-f]{8}$", "", re.sub(r"(-[0-9a-f]{8})+$", "", folder.name))
        found |= {plain(name.lstrip("0") or "0")} if name and name not in CONTAINERS else set()
        record = scenario / folder / "run.json"
        if folder.name and record.exists():
            info = json.loads(record.read_text())
            config = info.get("config") or info.get("settings") or {}
            found |= {plain(info.get("label"))} | {
                plain(config.get(key)) for key in ("split", "without", "method", "context")
            }
    return frozenset(found - {None})


def collect(out: Path) -> Iterator[tuple[str, str, Labels, dict[str, Any]]]:
    """Every row: scenario, source, labels, numbers."""
    for path in sorted(out.rglob("*")):
        scenario = out / path.relative_to(out).parts[0]
        if path.suffix == ".parquet":
            if {*path.relative_to(scenario).parts[:-1], path.stem} & TABLES_OF_INPUTS:
                continue
            table = pd.read_parquet(path)
            if of_items(table):
                rows: Iterable[Any] = digests(table, about(path, scenario))
            else:
                records = table.astype(object).where(table.notna(), None).to_dict("records")
                rows = (row for one in records for row in rows_of("", one, about(path, scenario)))
        elif path.name == "report.json" or path.name.startswith("said-"):
            rows = walk(json.loads(path.read_text()), frozenset())
        else:
            continue
        source = "table" if path.suffix == ".parquet" else "report" if path.name == "report.json" else "said"
        for labels, facts in rows:
            yield scenario.name, source, labels, facts


def write_numbers(out: Path) -> None:
    rows: dict[tuple[Any, ...], str] = {}
    for scenario, source, labels, facts in collect(out):
        cells = [facts.get(name) for name in COLUMNS[3:]]
        key = (scenario, "|".join(sorted(labels)), *("" if cell is None else str(cell) for cell in cells))
        rows.setdefault(key, source)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for (scenario, *rest), source in sorted((key, source) for key, source in rows.items()):
        writer.writerow((scenario, source, *rest))


# --- compare ---------------------------------------------------------------------------------------------------

CLOSE = 1e-9  # relative
ALIKE = 0.6  # of all labels of two rows, the share in common from which they may be about the same
GOOD = ("equal", "equal to rounding", "equal under fewer or more labels", "new")


class Row:
    """One row of a collection: what it is about, and its numbers."""

    def __init__(self, cells: dict[str, str]) -> None:
        self.scenario, self.source, self.text = cells["scenario"], cells["source"], cells["labels"]
        self.labels = frozenset(self.text.split("|"))
        self.numbers = tuple(float(cells[name]) if cells[name] else None for name in COLUMNS[3:7])
        self.counts = frozenset(float(part.split("=")[1]) for part in cells["counts"].split()) - {0.0}

    def __str__(self) -> str:
        shown = " ".join(f"{n}={x!r}" for n, x in zip(COLUMNS[3:7], self.numbers, strict=True) if x is not None)
        return f"{self.scenario} [{self.text}] {shown} n={sorted(self.counts)}"

    def is_within(self, other: Row) -> bool:
        """Every number of this row is in the other: values to rounding, counts whatever they are called."""
        return self.counts <= other.counts and all(
            mine is None or (its is not None and math.isclose(mine, its, rel_tol=CLOSE, abs_tol=1e-12))
            for mine, its in zip(self.numbers, other.numbers, strict=True)
        )

    def likeness(self, other: Row) -> float:
        """Labels in common, of all that either has."""
        return len(self.labels & other.labels) / len(self.labels | other.labels)


def read(path: Path, renamed: dict[str, str | None] | None = None) -> list[Row]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        rows = [Row(cells) for cells in csv.DictReader(file)]
    for row in rows:
        row.labels = frozenset(label for one in row.labels if (label := (renamed or {}).get(one, one)))
    return rows


def judge(row: Row, candidates: list[Row], others: list[Row]) -> tuple[str, Row | None]:
    """What became of a row. ``candidates`` have its value, ``others`` are all of its scenario."""
    equal = sorted((one for one in candidates if row.is_within(one)), key=row.likeness, reverse=True)
    same = [one for one in equal if one.labels == row.labels]
    if found := next((one for one in same if one.numbers == row.numbers and one.counts == row.counts), None):
        return "equal", found
    if same:
        return "equal to rounding", same[0]
    if found := next((one for one in equal if one.labels <= row.labels or row.labels <= one.labels), None):
        return "equal under fewer or more labels", found
    nearest = max(others, key=row.likeness, default=None)
    if nearest is not None and row.likeness(nearest) == 1:
        return "changed", nearest
    if equal and row.likeness(equal[0]) >= ALIKE:
        return "equal under other labels", equal[0]
    if nearest is not None and row.likeness(nearest) >= ALIKE:
        return "changed", nearest
    return "missing", None


def compare(before: Path, after: Path, wanted_file: Path, shown: int) -> int:
    wanted = yaml.safe_load(wanted_file.read_text())
    renamed = {key: value for one in wanted["renamed"] for key, value in one["labels"].items()}
    rules = [(re.compile(one["match"]), set(one["outcomes"]), Counter()) for one in wanted["differences"]]
    new = read(after)
    by_value: dict[Any, list[Row]] = defaultdict(list)
    of_scenario: dict[str, list[Row]] = defaultdict(list)
    for row in new:
        of_scenario[row.scenario].append(row)
        by_value[row.scenario, rounded(row)].append(row)
    outcomes: dict[str, list[tuple[Row, Row | None]]] = defaultdict(list)
    claimed: dict[int, Row] = {}
    for row in read(before, renamed):
        key = rounded(row)
        # A value on the border of two roundings is in one of three.
        keys = {key} if key is None else {rounded(row, 1 + shift * 5e-9) for shift in (-1, 0, 1)}
        candidates = [one for own in keys for one in by_value[row.scenario, own]]
        outcome, found = judge(row, candidates, of_scenario[row.scenario])
        claimed |= {id(found): found} if found else {}
        outcomes[outcome].append((row, found))
    known = {(found.scenario, found.labels, found.numbers) for found in claimed.values()}
    outcomes["new"] = [(row, None) for row in new if (row.scenario, row.labels, row.numbers) not in known]
    bad = 0
    for outcome, pairs in outcomes.items():
        unwanted = []
        for row, found in pairs if outcome not in GOOD else ():
            rule = next((rule for rule in rules if outcome in rule[1] and rule[0].search(str(row))), None)
            if rule is None:
                unwanted.append((row, found))
            else:
                rule[2]["rows"] += 1
        bad += len(unwanted)
        print(f"{outcome}: {len(pairs)}" + ("" if outcome in GOOD else f", of them not wanted: {len(unwanted)}"))
        for row, found in unwanted[:shown]:
            print(f"  - {row}" + (f"\n    now {found}" if found else ""))
    for pattern, _, rows in rules:
        if not rows:
            print(f"a wanted difference that is not there: {pattern.pattern}")
    return 1 if bad else 0


def rounded(row: Row, factor: float = 1.0) -> str | None:
    return None if row.numbers[0] is None else f"{row.numbers[0] * factor + 0.0:.7e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("run", help="run all scenarios, or some")
    verb.add_argument("out", type=Path)
    verb.add_argument("--only", nargs="+", default=[], choices=SCENARIOS["scenarios"])
    verb.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data", help="released files")
    verb = verbs.add_parser("numbers", help="print every number as CSV")
    verb.add_argument("out", type=Path)
    verb = verbs.add_parser("compare", help="compare two such files")
    verb.add_argument("before", type=Path)
    verb.add_argument("after", type=Path)
    verb.add_argument("--wanted", type=Path, default=HERE / "golden_wanted.yaml", help="differences with reasons")
    verb.add_argument("--shown", type=int, default=20, help="rows printed of each outcome")
    given = parser.parse_args()
    if given.verb == "run":
        run(given.out.resolve(), given.only, given.data)
    elif given.verb == "numbers":
        write_numbers(given.out.resolve())
    else:
        sys.exit(compare(given.before, given.after, given.wanted, given.shown))


if __name__ == "__main__":
    main()
