"""Evaluated run folders of a whole sweep, written by hand: what each model knows is set, not trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_folders import write_evaluation, write_run

from medunlearn.config import AmnesiaSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.report import SweepContent
from medunlearn.papers.amnesia.swept.results import gather_sweep
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.seeds import generator

TITLES = {"graddiff": "GradDiff", "kl_min": "KL-Min", "rmu": "RMU", "simnpo": "SimNPO"}
COLLAPSING = ("graddiff", "kl_min")
REPLICATES = 100
# (knows of what was trained, of the other questions about it, of a record never seen)
SEEN, HELD_OUT, UNSEEN = 0.93, 0.6, 0.25

Known = Callable[..., float]


def paper_like(role: str, method: str, side: str, fold: str, same: bool, scope: str, percent: int) -> float:
    """How much of an answer a model knows, in the pattern that AMNESIA, Section 6, reports."""
    known = SEEN if fold == "train" else HELD_OUT
    if role == "target":
        return known
    if role == "retrained":
        return UNSEEN if side == "forget" else known
    if scope == "random":
        if method in COLLAPSING:
            return 0.04
        return known - (0.02 if side == "forget" and fold == "train" else 0.0)
    grown = percent / 25
    if method in COLLAPSING:
        return 0.04 if side == "forget" or same else 0.85 * known
    if side == "forget":
        return known - 0.55 * known * grown
    return known - (0.5 * known * grown if same else 0.02)


def collapses(role: str, method: str, side: str) -> bool:
    return role == "unlearned" and method in COLLAPSING and side == "forget"


class Sweep:
    """Writes evaluated models into a folder."""

    def __init__(
        self, folder: Path, benchmark: Benchmark, *, known: Known = paper_like, leakage: bool = True
    ) -> None:
        self.folder, self.benchmark, self.known, self.leakage = folder, benchmark, known, leakage
        diseases = {r.groups["patient"]: r.groups["disease"] for r in benchmark.records}
        self.disease = diseases

    def model(
        self, role: str, split: str, *, method: str = "", seed: int = 0, context: str = "closed_book"
    ) -> Evaluated:
        """One model, evaluated on one split."""
        name = "-".join(part for part in (role, method, "" if role == "target" else split, str(seed)) if part)
        run = self.folder / name
        label = TITLES.get(method, method) if method else role
        config: dict[str, Any] = {"seed": seed}
        if role == "unlearned":
            config |= {"method": method, "split": split}
        else:
            config["without"] = split if role == "retrained" else None
        verb = "unlearn" if role == "unlearned" else "train"
        _record(run, verb, label, config, self.benchmark, {})
        record = run / "evaluations" / f"{split}-{context}"
        facts = {"context": context, "benchmark": self.benchmark.facts(), "responses": "responses"}
        _record(record, "evaluate", label, {"split": split}, self.benchmark, facts)
        meta = self.questions(split)
        scores = self.scores(meta, role, method, split, seed, context)
        write_evaluation(record, scores, meta, REPLICATES)
        return Evaluated(Run.open(run), Run.open(record))

    def questions(self, split: str) -> pd.DataFrame:
        sides = self.benchmark.sides(self.benchmark.split(split))
        asked = [q for q in self.benchmark.questions if q.fold in ("train", "holdout")]
        return pd.DataFrame(
            {
                "question_id": [q.question_id for q in asked],
                "subject": [self.benchmark.subject(q.record_id) for q in asked],
                "side": [sides[q.record_id] for q in asked],
                "fold": [q.fold for q in asked],
                "kind": [q.kind for q in asked],
            }
        )

    def scores(
        self, meta: pd.DataFrame, role: str, method: str, split: str, seed: int, context: str
    ) -> pd.DataFrame:
        scope, _, percent = split.rpartition("_")
        forgotten = set(meta.loc[meta["side"] == "forget", "subject"])
        shared = {self.disease[subject] for subject in forgotten}
        rng = generator("fixture", role, method, split, seed, context)
        mood = {subject: rng.normal(0, 0.03) for subject in sorted(set(meta["subject"]))}
        rows = []
        for row in meta.itertuples():
            same = scope != "random" and self.disease[row.subject] in shared
            size = int(percent) if percent.isdigit() else 10
            known = self.known(role, method, row.side, row.fold, same, scope or split, size)
            known -= 0.08 * (row.kind == "reasoning")
            values = np.clip(known + mood[row.subject] + rng.normal(0, 0.03, 4), 0.0, 1.0)
            gibberish = collapses(role, method, row.side) and rng.random() < 0.9
            named = dict(zip(("rouge_l", "em", "cs", "es"), values, strict=True))
            named["te"] = 0.0 if gibberish else 0.9
            if self.leakage:
                named["ls"] = 0.002 if gibberish else 0.15 * values[0]
            rows += [(row.question_id, metric, value) for metric, value in named.items()]
        scores = pd.DataFrame(rows, columns=["question_id", "metric", "value"])
        return scores.assign(reason=None)

    def all(
        self,
        splits: Sequence[str],
        *,
        methods: Sequence[str] = tuple(TITLES),
        seeds: Sequence[int] = (0,),
        contexts: Sequence[str] = ("closed_book",),
        retrained: bool = True,
    ) -> list[Evaluated]:
        found = []
        for context in contexts:
            for seed in seeds:
                for split in splits:
                    found.append(self.model("target", split, seed=seed, context=context))
                    if retrained:
                        found.append(self.model("retrained", split, seed=seed, context=context))
                    for method in methods:
                        found.append(self.model("unlearned", split, method=method, seed=seed, context=context))
        return found


def _record(
    folder: Path, verb: str, label: str, config: dict[str, Any], benchmark: Benchmark, results: dict[str, Any]
) -> None:
    inputs = {"benchmark": benchmark.fingerprint}
    write_run(folder, verb, label, config=config, results=results, inputs=inputs)


@pytest.fixture(scope="session")
def clinic() -> Benchmark:
    """Invented patients, with splits of the four scopes."""
    from medunlearn.papers.amnesia.build import build

    return build(AmnesiaSettings(synthetic=120))


@pytest.fixture(scope="session")
def make_sweep(clinic: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Sweep]:
    return lambda **changes: Sweep(tmp_path_factory.mktemp("sweep"), clinic, **changes)


SPLITS = ("random_05", "random_25", "cancer_05", "cancer_20")


@pytest.fixture(scope="session")
def models(make_sweep: Callable[..., Sweep]) -> list[Evaluated]:
    """Two methods in the paper's pattern: one collapses, one forgets what shares a disease."""
    return make_sweep().all(SPLITS, methods=("kl_min", "rmu"))


@pytest.fixture(scope="session")
def content(models: list[Evaluated], clinic: Benchmark) -> SweepContent:
    search = pd.DataFrame(
        {"method": ["rmu", "rmu"], "lr": [1e-4, 1e-3], "score": [0.2, 0.4], "chosen": [False, True]}
    )
    missing = [("unlearn simnpo cancer_20", "the loss became NaN at step <12>")]
    return gather_sweep("A <sweep>", models, clinic, missing=missing, search=search, replicates=REPLICATES)
