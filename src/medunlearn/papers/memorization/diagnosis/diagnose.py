"""Top-k accuracy of trained models, overall and by specialty, before and after training, with its epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import DiagnoseSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import UNKNOWN, tightest
from medunlearn.data.records import Question
from medunlearn.data.responses import Response
from medunlearn.data.storage import write_frame
from medunlearn.errors import InputError
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.papers.memorization.diagnosis.accuracy import (
    accuracy_table,
    ask,
    difference_table,
    predictions,
    questions_of,
    small_specialties,
)
from medunlearn.papers.memorization.diagnosis.report import (
    DIFFERENCES,
    PREDICTIONS,
    Diagnosed,
    diagnosis_report,
)
from medunlearn.papers.memorization.diagnosis.rise import rises
from medunlearn.papers.memorization.report.content import ACCURACY
from medunlearn.reports.claims import FAILS, HOLDS, OPEN
from medunlearn.reports.write import write_report
from medunlearn.results.evaluated import distinct_runs
from medunlearn.results.runs import Recording, Run

FOLDER = "diagnosis"


def diagnose(
    run: Run,
    benchmark: Benchmark,
    settings: DiagnoseSettings,
    *,
    against: Sequence[Run] = (),
    out: Path | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Diagnosed:
    """Ask models for diagnoses and compute accuracies; complete results are returned unchanged.

    Args:
        against: runs to compare with. Without any, the model before training, if it was evaluated (``watch.part``).
        out: folder of the result; None: a separate folder in the run's.

    Raises:
        InputError: not a diagnosis benchmark, an unknown part, or a run without weights.
        ModelError: a broken model, unless ``allow_broken``; its answers are stored.
    """
    questions = questions_of(benchmark, settings.part)
    models = _models(run, benchmark, settings, against, device, say)
    inputs = {"benchmark": benchmark.fingerprint, "models": [model.fingerprint for model in models.values()]}
    key = Recording.key_of("diagnose", settings, inputs)
    folder = out or run.folder / FOLDER / f"{settings.part}-{key[:8]}"
    use = tightest([benchmark.data_use, *(model_use(model.folder) for model in models.values())])
    recording = Recording(folder, "diagnose", run.label, settings, inputs, data_use=use)
    if recording.done:
        return _check_models(Diagnosed(run, Run.open(folder)), against, settings)
    recording.info["lineage"] = [str(model.folder) for model in models.values()]
    draws = {"replicates": settings.replicates, "seed": settings.seed}
    with recording.running():
        with recording.stage("ask"):
            responses = {
                label: _ask(model, benchmark, settings, device=device, quiet=quiet)
                for label, model in models.items()
            }
        problems = {label: _problems(questions, of_model) for label, of_model in responses.items()}
        with recording.stage("count"):
            predicted = {
                label: predictions(benchmark, of_model, settings, questions)
                for label, of_model in responses.items()
            }
            _count(folder, predicted, settings, draws)
        first = next(iter(models))
        recording.info["results"] = {
            "health": {"problems": list(problems[first]), "models": problems},
            "models": list(models),
            "benchmark": {**benchmark.facts(), "data_use": recording.info.data_use or UNKNOWN},
            "specialties with fewer patients": small_specialties(predicted[first], settings.least_patients),
            "epochs": run.info["results"].get("epochs"),
            "rise": [_open_if_broken(rise.facts(), problems[first]) for rise in rises(run, **draws)],
        }
        with recording.stage("report"):
            write_report(diagnosis_report(Diagnosed(run, Run(folder, recording.info))), folder)
    return _check_models(Diagnosed(run, Run.open(folder)), against, settings)


def _problems(questions: Sequence[Question], responses: Mapping[str, Response]) -> tuple[str, ...]:
    pairs = ((question.answer, responses[question.question_id]) for question in questions)
    return answer_problems((answer, response.response, response.finished) for answer, response in pairs)


def _open_if_broken(facts: dict[str, Any], problems: Sequence[str]) -> dict[str, Any]:
    """Facts of a rise; undecided for a broken model."""
    return facts | {"verdict": OPEN} if problems and facts["verdict"] in (HOLDS, FAILS) else facts


def _check_models(result: Diagnosed, against: Sequence[Run], settings: DiagnoseSettings) -> Diagnosed:
    """The result, unless a named model is broken; the model before training only gets a warning."""
    problems = list(result.problems.items())[: len(against) + 1]
    refuse_broken(dict(problems), allowed=settings.allow_broken)
    return result


def _count(
    folder: Path, predicted: Mapping[str, pd.DataFrame], settings: DiagnoseSettings, draws: Mapping[str, int]
) -> None:
    with_model = [table.assign(model=label) for label, table in predicted.items()]
    tables = {
        PREDICTIONS: pd.concat(with_model, ignore_index=True),
        ACCURACY: accuracy_table(predicted, settings.k, settings.least_patients, **draws),
        DIFFERENCES: difference_table(predicted, settings.k, settings.least_patients, **draws),
    }
    for name, table in tables.items():
        write_frame(folder / name, table)


def _models(
    run: Run,
    benchmark: Benchmark,
    settings: DiagnoseSettings,
    against: Sequence[Run],
    device: str,
    say: Callable[[str], None],
) -> dict[str, Run]:
    """Label -> the run that stores the model's responses: the run's own model first, then those it is compared
    with.
    """
    if against:
        return {other.label: other for other in distinct_runs([run, *against])}
    epochs = run.info["results"].get("epochs")
    if not epochs or run.info["config"].get("watch", {}).get("part") != settings.part:
        say("there is no model before training to compare with: name one with --against, or train with watch.part")
        return {run.label: run}
    before, best = run.epoch(0), run.epoch(int(epochs["chosen"]))
    if not _is_asked(before, benchmark, settings, device):
        say("the model before training was asked in another way than this; name one with --against to compare")
        return {run.label: run}
    return {run.label: best if _is_asked(best, benchmark, settings, device) else run, "before training": before}


def _is_asked(epoch: Run, benchmark: Benchmark, settings: DiagnoseSettings, device: str) -> bool:
    """True if an epoch's responses are stored, or weights exist to generate them."""
    try:
        _ask(epoch, benchmark, settings, device=device, quiet=True)
    except InputError:
        return False
    return True


def _ask(run: Run, benchmark: Benchmark, settings: DiagnoseSettings, **how: Any) -> dict[str, Response]:
    rendering = run.rendering(settings.template)
    how |= {"weights": settings.weights, "allow_broken": settings.allow_broken}
    return ask(run, benchmark, settings, rendering, **how)
