"""Ask models a benchmark's questions and score their responses; responses are generated once and can be
rescored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.fact_ranks import IN_RECORD, FactRank
from medunlearn.data.image_controls import ImageControl
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response, responses_digest
from medunlearn.data.splits import Split
from medunlearn.data.storage import write_frame
from medunlearn.metrics import distinct_metrics, get_metric, own_measures
from medunlearn.metrics.leakage import keywords as disease_keywords
from medunlearn.metrics.measure import Need, question_items, record_items
from medunlearn.metrics.needs import TOOLS
from medunlearn.metrics.unscored import refuse_unscored
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.probes.evaluation_folder import evaluation_folder, evaluation_inputs
from medunlearn.probes.other_images import (
    Answers,
    ask_with_other_images,
    image_measures,
    questions_on_images,
    refuse_without_images,
)
from medunlearn.probes.probe_set import refuse_other_material, refuse_other_probes
from medunlearn.probes.question_selection import material_of, probe_set, questions_to_ask
from medunlearn.probes.rank_plan import rank_plan
from medunlearn.probes.reference_tokens import reference_tokens
from medunlearn.probes.respondents import (
    EVERYTHING,
    Respondent,
    RespondentRun,
    lacking_needs,
    recorded_gifts,
    refuse_unanswerable,
)
from medunlearn.probes.score import (
    DEFAULT,
    local_tools,
    measure_tools,
    metric_names,
    score_items,
    score_records,
    score_store,
    write_tables,
)
from medunlearn.progress import remark
from medunlearn.results.evaluated import Evaluated, Evaluation, distinct, joined
from medunlearn.results.fact_table import FILE as FACTS
from medunlearn.results.fact_table import fact_table
from medunlearn.results.image_control import FILE as IMAGE_CONTROL
from medunlearn.results.image_control import control_table
from medunlearn.results.runs import Recording, Run, folder_of, is_complete, make_latest
from medunlearn.results.scores import question_labels, read_outcomes, record_labels
from medunlearn.training.processes import Processes, join

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel
    from medunlearn.probes.questioning import Questioning
    from medunlearn.probes.shared_work import SharedWork
    from medunlearn.probes.text_questioning import TextQuestioning

__all__ = ["evaluate", "evaluate_one", "metric_names"]


def evaluate(
    run: Run | RespondentRun | Path | str,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    *,
    against: Sequence[Run | RespondentRun | Path | str] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Evaluation:
    """Score a run's model on a split, and the runs that it is compared with.

    Responses, scores and summary are stored in each run's folder and computed once. Several processes (torchrun)
    share the questions, each with the model on its device. A server or stored responses are asked by one.

    Raises:
        InputError: an unknown split, metric or model.
        ConfigError: a respondent that gives nothing that the measures need.
        ModelError: a broken model, unless ``allow_broken``; its answers and scores are stored.
        MedunlearnError: a requested measure scored nothing; the same.
    """
    refuse_other_material(settings.probes, material_of(benchmark))
    named = [model if isinstance(model, RespondentRun) else (Run.of(model), None) for model in (run, *against)]
    names = metric_names(benchmark, settings)
    foreseen = {get_metric(name).name for own, _ in named for name in _tell_lacking(own, names, quiet)}
    processes, how = join(), dict[str, Any](quiet=quiet)
    if any(recorded_gifts(own) == EVERYTHING for own, _ in named):
        from medunlearn.probes.shared_work import SharedWork

        how |= {"device": processes.device(device), "work": SharedWork()}
    models = [
        evaluate_together(own, benchmark, settings, processes, respondent=respondent, **how)
        for own, respondent in named
    ]
    evaluation = Evaluation(tuple(distinct(models)), settings.replicates, settings.seed)
    problems = evaluation.problems
    refuse_broken(problems, allowed=settings.allow_broken)
    tables = {model.run.label: read_outcomes(model.record.folder) for model in evaluation.models}
    requested = distinct_metrics(own for own in settings.metrics if own != DEFAULT)
    refuse_unscored(tables, requested, foreseen, [label for label, found in problems.items() if found])
    return evaluation


def _tell_lacking(run: Run, names: Sequence[str], quiet: bool) -> dict[str, str]:
    """Name the measures that a run's respondent leaves unscored, before anything is asked; returns the reasons.

    Raises:
        ConfigError: all of them.
    """
    gives = recorded_gifts(run)
    if lacking := refuse_unanswerable(names, gives, run.label):
        remark(f"{run.label} gives no more than a response's text: {', '.join(lacking)} are unscored", quiet=quiet)
    return lacking


def evaluate_together(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    processes: Processes,
    *,
    respondent: Respondent | None = None,
    device: str = "auto",
    quiet: bool = False,
    work: SharedWork | None = None,
) -> Evaluated:
    """:func:`evaluate_one` by several processes: each asks the model a share, and rank 0 scores everything.

    An engine of vLLM, a server and stored responses are asked by rank 0 alone.

    Args:
        respondent: as for :func:`evaluate_one`.
        device: device of this process.

    Raises:
        Errors of :func:`evaluate_one`.
    """
    here = recorded_gifts(run) == EVERYTHING and settings.backend == "own"
    shared = here and processes.world > 1
    if shared and not processes.on_main(lambda: is_complete(evaluation_folder(run, benchmark, settings))):
        from medunlearn.probes.questioning import Questioning

        rendering, silent = run.rendering(settings.template, settings.context), quiet or not processes.main
        questioning = Questioning(run, benchmark, settings, rendering, device, silent, None, work=work)
        with processes.barrier():
            questioning.ask_share(processes, metric_names(benchmark, settings))
        del questioning
    how: dict[str, Any] = {"respondent": respondent, "device": device, "quiet": quiet, "work": work}
    with processes.main_first():
        return evaluate_one(run, benchmark, settings, **how)


def evaluate_one(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    *,
    respondent: Respondent | None = None,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
    work: SharedWork | None = None,
) -> Evaluated:
    """Score one run's model; a complete evaluation is returned unchanged. Identical answers are noted.

    Args:
        respondent: who answers for a run without a model (:mod:`medunlearn.probes.respondent_runs`).
        live: the run's model if it is already in memory, in evaluation mode; otherwise it is loaded.
        work: state of the process, shared with other evaluated models.

    Raises:
        InputError: an unknown split, metric or model; weights that are not finite, unless ``allow_broken``.
    """
    refuse_other_material(settings.probes, material_of(benchmark))
    split, metrics = benchmark.split(settings.split), metric_names(benchmark, settings)
    if not settings.other_texts:
        unless = ", or say --other-texts where you want that"
        run.refuse_other_texts(benchmark.texts_fingerprint, benchmark.fingerprint, unless)
    questions = questions_to_ask(benchmark, split, settings)
    probes = probe_set(benchmark, settings, questions)
    refuse_other_probes(settings.probes, probes)
    rendering = run.rendering(settings.template, settings.context)
    if settings.image_control:
        refuse_without_images(benchmark, rendering)
    folder = evaluation_folder(run, benchmark, settings)
    use = tightest([benchmark.data_use, model_use(run.folder)])
    inputs = evaluation_inputs(run, benchmark, settings)
    recording = Recording(folder, "evaluate", run.label, settings, inputs, data_use=use)
    if recording.done:
        done = Evaluated(run, Run.open(folder))
        facts = done.record.info.results.get("respondent", {})
        if respondent is None or not respondent.tries_again(facts):
            make_latest(folder)
            return done
    with recording.running():
        probes.write(folder)
        # Before anything is asked: that they cannot be found should not cost an hour of generation.
        with recording.stage("keywords"):
            keywords = disease_keywords.for_evaluation(benchmark, settings, metrics, run.folder, quiet=quiet)
        questioning: Questioning | TextQuestioning
        if recorded_gifts(run) == EVERYTHING:
            from medunlearn.probes.questioning import Questioning

            questioning = Questioning(run, benchmark, settings, rendering, device, quiet, live, work=work)
        else:
            from medunlearn.probes.text_questioning import TextQuestioning

            questioning = TextQuestioning(run, benchmark, settings, rendering, respondent, quiet)
        answers = _ask(questioning, questions, metrics, recording)
        del questioning  # The model makes room for those of the measures.
        if work is not None and any(getattr(settings, tool) for tool in TOOLS):
            work.base.drop()
        with recording.stage("score"):
            _write_scores(run, answers, keywords, benchmark, split, settings, metrics, folder, device)
        pairs = ((q.answer, answers.responses[q.question_id]) for q in answers.answered)
        problems = answer_problems([(reference, answer.response, answer.finished) for reference, answer in pairs])
        recording.info.results = {
            "health": {"problems": [*answers.problems, *problems]},
            "context": rendering.context,
            "template": rendering.template_name,
            **disease_keywords.extractor_of(settings, metrics),
            "responses_sha256": responses_digest(answers.responses.values()),
            "benchmark": benchmark.facts(),
            "probe_set": probes.facts(),
            "benchmark_folder": folder_of(benchmark),
            "split": {"name": split.name, "level": split.level, **benchmark.split_sizes(split)},
            "own_measures": own_measures(metrics),
            "tools": local_tools(settings, metrics),
            "other_texts": not run.saw(benchmark.texts_fingerprint, benchmark.fingerprint),
            **({"without_response": dict(answers.reasons)} if answers.reasons else {}),
            **answers.facts,
        }
    return Evaluated(run, Run.open(folder))


@dataclass(frozen=True)
class _Answers:
    """All responses and likelihoods of a model in one evaluation run.

    Attributes:
        controls: responses and likelihoods of options with other images, by control.
        ranks, record_ranks: ranks of facts, by question and by record.
        problems: problems of the model's weights.
        gives: the inputs of measures that the respondent gives.
        reasons: why questions have no response, by question.
        facts: for the evaluation's record: the store of responses, and batch layouts.
    """

    questions: Sequence[Question]
    context: str
    responses: Mapping[str, Response]
    options: Mapping[str, LogProbs]
    controls: Mapping[ImageControl, Answers]
    ranks: Mapping[str, list[FactRank]]
    record_ranks: Mapping[str, list[FactRank]]
    problems: tuple[str, ...]
    gives: frozenset[Need]
    reasons: Mapping[str, str]
    facts: Mapping[str, Any]

    @property
    def answered(self) -> list[Question]:
        """The questions with a response."""
        return [question for question in self.questions if question.question_id in self.responses]


def _ask(
    questioning: Questioning | TextQuestioning,
    questions: Sequence[Question],
    metrics: Sequence[str],
    recording: Recording,
) -> _Answers:
    run, settings = questioning.run, questioning.settings
    with recording.stage("ask"):
        store, responses, how = questioning.ask(questions)
        options, option_facts = questioning.rate(questions, metrics)
        controls = (
            ask_with_other_images(questioning, questions, metrics, recording.folder)  # type: ignore[arg-type]
            if settings.image_control
            else {}
        )
    with recording.stage("rank"):
        plan = rank_plan(questioning.benchmark, settings.split, settings, metrics)
        ranks, record_ranks, rank_facts = questioning.rank(plan)
    place = {"responses": str(store.relative_to(run.folder)), "chat_template": questioning.chat_template}
    return _Answers(
        questions,
        questioning.rendering.context,
        responses,
        options,
        controls,
        ranks,
        record_ranks,
        tuple(dict.fromkeys((*run.info.problems, *questioning.problems))),
        questioning.gives,
        questioning.reasons,
        {**place, **how, **option_facts, **rank_facts},
    )


def _write_scores(
    run: Run,
    answers: _Answers,
    keywords: Any,
    benchmark: Benchmark,
    split: Split,
    settings: EvaluateSettings,
    metrics: Sequence[str],
    folder: Path,
    device: str,
) -> None:
    questions, sides = answers.questions, benchmark.sides(split)
    lacking = lacking_needs(metrics, answers.gives)
    tokens = reference_tokens(
        run, benchmark, questions, settings, [name for name in metrics if name not in lacking]
    )
    given = answers.responses, answers.options, keywords, answers.ranks, tokens, answers.reasons
    items, labels = question_items(questions, sides, *given), question_labels(benchmark, split, questions)
    tools, store = measure_tools(settings, metrics, device), score_store(folder, settings, metrics)
    how: dict[str, Any] = {"tools": tools, "store": store, "lacking": lacking}
    tables = [score_items(items, metrics, settings, labels, device, **how)] if items else []
    if answers.ranks or answers.record_ranks:
        records = record_items(sides, answers.record_ranks)
        tables.append(score_records(records, metrics, benchmark, settings))
        of_records, unseen = record_labels(benchmark, split, [*answers.record_ranks]), benchmark.unseen_subjects
        facts = [
            fact_table(answers.ranks, labels, answers.context, unseen),
            fact_table(answers.record_ranks, of_records, IN_RECORD, unseen),
        ]
        write_frame(folder / FACTS, joined(facts))
    if answers.controls:
        names, image_questions = image_measures(metrics), questions_on_images(benchmark, questions)
        others: dict[str, pd.DataFrame] = {
            control: score_items(
                question_items(image_questions, sides, *answer), names, settings, labels, device, tools=tools
            )
            for control, answer in answers.controls.items()
        }
        write_frame(folder / IMAGE_CONTROL, control_table(tables[0], others))
    write_tables(folder, benchmark, settings, joined(tables))
    store.remove()
