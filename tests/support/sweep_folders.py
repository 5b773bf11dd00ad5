"""Evaluated run folders of a whole sweep, written by hand: scores are set by a function, nothing is trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from run_folders import score_rows, write_evaluation, write_run

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.sweeps.models import Who
from medunlearn.papers.sweeps.results import Key, SweepNumber, SweepResults
from medunlearn.reports.blocks import Block, Table, children
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.results.scores import write_scores

REPLICATES = 60
IMITATIONS = ("target", "retrained", "scrambled")
"""Methods of the control tests: a model that did nothing, one that did everything right, and a broken one."""

DAMAGES = ("damage-05", "damage-15", "damage-30", "damage-60")
"""Methods of the control tests that lost a share of all that the target knows."""


def damage_of(role: str) -> float | None:
    """The share that a control of :data:`DAMAGES` lost; None of any other role."""
    return int(role.removeprefix("damage-")) / 100 if role in DAMAGES else None


@dataclass(frozen=True)
class Model:
    """One model of a sweep.

    Attributes:
        made_for: the split that it forgot, or never saw. asked: the split that it is evaluated on.
        names: identifiers of the reconstruction attack; empty without one.
    """

    role: str
    method: str
    made_for: str
    asked: str
    seed: int = 0
    context: str = "closed_book"
    names: str = ""

    @property
    def other_split(self) -> bool:
        return self.role == "unlearned" and self.made_for != self.asked


class SweepFolder:
    """Writes evaluated models into a folder; a method of :data:`IMITATIONS` or :data:`DAMAGES` has that
    role's scores.
    """

    summarized = True
    titles: Mapping[str, str] = {}

    def __init__(self, folder: Path, benchmark: Benchmark) -> None:
        self.folder, self.benchmark = folder, benchmark

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        """question_id, metric, value of a model's responses to questions."""
        raise NotImplementedError

    def write_more(self, run: Path, meta: pd.DataFrame, model: Model, label: str) -> None:
        """Write the files beside the evaluation."""

    def imitated(self, model: Model) -> Model:
        """The model whose scores this one gets."""
        if model.role == "unlearned" and model.method in (*IMITATIONS, *DAMAGES):
            return replace(model, role=model.method, method="", made_for=model.asked)
        return model

    def model(
        self,
        role: str,
        split: str,
        *,
        method: str = "",
        about: str = "",
        seed: int = 0,
        context: str = "closed_book",
        before: Sequence[str] = (),
    ) -> Evaluated:
        """One model, evaluated on its split, or on another one (``about``).

        Args:
            before: splits of earlier requests that it has forgotten.
        """
        model = Model(role, method, split, about or split, seed, context)
        name = "-".join(part for part in (role, method, "" if role == "target" else split, str(seed)) if part)
        run, label = self.folder / name, self.titles.get(method, method) or role
        inputs = {"benchmark": self.benchmark.fingerprint}
        made = {"method": method, "split": split} if role == "unlearned" else {}
        without = {} if made else {"without": split if role == "retrained" else None}
        verb = "unlearn" if made else "train"
        config, earlier = {"seed": seed, **made, **without}, {"forgotten_before": list(before)}
        write_run(run, verb, label, config=config, inputs=inputs, results=earlier if before else {})
        record = run / "evaluations" / f"{model.asked}-{context}"
        asked = self.benchmark.split(model.asked)
        facts = {
            "context": context,
            "benchmark": self.benchmark.facts(),
            "responses": "responses",
            "split": {"name": asked.name, "level": asked.level, **self.benchmark.split_sizes(asked)},
        }
        write_run(record, "evaluate", label, config={"split": model.asked}, results=facts, inputs=inputs)
        meta = self.questions(model.asked)
        scores = self.scores(meta, self.imitated(model))
        if self.summarized:
            write_evaluation(record, scores, meta, REPLICATES)
        else:
            write_scores(record, score_rows(scores, meta))
        self.write_more(run, meta, model, label)
        return Evaluated(Run.open(run), Run.open(record))

    def questions(self, split: str) -> pd.DataFrame:
        sides = self.benchmark.sides(self.benchmark.split(split))
        rows = [
            (q.question_id, self.benchmark.subject(q.record_id), sides[q.record_id], q.fold, q.kind)
            for q in self.benchmark.questions
            if q.fold in ("train", "holdout", "rephrase")
        ]
        # Text as objects: on tables so small every step with Arrow's strings costs more.
        return pd.DataFrame(rows, columns=["question_id", "subject", "side", "fold", "kind"], dtype=object)

    def all(
        self,
        splits: Sequence[str],
        methods: Sequence[str],
        *,
        seeds: Sequence[int] = (0,),
        contexts: Sequence[str] = ("closed_book",),
        retrained: bool = True,
        flat: str = "",
    ) -> list[Evaluated]:
        """Target, retrained and unlearned models on every split; those of ``flat`` also about the others."""
        models = []
        for context in contexts:
            for seed in seeds:
                at: dict[str, Any] = {"seed": seed, "context": context}
                for split in (*splits, *([flat] if flat else [])):
                    models.append(self.model("target", split, **at))
                    if retrained:
                        models.append(self.model("retrained", split, **at))
                    for method in methods:
                        models.append(self.model("unlearned", split, method=method, **at))
                        if flat and split != flat:
                            models.append(self.model("unlearned", flat, method=method, about=split, **at))
        return models


MakeSweep = Callable[..., Any]


def who(method: str) -> Who:
    return ("unlearned", method)


def number_of(results: SweepResults, *key: Key) -> SweepNumber:
    """A number that must be there."""
    number = results.number(*key)
    assert number is not None
    return number


def tables_of(blocks: Sequence[Block]) -> list[Table]:
    """All tables of blocks, those inside other blocks too."""
    inside = [table for block in blocks for table in tables_of(children(block))]
    return [*(block for block in blocks if isinstance(block, Table)), *inside]


def own_part(page: str) -> str:
    """A page without its script and style."""
    return re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
