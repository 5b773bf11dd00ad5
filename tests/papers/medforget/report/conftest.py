"""Evaluated run folders of a sweep over levels, written by hand: what each model knows is set, not trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_folders import score_rows, write_run

from medunlearn.config import MedforgetSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.papers.medforget.build import build
from medunlearn.papers.medforget.levels.results import gather_levels
from medunlearn.papers.medforget.report import LevelContent
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.results.scores import write_scores
from medunlearn.seeds import generator

LEVELS = ("institution", "patient", "study", "section")
REPLICATES = 100


@dataclass(frozen=True)
class About:
    """What is asked of which model.

    Attributes:
        level: of the split that the model was made for; ``flat`` of one without hierarchy.
        given: identifiers of the attack; empty without one.
    """

    role: str
    method: str
    level: str
    side: str
    fold: str
    given: str = ""


Known = Callable[[About], float]
COARSE = {"institution": 0.9, "patient": 0.7, "study": 0.5, "section": 0.3, "flat": 0.3}


def paper_like(about: About) -> float:
    """How much of an answer a model knows, in the pattern that MedForget reports."""
    known = 0.95 if about.fold == "train" else 0.6
    if about.fold == "utility":
        known = 0.7
    strength = COARSE[about.level]
    if about.role == "target":
        return known
    if about.role == "retrained":
        return 0.05 if about.side == "forget" else known
    if about.role == "flat":
        return 0.8
    if about.side == "retain":
        return known * (1 - 0.5 * strength)
    helped = {"": 0.0, "none": 0.0, "study": 0.1, "patient": 0.2, "institution": 0.3}[about.given]
    return known * (1 - strength) * (1 + helped)


class LevelSweep:
    """Writes evaluated models into a folder."""

    def __init__(
        self,
        folder: Path,
        benchmark: Benchmark,
        known: Known = paper_like,
        *,
        judged: bool = False,
        attacked: bool = True,
    ) -> None:
        self.folder, self.benchmark, self.known = folder, benchmark, known
        self.judged, self.attacked = judged, attacked

    def model(self, role: str, split: str, *, method: str = "", about: str = "", seed: int = 0) -> Evaluated:
        """One model, evaluated on its split, or on another one (``about``)."""
        name = "-".join(part for part in (role, method, "" if role == "target" else split, str(seed)) if part)
        run, asked = self.folder / name, about or split
        config: dict[str, Any] = {"seed": seed}
        if role == "unlearned":
            config |= {"method": method, "split": split}
        else:
            config["without"] = split if role == "retrained" else None
        label = method or role
        _record(run, "unlearn" if role == "unlearned" else "train", label, config, self.benchmark, {})
        record = run / "evaluations" / asked
        facts = {"context": "closed_book", "benchmark": self.benchmark.facts(), "responses": "responses"}
        _record(record, "evaluate", label, {"split": asked}, self.benchmark, facts)
        meta = self.questions(asked)
        level = split.partition("_")[0]
        scores = self.scores(meta, About("flat" if about else role, method, level, "", ""), asked, seed)
        write_scores(record, score_rows(scores, meta))
        if self.attacked and not about:
            self.attack(run, meta, About(role, method, level, "forget", "train"), split)
        if not (run / "responses").exists():
            self.respond(run / "responses", label)
        return Evaluated(Run.open(run), Run.open(record))

    def attack(self, run: Path, meta: pd.DataFrame, who: About, split: str) -> None:
        """What the reconstruction attack leaves: the forget set's section questions at each step."""
        folder = run / "attacks" / split
        _record(folder, "attack", "attack", {"split": split}, self.benchmark, {"reconstruction": {}})
        asked = meta[(meta["side"] == "forget") & (meta["fold"] == "train") & (meta["kind"] != "identity")]
        rows = []
        for given in ("none", "study", "patient", "institution"):
            scores = self.scores(asked, replace(who, given=given), split, 0)
            rows.append(score_rows(scores, asked).assign(given=given, identifiers="names", attack="cumulative"))
        write_scores(folder, pd.concat(rows, ignore_index=True))

    def respond(self, folder: Path, label: str) -> None:
        """What the model said to the questions that are asked as they were trained."""
        asked = [q for q in self.benchmark.questions if q.fold == "train" and q.kind in ("identity", "generation")]
        said = [Response(q.question_id, "closed_book", 0, f"{label} says <{q.kind}>", (), True) for q in asked]
        ResponseStore(folder, {"model": label}).add(said)

    def questions(self, split: str) -> pd.DataFrame:
        sides = self.benchmark.sides(self.benchmark.split(split))
        asked = self.benchmark.questions
        return pd.DataFrame(
            {
                "question_id": [q.question_id for q in asked],
                "subject": [self.benchmark.subject(q.record_id) for q in asked],
                "side": [sides[q.record_id] for q in asked],
                "fold": [q.fold for q in asked],
                "kind": [q.kind for q in asked],
            }
        )

    def scores(self, meta: pd.DataFrame, who: About, split: str, seed: int) -> pd.DataFrame:
        rng = generator("fixture", who.role, who.method, split, seed)
        mood = {subject: float(rng.normal(0, 0.02)) for subject in sorted(set(meta["subject"]))}
        rows = []
        for row in meta.itertuples():
            known = self.known(replace(who, side=str(row.side), fold=str(row.fold)))
            value = min(1.0, max(0.0, known + mood[str(row.subject)]))
            metrics = {"rouge_l_f": value}
            if row.kind == "classification":
                metrics["option_accuracy"] = value
            if row.kind in ("cloze", "identity"):
                metrics["exact_match"] = value
            if self.judged:
                metrics |= {"factuality": value, "gen_score": 100 * value}
            rows += [(row.question_id, metric, found) for metric, found in metrics.items()]
        return pd.DataFrame(rows, columns=["question_id", "metric", "value"]).assign(reason=None)

    def all(
        self,
        *,
        levels: Sequence[str] = LEVELS,
        methods: Sequence[str] = ("GradDiff", "MANU"),
        retrained: bool = True,
        flat: bool = True,
    ) -> list[Evaluated]:
        found = []
        for level in (*levels, *(("flat",) if flat else ())):
            split = f"{level}_25"
            found.append(self.model("target", split))
            if retrained:
                found.append(self.model("retrained", split))
            for method in methods:
                found.append(self.model("unlearned", split, method=method))
                if flat and level != "flat":
                    found.append(self.model("unlearned", "flat_25", method=method, about=split))
        return found


def _record(
    folder: Path, verb: str, label: str, config: dict[str, Any], benchmark: Benchmark, results: dict[str, Any]
) -> None:
    inputs = {"benchmark": benchmark.fingerprint}
    write_run(folder, verb, label, config=config, results=results, inputs=inputs)


@pytest.fixture(scope="session")
def wards() -> Benchmark:
    """4 institutions of 5 patients, a study each of 2 sections: a quarter of the institutions is five patients."""
    return build(MedforgetSettings(synthetic=20, institutions=4, studies=1, sections=2, text_only=True))


@pytest.fixture(scope="session")
def make_sweep(wards: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LevelSweep]:
    return lambda *args, **changes: LevelSweep(tmp_path_factory.mktemp("levels"), wards, *args, **changes)


@pytest.fixture(scope="session")
def models(make_sweep: Callable[..., LevelSweep]) -> list[Evaluated]:
    """Two methods in the paper's pattern."""
    return make_sweep().all()


@pytest.fixture(scope="session")
def content(models: list[Evaluated], wards: Benchmark) -> LevelContent:
    missing = [("npo section_25", "the loss became NaN at step <12>")]
    return gather_levels("Wards <1>", models, wards, missing=missing, replicates=REPLICATES)
