"""One evaluation by several processes: each asks the model a share, and the main process scores all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.pipeline.evaluate import evaluate_one, evaluation_folder, metric_names
from medunlearn.pipeline.questioning import Questioning, questions_to_ask
from medunlearn.pipeline.rank_plan import rank_plan
from medunlearn.pipeline.shared_work import SharedWork
from medunlearn.pipeline.trainer import is_complete
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes


def ask_a_share(questioning: Questioning, processes: Processes, check: Callable[[], None] = lambda: None) -> None:
    """Ask this process's share of an evaluation's questions, options and ranks, for the main process to find.

    What is about one record is one process's work, so that it still runs once.

    Args:
        check: called after each batch of responses.
    """
    benchmark, settings = questioning.benchmark, questioning.settings
    split, metrics = benchmark.split(settings.split), metric_names(benchmark, settings)
    questions = questions_to_ask(benchmark, split, settings)
    plan = rank_plan(benchmark, split.name, settings, metrics)
    record_of = {question.question_id: question.record_id for question in benchmark.questions}
    about = [*(q.record_id for q in questions), *(record_of[name] for name in plan.questions), *plan.records]
    mine = {
        record for place, record in enumerate(dict.fromkeys(about)) if place % processes.world == processes.rank
    }
    part = [question for question in questions if question.record_id in mine]
    questioning.ask(part, check)
    questioning.rate(part, metrics)
    ranked = {name for name in plan.questions if record_of[name] in mine}
    questioning.rank(plan, ranked, mine & {*plan.records})


def evaluate_together(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    processes: Processes,
    *,
    device: str = "auto",
    quiet: bool = False,
    work: SharedWork | None = None,
) -> Evaluated:
    """:func:`evaluate_one` by all processes, each of which has the model on its device.

    Args:
        device: of this process.

    Raises:
        as :func:`evaluate_one`.
    """
    if processes.world > 1:

        def is_done() -> bool:
            return is_complete(evaluation_folder(run, benchmark, settings))

        if not processes.on_main(is_done):
            rendering, silent = run.rendering(settings.template, settings.context), quiet or not processes.main
            questioning = Questioning(run, benchmark, settings, rendering, device, silent, None, work=work)
            processes.each(lambda: ask_a_share(questioning, processes))
            del questioning
    how: dict[str, Any] = {"device": device, "quiet": quiet, "work": work}
    return processes.main_first(lambda: evaluate_one(run, benchmark, settings, **how))
