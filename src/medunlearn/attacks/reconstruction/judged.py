"""Judging what models said to a reconstruction attack: factuality and Gen Score at each context level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from medunlearn.attacks.reconstruction.attacked import SUMMARY, Reconstructed
from medunlearn.attacks.reconstruction.contexts import Names
from medunlearn.attacks.reconstruction.results import ATTACK, context_scores, summarize_contexts
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import write_atomically
from medunlearn.errors import InputError
from medunlearn.judging.judges import JudgeSettings
from medunlearn.judging.responses import (
    FOLDER,
    METRICS,
    NOT_ASKED,
    TASK,
    JudgedResponses,
    judgements_of,
    kinds_to_judge,
    store_of,
)
from medunlearn.judging.run import PANEL_FILE, material_of
from medunlearn.judging.tasks import JudgingCase
from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.scoring import score
from medunlearn.results.runs import Run
from medunlearn.results.scores import replace_scores


def attacked_run(record: Run) -> Reconstructed:
    """The reconstruction attack in a folder below a run.

    Raises:
        InputError: it is another sort of attack.
    """
    if "reconstruction" not in record.info.results:
        raise InputError(f"{record.folder} holds no reconstruction attack, and no responses to judge.")
    return Reconstructed(Run.open(record.folder.parents[1]), record)


def attacked_responses(record: Run, benchmark: Benchmark, settings: JudgeSettings) -> JudgedResponses:
    """The responses at each context level, with the question as it was put and the reference.

    Raises:
        InputError: no reconstruction attack, another benchmark, no such kind of question.
    """
    attacked = attacked_run(record)
    if record.info.benchmark != benchmark.fingerprint:
        raise InputError(f"{record.folder} attacked on another benchmark than the one named.")
    cases = [
        JudgingCase(
            case_id=_case(one.question_id, context),
            subject=benchmark.subject(one.record_id),
            group=f"{side}, {one.kind}, {context}",
            fields={"question": shown, "reference": one.answer, "response": said},
        )
        for one, side, context, shown, said in _said(attacked, benchmark, settings.groups)
    ]
    plain = settings.model_copy(update={"groups": (), "split": None})
    return JudgedResponses(
        material_of(cases, TASK, plain, benchmark.data_use, benchmark.records),
        store_of(attacked.run),
        f"{record.folder / FOLDER}/",
        {"attack": record.info.key},
        lambda judged: _add(attacked, benchmark, judged.table(PANEL_FILE), settings),
    )


def _add(attacked: Reconstructed, benchmark: Benchmark, panel: pd.DataFrame, settings: JudgeSettings) -> None:
    """Put factuality and Gen Score into the attack's tables; earlier ones of theirs are replaced."""
    judgements = judgements_of(panel)
    items: dict[str, list[Item]] = {}
    for one, side, context, shown, said in _said(attacked, benchmark, settings.groups):
        item = Item(
            question_id=one.question_id,
            side=side,
            question=shown,
            reference=one.answer,
            response=said,
            judgement=judgements.get(_case(one.question_id, context), Judgement(None, NOT_ASKED)),
        )
        items.setdefault(context, []).append(item)
    labels = _labels(attacked)
    contexts = {context.name: context for context in Names.of(benchmark).contexts()}
    new = [
        context_scores(score(some, [get_metric(name) for name in METRICS]), labels, contexts[context])
        for context, some in items.items()
    ]
    scores = pd.concat([attacked.scores[~attacked.scores["measure"].isin(METRICS)], *new], ignore_index=True)
    config = attacked.record.info.config
    split = benchmark.split(config["split"])
    summary = summarize_contexts(scores, split, replicates=config["replicates"], seed=config["seed"])
    folder = attacked.record.folder
    replace_scores(folder, scores, attack=[ATTACK])
    write_atomically(folder / SUMMARY, summary.to_parquet)


def _labels(found: Reconstructed) -> pd.DataFrame:
    """Labels of the attacked questions, one row each."""
    measured = {"measure", "value", "reason", "given", "identifiers", "attack"}
    return found.scores.drop(columns=list(measured)).drop_duplicates("item").reset_index(drop=True)


def _said(
    found: Reconstructed, benchmark: Benchmark, kinds: Sequence[str]
) -> list[tuple[Question, Any, str, str, str]]:
    """Question, side, context level, the question as it was put, the response; of the kinds that are judged."""
    facts = found.record.info.results["reconstruction"]
    store = found.run.folder / facts["responses"]
    responses = ResponseStore(store, ResponseStore.settings_of(store)).read()
    labels = _labels(found)
    asked = set(labels["item"])
    questions = [question for question in benchmark.questions if question.question_id in asked]
    wanted, named = kinds_to_judge(questions, kinds), Names.of(benchmark)
    sides = dict(zip(labels["item"], labels["side"], strict=True))
    return [
        (
            one,
            sides[one.question_id],
            context.name,
            named.in_front(one, benchmark.record[one.record_id], context).question,
            responses[one.question_id, f"{facts['context']}|{context.name}", 0].response,
        )
        for context in named.contexts()
        for one in questions
        if one.kind in wanted
    ]


def _case(question_id: str, context: str) -> str:
    return f"{question_id}|{context}"
