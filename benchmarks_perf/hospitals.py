"""Experiments of docs/results.md: tuned methods on invented hospitals, and where their results lie.

python benchmarks_perf/hospitals.py OUT [--seeds 0,1,2] [--splits random_10,...] [--size many|wide|lume|vision]

Every method is first tuned with the same budget on a hospital of its own. Then each hospital's target is unlearned
with the settings that were found, on one split also attacked, and compared with a model retrained for each split.
A second call goes on. `many` are 400 patients, `wide` a model of 26 million parameters, `lume` a few of LUME's
released documents (../shared/data/lume), `vision` MedForget's drawn X-rays.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

import medunlearn as mu
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.runs import Run, RunRecord

METHODS = ("counterfactual", "altpo", "npo", "kl_min", "graddiff", "simnpo", "rmu")
SEEDS = (0, 1, 2)
DISEASE = "Cardiovascular"
SPLITS = ("random_05", "random_10", "random_25", "cardiovascular_10")
ATTACKED = ("random_10",)
WHOLE, WHOLE_LABEL = "-whole", "Counterfactual, whole values"
"""Ends the names of experiments with ``counterfactual`` alone, whose values are capped as wholes; its row."""
TUNED_ON, TRIALS = 10, 12
"""Seed of the hospital that settings are found on, which no table is about; trials of each method."""
EXAMPLES = Path(__file__).parents[1] / "examples"
RATE, WIDTH = 3e-3, 192
"""Of the tiny model's training."""
WIDE = 512


def hospital(seed: int, patients: int = 100) -> dict[str, Any]:
    """Settings of the build."""
    return {"builder": "amnesia", "synthetic": patients, "note_length": "short", "seed": seed}


def tune(out: Path) -> Mapping[str, Mapping[str, float]]:
    """Tune every method, or go on where that was cut off; :func:`best_settings`."""
    folder = out / "tune"
    settings = {
        "name": "Seven methods on an invented hospital of 100, tuned alike",
        "out": folder,
        "seeds": [TUNED_ON],
        "benchmark": hospital(TUNED_ON),
        "split": "random_10",
        "train": {"model": "tiny"},
        "unlearn": {"methods": list(METHODS)},
        "runs": TRIALS * len(METHODS),
        "evaluate": {"limit": 10, "ranked": 5, "alternatives": 49, "max_new_tokens": 48, "replicates": 200},
    }
    record = folder / "tune.json"
    if not record.exists() or json.loads(record.read_text())["status"] != "complete":
        mu.tune(settings)
    return best_settings(out)


def best_settings(out: Path) -> Mapping[str, Mapping[str, float]]:
    """Method -> settings of its best trial; none where the untuned ones were best."""
    best: dict[str, dict[str, Any]] = json.loads((out / "tune" / "tune.json").read_text())["best"]
    return {method: trial["params"] for method, trial in best.items()}


def settings_of(out: Path, split: str, seed: int, tuned: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The experiment on one split of one hospital of 100."""
    attack = {
        "attacks": ["relearning", "quantization", "sampling"],
        "relearning.measured": "end",
        "quantization.types": "int4",
        **{f"{name}.subjects": 10 for name in ("relearning", "quantization", "sampling")},
    }
    return {
        "name": f"{split}, seed {seed}",
        "out": str(out / f"seed-{seed}"),
        "seed": seed,
        "benchmark": hospital(seed),
        "split": split,
        "train": {"model": "tiny"},
        "unlearn": {"methods": list(METHODS), "counterfactual.whole_values": False} | flat(tuned),
        "evaluate": {"folds": ["train", "holdout"], "ranked": 10, "alternatives": 49},
        "attack": attack if split in ATTACKED else {},
    }


def whole(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same experiment with ``counterfactual`` alone, names, dates and identifiers capped as wholes."""
    tuned = {key: value for key, value in settings["unlearn"].items() if key.startswith("counterfactual.")}
    unlearn = {"methods": ["counterfactual"], **tuned, "counterfactual.whole_values": True}
    return dict(settings) | {"unlearn": unlearn}


def many(out: Path, tuned: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Forty of 400 patients; answers of forty a side are read."""
    settings = settings_of(out, "random_10", 0, tuned)
    evaluate = settings["evaluate"] | {"limit": 40, "ranked": 20}
    changes = {"benchmark": hospital(0, 400), "evaluate": evaluate, "attack": {}}
    return settings | changes | {"name": "400 patients", "out": str(out / "many")}


def wide(out: Path, tuned: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Ten of fifty patients, and a model of 26 million parameters; all rates fall with its width."""
    rates = {"altpo": 1e-3, "counterfactual": 1e-3, "kl_min": 1e-3, "graddiff": 1e-3}
    rates |= {"npo": 6e-4, "simnpo": 3e-3, "rmu": 1e-2}  # the tiny model's preset
    scaled = {
        method: {**tuned.get(method, {}), "lr": narrowed(tuned.get(method, {}).get("lr", rate))}
        for method, rate in rates.items()
    }
    settings = settings_of(out, "random_20", 0, scaled)
    train = {"model": "tiny", "tiny_width": WIDE, "tiny_layers": 8, "lr": narrowed(RATE)}
    changes = {"benchmark": hospital(0, 50), "train": train, "attack": {}}
    return settings | changes | {"name": "26 million parameters", "out": str(out / "wide")}


def lume(out: Path, tuned: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Thirty of LUME's documents, half of them forgotten, with one rate for all methods."""
    values: dict[str, Any] = yaml.safe_load((EXAMPLES / "lume-small.yaml").read_text())
    unlearn = {
        "methods": ["counterfactual", "npo", "kl_min"],
        "preset": "lume-tiny",
        "lr": 1e-3,
        "evaluate_every": 0,
    }
    released = str(EXAMPLES.parents[1] / "shared" / "data" / "lume")
    return values | {
        "out": str(out / "lume"),
        "benchmark": values["benchmark"] | {"released": released},
        "unlearn": unlearn | {"counterfactual.whole_values": True},
        "attack": {},
    }


SIZES = {"many": many, "wide": wide, "lume": lume}


def vision(out: Path) -> None:
    """Five of ten patients with drawn X-rays; one seed, two methods."""
    mu.sweep(
        EXAMPLES / "medforget-tiny-vision.yaml",
        out=out / "vision",
        splits=["patient_50"],
        seeds=[0],
        unlearn={"methods": ["counterfactual", "npo"], "counterfactual.whole_values": True},
        evaluate={"folds": ["train"], "replicates": 200},
        attack={},
    )


def narrowed(rate: float) -> float:
    """A learning rate of the tiny model, for the wide one."""
    return float(f"{rate * WIDTH / WIDE:.3g}")


def flat(tuned: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Settings by ``METHOD.KEY``."""
    return {f"{method}.{key}": value for method, own in tuned.items() for key, value in own.items()}


def run(out: Path, name: str, settings: Mapping[str, Any]) -> None:
    """One experiment; its report stays beside those of the other splits. Facts are ranked in records, too."""
    mu.run(dict(settings))
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(settings["out"]) / "report" / "report.json", out / f"{name}.json")
    if "ranked" in settings["evaluate"]:
        for model in Experiment(out, name, settings).models:
            model.rank_in_records(settings["evaluate"])


@dataclass(frozen=True)
class Model:
    """One model of an experiment.

    Attributes:
        run: its folder.
        distance: from the retrained model, in utility and forgetting together; 0 of that model.
    """

    label: str
    run: Run
    split: str
    seed: int
    distance: float

    def rank_in_records(self, evaluate: Mapping[str, Any]) -> None:
        """Rank the facts of as many patients in place in their records."""
        (folder,) = self.run.folder.parent.glob("bench-*")
        values = {"split": self.split, "seed": self.seed, "folds": ["train"], "rank_in": "records", "facts": 6}
        own = {key: evaluate[key] for key in ("ranked", "alternatives")}
        settings = check(EvaluateSettings, {**values, **own, "metrics": ["em", "ranked_first"], "limit": 10})
        evaluate_one(self.run, Benchmark.load(folder), settings)

    def evaluation(self, rank_in: str = "auto") -> Path:
        """Folder of the evaluation on the split."""
        (folder,) = (
            path
            for path in self.run.folder.glob(f"evaluations/{self.split}-*")
            if RunRecord.read(path).config["rank_in"] == rank_in
        )
        return folder

    @cached_property
    def facts(self) -> pd.DataFrame:
        """Ranked facts of answers."""
        return self._facts("auto")

    @cached_property
    def facts_in_records(self) -> pd.DataFrame:
        """Facts ranked in place in records."""
        return self._facts("records")

    def _facts(self, rank_in: str) -> pd.DataFrame:
        return pd.read_parquet(self.evaluation(rank_in) / "facts.parquet").assign(seed=self.seed)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Rows side, fold, measure, value, low, high of all kinds of questions."""
        table = pd.read_parquet(self.evaluation() / "summary.parquet")
        return table[table["kind"] == "all"].set_index(["side", "fold", "measure"])

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Rows item, subject, measure, value, side, fold, node: the disease."""
        return pd.read_parquet(self.evaluation() / "scores.parquet").assign(seed=self.seed)

    def attacked(self, attack: str) -> pd.DataFrame:
        """Rows of an attack by subject; empty where the split was not attacked."""
        tables = [
            pd.read_parquet(path).assign(seed=self.seed)
            for path in self.run.folder.glob(f"attacks/{self.split}-*/{attack}_subjects.parquet")
        ]
        return pd.concat(tables) if tables else pd.DataFrame()


@dataclass(frozen=True)
class Experiment:
    """An experiment that was run."""

    out: Path
    name: str
    settings: Mapping[str, Any]

    @property
    def is_done(self) -> bool:
        """True if its report is there."""
        return (self.out / f"{self.name}.json").exists()

    @cached_property
    def models(self) -> list[Model]:
        return list(self._models())

    def _models(self) -> Iterator[Model]:
        report = json.loads((self.out / f"{self.name}.json").read_text())
        distances = report["headline"]["distance_to_retrained"]
        for model in report["models"]:
            label, key = model["label"], model["info"]["key"]
            (folder,) = Path(self.settings["out"]).glob(f"*-{key[:8]}")
            distance = distances[label] or 0.0
            if self.name.endswith(WHOLE):
                label = {"Counterfactual": WHOLE_LABEL}.get(label, label)
            yield Model(label, Run.open(folder), self.settings["split"], self.settings["seed"], distance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--size", choices=["hundred", *SIZES, "vision"], default="hundred")
    arguments = parser.parse_args()
    out = arguments.out
    if arguments.size == "vision":
        vision(out)
        return
    tuned = tune(out)
    if make := SIZES.get(arguments.size):
        run(out, arguments.size, make(out, tuned))
        return
    for seed in map(int, arguments.seeds.split(",")):
        for split in arguments.splits.split(","):
            settings = settings_of(out, split, seed, tuned)
            run(out, f"{split}-{seed}", settings)
            run(out, f"{split}-{seed}{WHOLE}", whole(settings))


if __name__ == "__main__":
    main()
