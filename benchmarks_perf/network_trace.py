"""Sockets, connections and name look-ups of every command, each in a process of its own.

Two witnesses: Python's audit events in the process and its children, and, where ``strace`` is installed, the system
calls of all their threads, native libraries included. A command may connect to the server that it names, and to
nothing else; one that names none opens no socket. Loopback counts; Unix sockets, with which the C library asks this
machine's own user table, are counted apart. Variables that switch telemetry off are taken out of the environment,
and the home folder is empty, so what is measured is our own doing.

    python benchmarks_perf/network_trace.py [--only VERB]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.cli.verbs import verbs
from medunlearn.judging import rehearsal

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import network_log
from case_evidence import AUTHORITY

SMALL = "--model tiny --tiny-width 32 --tiny-layers 2 --epochs 2 --precision fp32"
QUICK = "--replicates 20 --max-new-tokens 4"
REQUEST = (
    "--others 3 --facts 2 --battery quantization --budget 1 --unlearn.epochs 1 "
    "--unlearn.precision fp32 --evaluate.max_new_tokens 2"
)
NEW = "--stories 4 --personal-biographies 4 --public-biographies 4 --nonmembers 2"
ASK = "--llm URL --llm.model rehearsal"
LIBRARIES = "transformers huggingface_hub datasets evaluate lm_eval accelerate peft pandas rich sklearn"
PROBE = {("socket", "AF_INET6"), ("bind", "::1:0")}
"""What urllib3 does when it is imported, to learn whether there is IPv6; nothing is sent."""
SUPPORT = str(Path(__file__).parents[1] / "tests" / "support")
CASE = f"import sys; sys.path.insert(0, {SUPPORT!r}); import case_evidence; case_evidence.write_example('case')"
COMMANDS = f"""
python import medunlearn, importlib; [importlib.import_module(name) for name in '{LIBRARIES}'.split()]
list methods
build amnesia --synthetic 20 --nonmember-patients 6 --out bench
build amnesia notes.csv {ASK} --out notes --leave-out-failed
build diagnosis --synthetic 60 --out cases --validation 10 --test 20
build medforget --synthetic 4 --institutions 2 --studies 2 --sections 2 --image-size 32 --out xrays
build medforget --synthetic 4 --institutions 2 --studies 2 --sections 2 --text-only {ASK} --out xray-texts
build lume --synthetic 4 --out lume --nonmembers 4
build lume --new {NEW} {ASK} --verifiers judges.yaml --out lume-written
build tofu --released tofu-files --out tofu --questions-an-author 3
build muse --released muse-files --out muse
build wmdp --forget wmdp-files/bio.jsonl --retain wmdp-files/wiki.jsonl --questions wmdp-files/qa.jsonl --out wmdp
build notes notes.csv --patient-column id --prompt {{title}} --out clinical
build options questions.jsonl --out options --nonmembers 3
build keywords bench
inspect bench --tables
train bench --out target {SMALL}
train bench --out retrained --without random_25 {SMALL}
unlearn target bench --split random_25 --method graddiff --out forgot --epochs 1 --precision fp32
evaluate forgot bench --split random_25 --against target --against retrained --limit 2 {QUICK} --allow-broken
score forgot --measures rouge_l,token_f1 --allow-broken
attack forgot bench --split random_25 --attacks membership --against target --against retrained --replicates 20
utility forgot --tasks capitals --include tasks --limit 4 --replicates 20 --allow-broken
audit target bench --out audited --limit 4 --prefixes 8 --max-new-tokens 30 --replicates 20 --allow-broken
audit URL pages=pages.csv --model-name rehearsal --out served --prefixes 8 --max-new-tokens 30 --replicates 20
audit --responses kinds.jsonl --out stored --replicates 20 --allow-broken
audit identifiers find said.jsonl --records bench --out identifiers --replicates 20
audit identifiers find said.jsonl --records bench --out sensitive --replicates 20 {ASK}
audit identifiers review identifiers --limit 5 --out sheet
audit identifiers corrected sheet
audit identifiers recall --detector patterns --synthetic 20
audit kinds find stored
audit kinds find stored {ASK}
audit kinds review stored --limit 3 --out kinds.csv
audit kinds corrected stored kinds.csv
train cases --model tiny --out diagnosed --preset diagnosis-tiny --tiny-width 32 --tiny-layers 2 --epochs 1
audit diagnosis diagnosed cases --least-patients 2 --allow-broken
judge bench --task label {ASK} --out judged --limit 3
annotate judged --limit 3 --out annotation
agree judged annotation/labels.csv
run experiment.yaml
sweep sweep.yaml --jobs 2
tune tune.yaml --jobs 2
report target retrained forgot --split random_25 --out page
export forgot --out hf
adopt hf bench --out adopted --allow-broken
export tasks bench --split random_25 --out tasks-of-bench --like target --folds train
demo audit --out demo-audit --texts 2 --epochs 2
verify target --subject patient-0003 --benchmark bench
python {CASE}
verify case
case key --out owner/signing.key
forget hf notes.csv --patient n3 --build.patient_column id --key owner/signing.key --out request --anyway {REQUEST}
case letter case --out letter.html
case timestamp case --command "python authority.py"
case purge target bench --patient patient-0003 --benchmark bench
""".strip()
EXPERIMENT = """
name: Trace
out: EXPERIMENT
benchmark: {builder: amnesia, synthetic: 20}
train: {model: tiny, tiny_width: 32, tiny_layers: 2, epochs: 1}
unlearn: {methods: [graddiff], epochs: 1}
evaluate: {limit: 2, replicates: 20, max_new_tokens: 4}
"""
CAPITALS = """
task: capitals
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/capitals.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@dataclass
class Trace:
    """What one command did on the network; ``calls`` are of strace, None where there is none."""

    line: str
    code: int
    seconds: float
    events: Counter[tuple[str, str]]
    calls: Counter[tuple[str, str]] | None
    errors: str

    @property
    def both(self) -> Counter[tuple[str, str]]:
        """The higher count of the two witnesses."""
        return self.events | (self.calls or Counter())

    def foreign(self, address: str) -> set[tuple[str, str]]:
        """Everything but connections to the server that the line names."""
        named = {("connect", address), ("socket", "AF_INET")} if "URL" in self.line else set()
        seen = {(what, of) for what, of in self.both if not of.startswith("/")} - named
        return seen - PROBE if seen >= PROBE else seen


def verb_of(line: str) -> tuple[str, ...]:
    """The command that a line gives; empty for one that is none."""
    words = tuple(line.split())
    return max((verb for verb in verbs() if words[: len(verb)] == verb), key=len, default=())


def trace(line: str, url: str, place: Path, logs: Path) -> Trace:
    """Run one command in its folder, watched."""
    log, calls = logs / "events.jsonl", logs / "calls.txt"
    for file in (log, calls):
        file.unlink(missing_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not re.search("^HF_|TELEMETRY|TRACK|PROXY|OFFLINE", name, re.I)
    }
    environment = {**kept, "HOME": str(logs / "home"), **network_log.in_every_process(logs / "site", log)}
    how, rest = ("-c", [line.removeprefix("python ")]) if line.startswith("python ") else ("-m", ["medunlearn"])
    words = [sys.executable, how, *rest, *(shlex.split(line.replace("URL", url)) if how == "-m" else [])]
    if shutil.which("strace"):
        wanted = "trace=socket,connect,bind,sendto,sendmsg,sendmmsg"
        words = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-e",
            wanted,
            "-e",
            "signal=none",
            "-o",
            str(calls),
            *words,
        ]
    start = time.perf_counter()
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
    seen = Counter(calls_in(calls.read_text())) if calls.exists() else None
    return Trace(
        line, done.returncode, time.perf_counter() - start, Counter(network_log.read(log)), seen, done.stderr
    )


def calls_in(text: str) -> Iterator[tuple[str, str]]:
    """System calls in the words of :mod:`network_log`; Unix sockets that go to a path are there, too."""
    for name, rest in re.findall(r"^\d+\s+(\w+)\((.*)$", text, re.M):
        if name == "socket":
            family = rest.partition(",")[0]
            if family != "AF_UNIX":
                yield "socket", family
        elif port := re.search(r"sin6?_port=htons\((\d+)\)", rest):
            host = re.search(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', rest)
            yield name, f"{(host[1] or host[2]) if host else '?'}:{port[1]}"
        elif path := re.search(r'sun_path=@?"([^"]+)"', rest):
            yield name, path[1]


def write_inputs(place: Path, url: str) -> None:
    """Files that the commands read besides what other commands made."""

    def rows(name: str, values: list[dict[str, Any]]) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in values))

    def table(name: str, values: list[dict[str, Any]]) -> None:
        with (place / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(values[0]))
            writer.writeheader()
            writer.writerows(values)

    long = " ".join(f"On day {day} the value was {day * 7}." for day in range(40))
    table("pages.csv", [{"id": f"n{n}", "text": f"Page {n}. {long}"} for n in range(3)])
    kinds = ("A lung tumor", "A sepsis", "An infarction")
    notes = [
        {
            "id": f"n{n}",
            "title": f"{kinds[n % 3]} of patient {n}",
            "text": f"The {kinds[n % 3]} was treated. "
            + " ".join(f"On day {day} the value was {(n * 131 + day * 37) % 499}." for day in range(40)),
        }
        for n in range(12)
    ]
    table("notes.csv", notes)
    (place / "judges.yaml").write_text(f"judges:\n  - {{base_url: '{url}', model: second}}\n")
    full = [
        {"question": f"What did author {a} write in {n}?", "answer": f"Book {a}{n}."}
        for a in range(4)
        for n in range(3)
    ]
    more = [
        {**row, "paraphrased_answer": "It was " + row["answer"], "perturbed_answer": ["Film.", "A song."]}
        for row in full
    ]
    for name, values in (
        ("full", full), ("forget01", full[-3:]), ("forget01_perturbed", more[-3:]), ("retain_perturbed", more[:6]),
        ("real_authors_perturbed", more[:3]), ("world_facts_perturbed", more[3:6]),
    ):  # fmt: skip
        rows(f"tofu-files/{name}.json", values)
    for name in ("forget", "retain2", "holdout"):
        rows(f"muse-files/raw/{name}.json", [{"text": f"{name} {n} is a bridge."} for n in range(3)])
    rows("muse-files/verbmem/forget.json", [{"prompt": f"forget {n} is", "gt": "a bridge."} for n in range(3)])
    for side in ("forget", "retain"):
        rows(f"muse-files/knowmem/{side}_qa.json", [{"question": f"{side} {n}?", "answer": "A"} for n in range(3)])
    for name in ("bio", "wiki"):
        rows(f"wmdp-files/{name}.jsonl", [{"text": f"{name} {n} is a long bridge. " * 3} for n in range(3)])
    rows("wmdp-files/qa.jsonl", [{"question": f"{n}?", "choices": [*"abcd"], "answer": n % 4} for n in range(3)])
    options = [{"question": f"Is it {n}?", "options": ["yes", "no"], "answer": "no"} for n in range(8)]
    rows("questions.jsonl", options)
    rows("tasks/capitals.jsonl", [{"question": f"{n}?", "choices": ["a", "b"], "answer": n % 2} for n in range(6)])
    (place / "authority.py").write_text(AUTHORITY)
    (place / "tasks" / "capitals.yaml").write_text(CAPITALS.replace("FOLDER", str(place / "tasks")))
    dose = "The dose is 5 mg orally twice daily; it is contraindicated in renal impairment. "
    texts = ["".join(f"Part {place}x{n}. {dose}" for n in range(3)) for place in range(4)]
    rows(
        "kinds.jsonl",
        [
            {"record_id": f"k{n}", "corpus": "pages", "prefix": "It begins. ", "suffix": text, "response": text}
            for n, text in enumerate(texts)
        ],
    )
    (place / "experiment.yaml").write_text(
        EXPERIMENT.replace("EXPERIMENT", "experiment") + "split: random_10\nretrain: true\n"
    )
    (place / "sweep.yaml").write_text(
        EXPERIMENT.replace("EXPERIMENT", "sweep") + "splits: [random_10, random_25]\nseeds: [0]\n"
    )
    (place / "tune.yaml").write_text(
        EXPERIMENT.replace("EXPERIMENT", "tune").replace("tokens: 4", "tokens: 4, allow_broken: true")
        + "split: random_25\nseeds: [0]\nruns: 4\n"
    )


def between(line: str, place: Path) -> None:
    """What a person does after a command: fill in a sheet, or collect what a model said."""
    if line.startswith("build amnesia --synthetic"):
        from medunlearn.data.benchmark import Benchmark

        said = [
            {"record_id": record.record_id, "prefix": record.text[:20], "response": record.text[20:200]}
            for record in Benchmark.load(place / "bench").records
        ]
        (place / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    for start, name, column, label in (
        ("audit identifiers review", "sheet/review.csv", "label", "yes"),
        ("audit kinds review", "kinds.csv", "kind", "drug"),
        ("annotate", "annotation/labels.csv", "label", "Yes"),
    ):
        if line.startswith(start):
            with (place / name).open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
            with (place / name).open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                blank = "response" if "identifiers" in line else None
                writer.writerows({**row, column: "" if blank and row[blank] else label} for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="commands that begin so, after `build amnesia`")
    only = parser.parse_args().only
    known = [line for line in COMMANDS.splitlines() if verb_of(line) or line.startswith("python ")]
    lines = [line for line in known if line.startswith(("build amnesia --syn", *only))]
    traced = {verb_of(line) for line in lines} - {()}
    wrong = [f"not traced: {' '.join(words)}" for words in sorted(set(verbs()) - {verb_of(line) for line in known})]
    local: Counter[str] = Counter()
    probed = 0
    with tempfile.TemporaryDirectory() as name:
        address = f"127.0.0.1:{rehearsal.serve().server_port}"
        url = f"http://{address}/v1"
        place, logs = Path(name) / "work", Path(name) / "logs"
        for folder in (place, logs, logs / "home"):
            folder.mkdir()
        write_inputs(place, url)
        witnesses = "audit events and system calls" if shutil.which("strace") else "audit events (no strace here)"
        print(f"{len(traced)} of {len(verbs())} commands; {witnesses}; SERVER is {address}\n")
        print(f"{'command':<34}{'exit':>5}{'s':>6}{'sockets':>9}{'SERVER':>8}{'elsewhere':>11}  names asked for")
        for line in lines:
            result = trace(line, url, place, logs)
            if not result.code:
                between(line, place)
            sockets = sum(count for (what, _), count in result.both.items() if what == "socket")
            foreign = sorted(result.foreign(address))
            elsewhere = sum(what not in ("socket", "look-up") for what, _ in foreign)
            names = sorted(of for what, of in result.both if what == "look-up")
            title = " ".join(verb_of(line)) or "import of all libraries"
            print(
                f"{title + ' (SERVER)' * ('URL' in line):<34}{result.code:>5}{result.seconds:>6.1f}{sockets:>9}"
                f"{result.both['connect', address]:>8}{elsewhere:>11}  {', '.join(names) or '-'}",
                flush=True,
            )
            probed += set(result.both) >= PROBE
            local.update({of for _, of in result.both if of.startswith("/")})
            wrong += [f"{line}: {what} {of}" for what, of in foreign]
            if result.code:
                wrong.append(f"{line}: exit code {result.code}: {result.errors.strip()[-600:]}")
            if "URL" in line and not result.both["connect", address]:
                wrong.append(f"{line}: did not ask its server")
    print(f"\nProbe for IPv6 by urllib3's import (a socket bound to ::1, nothing sent): {probed} commands")
    for path, count in local.items():
        print(f"Unix socket {path}: tried by {count} commands")
    print("\n".join(["", *wrong]) if wrong else "\nNo command went anywhere but to the server that it names.")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
