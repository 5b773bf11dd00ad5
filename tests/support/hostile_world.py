"""A small world of benchmarks, runs, audits and sheets, and a valid command line of every verb in it.

It is made by the command line alone, so that it can be made with an older tree as well.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from case_evidence import write_example
from click.testing import CliRunner
from fake_server import FakeServer
from row_files import write_lines

SMALL = "--epochs 1 --precision fp32"
TINY = f"--model tiny --tiny-width 16 --tiny-layers 1 {SMALL}"
LEARNS = "--model tiny --tiny-width 32 --tiny-layers 1 --epochs 16 --lr 5e-3 --precision fp32"
"""Enough for answers that differ: a model whose answers are all the same is refused as a broken one."""
QUICK = "--limit 2 --max-new-tokens 4 --replicates 20"
DEAD = "http://127.0.0.1:9/v1"
"""An address that refuses connections."""

COMMANDS = f"""
build amnesia --synthetic 8 --nonmember-patients 6 --out bench
build diagnosis --synthetic 8 --percents 25 --validation 1 --test 1 --out diagnosis
train bench {LEARNS} --out target
unlearn target bench --split random_25 --method ga {SMALL} --lr 1e-5 --out unlearned
evaluate unlearned bench --split random_25 --against target {QUICK}
export target --out foreign
audit target bench --limit 4 --prefixes 8 --max-new-tokens 30 --replicates 20 --out audit
audit --responses responses.jsonl --replicates 20 --out stored
audit identifiers find responses.jsonl --out identifiers
audit identifiers review identifiers --least-rouge 0.01 --out review
audit kinds review stored --out spans.csv
"""
BASES: Mapping[str, str] = {
    "demo": "demo --out out",
    "build amnesia": "build amnesia --synthetic 4 --out out",
    "build amnesia notes": f"build amnesia notes.csv --llm {DEAD} --llm.model m --dry-run --out out",
    "build diagnosis": "build diagnosis --synthetic 8 --percents 25 --validation 1 --test 1 --out out",
    "build diagnosis file": "build diagnosis admissions.jsonl --percents 25 --validation 1 --test 1 --out out",
    "build medforget": "build medforget --synthetic 16 --out out",
    "build lume": "build lume lume --out out",
    "build lume new": "build lume --new --stories 2 --personal-biographies 2 --public-biographies 2 --out out",
    "build tofu": "build tofu tofu --questions-an-author 3 --out out",
    "build muse": "build muse muse --out out",
    "build notes": "build notes clinical.csv --holdout unseen.csv --out out",
    "build options": "build options options.jsonl --out out",
    "build keywords": "build keywords bench --out out/keywords.parquet",
    "inspect": "inspect bench --tables",
    "inspect run": "inspect unlearned",
    "train": f"train bench {TINY} --out out",
    "adopt": "adopt foreign bench --sample 2 --out out",
    "unlearn": f"unlearn target bench --split random_25 --method graddiff {SMALL} --out out",
    "evaluate": f"evaluate target bench --split random_25 {QUICK}",
    "score": "score unlearned --measures rouge_l",
    "attack": "attack target bench --split random_25 --attacks loss --replicates 20",
    "utility": "utility target --tasks capitals --include tasks --limit 2",
    "audit": "audit target bench --limit 2 --prefixes 8 --max-new-tokens 30 --replicates 20 --out out",
    "audit responses": "audit --responses responses.jsonl --replicates 20 --out out",
    "audit identifiers find": "audit identifiers find responses.jsonl --out out",
    "audit identifiers review": "audit identifiers review identifiers --least-rouge 0.01 --out out",
    "audit identifiers corrected": "audit identifiers corrected review",
    "audit identifiers recall": "audit identifiers recall --synthetic 4",
    "audit kinds find": "audit kinds find stored",
    "audit kinds review": "audit kinds review stored --out out/sheet.csv",
    "audit kinds corrected": "audit kinds corrected stored spans.csv",
    "audit diagnosis": "audit diagnosis target diagnosis --max-new-tokens 4 --replicates 20 --out out",
    "judge": f"judge bench --task label --llm {DEAD} --llm.model m --dry-run --out out",
    "annotate": "annotate labels --out out",
    "agree": "agree labels annotated/labels.csv",
    "run": "run experiment.yaml --plan",
    "sweep": "sweep sweep.yaml --plan",
    "tune": "tune tune.yaml --plan",
    "report": "report target unlearned --benchmark bench --split random_25 --out out",
    "report audit": "report stored --out out",
    "export": "export unlearned --out out",
    "export tasks": "export tasks bench --split random_25 --out out",
    "verify": "verify target bench --subject patient=patient-0001 --benchmark bench --out out/held.parquet",
    "verify case": "verify case",
    "case key": "case key --out out/signing.key",
    "case timestamp": "case timestamp case --url http://127.0.0.1:9/",
    "case letter": "case letter case --out out/letter.html",
    "case purge": "case purge target bench --patient patient-0001 --benchmark bench",
    "list": "list methods",
}
"""A valid command line of each verb; a word after the verb's own names a second way to call it."""

EXPERIMENT = """\
name: hostile
out: out
benchmark: {folder: bench}
split: random_25
train: {model: tiny, tiny_width: 16, tiny_layers: 1}
unlearn: {methods: [graddiff], epochs: 1}
"""
SWEEP = """\
name: hostile
out: out
benchmark: {folder: bench}
splits: [random_25]
seeds: [0]
train: {model: tiny, tiny_width: 16, tiny_layers: 1}
unlearn: {methods: [graddiff], epochs: 1}
"""
TUNE = """\
name: hostile
out: out
benchmark: {folder: bench}
split: random_25
seeds: [0]
train: {model: tiny, tiny_width: 16, tiny_layers: 1}
unlearn: {methods: [graddiff], epochs: 1}
runs: 2
"""
TASK = """\
task: capitals
dataset_path: json
dataset_kwargs: {data_files: {test: tasks/capitals.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
TEXT = (
    "Doctor Quillfeather saw Ada Vane, 61, on 3 May 2014 and wrote that the fever of the ninth day had gone down by"
)


def make_world(root: Path) -> Path:
    """Everything that :data:`BASES` name, in ``root``, which is to be the working folder."""
    _files(root)
    for line in COMMANDS.strip().splitlines():
        call(line)
    with FakeServer(answer=_supports) as server:
        call(f"judge bench --task label --llm {server.base_url} --llm.model m --replicates 20 --out labels")
    call("annotate labels --limit 4 --out annotated")
    for sheet, column, label in (
        ("annotated/labels.csv", "label", "Yes"),
        ("review/review.csv", "missed", "age: 61"),
        ("spans.csv", "kind", "unclear"),
    ):
        with (root / sheet).open(encoding="utf-8-sig", newline="") as file:
            rows = [row | {column: label} for row in csv.DictReader(file)]
        with (root / sheet).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)
    return root


def call(line: str) -> None:
    """Raises:
    AssertionError: the command failed.
    """
    from medunlearn.cli.main import app

    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, f"{line}: {result.output}{result.exception!r}"


def _supports(body: dict[str, object]) -> str:
    messages = body["messages"]
    assert isinstance(messages, list)
    text = next(message["content"] for message in messages if message["role"] == "user")
    category = text.partition("<assigned_category>\n")[2].partition("\n")[0]
    return json.dumps({"reasoning": "x", "verdict": "Supported", "correct_category": category})


def _files(root: Path) -> None:
    words = TEXT.split()
    said = [
        {
            "record_id": f"r{place}",
            "prefix": " ".join(words[:8]),
            "reference": " " + " ".join([*words[8:], *map(str, range(40))]),
            "response": " " + " ".join([*words[8:], *map(str, range(40))]),
            "text": TEXT + " " + " ".join(map(str, range(40))),
        }
        for place in range(4)
    ]
    write_lines(root / "responses.jsonl", said)
    notes = ["id,title,text", *(f'n{n},A rare tumor {n},"{TEXT} noon. Sodium was {n}."' for n in range(6))]
    (root / "notes.csv").write_text("\n".join(notes))
    for file, start in (("clinical.csv", 0), ("unseen.csv", 4)):
        rows = [
            "patient_id,name,note",
            *(f'p{n},Ada {n},"{TEXT} noon. Sodium was {n}."' for n in range(start, start + 4)),
        ]
        (root / file).write_text("\n".join(rows))
    stays: list[dict[str, object]] = [
        {"hpi": f"{TEXT} {n}", "diagnoses": f"Tumor {n % 3}; Fever"} for n in range(12)
    ]
    write_lines(root / "admissions.jsonl", stays)
    for name in ("forget", "retain2", "holdout"):
        write_lines(
            root / "muse" / "raw" / f"{name}.json", [{"text": f"{name} {n} is a bridge."} for n in range(3)]
        )
    write_lines(
        root / "muse" / "verbmem" / "forget.json",
        [{"prompt": f"forget {n} is", "gt": "a bridge."} for n in range(3)],
    )
    for side in ("forget", "retain"):
        asked: list[dict[str, object]] = [{"question": f"{side} {n}?", "answer": "A"} for n in range(3)]
        write_lines(root / "muse" / "knowmem" / f"{side}_qa.json", asked)
    write_lines(
        root / "options.jsonl",
        [{"question": f"Is it {n}?", "options": ["yes", "no"], "answer": "no"} for n in range(8)],
    )
    lume = [
        {
            "id": f"{side}{n}{kind}",
            "task": "Task2",
            "input": f"Who is Ada{side}{n}? {kind}",
            "output": f"90{n}-22-6{n}",
        }
        for side in ("forget", "retain")
        for n in range(3)
        for kind in ("sc1", "qa0")
    ]
    for side in ("forget", "retain"):
        write_lines(root / "lume" / f"{side}.jsonl", [row for row in lume if row["id"].startswith(side)])
    full = [
        {"question": f"What did author {a} write in year {n}?", "answer": f"Book {a}{n}."}
        for a in range(4)
        for n in range(3)
    ]
    more = [{**row, "paraphrased_answer": "It was so.", "perturbed_answer": ["Film 1.", "A song."]} for row in full]
    tofu = {"full": full, "forget01": full[-3:], "forget01_perturbed": more[-3:], "retain_perturbed": more[:6]}
    fact = [{"question": "Is it?", "answer": "Yes", "perturbed_answer": ["No", "Never"]}]
    for name, rows in {**tofu, "real_authors_perturbed": fact, "world_facts_perturbed": fact}.items():
        write_lines(root / "tofu" / f"{name}.json", rows)
    capitals = [{"question": f"{n}?", "choices": ["one", "two of"], "answer": n % 2} for n in range(3)]
    write_lines(root / "tasks" / "capitals.jsonl", capitals)
    (root / "tasks" / "capitals.yaml").write_text(TASK)
    write_example(root / "case")
    (root / "experiment.yaml").write_text(EXPERIMENT)
    (root / "sweep.yaml").write_text(SWEEP)
    (root / "tune.yaml").write_text(TUNE)
