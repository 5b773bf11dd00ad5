"""Ask models a benchmark's questions and score what they say: ask once, score as often as you like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.builders import GROUPINGS, IDENTIFIER, Grouping, default_metrics_of, identifier_asked
from medunlearn.data.records import Question
from medunlearn.data.responses import Response
from medunlearn.data.splits import Split
from medunlearn.data.storage import write_atomically
from medunlearn.generation.options import LogProbs
from medunlearn.metrics import Item, Keywords, Tools, get_metric
from medunlearn.metrics.leakage import keywords as disease_keywords
from medunlearn.metrics.scoring import score
from medunlearn.models.bart_score import BartScorer
from medunlearn.models.bert_score import BertScorer
from medunlearn.models.encoders import EntailmentModel, SentenceEncoder
from medunlearn.models.load import LanguageModel
from medunlearn.pipeline.material import rendering_of
from medunlearn.pipeline.questioning import ask, asked, rate
from medunlearn.results.evaluated import FOLDER, GROUPS, QUESTIONS, SCORES, SUMMARY, Evaluated, Evaluation, distinct
from medunlearn.results.runs import FILE, Recording, Run
from medunlearn.results.summary import summarize


def evaluate(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    *,
    against: Sequence[Run] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Evaluation:
    """Score a run's model on a split, and the runs that it is compared with.

    Responses are kept in each run's folder and asked for once; scores and summary likewise.

    Raises:
        InputError: an unknown split, metric or model.
    """
    models = [evaluate_one(one, benchmark, settings, device=device, quiet=quiet) for one in (run, *against)]
    return Evaluation(tuple(distinct(models)), settings.replicates, settings.seed)


def evaluate_one(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    *,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
) -> Evaluated:
    """Score one run's model; a complete evaluation is returned as it is.

    Args:
        live: the run's model where it is in memory already, in evaluation mode; otherwise it is loaded.

    Raises:
        InputError: an unknown split, metric or model.
    """
    split = benchmark.split(settings.split)
    metrics = metric_names(benchmark, settings)
    questions = asked(benchmark, split, settings)
    rendering = rendering_of(run, settings.template, settings.context)
    inputs = _inputs(run, benchmark, settings)
    folder = evaluation_folder(run, benchmark, settings)
    recording = Recording(folder, "evaluate", run.label, settings, inputs)
    if recording.done:
        # A report takes the evaluation that was asked for last.
        with suppress(OSError):
            (folder / FILE).touch()
    else:
        with recording.running():
            # Before anything is asked: that they cannot be found should not cost an hour of generation.
            with recording.stage("keywords"):
                keywords = disease_keywords.for_evaluation(benchmark, settings, metrics, run.folder, quiet=quiet)
            with recording.stage("ask"):
                store, responses, how = ask(run, benchmark, settings, rendering, questions, device, quiet, live)
                options, more = rate(run, benchmark, settings, rendering, questions, metrics, device, quiet, live)
            with recording.stage("score"):
                items = _items(benchmark, split, questions, responses, options, keywords)
                _score(folder, benchmark, split, settings, metrics, questions, items, device)
            recording.info["results"] = {
                "context": rendering.context,
                "responses": str(store.relative_to(run.folder)),
                "benchmark": benchmark.facts(),
                "split": {
                    "name": split.name,
                    "level": split.level,
                    "forget": len(split.forget),
                    "retain": len(split.retain),
                },
                **how,
                **more,
            }
    return Evaluated(run, Run.open(folder))


def evaluation_folder(run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> Path:
    """Each set of settings has a folder of its own: a second evaluation never meets the first one's files."""
    name = "".join(letter if letter.isalnum() else "_" for letter in settings.split)[:40]
    key = Recording.key_of("evaluate", settings, _inputs(run, benchmark, settings))
    return run.folder / FOLDER / f"{name}-{key[:8]}"


def _inputs(run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> dict[str, Any]:
    rendering = rendering_of(run, settings.template, settings.context)
    metrics = metric_names(benchmark, settings)
    return {
        "benchmark": benchmark.fingerprint,
        "model": run.fingerprint,
        "metrics": list(metrics),
        "rendering": [rendering.template, rendering.context],
        **disease_keywords.inputs(benchmark, settings, metrics),
    }


def metric_names(benchmark: Benchmark, settings: EvaluateSettings) -> tuple[str, ...]:
    """The metrics asked for, or the benchmark's own.

    Raises:
        UnknownNameError: a metric that there is not.
    """
    names = settings.metrics or default_metrics_of(benchmark.builder)
    for name in names:
        get_metric(name)
    return names


def about(benchmark: Benchmark, split: Split, questions: Sequence[Question]) -> pd.DataFrame:
    """One row a question: question_id, subject, side, fold, kind."""
    sides = benchmark.sides(split)
    return pd.DataFrame(
        [
            {
                "question_id": question.question_id,
                "subject": benchmark.subject(question.record_id),
                "side": sides[question.record_id],
                "fold": question.fold,
                "kind": question.kind,
            }
            for question in questions
        ]
    )


def _score(
    folder: Path,
    benchmark: Benchmark,
    split: Split,
    settings: EvaluateSettings,
    metrics: Sequence[str],
    questions: Sequence[Question],
    items: Sequence[Item],
    device: str,
) -> None:
    """Scores, summary and the questions' table, written to the evaluation's folder."""
    tools = Tools(
        encoder=SentenceEncoder(settings.encoder, device) if settings.encoder else None,
        nli=EntailmentModel(settings.nli, device) if settings.nli else None,
        bert=BertScorer(settings.bert, device=device) if settings.bert else None,
        bart=BartScorer(settings.bart, device=device) if settings.bart else None,
    )
    scores = score(items, [get_metric(metric) for metric in metrics], tools)
    meta = about(benchmark, split, questions)
    summary = summarize(scores, meta, replicates=settings.replicates, seed=settings.seed)
    tables = {SCORES: scores, SUMMARY: summary, QUESTIONS: meta}
    if benchmark.builder in GROUPINGS:
        tables[GROUPS] = _grouped(GROUPINGS[benchmark.builder], benchmark, settings, questions, scores, meta)
    for name, table in tables.items():
        write_atomically(folder / name, table.to_parquet)


def _grouped(
    grouping: Grouping,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    questions: Sequence[Question],
    scores: pd.DataFrame,
    meta: pd.DataFrame,
) -> pd.DataFrame:
    """The grouping's measures for each node of its level, with intervals, as ``summarize`` gives them."""
    nodes = {q.question_id: benchmark.record[q.record_id].groups.get(grouping.level) for q in questions}
    fields = {q.question_id: identifier_asked(q.provenance) for q in questions}
    tables = []
    for level, known, of, measures in (
        (grouping.level, benchmark.hierarchy.nodes(grouping.level), nodes, grouping.measures),
        (IDENTIFIER, _in_order(fields.values()), fields, grouping.of_identifiers),
    ):
        for node in known if measures else ():
            inside = meta[meta["question_id"].map(of) == node]
            of_node = scores[scores["question_id"].isin(inside["question_id"])]
            table = summarize(of_node, inside, replicates=settings.replicates, seed=settings.seed)
            for kind, (metric, measure) in measures.items():
                rows = table[(table["kind"] == kind) & (table["metric"] == metric)]
                tables.append(rows.assign(level=level, node=node, measure=measure))
    return pd.concat(tables, ignore_index=True)


def _in_order(fields: Iterable[str | None]) -> list[str]:
    return [field for field in dict.fromkeys(fields) if field is not None]


def _items(
    benchmark: Benchmark,
    split: Split,
    questions: Sequence[Question],
    responses: Mapping[str, Response],
    options: Mapping[str, LogProbs],
    keywords: Mapping[str, Keywords],
) -> list[Item]:
    sides = benchmark.sides(split)
    items = []
    for question in questions:
        response = responses[question.question_id]
        items.append(
            Item(
                question_id=question.question_id,
                side=sides[question.record_id],
                question=question.question,
                reference=question.answer,
                response=response.response,
                response_tokens=response.response_tokens,
                answer_log_probs=response.answer_log_probs,
                answer_hits=response.answer_hits,
                keywords=keywords.get(question.question_id),
                alternative_log_probs=options.get(question.question_id),
                answer_index=question.answer_index,
            )
        )
    return items
