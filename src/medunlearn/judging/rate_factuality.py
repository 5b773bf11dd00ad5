"""Judging a model's stored responses, and putting factuality and Gen Score into its evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.storage import write_json, write_together
from medunlearn.errors import InputError
from medunlearn.judging.judged import PANEL_FILE, Judged
from medunlearn.judging.judges import Judge, JudgeSettings
from medunlearn.judging.run import Material, judge, material_of
from medunlearn.judging.task import JudgingCase
from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.scoring import score
from medunlearn.results.evaluated import SCORES, SUMMARY, Evaluated
from medunlearn.results.runs import FILE, Recording, Run
from medunlearn.results.summary import summarize

TASK = "factuality"
METRICS = ("factuality", "gen_score")
FOLDER = "judgements"
NOT_ASKED = "it was not among the responses that were judged"


def responses_material(evaluated: Evaluated, benchmark: Benchmark, settings: JudgeSettings) -> Material:
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


def judge_responses(
    run: Run,
    benchmark: Benchmark,
    judges: Sequence[Judge],
    settings: JudgeSettings,
    *,
    permitted: bool = False,
    again: bool = False,
    allow_missing: bool = False,
    quiet: bool = False,
) -> tuple[Judged, Evaluated]:
    """Rate the responses of a run's evaluation and add ``factuality`` and ``gen_score`` to its scores.

    Args:
        settings: its ``split`` names the evaluation; needed only where there are several.
        permitted, again, allow_missing: as :func:`medunlearn.judging.run.judge`.

    Raises:
        InputError: the run was not evaluated, or on another benchmark; the guard refuses.
        MedunlearnError: some judgements are missing; no score was added.
    """
    evaluated = Evaluated.find(run, settings.split)
    what = responses_material(evaluated, benchmark, settings)
    evaluation = evaluated.record.folder.name
    depends = {"evaluation": evaluation}
    name = Recording.key_of("judge", settings, depends | {one.name: one.identity for one in judges})[:8]
    judged = judge(
        what,
        judges,
        run.folder / FOLDER / f"{evaluation}-{name}",
        permitted=permitted,
        again=again,
        allow_missing=allow_missing,
        store_folder=store_of(run),
        inputs=depends,
        quiet=quiet,
    )
    return judged, add_scores(evaluated, benchmark, judged)


def store_of(run: Run) -> Path:
    """Where a run's judgements are stored; all its evaluations share them."""
    return run.folder / FOLDER / "llm"


def add_scores(evaluated: Evaluated, benchmark: Benchmark, judged: Judged) -> Evaluated:
    """Put the two metrics into the evaluation's scores and summary; earlier ones of theirs are replaced."""
    items = _items(evaluated, benchmark, judged.table(PANEL_FILE))
    new = score(items, [get_metric(name) for name in METRICS])
    old = evaluated.scores[~evaluated.scores["metric"].isin(METRICS)]
    scores = pd.concat([old, new], ignore_index=True)
    config = evaluated.record.info["config"]
    summary = summarize(scores, evaluated.questions, replicates=config["replicates"], seed=config["seed"])
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
