"""Adapters of our measures for lm-evaluation-harness, used by an exported task's ``utils.py``.

Lightweight: neither torch nor the harness is imported. Tasks are written by
:mod:`medunlearn.probes.utility.tasks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.errors import InputError
from medunlearn.input_files import read_text
from medunlearn.metrics import Item, get_metric
from medunlearn.metrics.item_scoring import score


def documents(path: Path) -> list[dict[str, Any]]:
    """A task's questions.

    Raises:
        InputError: the file is missing, or a line is not JSON.
    """
    try:
        lines = read_text(path, most=2**32).splitlines()
        return [json.loads(line) for line in lines if line]
    except (InputError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}. Write the tasks again: medunlearn export tasks."
        ) from error


def process_results(document: Mapping[str, Any], responses: Sequence[str]) -> dict[str, float | None]:
    """Metric -> value of one response, None if unscored; implements the task's ``process_results``.

    The response is stripped, as in `medunlearn evaluate`.
    """
    item = Item(
        question_id=document["question_id"],
        side=document["side"],
        question=document["question"],
        reference=document["answer"],
        response=responses[0].strip(),
    )
    table = score([item], [get_metric(name) for name in document["metrics"]], processes=1)
    values = table["value"].astype(object).where(table["value"].notna(), None)
    return dict(zip(table["metric"], values, strict=True))


def mean_of_scored(values: Iterable[float | None]) -> float:
    """Mean of the scored values; NaN without any. Implements the task's ``aggregation``."""
    scored_values = [value for value in values if value is not None]
    return sum(scored_values) / len(scored_values) if scored_values else float("nan")
