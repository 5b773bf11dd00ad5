"""A tuning's record on disk: ``tune.json``, ``trials.parquet``, ``results.parquet``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.records import SIDES
from medunlearn.data.storage import read_frame, read_json, write_atomically, write_json
from medunlearn.errors import InputError
from medunlearn.models.ancestry import model_use
from medunlearn.pipeline.question_selection import half_of
from medunlearn.pipeline.tuning.method_trials import MethodTrials
from medunlearn.pipeline.tuning.trials import TABLE, trial_table
from medunlearn.pipeline.tuning.tune_plan import Tuning
from medunlearn.reports.json import plain
from medunlearn.reports.tune_report import TuneContent
from medunlearn.results.machine import code, hardware, packages

FILE, RESULTS = "tune.json", "results.parquet"
_WORDS = ("objective", "caveats", "budget", "refused")
"""Sentences of the report."""


def tune_facts(tuning: Tuning, benchmark: Benchmark) -> dict[str, Any]:
    """The part of ``tune.json`` that does not change while a tuning runs."""
    settings = tuning.settings
    return {
        "name": settings.name,
        "status": "running",
        "settings": settings.model_dump(mode="json"),
        "data_use": tightest([benchmark.data_use, model_use(str(settings.train.get("model")))]),
        "benchmark": benchmark.facts(),
        "subjects": subject_counts(tuning, benchmark),
        "spaces": {method: {d.name: d.text for d in space} for method, space in tuning.spaces.items()},
        "notes": list(tuning.notes),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code(),
        "packages": packages(),
        "hardware": hardware(),
    }


def subject_counts(tuning: Tuning, benchmark: Benchmark) -> dict[str, dict[str, int]]:
    """Half -> side -> its number of subjects with questions, before any limit."""
    split = benchmark.split(tuning.settings.split)
    return {
        half: {side: len(half_of(benchmark, split, side, tuning.evaluating(half))) for side in SIDES}
        for half in ("choosing", "reporting")
    }


def write_record(
    tuning: Tuning,
    facts: dict[str, Any],
    studies: Mapping[str, MethodTrials],
    status: str,
    content: TuneContent | None = None,
) -> None:
    """Write ``tune.json`` and the table of all trials; at the end also ``results.parquet``."""
    out = tuning.settings.out
    best = {method: trial for method, study in studies.items() if (trial := study.best)}
    facts |= {
        "status": status,
        "cells": [cell.facts() for cell in tuning.cells],
        "best": {method: {"trial": t.number, "params": t.params, "value": t.value} for method, t in best.items()},
    }
    if content is not None:
        facts["report"] = plain({name: getattr(content, name) for name in (*_WORDS, "best", "missing")})
        write_atomically(out / RESULTS, content.results.to_parquet)
    write_json(out / FILE, facts)
    trials = [trial for study in studies.values() for trial in study.trials]
    write_atomically(out / TABLE, trial_table(trials).to_parquet)


def read_content(folder: Path) -> TuneContent:
    """Content of the report of a finished tuning, from its folder.

    Raises:
        InputError: the folder holds no tuning that has ended.
    """
    info = read_json(folder / FILE)
    words = info.get("report")
    if not isinstance(words, Mapping) or not {*_WORDS, "best", "missing"} <= {*words}:
        raise InputError(f"{folder} holds a tuning that has not ended. Give its command again: it goes on.")
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
