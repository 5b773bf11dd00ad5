"""Gather who judged the models and the benchmark of a report, and what their panels found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from medunlearn.attacks.attacked import FOLDER as ATTACKS
from medunlearn.data.origins import Provenance
from medunlearn.input_files import path_inside
from medunlearn.judging.controls import control_remarks, remarks
from medunlearn.judging.panel_run import JudgingRun
from medunlearn.judging.sections import panel_about, panel_title
from medunlearn.reports.content import JudgementTables
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.rated import JUDGED
from medunlearn.results.record import FILE


def panel_part(panel: JudgingRun, whose: str = "") -> JudgementTables:
    """A panel's tables for a report."""
    title, about = f"{whose}{panel_title(panel.panel)}", panel_about(panel.panel)
    # A model that collapsed may well deserve one rating for everything.
    found = control_remarks(panel.panel) if panel.panel.task.rates else remarks(panel.panel)
    return JudgementTables(title, about, tuple(panel.sections()), panel.provenance, tuple(found))


def rated_by(models: Iterable[Evaluated]) -> tuple[Provenance, ...]:
    """Raters of the responses of evaluations and of attacks on the same split."""
    return distinct_entries(entry for run in rating_runs(models) for entry in run.provenance)


def rating_runs(models: Iterable[Evaluated]) -> list[JudgingRun]:
    """Judging runs on the responses of evaluations, and of attacks on their models."""
    folders = [
        path_inside(model.run.folder, str(where), record.folder / FILE)
        for model in models
        for record in (model.record, *model.run.complete_below(ATTACKS))
        if (where := record.info.results.get(JUDGED))
    ]
    return [JudgingRun.open(folder) for folder in dict.fromkeys(folders) if (folder / FILE).exists()]


def judge_remarks(models: Iterable[Evaluated], panels: Iterable[JudgementTables]) -> list[str]:
    """Sentences on judges that cannot be trusted: of the benchmark's panels, and of those on responses."""
    of_ratings = (line for run in rating_runs(models) for line in control_remarks(run.panel))
    return list(dict.fromkeys([*(line for panel in panels for line in panel.remarks), *of_ratings]))


def distinct_entries(entries: Iterable[Provenance]) -> tuple[Provenance, ...]:
    """Entries without repetitions; of the same judge and prompt the last day counts."""
    latest: dict[Provenance, Provenance] = {}
    for entry in entries:
        key = replace(entry, date="")
        latest[key] = max(entry, latest.get(key, entry), key=lambda one: one.date)
    return tuple(latest.values())


def judgement_tables(models: Sequence[Evaluated], panels: Sequence[JudgingRun]) -> tuple[JudgementTables, ...]:
    """The benchmark's panels, then those on each model's responses."""
    runs = [("", panel) for panel in panels]
    for model in models:
        if where := model.record.info.results.get(JUDGED):
            folder = path_inside(model.run.folder, str(where), model.record.folder / FILE)
            runs.append((f"{model.run.label}. ", JudgingRun.open(folder)))
    return tuple(panel_part(run, whose) for whose, run in runs)
