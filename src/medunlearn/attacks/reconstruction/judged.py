"""Judging what models said to a reconstruction attack: factuality and Gen Score at each context level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
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
from medunlearn.judging.judges import Judge, JudgeSettings
from medunlearn.judging.responses import METRICS, NOT_ASKED, TASK, kinds_to_judge, store_of
from medunlearn.judging.run import PANEL_FILE, JudgingMaterial, JudgingRun, judge, material_of
from medunlearn.judging.task import JudgingCase
from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.scoring import score
from medunlearn.results.runs import Recording, Run
from medunlearn.results.scores import replace_scores


def attacked_run(record: Run) -> Reconstructed:
    """The reconstruction attack in a folder below a run.

    Raises:
        InputError: it is another sort of attack.
    """
    if "reconstruction" not in record.info.results:
        raise InputError(f"{record.folder} holds no reconstruction attack, and no responses to judge.")
    return Reconstructed(Run.open(record.folder.parents[1]), record)


def reconstruction_material(record: Run, benchmark: Benchmark, settings: JudgeSettings) -> JudgingMaterial:
    """What was said at each context level, with the question as it was put and the reference.

    Raises:
        InputError: no reconstruction attack, another benchmark, no such kind of question.
    """
    found = attacked_run(record)
    if record.info.benchmark != benchmark.fingerprint:
        raise InputError(f"{record.folder} attacked on another benchmark than the one named.")
    cases = [
        JudgingCase(
            case_id=_case(one.question_id, context),
            subject=benchmark.subject(one.record_id),
            group=f"{side}, {one.kind}, {context}",
            fields={"question": shown, "reference": one.answer, "response": said},
        )
        for one, side, context, shown, said in _said(found, benchmark, settings.groups)
    ]
    plain = settings.model_copy(update={"groups": (), "split": None})
    return material_of(cases, TASK, plain, benchmark.data_use, benchmark.records)


def attack_material(record: Run, benchmark: Benchmark, settings: JudgeSettings) -> tuple[JudgingMaterial, Path]:
    """:func:`reconstruction_material`, and the folder of the answers on it."""
    return reconstruction_material(record, benchmark, settings), store_of(attacked_run(record).run)


def judge_reconstruction(
    record: Run, benchmark: Benchmark, judges: Sequence[Judge], settings: JudgeSettings, **how: Any
) -> JudgingRun:
    """Rate the responses of an attack and add ``factuality`` and ``gen_score`` to its tables.

    Args:
        how: as :func:`medunlearn.judging.run.judge` takes it.

    Raises:
        InputError: as :func:`reconstruction_material`; the guard refuses.
        MedunlearnError: some judgements are missing; no score was added.
    """
    what, found = reconstruction_material(record, benchmark, settings), attacked_run(record)
    depends = {"attack": record.info.key}
    name = Recording.key_of("judge", settings, depends | {one.name: one.identity for one in judges})[:8]
    out = record.folder / "judgements" / name
    judged = judge(what, judges, out, store_folder=store_of(found.run), inputs=depends, **how)
    _add(found, benchmark, judged.table(PANEL_FILE), settings)
    return judged


def _add(found: Reconstructed, benchmark: Benchmark, panel: pd.DataFrame, settings: JudgeSettings) -> None:
    """Put the two metrics into the attack's tables; earlier ones of theirs are replaced."""
    ratings = {row["case_id"]: row for row in panel.to_dict("records")}
    items: dict[str, list[Item]] = {}
    for one, side, context, shown, said in _said(found, benchmark, settings.groups):
        item = Item(
            question_id=one.question_id,
            side=side,
            question=shown,
            reference=one.answer,
            response=said,
            judgement=_judgement(ratings.get(_case(one.question_id, context))),
        )
        items.setdefault(context, []).append(item)
    labels = _labels(found)
    contexts = {context.name: context for context in Names.of(benchmark).contexts()}
    new = [
        context_scores(score(some, [get_metric(name) for name in METRICS]), labels, contexts[context])
        for context, some in items.items()
    ]
    scores = pd.concat([found.scores[~found.scores["measure"].isin(METRICS)], *new], ignore_index=True)
    config = found.record.info.config
    split = benchmark.split(config["split"])
    summary = summarize_contexts(scores, split, replicates=config["replicates"], seed=config["seed"])
    folder = found.record.folder
    replace_scores(folder, scores, attack=[ATTACK])
    write_atomically(folder / SUMMARY, summary.to_parquet)


def _labels(found: Reconstructed) -> pd.DataFrame:
    """Labels of the attacked questions, one row each."""
    measured = {"measure", "value", "reason", "given", "identifiers", "attack"}
    return found.scores.drop(columns=list(measured)).drop_duplicates("item").reset_index(drop=True)


def _judgement(row: Mapping[Any, Any] | None) -> Judgement:
    if row is None:
        return Judgement(None, NOT_ASKED)
    return Judgement(None, row["reason"]) if pd.isna(row["rating"]) else Judgement(float(row["rating"]))


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
