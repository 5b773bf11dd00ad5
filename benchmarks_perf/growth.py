"""How the cost of each verb grows: CPU seconds, peak memory and files at sizes that rise by a factor of four.

Each measurement is a process of its own; what a verb reads is made before, and not counted. An exponent of 1 is
linear: it is that between the smallest and the largest size. Small sizes have the fixed costs in them, and a busy
machine moves an exponent by a tenth.

    python benchmarks_perf/growth.py                         three minutes of CPU
    python benchmarks_perf/growth.py --verbs summarize store --steps 4
    python benchmarks_perf/growth.py --write                 and puts the rows into the table of docs/results.md
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
BEGIN, END = "<!-- growth: made by benchmarks_perf/growth.py -->", "<!-- growth: end -->"
LABELS = ("side", "fold", "kind")
BATCH = 64


@dataclass(frozen=True)
class Verb:
    """A verb with the unit of its sizes, the smallest size, what is made before it, and its work."""

    unit: str
    least: int
    prepare: Callable[[int, Path], Any]
    work: Callable[[Any], object]


def score_table(rows: int, folder: Path) -> Any:
    import pandas as pd

    draw, items = np.random.default_rng(rows), rows // 5
    subject, labels = draw.integers(max(5, items // 20), size=items), draw.integers(2, size=(3, items))
    table = {
        "item": [f"q-{n:07d}" for n in range(items)],
        "subject": [f"patient-{n:06d}" for n in subject],
        "side": np.array(["forget", "retain"])[labels[0]],
        "fold": np.array(["train", "holdout"])[labels[1]],
        "kind": np.array(["factual", "cloze"])[labels[2]],
    }
    frame = pd.DataFrame({name: np.repeat(values, 5) for name, values in table.items()})
    frame["measure"] = np.tile(["rouge_l", "em", "te", "token_f1", "es"], items)
    values = pd.array(draw.random(len(frame)).round(3), dtype="Float64")
    return frame.assign(value=values, reason=pd.array([None] * len(frame), dtype="string"))


def summarize(table: Any) -> object:
    from medunlearn.results.summary import summarize

    return summarize(table, LABELS, composites=("MU", "AFE"), rollup="kind")


def compare(table: Any) -> object:
    from medunlearn.results.summary import compare

    return compare(table, table.assign(value=table["value"] * 0.9), LABELS, rollup="kind")


def responses(count: int, folder: Path) -> Any:
    from medunlearn.data.responses import Response

    rows = [Response(f"q{n}", "note", 0, f"answer {n} of some words", (5, 6, n), True) for n in range(count)]
    return folder / "store", [rows[start : start + BATCH] for start in range(0, count, BATCH)]


def store(prepared: Any) -> object:
    from medunlearn.data.responses import ResponseStore

    folder, batches = prepared
    opened = ResponseStore(folder, {})
    for batch in batches:
        opened.add(batch)
    opened.join()
    return opened.read()


def stored_rows(count: int, folder: Path) -> Any:
    from medunlearn.audit.units import WordsUnit

    rest = {"suffix": " that all is well", "response": " that all was well"}
    lines = ({"record_id": f"r{n % 20}", "prefix": f"note {n % 20} says", **rest} for n in range(count))
    path = folder / "responses.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path, WordsUnit()


def samples(prepared: Any) -> object:
    from medunlearn.audit.stored_probes import read_stored

    path, unit = prepared
    return read_stored(path, unit, 50)


def template_texts(count: int, folder: Path) -> Any:
    shared = " ".join(f"w{n}" for n in range(40))
    return [f"{shared} {' '.join(f'x{number}y{n}' for n in range(60))}" for number in range(count)]


def near_duplicates(texts: Any) -> object:
    from medunlearn.data.duplicates import DuplicateIndex

    index = DuplicateIndex()
    return [index.add(str(number), text) for number, text in enumerate(texts)]


def build(paper: str, **values: Any) -> object:
    from importlib import import_module

    from medunlearn.config import check

    if paper == "medforget":
        settings = import_module("medunlearn.papers.medforget.settings").MedforgetSettings
        return import_module("medunlearn.papers.medforget.build").build(check(settings, values))
    settings = import_module("medunlearn.papers.lume.settings").LumeNewSettings
    return import_module("medunlearn.papers.lume.invented").build(check(settings, values))


def saved_benchmark(count: int, folder: Path) -> Any:
    benchmark: Any = build("medforget", synthetic=count, text_only=True)
    return benchmark.save(folder / "bench")


def load(folder: Any) -> object:
    from medunlearn.data.benchmark import Benchmark

    return Benchmark.load(folder).fingerprint


def page(rows: int, folder: Path) -> Any:
    from medunlearn.reports.blocks import Cell, Report, Table

    lines = tuple((Cell(f"em {n}"), Cell(f"model {n % 200}"), Cell(f"{n / 7:.3f}", "0.1-0.9")) for n in range(rows))
    heads = tuple(map(Cell, ("Measure", "Model", "Value")))
    return Report("Large", (Table(heads, lines, filters={"model": [line[1].text for line in lines]}),)), folder


def write_page(prepared: Any) -> object:
    from medunlearn.reports.write import write_report

    return write_report(*prepared)


def notes_and_responses(count: int, folder: Path) -> Any:
    """Ten responses to each invented note, each with another part of it and of the next; about 60 words."""
    from medunlearn.audit.identifiers.outputs import RecordResponse
    from medunlearn.synthetic import invent_hospital

    records = invent_hospital(count // 10 + 1, note_length="medium").records()[: count // 10 + 1]
    texts = [record.text for record in records]
    outputs = []
    for n in range(count):
        note, part = divmod(n, 10)
        said = f"{texts[note][part * 17 :]} {texts[note + 1][part * 29 :]}"[:450]
        labels = (records[note].record_id, f"p{note}", f"s{note}", "greedy", part)
        outputs.append(RecordResponse(*labels, texts[note][:40], said))
    return outputs, records


def identifiers(prepared: Any) -> object:
    from medunlearn.audit.identifiers.finding_shares import find_identifiers
    from medunlearn.audit.identifiers.sensitive import find_sensitive
    from medunlearn.config import check
    from medunlearn.config.audit import IdentifierSettings

    outputs, records = prepared
    alone = check(IdentifierSettings, {"detectors": ["patterns"], "processes": 1})
    found = find_identifiers(outputs, records, alone, quiet=True)
    return found, find_sensitive(outputs, records, processes=1, quiet=True)


def audit_table(prepared: Any) -> object:
    from medunlearn.audit.audit_run import audit

    path, _ = prepared
    return audit(responses=path, out=path.parent / "audit", measures=("rouge_l",), replicates=20, quiet=True)


def answers(count: int, folder: Path) -> Any:
    """A benchmark, and a table of answers to all its questions."""
    from medunlearn.data.benchmark import Benchmark

    bench = Benchmark.load(saved_benchmark(count, folder))
    lines = [{"question_id": question.question_id, "response": question.answer} for question in bench.questions]
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path, bench.folder, next(iter(bench.splits))


def evaluate(prepared: Any) -> Any:
    import medunlearn as mu

    path, bench, split = prepared
    table = path.parent / f"table-{path.stem}.csv"
    return mu.evaluate(path, bench, split=split, metrics="rouge_l,em", replicates=20, out=table, quiet=True)


def evaluated(count: int, folder: Path) -> Any:
    return evaluate(answers(count, folder)).models[0].run.folder


def score(folder: Any) -> object:
    import medunlearn as mu

    return mu.score(folder, measures="rouge_l,em,token_f1", allow_broken=True)


def verify(folder: Any) -> object:
    import medunlearn as mu

    return mu.verify([folder])


VERBS: dict[str, Verb] = {
    "summarize": Verb("scores", 20_000, score_table, summarize),
    "compare": Verb("scores", 20_000, score_table, compare),
    "store": Verb("responses", 2_000, responses, store),
    "audit stored": Verb("responses of 20 probes", 2_000, stored_rows, samples),
    "audit of stored": Verb("responses of 20 probes", 2_000, stored_rows, audit_table),
    "identifiers": Verb("responses of 60 words", 200, notes_and_responses, identifiers),
    "evaluate stored": Verb("patients", 16, answers, evaluate),
    "score": Verb("patients", 16, evaluated, score),
    "verify": Verb("patients", 16, evaluated, verify),
    "near-duplicates": Verb("texts of one template", 200, template_texts, near_duplicates),
    "build medforget": Verb("patients", 32, lambda size, _: size,
                            lambda size: build("medforget", synthetic=size, text_only=True)),
    "build lume": Verb("documents a task", 100, lambda size, _: size, lambda size: build("lume", synthetic=size)),
    "Benchmark.load": Verb("patients", 32, saved_benchmark, load),
    "report page": Verb("rows", 3_000, page, write_page),
}  # fmt: skip


def measure(name: str, size: int, folder: Path, answer: Any) -> None:
    """Runs in a fresh process: CPU seconds, MiB beyond those before the verb's data, and files."""
    verb = VERBS[name]
    verb.work(verb.prepare(max(verb.least // 4, 8), folder / "warm"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    prepared, started = verb.prepare(size, folder), time.process_time()
    result = verb.work(prepared)
    seconds = time.process_time() - started
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    files = sum(path.is_file() for path in folder.rglob("*")) - sum(
        path.is_file() for path in (folder / "warm").rglob("*")
    )
    del result
    answer.put((seconds, memory, files))


def exponent(sizes: list[int], values: list[float]) -> float:
    """Slope between the first and the last size, on log scales."""
    return math.log(max(values[-1], 1e-9) / max(values[0], 1e-9)) / math.log(sizes[-1] / sizes[0])


def rows_of(name: str, steps: int) -> str:
    """A verb's row of the table."""
    fresh, verb, measured = multiprocessing.get_context("spawn"), VERBS[name], list[tuple[float, float, int]]()
    sizes = [verb.least * 4**step for step in range(steps)]
    for size in sizes:
        with TemporaryDirectory() as folder:
            (Path(folder) / "warm").mkdir()
            answer = fresh.SimpleQueue()
            child = fresh.Process(target=measure, args=(name, size, Path(folder), answer))
            child.start()
            child.join()
            if child.exitcode:
                raise SystemExit(f"{name} at {size:,} failed.")
            measured.append(answer.get())
    seconds, memory, files = ([each[place] for each in measured] for place in range(3))
    shown = " / ".join(f"{size:,}" for size in sizes)
    return (
        f"| {name} | {shown} {verb.unit} | {' / '.join(f'{value:.2f}' for value in seconds)} | "
        f"{exponent(sizes, seconds):.2f} | {' / '.join(f'{value:.0f}' for value in memory)} | "
        f"{exponent(sizes, memory):.2f} | {' / '.join(map(str, files))} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--steps", type=int, default=3, help="sizes, each four times the one before")
    parser.add_argument("--write", action="store_true", help="put the rows into the table of docs/results.md")
    chosen = parser.parse_args()
    lines = ["| verb | sizes | CPU seconds | exponent | MiB | exponent | files |", "|---|---|---|---|---|---|---|"]
    print(*lines, sep="\n")
    for name in chosen.verbs:
        lines.append(rows_of(name, chosen.steps))
        print(lines[-1], flush=True)
    if chosen.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        earlier, _, after = rest.partition(END)
        rows = {line.split("|")[1]: line for line in (*earlier.strip().splitlines(), *lines)}
        PAGE.write_text("\n".join([f"{before}{BEGIN}", *rows.values(), f"{END}{after}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
