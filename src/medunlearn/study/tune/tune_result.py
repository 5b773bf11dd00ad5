"""A tuning's results and their report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.storage import read_frame, read_json, write_frame
from medunlearn.errors import InputError
from medunlearn.models.ancestry import model_use
from medunlearn.reports.json import plain
from medunlearn.reports.tune_report import TuneContent, tuning_report
from medunlearn.reports.view import ResultView
from medunlearn.results.evaluated import Evaluated, reference_of
from medunlearn.study.graph_run import StudyResult, reasons
from medunlearn.study.stages import LOST
from medunlearn.study.tune.method_trials import MethodTrials
from medunlearn.study.tune.objective import AxisValues, TuneObjective
from medunlearn.study.tune.space import Space, default_values
from medunlearn.study.tune.trials import TABLE, TuneTrial, trial_table
from medunlearn.study.tune.tune_graph import TuneGraph
from medunlearn.study.tune.tune_plan import Tuning

RESULTS = "results.parquet"
_LABELS = ("model", "setting", "seed", "fold")
_WORDS = ("objective", "caveats", "budget", "refused")
"""Sentences of the report."""


@dataclass(frozen=True)
class Tuned(StudyResult):
    """Results of a tuning.

    Attributes:
        cells: table of cells, with the columns ``setting`` and ``half``.
        trials: one row per trial, on the choosing half (:class:`~.trials.TuneTrial`).
        results: one row per model, setting, seed and fold, on the reporting half: utility, forgetting, ranks,
            value.
        best: one row per method: its best trial's settings and the spent budget.
        objective: objective in a sentence.
        caveats: warnings to read first.
        subjects: half -> side -> number of subjects.
        refused: why the retrained model is not a valid reference; empty if it is.
        report: path of the report.
    """

    title: str
    trials: pd.DataFrame
    results: pd.DataFrame
    best: pd.DataFrame
    spaces: Mapping[str, Mapping[str, str]]
    objective: str
    caveats: tuple[str, ...]
    subjects: Mapping[str, Mapping[str, int]]
    budget: str
    refused: tuple[str, ...]
    benchmark: Mapping[str, Any]
    report: Path | None = None
    record = "tune.json"

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Name and reason of every cell without a result.

        Except those of untuned settings whose own trial failed: it diverged, changed nothing or did not fit, which
        is a finding. A process that was killed is none.
        """
        untuned = self.trials[(self.trials["number"] == 0) & (self.trials["state"] == "failed")]["method"]
        is_finding = (self.cells["setting"] == "untuned") & self.cells["method"].isin(untuned)
        return reasons(self.cells[self.cells["status"].isin(LOST) & ~is_finding])

    def table(self) -> pd.DataFrame:
        """The table :attr:`results`."""
        return self.results

    def view(self) -> ResultView:
        """The best settings of each method, and their results on the reporting half."""
        shown = self.content().view()
        data = {"report": self.report, **read_json(self.folder / self.record)}
        return replace(shown, data=data, blocks=[*shown.blocks, f"report: {self.report}"], failure=self.failures())

    def content(self) -> TuneContent:
        """Content of its report."""
        shared = {
            field.name: getattr(self, field.name) for field in fields(TuneContent) if hasattr(self, field.name)
        }
        return TuneContent(**shared, missing=tuple(self.failed))

    def with_report(self) -> Tuned:
        """The results with their report written."""
        from medunlearn.reports.write import write_report

        return replace(self, report=write_report(tuning_report(self.content()), self.folder / "report"))


def tuned(
    tuning: Tuning,
    stages: TuneGraph,
    cells: pd.DataFrame,
    studies: Mapping[str, MethodTrials],
    evaluated: Mapping[str, Evaluated],
    objectives: Mapping[tuple[int, str], TuneObjective],
    benchmark: Benchmark,
) -> Tuned:
    """The results of the finished stages; ``cells`` are the rows of the record."""
    settings = tuning.settings
    results = _results(tuning, stages, evaluated, objectives)
    trials = [trial for study in studies.values() for trial in study.finished]
    words = next(iter(objectives.values())).words() if objectives else "no model to tune towards"
    if len(objectives) > 1 and not settings.retrain:
        words += "; each seed has its own level and floor"
    refused = _refusal_reasons(tuning, stages, evaluated)
    best = pd.DataFrame([_best_row(tuning, study) for study in studies.values()])
    return Tuned(
        folder=settings.out,
        title=settings.name,
        cells=cells,
        trials=trial_table(trials),
        results=results,
        best=best,
        spaces=tuning.space_texts,
        objective=words,
        caveats=(*refused, *_caveats(tuning, studies, evaluated), *tuning.notes),
        subjects=tuning.subject_counts(benchmark),
        budget=tuning.budget,
        refused=refused,
        benchmark={
            **benchmark.facts(),
            "data_use": tightest([benchmark.data_use, model_use(str(settings.train.get("model")))]),
        },
    )


def write_content(result: Tuned) -> dict[str, Any]:
    """Write the report's results; returns its other parts for the record."""
    content = result.content()
    write_frame(result.folder / RESULTS, content.results)
    return {"report": plain({name: getattr(content, name) for name in (*_WORDS, "best", "missing")})}


def read_content(folder: Path) -> TuneContent:
    """Content of the report of a finished tuning, from its folder.

    Raises:
        InputError: the folder has no finished tuning.
    """
    info = read_json(folder / Tuned.record)
    words = info.get("report")
    if not isinstance(words, Mapping) or not {*_WORDS, "best", "missing"} <= {*words}:
        raise InputError(f"{folder} contains an unfinished tuning. Run its command again to resume.")
    results = read_frame(folder / RESULTS, ("model", "setting", "seed", "fold", "value"))
    trials = read_frame(folder / TABLE, ("method", "number", "state", "value"))
    return TuneContent(
        title=str(info["name"]),
        best=pd.DataFrame(words["best"]),
        trials=trials[trials["state"] != "running"].reset_index(drop=True),
        results=results,
        spaces=info["spaces"],
        subjects=info["subjects"],
        benchmark={**info["benchmark"], "data_use": info["data_use"]},
        missing=[tuple(row) for row in words["missing"]],
        **{name: words[name] for name in _WORDS},
    )


def _refusal_reasons(tuning: Tuning, stages: TuneGraph, evaluated: Mapping[str, Evaluated]) -> tuple[str, ...]:
    """Reason why there is no valid retrained model, by the reference check on the reporting half."""
    reasons: dict[str, None] = {}
    settings = tuning.evaluating("reporting")
    for seed, references in stages.references.items():
        models = [evaluated[stage.name] for stage in references if stage.name in evaluated]
        check = reference_of(models, settings.replicates, settings.seed)
        end = f" (seed {seed})" if len(tuning.seeds) > 1 else ""
        reasons |= {f"{caveat.removesuffix('.')}{end}.": None for caveat in check.caveats} if check else {}
    return tuple(reasons)


def _results(
    tuning: Tuning,
    stages: TuneGraph,
    evaluated: Mapping[str, Evaluated],
    objectives: Mapping[tuple[int, str], TuneObjective],
) -> pd.DataFrame:
    rows = []
    for stage in stages.evaluations:
        model = evaluated.get(stage.name)
        if model is None:
            continue
        # A target and a retrained model have no method, and are named after what made them.
        name = stage.method or stage.needs[0].facts()["kind"]
        for fold in tuning.evaluating("reporting").folds:
            standing, objective = AxisValues.of(model.summary, fold), objectives.get((stage.seed, fold))
            value = objective.of(standing) if objective else None
            labels = zip(_LABELS, (name, stage.labels["setting"], stage.seed, fold), strict=True)
            row: dict[str, Any] = {**dict(labels), **standing.facts(), "value": value}
            rows.append(row | {"problem": "; ".join(model.record.info.problems)})
    columns = [*_LABELS, "utility", "forgetting", "ranks", "value", "problem"]
    numbers = dict.fromkeys(("utility", "forgetting", "ranks", "value"), "Float64")
    return pd.DataFrame(rows, columns=columns).astype(numbers)


def _best_row(tuning: Tuning, study: MethodTrials) -> dict[str, Any]:
    untuned = default_values(tuning.unlearning(study.method, {}, tuning.seeds[0], trial=False))
    space, best = tuning.spaces[study.method], study.best
    flops = [trial.flops for trial in study.finished if trial.flops is not None]
    return {
        "method": study.method,
        "trial": None if best is None else best.number,
        "settings": _settings_text(space, {**untuned, **(best.params if best else {})}) if best else "none",
        "untuned": _settings_text(space, untuned),
        "edges": "" if best is None else _edges(space, best),
        "value": None if best is None else best.value,
        "untuned_value": study.trials[0].value if study.trials else None,
        "trials": len(study.finished),
        **study.counts,
        "flops": sum(flops) if flops else None,
        "seconds": round(study.seconds, 1),
    }


def _settings_text(space: Space, values: Mapping[str, Any]) -> str:
    """``lr 0.0006, epochs 3, beta 0.1``: the searched settings."""
    return ", ".join(
        f"{d.name} {values[d.name]:.3g}" if isinstance(values[d.name], float) else f"{d.name} {values[d.name]}"
        for d in space
    )


def _edges(space: Space, trial: TuneTrial) -> str:
    at = [f"{d.name} ({edge})" for d in space if d.name in trial.params and (edge := d.edge(trial.params[d.name]))]
    return ", ".join(at)


def _caveats(tuning: Tuning, studies: Mapping[str, MethodTrials], evaluated: Mapping[str, Evaluated]) -> list[str]:
    caveats = [
        f"A broken model: {name.removeprefix('evaluate ')}: {'; '.join(model.record.info.problems)}."
        for name, model in evaluated.items()
        if model.record.info.problems
    ]
    for method, study in studies.items():
        best, space = study.best, tuning.spaces[method]
        if best is None:
            caveats.append(f"{method}: no trial ran to its end with a number.")
            continue
        if best.problem:
            caveats.append(f"{method}: every trial that has a number broke its model; the least bad is shown.")
        # Every trial has the target's own number as its epoch 0.
        nothing = best.by_epoch.get(0)
        if nothing is not None and best.value is not None and best.value >= nothing:
            caveats.append(
                f"{method}: no trial came closer than the target itself ({nothing:.3f}): nothing is gained."
            )
        if edges := _edges(space, best):
            caveats.append(
                f"{method}: the best trial is at an end of its range: {edges}. A wider one may do better."
            )
    for method, study in studies.items():
        if study.trials and study.trials[0].state == "failed":
            caveats.append(f"{method}: its untuned settings failed: {study.trials[0].reason}")
    return caveats
