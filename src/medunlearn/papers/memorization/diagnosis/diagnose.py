"""Top-k accuracy of trained models, overall and by specialty, before and after; with the epochs of the training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import DiagnoseSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import write_atomically
from medunlearn.errors import InputError
from medunlearn.papers.memorization.diagnosis.accuracy import accuracy_table, difference_table, groups
from medunlearn.papers.memorization.diagnosis.asking import ask, predictions, questions_of
from medunlearn.papers.memorization.diagnosis.report import DiagnosisContent, diagnosis_report
from medunlearn.papers.memorization.diagnosis.rise import rises
from medunlearn.pipeline.epochs.selection import TABLE, Standing, stop_epoch
from medunlearn.pipeline.material import rendering_of
from medunlearn.reports.write import write_report
from medunlearn.results.evaluated import distinct_runs
from medunlearn.results.runs import Recording, Run

FOLDER = "diagnosis"
ACCURACY, DIFFERENCES, PREDICTIONS = "accuracy.parquet", "differences.parquet", "predictions.parquet"
PATIENCE = 2
"""Where a run did not end early, its report marks the epoch after which it would have; the paper's patience."""


@dataclass(frozen=True)
class Diagnosed:
    """What came of it.

    Attributes:
        run: the model's run.
        record: the recorded run of this, with the tables and ``report.html`` in its folder.
    """

    run: Run
    record: Run

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """:func:`~medunlearn.papers.memorization.diagnosis.accuracy.accuracy_table`."""
        return pd.read_parquet(self.record.folder / ACCURACY)

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Paired differences of accuracy (:func:`.accuracy.difference_table`); empty with a single model."""
        return pd.read_parquet(self.record.folder / DIFFERENCES)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """One row a model and admission, without text."""
        return pd.read_parquet(self.record.folder / PREDICTIONS)

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """The table of epochs of the run; empty where it was not evaluated as it went on."""
        path = self.run.folder / TABLE
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()

    def table(self) -> pd.DataFrame:
        return self.accuracy

    @property
    def report(self) -> Path:
        return self.record.folder / "report.html"


@dataclass(frozen=True)
class _Model:
    """Somebody to ask: under which run responses are kept, and whose weights are loaded if some are missing."""

    asked: Run
    label: str


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
    """Ask models for diagnoses and count; complete results are returned as they are.

    Args:
        against: runs to compare with. Without any, the model before training, where it was asked (``watch.part``).
        out: folder of the result; None: a folder of its own in the run's.

    Raises:
        InputError: a benchmark that asks for no diagnoses, an unknown part, or a run that cannot be asked.
    """
    questions = questions_of(benchmark, settings.part)
    models = _models(run, benchmark, settings, against, say)
    inputs = {"benchmark": benchmark.fingerprint, "models": [model.asked.fingerprint for model in models]}
    key = Recording.key_of("diagnose", settings, inputs)
    folder = out or run.folder / FOLDER / f"{settings.part}-{key[:8]}"
    recording = Recording(folder, "diagnose", run.label, settings, inputs)
    if recording.done:
        return Diagnosed(run, Run.open(folder))
    recording.info["lineage"] = [str(model.asked.folder) for model in models]
    with recording.running():
        with recording.stage("ask"):
            read = {
                model.label: predictions(
                    benchmark,
                    ask(
                        model.asked,
                        benchmark,
                        settings,
                        rendering_of(model.asked, settings.template, None),
                        weights=settings.weights,
                        device=device,
                        quiet=quiet,
                    ),
                    settings,
                    questions,
                )
                for model in models
            }
        with recording.stage("count"):
            _count(folder, read, settings)
        rise = [one.facts() for one in rises(run, replicates=settings.replicates, seed=settings.seed)]
        _, small = groups(next(iter(read.values())), settings.least_patients)
        recording.info["results"] = {
            "models": list(read),
            "benchmark": benchmark.facts(),
            "specialties with fewer patients": small,
            "epochs": run.info["results"].get("epochs"),
            "rise": rise,
        }
        with recording.stage("report"):
            write_report(diagnosis_report(content_of(Diagnosed(run, Run(folder, recording.info)))), folder)
    return Diagnosed(run, Run.open(folder))


def _count(folder: Path, read: dict[str, pd.DataFrame], settings: DiagnoseSettings) -> None:
    counted = {"replicates": settings.replicates, "seed": settings.seed}
    tables = {
        PREDICTIONS: pd.concat([table.assign(model=label) for label, table in read.items()], ignore_index=True),
        ACCURACY: accuracy_table(read, settings.k, settings.least_patients, **counted),
        DIFFERENCES: difference_table(read, settings.k, settings.least_patients, **counted),
    }
    for name, table in tables.items():
        write_atomically(folder / name, table.to_parquet)


def _models(
    run: Run,
    benchmark: Benchmark,
    settings: DiagnoseSettings,
    against: Sequence[Run],
    say: Callable[[str], None],
) -> list[_Model]:
    """The run's model first, then those it is compared with."""
    told = run.info["results"].get("epochs")
    watched = bool(told) and run.info["config"].get("watch", {}).get("part") == settings.part
    if against:
        runs = distinct_runs([run, *against])
        return [_Model(one, one.label) for one in runs]
    if not watched:
        say("there is no model before training to compare with: name one with --against, or train with watch.part")
        return [_Model(run, run.label)]
    before = run.epoch(0)
    try:
        _ = ask_only_stored(before, benchmark, settings)
    except InputError:
        say("the model before training was asked in another way than this; name one with --against to compare")
        return [_Model(run, run.label)]
    return [_Model(_asked_in_training(run, benchmark, settings), run.label), _Model(before, "before training")]


def _asked_in_training(run: Run, benchmark: Benchmark, settings: DiagnoseSettings) -> Run:
    """The epoch that is the run's model, where its responses are; else the run."""
    epoch = run.epoch(int(run.info["results"]["epochs"]["chosen"]))
    try:
        ask_only_stored(epoch, benchmark, settings)
    except InputError:
        return run
    return epoch


def ask_only_stored(run: Run, benchmark: Benchmark, settings: DiagnoseSettings) -> dict[str, Any]:
    """What an epoch said in training.

    Raises:
        InputError: it was not asked, or in another way, and has no weights.
    """
    return ask(
        run, benchmark, settings, rendering_of(run, settings.template, None), weights=settings.weights, quiet=True
    )


def content_of(found: Diagnosed) -> DiagnosisContent:
    """What its report and the command line show."""
    settings = DiagnoseSettings.model_validate(found.record.info["config"])
    results = found.record.info["results"]
    told = results["epochs"]
    standings = [
        Standing(one["epoch"], one["parts"], one["value"], least=True) for one in (told["numbers"] if told else [])
    ]
    patience = (told or {}).get("patience") or PATIENCE
    return DiagnosisContent(
        title=f"Diagnosis: {found.run.label}",
        benchmark=results["benchmark"],
        part=settings.part,
        gold=settings.gold,
        ks=settings.k,
        least_patients=settings.least_patients,
        models=tuple(results["models"]),
        accuracy=found.accuracy,
        differences=found.differences,
        epochs=found.epochs,
        best=told["best"] if told else None,
        chosen=told["chosen"] if told else None,
        stop=stop_epoch(standings, patience),
        patience=patience,
        small=results["specialties with fewer patients"],
        rise=tuple(results["rise"]),
        replicates=settings.replicates,
    )
