"""The report that fits a sweep's benchmark: MedForget's over levels, AMNESIA's over sizes for any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia import report as amnesia
from medunlearn.papers.amnesia.report import SweepContent
from medunlearn.papers.amnesia.swept.results import gather_sweep
from medunlearn.papers.medforget import report as medforget
from medunlearn.papers.medforget.levels import gather_levels
from medunlearn.papers.medforget.report import LevelContent
from medunlearn.pipeline.report.gather import made_for_this
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.bootstrap import REPLICATES

Content = SweepContent | LevelContent
LEVELS_BUILDER = "medforget"


def gather_report(
    title: str,
    models: Sequence[Evaluated],
    benchmark: Benchmark,
    *,
    missing: Sequence[tuple[str, str]] = (),
    search: pd.DataFrame | None = None,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Content:
    """Everything that the report shows (:func:`gather_levels`, :func:`gather_sweep`).

    Args:
        show_text: show text of real records, where the report has a place for it: MedForget's Figure 7.
    """
    shared: dict[str, Any] = {"missing": missing, "search": search, "replicates": replicates, "seed": seed}
    if benchmark.builder == LEVELS_BUILDER:
        return gather_levels(title, models, benchmark, show_text=show_text, **shared)
    # A report over sizes has no place for what a model says of another split than its own.
    return gather_sweep(title, [model for model in models if made_for_this(model)], benchmark, **shared)


def write_report(content: Content, folder: Path) -> Path:
    """Write the three files; returns the path of the HTML file."""
    if isinstance(content, LevelContent):
        return medforget.write_level_report(content, folder)
    return amnesia.write_sweep_report(content, folder)


def findings_text(content: Content) -> str:
    """The findings for a terminal."""
    return medforget.findings_text(content) if isinstance(content, LevelContent) else amnesia.findings_text(content)


def verdicts(content: Content) -> list[dict[str, str]]:
    """The findings for programs: name, context, verdict."""
    if isinstance(content, LevelContent):
        return [
            {"finding": one.name, "context": content.context, "verdict": one.verdict}
            for one in medforget.findings(content)
        ]
    return [
        {"finding": one.name, "context": one.context, "verdict": one.verdict} for one in amnesia.findings(content)
    ]
