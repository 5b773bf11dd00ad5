"""How often does an audit's first screen call a model memorizing that never saw the notes?

python benchmarks_perf/false_alarms.py OUT [--seeds 0-19] [--memorizing 0-4] [--read]

Each seed has an invented hospital of 60 patients in three groups of 20. A tiny model learns the notes of the third
group by heart; the audit is told that it was trained on the first group, and that it never saw the second. It saw
neither, so that every "has memorized" is a false alarm. With --memorizing, the model is trained on the first group
instead: what the screen must then say. Ten seconds of CPU a seed; a second call goes on where the first stopped.
Writes the table of docs/results.md; --read makes it of what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from page_tables import markdown, replace_table

from medunlearn.audit.audit_run import audit
from medunlearn.audit.first_screen import FirstScreen
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.splits import shuffled
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

GROUP = 20
"""Patients of a group."""
SMALL = {"model": "tiny", "tiny_width": 96, "tiny_layers": 2, "train_on": "records", "precision": "fp32"}
SMALL |= {"epochs": 60, "batch_size": 4, "micro_batch_size": 4, "lr": 4e-3}
HOW: dict[str, Any] = {"prefixes": (10, 20), "max_new_tokens": 80, "measures": ("run_30",), "replicates": 20}
NEVER, MEMORIZING = "never saw the notes", "trained on the notes"


def groups_of(benchmark: Benchmark, seed: int) -> list[list[str]]:
    """The patients in three groups, drawn by the seed."""
    subjects = sorted({benchmark.subject(record.record_id) for record in benchmark.records})
    order = shuffled(subjects, "false alarms", seed)
    return [order[start : start + GROUP] for start in range(0, 3 * GROUP, GROUP)]


def write_notes(benchmark: Benchmark, patients: Sequence[str], path: Path) -> Path:
    """The notes of some patients, with their declared identifiers."""
    rows = [
        {
            "id": record.record_id,
            "subject": benchmark.subject(record.record_id),
            "text": record.text,
            "identifiers": [{"type": one.type, "value": one.value} for one in record.identifiers],
        }
        for record in benchmark.records
        if benchmark.subject(record.record_id) in patients
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def screen_of(out: Path, seed: int, *, memorizing: bool, training: dict[str, Any] | None = None) -> FirstScreen:
    """Train one model and audit it."""
    benchmark = build("amnesia", {"synthetic": 3 * GROUP, "note_length": "short", "seed": seed})
    claimed, unseen, others = groups_of(benchmark, seed)
    left_out = [*unseen, *(others if memorizing else claimed)]
    request = f"{benchmark.subject_level}={','.join(left_out)}"
    values = {**SMALL, "without": request, "retrained_length": "epochs", "seed": seed, **(training or {})}
    out.mkdir(parents=True, exist_ok=True)
    model = train(benchmark, train_settings(values), out / "model", quiet=True)
    corpora = [
        write_notes(benchmark, patients, out / f"{name}.jsonl")
        for name, patients in (("claimed", claimed), ("unseen", unseen))
    ]
    how = {"unseen": ("unseen",), "identifiers": True, "quiet": True, "seed": seed, **HOW}
    return audit(model.folder, corpora, out=out / "audit", label="model", **how).first_screen()


def facts(screen: FirstScreen) -> dict[str, Any]:
    """What one first screen said, in numbers."""
    corpus = screen.extraction.corpora[0]
    given, unseen = screen.giveaway, corpus.unseen
    return {
        "extracted": corpus.members.hits,
        "of": corpus.members.n,
        "unseen_extracted": 0 if unseen is None else unseen.hits,
        "memorized": bool(corpus.beyond_controls),
        "caveat": screen.caveat,
        "identifiers": 0 if given is None else given.identifiers,
        "unseen_identifiers": 0 if given is None or given.unseen is None else given.unseen[0],
        "answer": screen.answer,
    }


def table_of(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, str]]:
    """A row a kind of model."""
    rows = []
    for kind, models in found.items():
        if not models:
            continue
        said = [sum(one[name] for one in models) for name in ("extracted", "of", "unseen_extracted")]
        rows.append(
            {
                "the model": kind,
                "models": str(len(models)),
                "called memorizing": str(sum(one["memorized"] for one in models)),
                "patients extracted": f"{said[0]} of {said[1]}",
                "of those never seen": f"{said[2]} of {GROUP * len(models)}",
                "identifiers given away": str(sum(one["identifiers"] for one in models)),
                "of those never seen ": str(sum(one["unseen_identifiers"] for one in models)),
            }
        )
    return rows


def seeds_of(text: str) -> list[int]:
    """``0-3,7`` as numbers."""
    ends = [part.partition("-") for part in text.split(",") if part]
    return [seed for first, _, last in ends for seed in range(int(first), int(last or first) + 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=seeds_of, default=list(range(20)))
    parser.add_argument("--memorizing", type=seeds_of, default=[])
    parser.add_argument("--read", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {NEVER: [], MEMORIZING: []}
    for kind, name, seeds in ((NEVER, "never", chosen.seeds), (MEMORIZING, "memorizing", chosen.memorizing)):
        for seed in seeds:
            file = chosen.out / f"{name}-{seed}.json"
            if not file.exists() and not chosen.read:
                screen = screen_of(chosen.out / f"{name}-{seed}", seed, memorizing=kind == MEMORIZING)
                file.write_text(json.dumps(facts(screen)))
                print(name, seed, file.read_text(), flush=True)
        files = sorted(chosen.out.glob(f"{name}-*.json"))
        found[kind] = [json.loads(file.read_text()) for file in files]
    text = markdown(table_of(found))
    print(text)
    replace_table("results.md", "false alarms", text)


if __name__ == "__main__":
    main()
