"""SIGKILL inside the work of every long command, at placed moments; then the command again, and what it ends with.

Each kill has a folder of its own. The moments are spread over a command's events, drawn by seed
(`tests/support/kill_trials.py`). A second call must end with what one call gives: the same files, tables equal but
for rounding (1e-5: the questions that are left are asked in other batches), equal JSON but for times, weights bit
for bit, no part file and no lock left.

    python benchmarks_perf/kills.py --kills 10
    python benchmarks_perf/kills.py --kills 10 --only sweep,run
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from fake_server import FakeServer
from forking import Forked, command, forked_workers
from kill_trials import Case, try_case

from conftest import canned_answer
from medunlearn.synthetic.note_table import write_note_table

TINY = ("--model=tiny", "--tiny-width=32", "--tiny-layers=2", "--precision=fp32", "--checkpoint-seconds=0")
SPLIT = ("--split", "random_10")
QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--batch-size=4", "--allow-broken")
UNLEARN = ("--method=npo", "--precision=fp32", "--epochs=2", "--batch-size=8", "--checkpoint-seconds=0")
EPOCHS = ("--evaluate-every=1", "--select=best", "--evaluate.limit=2", "--evaluate.max-new-tokens=4")
REQUEST = (
    *("--facts=2", "--others=4", "--anyway", "--battery=quantization", "--build.clozes=0", "--build.prefixes=16"),
    *("--budget=2", "--unlearn.precision=fp32", "--unlearn.epochs=2", "--evaluate.max-new-tokens=4"),
)
"""A deletion request as small as it can be, with an attack and with two tries."""
EXPERIMENT = {
    "name": "Small",
    "benchmark": {"builder": "amnesia", "synthetic": 20},
    "train": {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 1, "precision": "fp32"},
    "unlearn": {"methods": ["graddiff", "ga"], "epochs": 1, "precision": "fp32", "checkpoint_seconds": 0},
    "evaluate": {"limit": 2, "replicates": 20, "max_new_tokens": 4},
}
CAPITALS = """\
task: capitals
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/capitals.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


def answer(body: dict[str, object]) -> str:
    """What a judge of labels says, or else what a writer of AMNESIA says."""
    text = str(body["messages"])
    if "assigned_category" in text:
        return json.dumps({"reasoning": "x", "verdict": "Supported", "correct_category": "Cancer"})
    return canned_answer(body)


def call(*words: object) -> None:
    """A command to its end, for what the cases stand on."""
    process = Forked(command(*words))
    out, err = process.communicate(300)
    if process.returncode:
        raise SystemExit(f"{words}\n{out}{err}")


@cache
def make_inputs(folder: Path) -> None:
    """What commands read: a benchmark, a target, an unlearned model, their evaluations and attack, texts, notes."""
    bench, target, npo = folder / "bench", folder / "target", folder / "npo"
    call("build", "amnesia", "--synthetic", 20, "--nonmember-patients", 8, "--out", bench)
    call("train", bench, "--out", target, *TINY, "--epochs=1")
    call("unlearn", target, bench, *SPLIT, "--out", npo, *UNLEARN)
    for run in (target, npo):
        shutil.copytree(run, folder / f"bare-{run.name}")
        call("evaluate", run, bench, *SPLIT, *QUICK)
    (folder / "texts").mkdir()
    for number in range(6):
        words = " ".join(f"word{(number * 7 + n) % 90} of" for n in range(60))
        (folder / "texts" / f"{number}.txt").write_text(f"Patient {number} came with {words} fever.")
    lines = ["id,title,text"]
    for n, kind in enumerate(["tumor", "sepsis", "infarction"] * 2):
        text = f"This report is about one patient. Pain of grade {n} began at night. Sodium was {n + 900} mmol/L. "
        text += f"Tomography showed a lesion of {n + 20} mm. Drug {n}X was given for a week. He went home."
        lines.append(f"n{n},A rare {kind} after operation {n},{text}")
    (folder / "notes.csv").write_text("\n".join(lines))
    (folder / "tasks").mkdir()
    (folder / "tasks" / "capitals.yaml").write_text(CAPITALS.format(folder=folder / "tasks"))
    asked = [{"question": f"Word {n}?", "choices": ["one", "two of"], "answer": n % 2} for n in range(9)]
    (folder / "tasks" / "capitals.jsonl").write_text("\n".join(map(json.dumps, asked)))


class NoonClock(datetime):
    """A clock that stands still: a case signs its time, so that two calls would differ in every digest."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(2026, 1, 2, 12, tzinfo=tz)


def stop_clocks() -> None:
    """Stop the clocks that a deletion request reads, and hide the tree's commit, which may move on meanwhile."""
    for name in ("forget_stages", "forget_request", "case.card_section"):
        mock.patch(f"medunlearn.request.{name}.datetime", NoonClock).start()
    commit = {"commit": "0" * 40, "dirty": False}
    mock.patch("medunlearn.request.case.digests.code", return_value=commit).start()
    mock.patch("medunlearn.results.sbom.sbom", return_value="{}").start()  # its library stamps the time


@cache
def make_hospital(folder: Path) -> None:
    """Notes of two hospitals, a model of the first one's, and the owner's key."""
    folder.mkdir()
    for name, seed in (("notes", 0), ("unseen", 1)):
        write_note_table(folder / f"{name}.csv", 8, seed=seed, studies=0)
    call("build", "notes", folder / "notes.csv", "--out", folder / "bench")
    call(
        "train", folder / "bench", "--out", folder / "run", *TINY, "--epochs=12", "--lr=4e-3", "--train-on=records"
    )
    call("export", folder / "run", "--out", folder / "model")
    call("case", "key", "--out", folder / "signing.key")


def cases(given: Path, server: FakeServer) -> list[Case]:
    bench, target, npo = given / "bench", given / "target", given / "npo"
    llm = ("--llm", server.base_url, "--llm.model=m", "--llm.concurrency=2")

    def own(source: Path, folder: Path) -> Path:
        make_inputs(given)
        return Path(shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("keywords")))

    def experiment(folder: Path, **more: object) -> Path:
        file = folder / "experiment.yaml"
        file.write_text(json.dumps({**EXPERIMENT, **more, "out": "out"}))
        return file

    def sweep(folder: Path) -> list[object]:
        file = experiment(folder, splits=["random_25"], retrain=["random_25"], seeds=[0])
        return ["sweep", file.name, "--jobs=2", "--device=cpu"]

    def tune(folder: Path) -> list[object]:
        file = experiment(folder, split="random_25", retrain=False, seeds=[0], runs=4, space={"epochs": [1, 2]})
        return ["tune", file.name, "--jobs=2", "--device=cpu", "--evaluate.allow-broken=true"]

    def forget(method: str) -> Callable[[Path], list[object]]:
        world = given / "hospital"

        def request(folder: Path) -> list[object]:
            make_hospital(world)
            return [
                *("forget", world / "model", world / "notes.csv", "--holdout", world / "unseen.csv"),
                *("--patient=100001", "--key", world / "signing.key", "--method", method, *REQUEST),
                *("--out=case", "--device=cpu"),
            ]

        return request

    def words(*some: object) -> Callable[[Path], list[object]]:
        def with_inputs(folder: Path) -> list[object]:
            make_inputs(given)
            return [*some, "--out=out"]

        return with_inputs

    def with_model(source: Path, verb: str, *some: object) -> Callable[[Path], list[object]]:
        return lambda folder: [verb, own(source, folder).name, bench, *some]

    return [
        Case("sweep", sweep, workers=True),
        Case("tune", tune, workers=True),
        Case("forget", forget("npo"), settle=stop_clocks),
        Case("forget, auto", forget("auto"), settle=stop_clocks),
        Case("run", lambda folder: ["run", experiment(folder, split="random_10").name, "--device=cpu"]),
        Case("train", words("train", bench, *TINY, "--epochs=2", "--pretrain-epochs=1")),
        Case("train, LoRA", words("train", bench, *TINY, "--epochs=2", "--trainable=lora:2")),
        Case("unlearn", words("unlearn", target, bench, *SPLIT, *UNLEARN)),
        Case("unlearn, epochs", words("unlearn", target, bench, *SPLIT, *UNLEARN, *EPOCHS, "--keep-epochs")),
        Case("unlearn, edit", words("unlearn", target, bench, *SPLIT, "--method=rmu", "--precision=fp32")),
        Case("evaluate", with_model(given / "bare-npo", "evaluate", *SPLIT, *QUICK)),
        Case("score", lambda folder: ["score", own(npo, folder).name, "--measures=rouge_l,em", "--allow-broken"]),
        Case("attack, membership", with_model(given / "bare-target", "attack", *SPLIT, "--replicates=20")),
        Case(
            "attack, reconstruction",
            with_model(
                given / "bare-npo",
                "attack",
                *SPLIT,
                "--attacks=reconstruction",
                "--replicates=20",
                "--allow-broken",
            ),
        ),
        Case(
            "audit",
            words(
                *("audit", target, given / "texts", "--prefixes=[8]", "--shortest-suffix=8", "--max-new-tokens=30"),
                *("--replicates=20", "--identifiers", "--kinds", "--batch-size=2"),
            ),
        ),
        Case(
            "utility",
            lambda folder: [
                *("utility", own(given / "bare-target", folder).name, "--tasks=capitals"),
                *("--include", given / "tasks", "--replicates=20"),
            ],
        ),
        Case("build", words("build", "amnesia", "--synthetic=20")),
        Case("build, server", words("build", "amnesia", given / "notes.csv", *llm)),
        Case("build, images", words("build", "medforget", "--synthetic=64")),
        Case("build keywords", lambda folder: ["build", "keywords", own(bench, folder).name]),
        Case("judge", words("judge", bench, "--task=label", *llm, "--replicates=20")),
        Case("report", words("report", npo, target)),
        Case("export", words("export", npo)),
    ]


def load_all() -> None:
    """Import the whole package once, so that no forked process has to."""
    import medunlearn

    for module in pkgutil.walk_packages(medunlearn.__path__, "medunlearn."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="of each command; of sweep and run twice as many")
    parser.add_argument("--only", default="", help="names of commands, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    load_all()
    failed = False
    with tempfile.TemporaryDirectory() as place, FakeServer(answer=answer) as server, forked_workers():
        given = Path(place) / "given"
        given.mkdir()
        print("| command | moments | kills | with a file half written | second call differs | seconds |")
        print("|---|---|---|---|---|---|", flush=True)
        for case in cases(given, server):
            if only and not any(case.name.startswith(name) for name in only):
                continue
            started = time.perf_counter()
            kills = options.kills * (2 if case.name in ("sweep", "run") else 1)
            tally = try_case(case, kills, Path(place) / case.name.replace(", ", "-"), options.seed)
            lost = len({line.partition(":")[0] for line in tally.different})
            seconds = time.perf_counter() - started
            print(
                f"| {case.name} | {tally.events} | {tally.killed} | {tally.torn} | {lost} | {seconds:.0f} |",
                flush=True,
            )
            for line in tally.different:
                print(f"  {case.name}: {line}", file=sys.stderr, flush=True)
            failed = failed or bool(tally.different) or tally.killed < kills
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
