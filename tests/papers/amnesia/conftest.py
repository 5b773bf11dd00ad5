"""A sweep over forget set sizes whose scores are set, not trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sweep_folders import REPLICATES, MakeSweep, Model, SweepFolder, damage_of

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.report import size_results
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.papers.amnesia.sweep import SizeResults
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.results.evaluated import Evaluated
from medunlearn.seeds import generator

COLLAPSING = ("graddiff", "kl_min")
SPLITS = ("random_10", "random_25", "cancer_10", "cancer_20")
SEEDS = (0, 1)
"""One training seed decides no claim."""
UNSEEN = 0.25
"""Share known of a record never seen."""

Shares = Callable[..., float]


def paper_like(role: str, method: str, side: str, fold: str, same: bool, scope: str, percent: int) -> float:
    """Share of an answer that a model knows, in the pattern that AMNESIA, Section 6, reports."""
    share = 0.93 if fold == "train" else 0.6
    if role == "scrambled":
        return 0.02
    if role == "target":
        return share
    if (lost := damage_of(role)) is not None:
        return share * (1 - lost)
    if role == "retrained":
        return UNSEEN if side == "forget" else share
    if scope == "random":
        if method in COLLAPSING:
            return 0.04
        return share - (0.02 if side == "forget" and fold == "train" else 0.0)
    if method in COLLAPSING:
        return 0.04 if side == "forget" or same else 0.85 * share
    if side == "forget":
        return share - 0.55 * share * percent / 25
    return share - (0.5 * share * percent / 25 if same else 0.02)


class AmnesiaFolder(SweepFolder):
    titles = {"graddiff": "GradDiff", "kl_min": "KL-Min", "rmu": "RMU", "simnpo": "SimNPO"}  # noqa: RUF012

    def __init__(
        self,
        folder: Path,
        benchmark: Benchmark,
        *,
        shares: Shares = paper_like,
        leakage: bool = True,
        ranked: bool = False,
    ) -> None:
        super().__init__(folder, benchmark)
        self.shares, self.leakage, self.ranked = shares, leakage, ranked
        self.disease = {r.groups["patient"]: r.groups["disease"] for r in benchmark.records}

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        scope, _, percent = model.asked.rpartition("_")
        shared = {self.disease[subject] for subject in meta.loc[meta["side"] == "forget", "subject"]}
        rng = generator("fixture", model.role, model.method, model.asked, model.seed, model.context)
        mood = {subject: rng.normal(0, 0.03) for subject in sorted(set(meta["subject"]))}
        same = meta["subject"].map(self.disease).isin(shared) & (scope != "random")
        size = int(percent) if percent.isdigit() else 10
        places = zip(meta["side"], meta["fold"], same, strict=True)
        shares = [self.shares(model.role, model.method, *place, scope or model.asked, size) for place in places]
        share = np.array(shares) - 0.08 * (meta["kind"] == "reasoning") + meta["subject"].map(mood)
        scores = np.clip(share.to_numpy()[:, None] + rng.normal(0, 0.03, (len(meta), 4)), 0.0, 1.0)
        is_broken = model.role == "unlearned" and model.method in COLLAPSING
        gibberish = is_broken & (meta["side"] == "forget") & (rng.random(len(meta)) < 0.9)
        table = pd.DataFrame(scores, meta.index, ["rouge_l", "em", "cs", "es"])
        table = table.assign(te=0.9 * ~gibberish, degenerate=gibberish.astype(float))
        if self.leakage:
            table["ls"] = np.where(gibberish, 0.002, 0.15 * table["rouge_l"])
        if self.ranked:
            table["ranked_first"] = (rng.random(len(meta)) < share).astype(float)
        return table.assign(question_id=meta["question_id"]).melt("question_id", var_name="metric")


@pytest.fixture(scope="session")
def clinic() -> Benchmark:
    """Invented patients: 15 of 60 are a quarter, and 18 have cancer."""
    return build(AmnesiaSettings(synthetic=60))


@pytest.fixture(scope="session")
def make_sweep(clinic: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> MakeSweep:
    return lambda **changes: AmnesiaFolder(tmp_path_factory.mktemp("sweep"), clinic, **changes)


@pytest.fixture(scope="session")
def gather(clinic: Benchmark) -> Callable[..., SizeResults]:
    def results(models: list[Evaluated], replicates: int = 50, **options: Any) -> SizeResults:
        return size_results(models, clinic, SweepRequest("A <sweep>", replicates=replicates, **options))

    return results


@pytest.fixture(scope="session")
def models(make_sweep: MakeSweep) -> list[Evaluated]:
    """Two methods in the paper's pattern: one collapses, one forgets what shares a disease."""
    swept: list[Evaluated] = make_sweep().all(SPLITS, ("kl_min", "rmu"))
    return swept


@pytest.fixture(scope="session")
def results(models: list[Evaluated], gather: Callable[..., SizeResults]) -> SizeResults:
    rates = {"method": ["rmu", "rmu"], "lr": [1e-4, 1e-3], "score": [0.2, 0.4], "chosen": [False, True]}
    missing = [("unlearn simnpo cancer_20", "the loss became NaN at step <12>")]
    return gather(models, REPLICATES, missing=missing, search=pd.DataFrame(rates))


@pytest.fixture(scope="session")
def seeded(make_sweep: MakeSweep) -> list[Evaluated]:
    """Target and one method on one split, trained five times; leakage was not measured."""
    swept: list[Evaluated] = make_sweep(leakage=False).all(["random_25"], ["rmu"], seeds=range(5), retrained=False)
    return swept
