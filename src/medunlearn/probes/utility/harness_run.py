"""Utility of runs' models, measured once and stored in each run's folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from medunlearn.config import UtilitySettings
from medunlearn.data.storage import write_frame
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.probes.utility.harness import fingerprint, run_tasks, task_manager
from medunlearn.probes.utility.numbers import FOLDER, SUMMARY, Utilities, Utility, item_scores, summary_table
from medunlearn.progress import progress
from medunlearn.results.evaluated import distinct_runs
from medunlearn.results.keys import keyed_folder
from medunlearn.results.runs import Recording, Run, make_latest
from medunlearn.results.scores import write_scores
from medunlearn.training.processes import Processes
from medunlearn.training.recording import open_recording


def utility(
    run: Run, settings: UtilitySettings, *, against: Sequence[Run] = (), device: str = "auto", quiet: bool = False
) -> Utilities:
    """Measure a run's model and the runs that it is compared with.

    Raises:
        InputError: lm-evaluation-harness is not installed; an unknown task, or one without data.
        ModelError: a broken model, unless ``allow_broken``; its measurements are stored.
    """
    runs = [run, *against]
    models = [utility_one(each, settings, device=device, quiet=quiet) for each in runs]
    renamed_models = tuple(
        replace(model, run=each) for model, each in zip(models, distinct_runs(runs), strict=True)
    )
    utilities = Utilities(renamed_models)
    refuse_broken(utilities.problems, allowed=settings.allow_broken)
    return utilities


def utility_one(
    run: Run,
    settings: UtilitySettings,
    *,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
    processes: Processes | None = None,
    check: Callable[[], None] | None = None,
) -> Utility:
    """Measure one run's model; a complete measurement is returned unchanged.

    Args:
        live: the run's model if it is already in memory, in evaluation mode; otherwise it is loaded.
        processes: processes with the same live model that share the work; each makes the same call.
        check: called regularly; raises KeyboardInterrupt to stop the run.

    Raises:
        InputError: as in :func:`utility`; a model that cannot be loaded.
    """
    together = processes or Processes()
    folder = utility_folder(run, settings)
    inputs, use = _inputs(run, settings), model_use(run.folder)
    recording = open_recording(together, folder, "utility", run.label, settings, inputs, data_use=use)
    if recording.done:
        make_latest(folder)
        return Utility(run, Run.open(folder))
    task_manager(settings)
    bar = partial(progress, f"{run.label}: utility", quiet=quiet or not together.main, check=check)
    with recording.running():
        with recording.stage("load") if live is None else nullcontext():
            model = live or load_model(
                run.model, device=device, weights=settings.weights, allow_broken=settings.allow_broken
            )
        with recording.stage("ask"):
            items, results, answers = run_tasks(model, settings, processes=together, bar=bar)
        recording.info.results["health"] = {
            "problems": list(dict.fromkeys((*run.info.problems, *model.problems, *answer_problems(answers))))
        }
        if together.main:
            write_scores(folder, item_scores(items))
            write_frame(folder / SUMMARY, summary_table(items, results, settings))
    return together.on_main(lambda: Utility(run, Run.open(folder)))


def utility_folder(run: Run, settings: UtilitySettings) -> Path:
    """Folder of a measurement, one per set of settings."""
    key = Recording.key_of("utility", settings, _inputs(run, settings))
    return keyed_folder(run.folder / FOLDER, settings.tasks[0], key)


def _inputs(run: Run, settings: UtilitySettings) -> dict[str, str]:
    return {"model": run.fingerprint, **fingerprint(settings)}
