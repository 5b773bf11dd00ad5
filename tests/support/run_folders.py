"""Run folders written by hand: the record, the score table, the summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.models.folders import file_facts
from medunlearn.results.evaluated import SUMMARY, summarize_evaluation
from medunlearn.results.runs import Run, RunRecord
from medunlearn.results.scores import write_scores


def write_run(folder: Path, verb: str, label: str, **fields: Any) -> Run:
    """A complete run with these fields of :class:`RunRecord`."""
    folder.mkdir(parents=True, exist_ok=True)
    RunRecord(verb=verb, label=label, **{"key": label, "status": "complete", "cpu_seconds": 2.5, **fields}).write(
        folder
    )
    return Run.open(folder)


def score_rows(scores: pd.DataFrame, meta: pd.DataFrame) -> pd.DataFrame:
    """Rows of a score table, not yet checked.

    Args:
        scores: question_id, metric, value (and reason).
        meta: question_id, subject, side, fold, kind.
    """
    values = pd.to_numeric(scores["value"]).astype("Float64")
    reasons = scores["reason"] if "reason" in scores else pd.Series(pd.NA, index=scores.index, dtype="string")
    reasons = reasons.where(values.notna(), reasons.fillna("not measured"))
    labels = meta.rename(columns={"question_id": "item"})
    renamed = scores.rename(columns={"question_id": "item", "metric": "measure"})
    return renamed.assign(value=values, reason=reasons).merge(labels, on="item", how="left", validate="many_to_one")


def write_evaluation(folder: Path, scores: pd.DataFrame, meta: pd.DataFrame, replicates: int) -> None:
    """Score table and summary of an evaluation's record, arguments as of :func:`score_rows`."""
    table = write_scores(folder, score_rows(scores, meta))
    summarize_evaluation(table, replicates=replicates, seed=0).to_parquet(folder / SUMMARY)


def relabelled(run: Run, **fields: Any) -> Run:
    """The run with other fields in its record."""
    content: Mapping[str, Any] = {**run.info.as_dict(), **fields}
    return Run(run.folder, RunRecord.of(content))


def rerecorded(folder: Path) -> Path:
    """A run's folder whose record takes the model that lies there for the one that its run made."""
    replace(RunRecord.read(folder), model_files=file_facts(folder / "model")).write(folder)
    return folder
