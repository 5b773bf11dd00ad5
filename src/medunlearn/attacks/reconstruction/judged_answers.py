"""Judge the responses of a reconstruction attack: factuality and Gen Score at each context level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from medunlearn.attacks.attack_protocol import AttackFamily
from medunlearn.attacks.attacked import Attacked
from medunlearn.attacks.reconstruction.contexts import ContextLevel, NodeNames
from medunlearn.attacks.reconstruction.reconstruction_results import (
    ATTACK,
    NAME,
    SUMMARY,
    context_scores,
    summarize_contexts,
)
from medunlearn.config import JudgeSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.origins import real_name
from medunlearn.data.records import Question
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import write_frame
from medunlearn.errors import InputError
from medunlearn.input_files import path_inside
from medunlearn.judging.panel_run import PANEL_FILE, JudgingRun, sample_material
from medunlearn.judging.rated_responses import (
    METRICS,
    TASK,
    JudgedResponses,
    judgements_of,
    kinds_to_judge,
    known_identifiers,
    rated_measures,
    store_of,
)
from medunlearn.judging.tasks import JudgingCase
from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.judged import NOT_JUDGED
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import refuse_broken
from medunlearn.results.rated import FOLDER, JUDGED
from medunlearn.results.runs import FILE, Run
from medunlearn.results.scores import replace_scores


def attacked_responses(
    record: Run, family: AttackFamily, benchmark: Benchmark, settings: JudgeSettings
) -> JudgedResponses:
    """The responses at each context level, each with its prompt and reference answer."""
    if record.info.benchmark != benchmark.fingerprint:
        raise InputError(f"{record.folder} attacked on another benchmark than the one named.")
    attacked = Attacked(Run.open(record.folder.parents[1]), record, family)
    refuse_broken({attacked.run.label: record.info.problems}, allowed=settings.allow_broken)
    identifiers = known_identifiers(benchmark)
    cases = [
        JudgingCase(
            case_id=_case(item, context),
            subject=benchmark.subject(question.record_id),
            group=f"{item.side}, {question.kind}, {context.name}",
            fields={"question": item.question, "reference": item.reference, "response": str(item.response)},
            identifiers=identifiers,
        )
        for question, context, item in _items(attacked, benchmark, settings.groups)
    ]
    plain = settings.model_copy(update={"groups": (), "split": None})
    use = tightest([benchmark.data_use, record.info.data_use, model_use(attacked.run.folder)])
    return JudgedResponses(
        sample_material(cases, TASK, plain, use, benchmark.records),
        store_of(attacked.run),
        f"{record.folder / FOLDER}/",
        {"attack": record.info.key},
        lambda judged: _add_scores(attacked, benchmark, judged, settings.groups),
    )


def _add_scores(attacked: Attacked, benchmark: Benchmark, judged: JudgingRun, kinds: Sequence[str]) -> None:
    """Add factuality and Gen Score to the attack's tables, replacing earlier ones."""
    judgements, missing = judgements_of(judged.table(PANEL_FILE)), Judgement(None, NOT_JUDGED)
    items: dict[ContextLevel, list[Item]] = {}
    for _, context, item in _items(attacked, benchmark, kinds):
        rated_item = replace(item, judgement=judgements.get(_case(item, context), missing))
        items.setdefault(context, []).append(rated_item)
    labels, metrics = _labels(attacked), [get_metric(name) for name in rated_measures(judged)]
    new = [context_scores(score(own, metrics), labels, context) for context, own in items.items()]
    unrated = attacked.scores[~attacked.scores["measure"].map(real_name).isin(METRICS)]
    scores = pd.concat([unrated, *new], ignore_index=True)
    config, folder = attacked.record.info.config, attacked.record.folder
    split = benchmark.split(config["split"])
    summary = summarize_contexts(scores, split, replicates=config["replicates"], seed=config["seed"])
    replace_scores(folder, scores, attack=[ATTACK])
    write_frame(folder / SUMMARY, summary)
    attacked.record.info.results[JUDGED] = str(judged.run.folder.relative_to(attacked.run.folder))
    attacked.record.info.with_tables(folder).write(folder)


def _labels(attacked: Attacked) -> pd.DataFrame:
    """Labels of the attacked questions, one row each."""
    measured = ["measure", "value", "reason", "given", "identifiers", "attack"]
    return attacked.scores.drop(columns=measured).drop_duplicates("item").reset_index(drop=True)


def _items(
    attacked: Attacked, benchmark: Benchmark, kinds: Sequence[str]
) -> Iterator[tuple[Question, ContextLevel, Item]]:
    """Judge items: each question of the judged kinds at each context level, as it was put, with its response."""
    facts = attacked.record.info.results[NAME]
    store = path_inside(attacked.run.folder, facts["responses"], attacked.record.folder / FILE)
    responses = ResponseStore.read_complete(store)
    sides = _labels(attacked).set_index("item")["side"].to_dict()
    questions = [question for question in benchmark.questions if question.question_id in sides]
    judged_kinds, names = kinds_to_judge(questions, kinds), NodeNames.of(benchmark)
    for context in names.contexts():
        for question in (question for question in questions if question.kind in judged_kinds):
            key, side = question.question_id, sides[question.question_id]
            response = responses[key, f"{facts['context']}|{context.name}", 0].response
            prompt = names.in_front(question, context).question
            yield question, context, Item(key, side, prompt, question.answer, response)


def _case(item: Item, context: ContextLevel) -> str:
    return f"{item.question_id}|{context.name}"
