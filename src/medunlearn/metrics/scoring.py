"""Run metrics on items; every score stays with its question, and what has none says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import get_args

import pandas as pd

from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics.protocol import Item, Metric, Need, Score, Tools

_MISSING: dict[Need, str] = {
    "response": "there is no response",
    "response_tokens": "there are no response tokens",
    "answer_log_probs": "the reference answer's log-probabilities were not computed",
    "answer_hits": "the reference answer's arg-max hits were not computed",
    "encoder": "no sentence encoder was given: pass encoder=... in Tools",
    "nli": "no entailment model was given: pass nli=... in Tools",
    "judgement": "no judge has rated the response: `medunlearn judge` asks one",
}


@dataclass(frozen=True, slots=True)
class _Row:
    question_id: str
    metric: str
    score: Score


def score(items: Sequence[Item], metrics: Sequence[Metric], tools: Tools | None = None) -> pd.DataFrame:
    """Every metric on every item.

    Args:
        items: one a question. Samples or variants of one question are scored apart, one call each.
        metrics: see :func:`medunlearn.metrics.get_metric`.
        tools: models that some metrics need; None for none.

    Returns:
        One row a metric and question, metric by metric, in the order of ``items``: ``question_id`` (str),
        ``metric`` (str), ``value`` (Float64, null = unscored), ``reason`` (object: why it is unscored,
        None where it is scored).

    Raises:
        InputError: a question or a metric twice, or a metric that asks for something nobody can give.
        MedunlearnError: a metric did not give one ``Score`` for each item.
    """
    _refuse_twice("question", (item.question_id for item in items))
    _refuse_twice("metric", (metric.name for metric in metrics))
    tools = tools or Tools()
    rows = [row for metric in metrics for row in _run(metric, items, tools)]
    return pd.DataFrame(
        {
            "question_id": pd.Series([row.question_id for row in rows], dtype="str"),
            "metric": pd.Series([row.metric for row in rows], dtype="str"),
            "value": pd.array([row.score.value for row in rows], dtype="Float64"),
            "reason": pd.Series([row.score.reason for row in rows], dtype="object"),
        }
    )


def _run(metric: Metric, items: Sequence[Item], tools: Tools) -> list[_Row]:
    """One metric: items that lack something never reach it, and come back in their own places."""
    _refuse_unknown_needs(metric)
    lacking = {item.question_id: _lacks(metric, item, tools) for item in items}
    ready = [item for item in items if lacking[item.question_id] is None]
    scores = metric.score(ready, tools) if ready else []
    _refuse_slip(metric, ready, scores)
    given = {item.question_id: _checked(found) for item, found in zip(ready, scores, strict=True)}
    return [
        _Row(item.question_id, metric.name, given.get(item.question_id) or Score(None, lacking[item.question_id]))
        for item in items
    ]


def _lacks(metric: Metric, item: Item, tools: Tools) -> str | None:
    """Why the metric cannot be run on the item; None where it can."""
    reasons = [_MISSING[need] for need in metric.needs if _get(need, item, tools) is None]
    return "; ".join(reasons) or None


def _get(need: Need, item: Item, tools: Tools) -> object:
    return getattr(tools if need in ("encoder", "nli") else item, need)


def _checked(found: Score) -> Score:
    """A score as it enters the table: a finite value without a reason, or a reason without a value."""
    if found.value is None:
        return Score.unscored(found.reason or "the metric gave no value and no reason")
    value = float(found.value)
    if not isfinite(value):
        return Score.unscored(found.reason or f"the metric gave {value}, which is no number to average")
    return Score(value)


def _refuse_slip(metric: Metric, ready: Sequence[Item], scores: Sequence[Score]) -> None:
    if len(scores) != len(ready):
        raise MedunlearnError(
            f"metric {metric.name!r} gave {len(scores)} scores for {len(ready)} items. It must give one Score "
            "an item, in order; use Score.unscored(reason) for an item that it cannot score."
        )
    wrong = next((found for found in scores if not isinstance(found, Score)), None)
    if wrong is not None:
        raise MedunlearnError(f"metric {metric.name!r} gave a {type(wrong).__name__} where a Score is due.")


def _refuse_unknown_needs(metric: Metric) -> None:
    known: tuple[str, ...] = get_args(Need)
    for need in metric.needs:
        if need not in known:
            raise InputError(f"metric {metric.name!r} needs {need!r}; needs are: {', '.join(known)}.")


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(
            f"{what} {twice[0]!r} is there more than once ({len(twice)} such in all). Scores are kept by "
            "question and metric: score samples and variants in calls of their own."
        )
