"""Ask models a benchmark's questions and score their responses: ask once, score as often as you like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.fact_ranks import IN_RECORD
from medunlearn.data.responses import responses_digest
from medunlearn.data.storage import write_atomically
from medunlearn.metrics.leakage import keywords as disease_keywords
from medunlearn.metrics.measure import question_items, record_items
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.models.load import LanguageModel
from medunlearn.pipeline.other_images import ask_with_other_images, refuse_without_images, score_controls
from medunlearn.pipeline.questioning import Questioning, questions_to_ask
from medunlearn.pipeline.rank_plan import rank_plan, rank_versions
from medunlearn.pipeline.score import TOOLS, metric_names, score_items, score_records, write_tables
from medunlearn.pipeline.shared_work import SharedWork
from medunlearn.registry import load
from medunlearn.results.evaluated import FOLDER, Evaluated, Evaluation, distinct, joined
from medunlearn.results.fact_table import FILE as FACTS
from medunlearn.results.fact_table import fact_table
from medunlearn.results.image_control import FILE as IMAGE_CONTROL
from medunlearn.results.image_control import control_table
from medunlearn.results.keys import keyed_folder
from medunlearn.results.runs import Recording, Run, make_latest
from medunlearn.results.scores import question_labels, record_labels
from medunlearn.training.processes import join

TOGETHER = "medunlearn.pipeline.shared_evaluation:evaluate_together"

__all__ = ["evaluate", "evaluate_one", "evaluation_folder", "metric_names"]


def evaluate(
    run: Run | Path | str,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    *,
    against: Sequence[Run | Path | str] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Evaluation:
    """Score a run's model on a split, and the runs that it is compared with.

    Responses are kept in each run's folder and asked for once; scores and summary likewise. Several processes
    (torchrun) share the questions, each with the model on its device.

    Raises:
        InputError: an unknown split, metric or model.
        ModelError: a broken model, unless ``allow_broken``; what it answered and its scores are kept.
    """
    runs = [Run.of(model) for model in (run, *against)]
    processes = join()
    together, place = load(TOGETHER), processes.device(device)
    how: dict[str, Any] = {"device": place, "quiet": quiet, "work": SharedWork()}
    models = [together(model, benchmark, settings, processes, **how) for model in runs]
    evaluation = Evaluation(tuple(distinct(models)), settings.replicates, settings.seed)
    refuse_broken(evaluation.problems, allowed=settings.allow_broken)
    return evaluation


def evaluate_one(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    *,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
    work: SharedWork | None = None,
) -> Evaluated:
    """Score one run's model; a complete evaluation is returned as it is. One whose answers are all alike is noted.

    Args:
        live: the run's model where it is in memory already, in evaluation mode; otherwise it is loaded.
        work: of the process, where other models are asked before or after this one.

    Raises:
        InputError: an unknown split, metric or model; weights that are not finite, unless ``allow_broken``.
    """
    split, metrics = benchmark.split(settings.split), metric_names(benchmark, settings)
    if not settings.other_texts:
        unless = ", or say --other-texts where you want that"
        run.refuse_other_texts(benchmark.texts_fingerprint, benchmark.fingerprint, unless)
    questions = questions_to_ask(benchmark, split, settings)
    rendering = run.rendering(settings.template, settings.context)
    if settings.image_control:
        refuse_without_images(benchmark, rendering)
    folder = evaluation_folder(run, benchmark, settings)
    use = tightest([benchmark.data_use, model_use(run.folder)])
    inputs = _inputs(run, benchmark, settings)
    recording = Recording(folder, "evaluate", run.label, settings, inputs, data_use=use)
    if recording.done:
        make_latest(folder)
    else:
        with recording.running():
            # Before anything is asked: that they cannot be found should not cost an hour of generation.
            with recording.stage("keywords"):
                keywords = disease_keywords.for_evaluation(benchmark, settings, metrics, run.folder, quiet=quiet)
            with recording.stage("ask"):
                questioning = Questioning(run, benchmark, settings, rendering, device, quiet, live, work=work)
                store, responses, how = questioning.ask(questions)
                options, more = questioning.rate(questions, metrics)
                controls = (
                    ask_with_other_images(questioning, questions, metrics, folder) if settings.image_control else {}
                )
            with recording.stage("rank"):
                plan = rank_plan(benchmark, split.name, settings, metrics)
                ranks, of_records, ranked = questioning.rank(plan)
                problems = tuple(dict.fromkeys((*run.info.problems, *questioning.problems)))
                chat_template = questioning.chat_template
                del questioning  # The model makes room for those of the measures.
                if work is not None and any(getattr(settings, tool) for tool in TOOLS):
                    work.base.drop()
            with recording.stage("score"):
                sides = benchmark.sides(split)
                items = question_items(questions, sides, responses, options, keywords, ranks)
                labels = question_labels(benchmark, split, questions)
                tables = [score_items(items, metrics, settings, labels, device)] if items else []
                if ranks or of_records:
                    tables.append(score_records(record_items(sides, of_records), metrics, benchmark, settings))
                    in_place = record_labels(benchmark, split, [*of_records])
                    facts = [
                        fact_table(ranks, labels, rendering.context),
                        fact_table(of_records, in_place, IN_RECORD),
                    ]
                    write_atomically(folder / FACTS, joined(facts).to_parquet)
                if controls:
                    others = score_controls(controls, benchmark, questions, settings, labels, metrics, device)
                    write_atomically(folder / IMAGE_CONTROL, control_table(tables[0], others).to_parquet)
                write_tables(folder, benchmark, settings, joined(tables))
            problems += answer_problems(
                (q.answer, (said := responses[q.question_id]).response, said.finished) for q in questions
            )
            recording.info.results = {
                "health": {"problems": list(problems)},
                "context": rendering.context,
                "template": rendering.template_name,
                "chat_template": chat_template,
                **disease_keywords.extractor_of(settings, metrics),
                "responses": str(store.relative_to(run.folder)),
                "responses_sha256": responses_digest(responses.values()),
                "benchmark": benchmark.facts(),
                "benchmark_folder": None if benchmark.folder is None else str(benchmark.folder.resolve()),
                "split": {
                    "name": split.name,
                    "level": split.level,
                    **benchmark.split_sizes(split),
                },
                "other_texts": not run.saw(benchmark.texts_fingerprint, benchmark.fingerprint),
                **how,
                **more,
                **ranked,
            }
    return Evaluated(run, Run.open(folder))


def evaluation_folder(run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> Path:
    """Each set of settings has a folder of its own: a second evaluation never meets the first one's files."""
    name = "".join(letter if letter.isalnum() else "_" for letter in settings.split)[:40]
    key = Recording.key_of("evaluate", settings, _inputs(run, benchmark, settings))
    return keyed_folder(run.folder / FOLDER, name, key)


def _inputs(run: Run, benchmark: Benchmark, settings: EvaluateSettings) -> dict[str, Any]:
    rendering = run.rendering(settings.template, settings.context)
    metrics = metric_names(benchmark, settings)
    return {
        "benchmark": benchmark.fingerprint,
        "model": run.fingerprint,
        "metrics": list(metrics),
        "rendering": [rendering.template_name, rendering.context],
        **disease_keywords.inputs(benchmark, settings, metrics),
        **rank_versions(metrics),
    }
