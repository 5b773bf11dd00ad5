"""Judging responses of an evaluation, an attack or a user's table; ratings become scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import JudgeSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.origins import drawn_name, real_name
from medunlearn.data.records import Question
from medunlearn.data.storage import write_frames
from medunlearn.errors import InputError
from medunlearn.judging.judges import Judge
from medunlearn.judging.panel import JudgingMaterial
from medunlearn.judging.panel_run import (
    PANEL_FILE,
    JudgingPlan,
    JudgingRun,
    judge,
    plan,
    sample_material,
)
from medunlearn.judging.tasks import JudgingCase
from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.judged import NOT_JUDGED
from medunlearn.models.health import refuse_broken
from medunlearn.results.evaluated import SUMMARY, Evaluated, summarize_evaluation
from medunlearn.results.rated import FOLDER, JUDGED, RATED
from medunlearn.results.runs import Recording, Run
from medunlearn.results.scores import FILE as SCORES
from medunlearn.results.scores import measured

TASK = "factuality"
METRICS = RATED


@dataclass(frozen=True)
class JudgedResponses:
    """The responses of a run to judge, and the destination of their ratings.

    Attributes:
        store: folder of the judges' answers, shared by all judgements of a run.
        prefix: prefix of the result folder's name, completed by the judging run's key.
        add: function that adds the metrics of a complete judging run to the scores, replacing earlier ones.
    """

    material: JudgingMaterial
    store: Path
    prefix: str
    inputs: Mapping[str, Any]
    add: Callable[[JudgingRun], object]


def known_identifiers(benchmark: Benchmark) -> tuple[str, ...]:
    """Identifiers of all records, since a response may contain those of any."""
    return tuple(identifier.value for record in benchmark.records for identifier in record.identifiers)


def store_of(run: Run) -> Path:
    """Folder of a run's judgements."""
    return run.folder / FOLDER / "llm"


def responses_of(evaluated: Evaluated, benchmark: Benchmark, settings: JudgeSettings) -> JudgedResponses:
    """The responses of an evaluation, each with its prompt and reference answer.

    Raises:
        InputError: another benchmark than the evaluated one, or no such question.
    """
    run = evaluated.run
    if evaluated.record.info["results"]["benchmark"]["fingerprint"] != benchmark.fingerprint:
        raise InputError(f"{run.folder} was evaluated on another benchmark than the one named.")
    refuse_broken({run.label: evaluated.record.info.problems}, allowed=settings.allow_broken)
    sides = dict(zip(evaluated.questions["question_id"], evaluated.questions["side"], strict=True))
    questions = [q for q in benchmark.questions if q.question_id in sides]
    kinds, identifiers = kinds_to_judge(questions, settings.groups), known_identifiers(benchmark)
    cases = [
        JudgingCase(
            q.question_id,
            benchmark.subject(q.record_id),
            f"{sides[q.question_id]}, {q.kind}",
            {
                "question": q.question,
                "reference": q.answer,
                "response": evaluated.responses[q.question_id].response,
            },
            identifiers,
        )
        for q in questions
        if q.kind in kinds and q.question_id not in evaluated.without_response
    ]
    # `groups` has named kinds here; the groups of the tables are sides and kinds.
    plain = settings.model_copy(update={"groups": ()})
    name = evaluated.record.folder.name
    return JudgedResponses(
        sample_material(cases, TASK, plain, tightest([benchmark.data_use, evaluated.data_use]), benchmark.records),
        store_of(run),
        str(run.folder / FOLDER / f"{name}-"),
        {"evaluation": name},
        lambda judged: add_scores(evaluated, benchmark, judged),
    )


def kinds_to_judge(questions: Sequence[Question], named: Sequence[str]) -> set[str]:
    """The kinds of question to judge: the named ones, else ``generation``, else those without options.

    Raises:
        InputError: a kind without questions.
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


def judgements_of(panel: pd.DataFrame) -> dict[str, Judgement]:
    """Case -> the panel's rating, or the reason why there is none."""
    return {
        row["case_id"]: Judgement(None, row["reason"])
        if pd.isna(row["rating"])
        else Judgement(float(row["rating"]))
        for row in panel.to_dict("records")
    }


def rated_measures(judged: JudgingRun) -> list[str]:
    """Names of the measures that a judging run scores: those of drawn ratings have names of their own."""
    return [drawn_name(name) if judged.drawn else name for name in METRICS]


def add_scores(evaluated: Evaluated, benchmark: Benchmark, judged: JudgingRun) -> None:
    """Add the judged metrics to the evaluation's scores and summary, replacing earlier ones."""
    judgements = judgements_of(judged.table(PANEL_FILE))
    questions = {question.question_id: question for question in benchmark.questions}
    items = [
        Item(
            question_id=name,
            side=side,
            question=questions[name].question,
            reference=questions[name].answer,
            response=None if name in evaluated.without_response else evaluated.responses[name].response,
            judgement=judgements.get(name, Judgement(None, NOT_JUDGED)),
        )
        for name, side in zip(evaluated.questions["question_id"], evaluated.questions["side"], strict=True)
    ]
    new = score(items, [get_metric(name) for name in rated_measures(judged)])
    labels = evaluated.table.drop(columns=["measure", "value", "reason"]).drop_duplicates("item")
    old = evaluated.table[~evaluated.table["measure"].map(real_name).isin(METRICS)]
    scores = pd.concat([old, measured(new, labels)], ignore_index=True)
    config, folder = evaluated.record.info["config"], evaluated.record.folder
    summary = summarize_evaluation(scores, replicates=config["replicates"], seed=config["seed"])
    write_frames(folder, {SCORES: scores, SUMMARY: summary})
    where = str(judged.run.folder.relative_to(evaluated.run.folder))
    evaluated.record.info.results[JUDGED] = where
    evaluated.record.info.with_tables(folder).write(folder)


@dataclass(frozen=True)
class JudgingJob:
    """Cases, judges and result folder; responses of a run are added to its scores."""

    material: JudgingMaterial
    judges: Sequence[Judge]
    out: Path
    responses: JudgedResponses | None = None

    def plan(self, *, permitted: bool = False, again: bool = False) -> JudgingPlan:
        """Preview the requests and their cost; sends and writes nothing."""
        store = self.responses.store if self.responses else self.out / "llm"
        return plan(self.material, self.judges, store, permitted=permitted, again=again)

    def run(self, **how: Any) -> JudgingRun:
        """Run the judges; takes ``permitted``, ``again``, ... like :func:`medunlearn.judging.panel_run.judge`."""
        if self.responses is None:
            return judge(self.material, self.judges, self.out, **how)
        how |= {"store_folder": self.responses.store, "inputs": self.responses.inputs}
        judged = judge(self.material, self.judges, self.out, **how)
        self.responses.add(judged)
        return judged


def responses_job(responses: JudgedResponses, judges: Sequence[Judge], settings: JudgeSettings) -> JudgingJob:
    """Responses of a run to judge, into a folder of the run."""
    inputs = {**responses.inputs, **{judge.name: judge.identity for judge in judges}}
    folder = Path(responses.prefix + Recording.key_of("judge", settings, inputs)[:8])
    return JudgingJob(responses.material, judges, folder, responses)
