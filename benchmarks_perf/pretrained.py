"""A pretrained chat model through every road: memorized, unlearned by each method, and measured.

    python benchmarks_perf/pretrained.py OUT [--parts amnesia notes ...] [--roads defaults fast lora] [--seeds 0]

The model is SmolLM2-135M-Instruct (`--model smollm2`; `--model tiny` tries the script in minutes). Each part trains
a target on its texts until it knows them, and the same model without the forget set; each road then unlearns with
every method. OUT keeps all stages, so that a second call goes on; ``--read`` only prints the table, ``--write``
puts it into docs/results.md. Open-i's reports are read from ../shared/data and are not redistributed: only
numbers come out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from page_tables import markdown, replace_table, with_interval

import medunlearn as mu
from medunlearn.results.runs import Run, RunRecord
from medunlearn.synthetic.note_table import write_note_table

DATA = Path(__file__).parents[2] / "shared" / "data"
METHODS = ("counterfactual", "altpo", "npo", "simnpo", "kl_min", "graddiff", "rmu")
LEARN = {"epochs": 16, "lr": 2e-4, "batch_size": 16, "context": "closed_book", "pretrain_epochs": 0}
ROADS: Mapping[str, Mapping[str, Any]] = {
    "defaults": {},
    "fast": {"lr": 1e-4, "epochs": 8},
    "lora": {"lr": 5e-4, "epochs": 8, "trainable": "lora:16"},
}
"""Name -> settings of `unlearn`, the same for every method."""
MEASURES = {
    "utility": ("retain", "train", "H(rouge_l, em, te)"),
    "forget ROUGE-L": ("forget", "train", "rouge_l"),
    "forget EM": ("forget", "train", "em"),
    "forget ranked first": ("forget", "train", "ranked_first"),
    "holdout ranked first": ("forget", "holdout", "ranked_first"),
    "retain ROUGE-L": ("retain", "train", "rouge_l"),
}


@dataclass(frozen=True)
class Study:
    """One part with one seed.

    Attributes:
        out: folder of all its stages.
        patients: invented patients, or reports, in all; a fifth is forgotten.
    """

    name: str
    out: Path
    seed: int
    model: str
    patients: int

    def benchmark(self) -> tuple[dict[str, Any], str]:
        """Settings of the build, and the split that is forgotten."""
        if self.name == "amnesia":
            own = {"synthetic": self.patients, "note_length": "short", "nonmember_patients": self.patients // 2}
            return {"builder": "amnesia", "seed": self.seed, **own}, "random_25"
        if self.name == "lume":
            own = {"released": str(DATA / "lume"), "documents_per_task": self.patients // 3, "seed": 1}
            return {"builder": "lume", **own, "nonmember_documents": 8}, "released"
        files = [self.out / f"{kind}.csv" for kind in ("notes", "unseen")]
        if not all(file.exists() for file in files):
            self.out.mkdir(parents=True, exist_ok=True)
            self._write(*files)
        ids = [*dict.fromkeys(pd.read_csv(files[0], dtype=str)["patient_id"])]
        forget = ",".join(ids[: max(2, self.patients // 5)])
        own = {"notes": str(files[0]), "holdout": str(files[1]), "forget_patients": forget, "questions": 6}
        return {"builder": "notes", "seed": self.seed, **own}, "request"

    def _write(self, notes: Path, unseen: Path) -> None:
        if self.name == "notes":
            write_note_table(notes, self.patients, seed=self.seed)
            write_note_table(unseen, self.patients // 2, seed=self.seed + 100)
            return
        reports = pd.read_csv(DATA / "openi" / "indiana_reports.csv", dtype=str).dropna(subset=["findings"])
        table = reports[["uid", "findings"]].rename(columns={"uid": "patient_id", "findings": "note"})
        drawn = table.sample(2 * self.patients, random_state=self.seed)
        drawn[: self.patients].to_csv(notes, index=False)
        drawn[self.patients :].to_csv(unseen, index=False)

    def experiment(self, road: str, methods: Sequence[str]) -> dict[str, Any]:
        """Settings of the experiment."""
        benchmark, split = self.benchmark()
        train = {"model": self.model, **({} if self.model == "tiny" else LEARN)}
        return {
            "name": f"{self.name}, {self.model}, {road}",
            "out": str(self.out),
            "seed": self.seed,
            "benchmark": benchmark,
            "split": split,
            "train": train,
            "unlearn": {"methods": list(methods), **ROADS[road]},
            "evaluate": {"folds": ["train", "holdout"], "limit": 12, "ranked": 12, "alternatives": 29},
        }

    def run(self, road: str, methods: Sequence[str], device: str) -> None:
        """Run the experiment, or go on; its report is kept by road."""
        mu.run(self.experiment(road, methods), device=device)
        report = json.loads((self.out / "report" / "report.json").read_text())
        (self.out / f"{road}.json").write_text(json.dumps(report))

    def rows(self, road: str) -> Iterator[dict[str, Any]]:
        """A row for each model of a road."""
        file = self.out / f"{road}.json"
        if not file.exists():
            return
        report = json.loads(file.read_text())
        distances = report["headline"].get("distance_to_retrained", {})
        for model in report["models"]:
            (folder,) = self.out.glob(f"*-{model['info']['key'][:8]}")
            run = Run.open(folder)
            yield {
                "part": self.name,
                "seed": self.seed,
                "road": road,
                "model": model["label"],
                **measured(run),
                "distance": distances.get(model["label"]),
                "steps": run.info.results.get("steps"),
            }


def measured(run: Run) -> dict[str, list[float] | None]:
    """Mean of each measure with its interval, in the evaluation of a run; None where it has no number."""
    values: dict[str, list[float] | None] = dict.fromkeys(MEASURES)
    for folder in sorted(run.folder.glob("evaluations/*")):
        if RunRecord.read(folder).config.get("rank_in") != "auto":
            continue
        table = pd.read_parquet(folder / "summary.parquet")
        table = table[table["kind"] == "all"].set_index(["side", "fold", "measure"])[["value", "low", "high"]]
        for name, key in MEASURES.items():
            if key in table.index and pd.notna(table.loc[key, "value"]):
                values[name] = table.loc[key].astype(float).tolist()
    return values


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="+", default=["amnesia", "notes", "lume", "openi"])
    parser.add_argument("--roads", nargs="+", choices=[*ROADS], default=[*ROADS])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--patients", type=int, default=24)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--read", action="store_true", help="only print the tables")
    parser.add_argument("--write", action="store_true", help="write the table into docs/results.md")
    own = parser.parse_args(words)
    studies = [
        Study(part, own.out / f"{part}-{seed}", seed, own.model, own.patients)
        for part in own.parts
        for seed in own.seeds
    ]
    for study in [] if own.read else studies:
        for road in own.roads:
            study.run(road, own.methods, own.device)
    rows = [row for study in studies for road in own.roads for row in study.rows(road)]
    if not rows:
        return
    shown = markdown([{key: text_of(value) for key, value in row.items()} for row in rows])
    print(shown)
    if own.write:
        replace_table("results.md", "pretrained", shown)


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return with_interval(*value)
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
