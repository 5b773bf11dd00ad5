"""Judging responses: of a run's evaluation, of an attack, or whatever a user names; ratings become scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.storage import write_json, write_together
from medunlearn.errors import InputError
from medunlearn.judging.judges import Judge, JudgeSettings
from medunlearn.judging.run import (
    PANEL_FILE,
    JudgingMaterial,
    JudgingPlan,
    JudgingRun,
    judge,
    material,
    material_of,
    plan,
)
from medunlearn.judging.task import JudgingCase
from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.scoring import score
from medunlearn.registry import load
from medunlearn.results.evaluated import SUMMARY, Evaluated, summarize_evaluation
from medunlearn.results.runs import FILE, Recording, Run
from medunlearn.results.scores import FILE as SCORES
from medunlearn.results.scores import measured

TASK = "factuality"
METRICS = ("factuality", "gen_score")
FOLDER = "judgements"
NOT_ASKED = "it was not among the responses that were judged"
RUNS: Mapping[str, Mapping[str, str]] = {
    "evaluation": {
        "material": "medunlearn.judging.responses:evaluated_material",
        "judge": "medunlearn.judging.responses:judge_evaluation",
    },
    "attack": {
        "material": "medunlearn.attacks.reconstruction.judged:attack_material",
        "judge": "medunlearn.attacks.reconstruction.judged:judge_reconstruction",
    },
}
"""Runs whose responses can be judged: how cases and their store are found, and how ratings become scores."""


def responses_material(evaluated: Evaluated, benchmark: Benchmark, settings: JudgeSettings) -> JudgingMaterial:
    """The responses of an evaluation with their questions and references, by side and kind.

    Of the kind ``generation`` where there are such questions, else all that have no options; or of the kinds that
    ``groups`` names. A response can hold anything that the model was trained on, so the guard looks at all records.

    Raises:
        InputError: the benchmark is not the one that was evaluated, or has no such question.
    """
    if evaluated.record.info["results"]["benchmark"]["fingerprint"] != benchmark.fingerprint:
        raise InputError(f"{evaluated.run.folder} was evaluated on another benchmark than the one named.")
    asked = set(evaluated.questions["question_id"])
    questions = [q for q in benchmark.questions if q.question_id in asked]
    kinds = kinds_to_judge(questions, settings.groups)
    sides = dict(zip(evaluated.questions["question_id"], evaluated.questions["side"], strict=True))
    cases = [
        JudgingCase(
            case_id=q.question_id,
            subject=benchmark.subject(q.record_id),
            group=f"{sides[q.question_id]}, {q.kind}",
            fields={
                "question": q.question,
                "reference": q.answer,
                "response": evaluated.responses[q.question_id].response,
            },
        )
        for q in questions
        if q.kind in kinds
    ]
    # `groups` has named kinds here; the groups of the tables are sides and kinds.
    return material_of(
        cases, TASK, settings.model_copy(update={"groups": ()}), benchmark.data_use, benchmark.records
    )


def evaluated_material(run: Run, benchmark: Benchmark, settings: JudgeSettings) -> tuple[JudgingMaterial, Path]:
    """Cases of a run's evaluation, and the folder of the answers on them."""
    evaluated = Evaluated.find(run, settings.split)
    return responses_material(evaluated, benchmark, settings), store_of(run)


def kinds_to_judge(questions: Sequence[Question], named: Sequence[str]) -> set[str]:
    """The kinds that are named, else ``generation``, else those of questions without options.

    Raises:
        InputError: a kind that no question is of.
    """
    there = {question.kind for question in questions}
    unknown = [kind for kind in named if kind not in there]
    if unknown:
        raise InputError(f"No question of kind {unknown[0]!r} was asked; there are: {', '.join(sorted(there))}.")
    if named:
        return set(named)
    if "generation" in there:
        return {"generation"}
    return {question.kind for question in questions if not question.options}


def judge_evaluation(
    run: Run, benchmark: Benchmark, judges: Sequence[Judge], settings: JudgeSettings, **how: Any
) -> JudgingRun:
    """Rate the responses of a run's evaluation and add ``factuality`` and ``gen_score`` to its scores.

    Args:
        settings: its ``split`` names the evaluation; needed only where there are several.
        how: as :func:`medunlearn.judging.run.judge` takes it.

    Raises:
        InputError: the run was not evaluated, or on another benchmark; the guard refuses.
        MedunlearnError: some judgements are missing; no score was added.
    """
    evaluated = Evaluated.find(run, settings.split)
    cases = responses_material(evaluated, benchmark, settings)
    evaluation = evaluated.record.folder.name
    inputs = {"evaluation": evaluation}
    name = Recording.key_of("judge", settings, inputs | {one.name: one.identity for one in judges})[:8]
    out = run.folder / FOLDER / f"{evaluation}-{name}"
    judging = judge(cases, judges, out, store_folder=store_of(run), inputs=inputs, **how)
    add_scores(evaluated, benchmark, judging)
    return judging


def store_of(run: Run) -> Path:
    """Where a run's judgements are stored; all its evaluations share them."""
    return run.folder / FOLDER / "llm"


def add_scores(evaluated: Evaluated, benchmark: Benchmark, judged: JudgingRun) -> Evaluated:
    """Put the two metrics into the evaluation's scores and summary; earlier ones of theirs are replaced."""
    items = _items(evaluated, benchmark, judged.table(PANEL_FILE))
    new = score(items, [get_metric(name) for name in METRICS])
    labels = evaluated.table.drop(columns=["measure", "value", "reason"]).drop_duplicates("item")
    old = evaluated.table[~evaluated.table["measure"].isin(METRICS)]
    scores = pd.concat([old, measured(new, labels)], ignore_index=True)
    config = evaluated.record.info["config"]
    summary = summarize_evaluation(scores, replicates=config["replicates"], seed=config["seed"])
    folder = evaluated.record.folder
    write_together({folder / SCORES: scores.to_parquet, folder / SUMMARY: summary.to_parquet})
    where = str(judged.run.folder.relative_to(evaluated.run.folder))
    info = {**evaluated.record.info, "results": {**evaluated.record.info["results"], "judged": where}}
    write_json(folder / FILE, info)
    return Evaluated(evaluated.run, Run.open(folder))


def _items(evaluated: Evaluated, benchmark: Benchmark, panel: pd.DataFrame) -> list[Item]:
    judgements = {
        row["case_id"]: Judgement(None, row["reason"])
        if pd.isna(row["rating"])
        else Judgement(float(row["rating"]))
        for row in panel.to_dict("records")
    }
    questions = {question.question_id: question for question in benchmark.questions}
    return [
        Item(
            question_id=row["question_id"],
            side=row["side"],
            question=questions[row["question_id"]].question,
            reference=questions[row["question_id"]].answer,
            response=evaluated.responses[row["question_id"]].response,
            judgement=judgements.get(row["question_id"], Judgement(None, NOT_ASKED)),
        )
        for row in evaluated.questions.to_dict("records")
    ]


@dataclass(frozen=True)
class JudgingJob:
    """Something to judge, by somebody, into some place.

    Attributes:
        source: an evaluated run, a reconstruction attack's own, a benchmark, or a table's path.
        benchmark: of a run.
        out: of the result; of a run None, since it goes into the run's folder.
    """

    source: Run | Benchmark | Path
    judges: Sequence[Judge]
    settings: JudgeSettings
    task: str
    benchmark: Benchmark | None
    out: Path | None

    def plan(self, *, permitted: bool = False) -> JudgingPlan:
        """Preview the requests and their cost; sends and writes nothing."""
        if isinstance(self.source, Run):
            assert self.benchmark is not None
            what, store = self._of_run("material")(self.source, self.benchmark, self.settings)
            return plan(what, self.judges, store, permitted=permitted)
        return plan(self._material(), self.judges, self._folder() / "llm", permitted=permitted)

    def run(
        self, *, permitted: bool = False, again: bool = False, allow_missing: bool = False, quiet: bool = False
    ) -> JudgingRun:
        """Judge; see :func:`medunlearn.judging.run.judge`."""
        how: dict[str, Any] = {
            "permitted": permitted,
            "again": again,
            "allow_missing": allow_missing,
            "quiet": quiet,
        }
        if isinstance(self.source, Run):
            assert self.benchmark is not None
            rated: JudgingRun = self._of_run("judge")(
                self.source, self.benchmark, self.judges, self.settings, **how
            )
            return rated
        return judge(self._material(), self.judges, self._folder(), **how)

    def _of_run(self, step: str) -> Callable[..., Any]:
        assert isinstance(self.source, Run)
        sort = "attack" if self.source.info["verb"] == "attack" else "evaluation"
        function: Callable[..., Any] = load(RUNS[sort][step])
        return function

    def _material(self) -> JudgingMaterial:
        assert not isinstance(self.source, Run)
        return material(self.source, self.task, self.settings)

    def _folder(self) -> Path:
        assert self.out is not None
        return self.out


def job(
    what: Run | Benchmark | Path | str,
    judges: Sequence[Judge],
    settings: JudgeSettings,
    task: str | None = None,
    benchmark: Benchmark | Path | None = None,
    out: Path | str | None = None,
) -> JudgingJob:
    """Inputs named by the user, read and checked.

    Raises:
        InputError: it is none of the three, or something that goes with it is missing or too much.
    """
    source = _source(Path(what)) if isinstance(what, str | Path) else what
    if isinstance(source, Run):
        if task not in (None, "factuality") or out is not None:
            raise InputError(
                "Of a run its responses are judged (task factuality), into the run's folder: no --out."
            )
        if benchmark is None:
            raise InputError("Judging responses needs the reference answers: --benchmark FOLDER.")
        loaded = benchmark if isinstance(benchmark, Benchmark) else Benchmark.load(benchmark)
        return JudgingJob(source, judges, settings, "factuality", loaded, None)
    if benchmark is not None or settings.split is not None:
        raise InputError("--benchmark and split go with a run whose responses are judged, not with this.")
    if task is None or out is None:
        raise InputError(
            "Judging a benchmark or a table needs --task (label, question, document, factuality) and --out."
        )
    return JudgingJob(source, judges, settings, task, None, Path(out))


def _source(where: Path) -> Run | Benchmark | Path:
    if not where.is_dir():
        return where
    return Run.open(where) if (where / FILE).exists() else Benchmark.load(where)
