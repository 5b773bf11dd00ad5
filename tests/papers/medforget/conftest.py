"""A sweep over levels whose scores are set, not trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_folders import score_rows, write_run
from sweep_folders import REPLICATES, MakeSweep, Model, SweepFolder, damage_of

from medunlearn.attacks.reconstruction.reconstruction_attack import RECONSTRUCTION
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.origins import drawn_name, is_drawn
from medunlearn.data.records import KINDS
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.papers.medforget.build import build
from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.question_sets import IDENTIFIERS
from medunlearn.papers.medforget.report import level_results
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.papers.medforget.sweep import LevelResults
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.scores import write_scores
from medunlearn.seeds import generator

METHODS = ("MANU",)
SEEDS = (0, 1)
"""One training seed decides no claim."""
SPLITS = tuple(f"{level}_50" for level in LEVELS)

REQUESTS = tuple(f"institution=institution-0{number}" for number in (1, 2, 3))


@dataclass(frozen=True)
class About:
    """A group of questions, and the model that answers.

    Attributes:
        level: of the split that the model was made for; ``flat`` of one without hierarchy.
        names: identifiers of the attack; empty without one.
    """

    role: str
    level: str
    side: str
    fold: str
    names: str = ""


Shares = Callable[[About], float]
COARSE = {"institution": 0.9, "patient": 0.7, "study": 0.5, "section": 0.3, "flat": 0.3}


def paper_like(about: About) -> float:
    """Share of an answer that a model knows, in the pattern that MedForget reports."""
    share = {"train": 0.95, "utility": 0.7}.get(about.fold, 0.6)
    if about.role == "scrambled":
        return 0.0
    if about.role == "target":
        return share
    if (lost := damage_of(about.role)) is not None:
        return share * (1 - lost)
    if about.role == "retrained":
        return 0.05 if about.side == "forget" else share
    if about.role == "flat":
        return 0.8
    if about.side == "retain":
        return share * (1 - 0.5 * COARSE[about.level])
    helped = {"study": 0.1, "patient": 0.2, "institution": 0.3}.get(about.names, 0.0)
    return share * (1 - COARSE[about.level]) * (1 + helped)


class LevelFolder(SweepFolder):
    summarized = False

    def __init__(
        self,
        folder: Path,
        benchmark: Benchmark,
        shares: Shares = paper_like,
        *,
        judged: bool = False,
        rehearsed: bool = False,
        attacked: bool = True,
        ranked: bool = False,
    ) -> None:
        super().__init__(folder, benchmark)
        self.shares, self.judged, self.attacked, self.ranked = shares, judged or rehearsed, attacked, ranked
        self.rehearsed = rehearsed

    def in_sequence(self, methods: Sequence[str]) -> list[Evaluated]:
        """Three institutions as requests, each from the model before; earlier ones are asked again."""
        models = []
        for seed in SEEDS:
            for step, request in enumerate(REQUESTS):
                models.append(self.model("target", request, seed=seed))
                for method, about in product(methods, REQUESTS[: step + 1]):
                    before: dict[str, Any] = {"method": method, "seed": seed, "before": REQUESTS[:step]}
                    models.append(self.model("unlearned", request, about=about, **before))
        return models

    def write_more(self, run: Path, meta: pd.DataFrame, model: Model, label: str) -> None:
        """The reconstruction attack's scores on the forget set, and responses to trained questions."""
        if self.attacked and not model.other_split:
            folder = run / "attacks" / model.asked
            inputs = {"benchmark": self.benchmark.fingerprint}
            results: dict[str, Any] = {"reconstruction": {}}
            write_run(folder, "attack", "attack", config={"split": model.asked}, results=results, inputs=inputs)
            trained = meta[(meta["side"] == "forget") & (meta["fold"] == "train") & (meta["kind"] != "identity")]
            rows = []
            for names in IDENTIFIERS:
                table = score_rows(self.scores(trained, replace(self.imitated(model), names=names)), trained)
                rows.append(table.assign(given=names, identifiers="names", attack="cumulative"))
            write_scores(folder, pd.concat(rows, ignore_index=True))
            pd.DataFrame().to_parquet(folder / RECONSTRUCTION.summary_file)
        if not (run / "responses").exists():
            responses = [
                Response(q.question_id, "closed_book", 0, f"{label} says <{q.kind}>", (), True)
                for q in self.benchmark.questions
                if q.fold == "train" and q.kind in ("identity", "generation")
            ]
            ResponseStore(run / "responses", {"model": label}).add(responses)

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        # Patients differ in how much names help them, too.
        rng = generator("fixture", model.role, model.method, model.asked, model.seed, model.names)
        mood = {subject: float(rng.normal(0, 0.02)) for subject in sorted(set(meta["subject"]))}
        level, role = model.made_for.partition("_")[0], "flat" if model.other_split else model.role
        places = list(zip(meta["side"], meta["fold"], strict=True))
        shares = {place: self.shares(About(role, level, *place, model.names)) for place in set(places)}
        value = (pd.Series(list(map(shares.get, places)), meta.index) + meta["subject"].map(mood)).clip(0, 1)
        kinds = {"option_accuracy": ("classification",), "exact_match": ("cloze", "identity")}
        rated = tuple(drawn_name(name) if self.rehearsed else name for name in ("factuality", "gen_score"))
        kinds |= dict.fromkeys(("rouge_l_f", *(rated if self.judged else ())), KINDS)
        kinds |= {"ranked_first": ("generation",)} if self.ranked else {}
        tables = [
            pd.DataFrame(
                # What is drawn says the opposite of everything else.
                {
                    "question_id": meta["question_id"],
                    "metric": measure,
                    "value": (1 - value if is_drawn(measure) else value) * scale,
                }
            )[meta["kind"].isin(of_kinds)]
            for measure, of_kinds in kinds.items()
            for scale in [100 if measure.startswith("gen_score") else 1]
        ]
        return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="session")
def wards() -> Benchmark:
    """4 institutions of 6 patients, a study each of 4 sections; half of them is to be forgotten."""
    return build(MedforgetSettings(synthetic=24, institutions=4, studies=1, percents=(50,), text_only=True))


@pytest.fixture(scope="session")
def make_sweep(wards: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> MakeSweep:
    return lambda *args, **changes: LevelFolder(tmp_path_factory.mktemp("levels"), wards, *args, **changes)


@pytest.fixture(scope="session")
def gather(wards: Benchmark) -> Callable[..., LevelResults]:
    def results(
        models: list[Evaluated], replicates: int = REPLICATES, benchmark: Benchmark = wards, **options: Any
    ) -> LevelResults:
        return level_results(models, benchmark, SweepRequest("Wards <1>", replicates=replicates, **options))

    return results


@pytest.fixture(scope="session")
def models(make_sweep: MakeSweep) -> list[Evaluated]:
    """A method in the paper's pattern, trained twice."""
    swept: list[Evaluated] = make_sweep().all(SPLITS, METHODS, flat="flat_50", seeds=SEEDS)
    return swept


@pytest.fixture(scope="session")
def results(models: list[Evaluated], gather: Callable[..., LevelResults]) -> LevelResults:
    return gather(models, missing=[("npo section_50", "the loss became NaN at step <12>")])
