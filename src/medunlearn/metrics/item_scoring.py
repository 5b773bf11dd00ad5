"""Run metrics on items; every score stays with its question, and unscored ones have a reason."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from math import isfinite
from typing import get_args

import pandas as pd

from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics.measure import Item, Measure, Need, Score, Tools
from medunlearn.metrics.workers import in_processes, usable_cores

_MISSING: dict[Need, str] = {
    "response": "there is no response",
    "response_tokens": "there are no response tokens",
    "answer_log_probs": "the reference answer's log-probabilities were not computed",
    "answer_hits": "the reference answer's arg-max hits were not computed",
    "alternative_log_probs": "the question has no alternative answers, or they were not rated",
    "fact_ranks": "its facts were not ranked: it is not among those drawn (--ranked, --facts, --rank-in)",
    "note_ranks": "it is no whole note that was ranked among versions of itself",
    "encoder": "no sentence encoder was given: pass encoder=... in Tools",
    "nli": "no entailment model was given: pass nli=... in Tools",
    "bert": "no encoder of BERTScore was given: pass bert=... in Tools",
    "bart": "no sequence-to-sequence model was given: pass bart=... in Tools",
    "judgement": "no judge has rated the response: `medunlearn judge` asks one",
    "keywords": "no keywords were extracted for the question",
}
_TOOLS = {"encoder", "nli", "bert", "bart"}
# Items that are scored here first; the second half of them tells how long the others will take.
_TRIAL = 1024
# A process starts in half a second, or in two if it stems words; it is to have more than that to do.
_SECONDS_TO_SHARE = 4.0


def score(
    items: Sequence[Item], metrics: Sequence[Measure], tools: Tools | None = None, *, processes: int | None = None
) -> pd.DataFrame:
    """Every metric on every item.

    Args:
        items: one per question. Samples or variants of a question are scored in separate calls.
        metrics: see :func:`medunlearn.metrics.get_metric`.
        tools: models that some metrics need; None for none.
        processes: number of worker processes for metrics that are ``item_by_item`` and need no tool. None chooses
            as many as save time: one if scoring takes seconds, estimated from the first items. The table does not
                depend on it.

    Returns:
        One row per metric and question, metric by metric, in the order of ``items``: ``question_id`` (str),
        ``metric`` (str), ``value`` (Float64, null = unscored), ``reason`` (object: why it is unscored,
        None if it is scored).

    Raises:
        InputError: a duplicate question or metric, a metric with an unknown need, or fewer than one process.
        MedunlearnError: a metric did not give one ``Score`` for each item.
    """
    _refuse_twice("question", (item.question_id for item in items))
    _refuse_twice("metric", (metric.name for metric in metrics))
    if processes is not None and processes < 1:
        raise InputError(f"processes={processes}: use at least 1, or None to choose automatically.")
    tools = tools or Tools()
    shared = _share_out(list(filter(_may_be_shared_out, metrics)), items, processes) if processes != 1 else {}
    scores = [
        item_score for metric in metrics for item_score in shared.get(metric.name) or _run(metric, items, tools)
    ]
    return pd.DataFrame(
        {
            "question_id": pd.Series([item.question_id for _ in metrics for item in items], dtype="str"),
            "metric": pd.Series([metric.name for metric in metrics for _ in items], dtype="str"),
            "value": pd.array([item_score.value for item_score in scores], dtype="Float64"),
            "reason": pd.Series([item_score.reason for item_score in scores], dtype="object"),
        }
    )


def _may_be_shared_out(metric: Measure) -> bool:
    if not metric.item_by_item or _TOOLS & {*metric.needs}:
        return False
    try:
        # Another process cannot import what is defined in the script that was started, or in a function.
        return b"__main__" not in pickle.dumps(metric.score)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _share_out(metrics: Sequence[Measure], items: Sequence[Item], processes: int | None) -> dict[str, list[Score]]:
    """The scores of each metric, with items distributed over the requested or most efficient number of
    processes.
    """
    if not metrics or len(items) <= _TRIAL:
        return {}
    run, untimed, rest = partial(_run_all, metrics), _TRIAL // 2, items[_TRIAL:]
    # The first items pay for imports, such as nltk's, which takes longer than scoring them.
    parts = [run(items[:untimed])]
    started = time.perf_counter()
    parts.append(run(items[untimed:_TRIAL]))
    if processes is None:
        ahead = (time.perf_counter() - started) * len(rest) / (_TRIAL - untimed)
        processes = max(1, min(usable_cores(), int(ahead / _SECONDS_TO_SHARE)))
    size = -(-len(rest) // processes)
    parts += in_processes(run, [rest[start : start + size] for start in range(0, len(rest), size)])
    return {
        metric.name: [item_score for part in parts for item_score in part[place]]
        for place, metric in enumerate(metrics)
    }


def _run_all(metrics: Sequence[Measure], items: Sequence[Item]) -> list[list[Score]]:
    return [_run(metric, items, Tools()) for metric in metrics]


def _run(metric: Measure, items: Sequence[Item], tools: Tools) -> list[Score]:
    """Run one metric: items that lack an input are unscored without reaching it, and keep their places."""
    needs: tuple[str, ...] = get_args(Need)
    for need in metric.needs:
        if need not in needs:
            raise InputError(f"metric {metric.name!r} needs {need!r}; needs are: {', '.join(needs)}.")
    lacking = [
        [_MISSING[need] for need in metric.needs if getattr(tools if need in _TOOLS else item, need) is None]
        for item in items
    ]
    ready = [item for item, reasons in zip(items, lacking, strict=True) if not reasons]
    scores = metric.score(ready, tools) if ready else []
    if len(scores) != len(ready):
        raise MedunlearnError(
            f"metric {metric.name!r} gave {len(scores)} scores for {len(ready)} items. It must return one Score "
            "per item, in order; use Score.unscored(reason) for an item that it cannot score."
        )
    wrong = next((item_score for item_score in scores if not isinstance(item_score, Score)), None)
    if wrong is not None:
        raise MedunlearnError(f"metric {metric.name!r} gave a {type(wrong).__name__} instead of a Score.")
    checked = map(_check_score, scores)
    return [Score.unscored("; ".join(reasons)) if reasons else next(checked) for reasons in lacking]


def _check_score(item_score: Score) -> Score:
    """Validate a score for the table: a finite value without a reason, or a reason without a value."""
    if item_score.value is None:
        return Score.unscored(item_score.reason or "the metric gave no value and no reason")
    value = float(item_score.value)
    if not isfinite(value):
        return Score.unscored(item_score.reason or f"the metric gave {value}, which is no number to average")
    return Score(value)


def _refuse_twice(kind: str, names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(
            f"{kind} {twice[0]!r} occurs more than once ({len(twice)} duplicates in all). Scores are stored by "
            "question and metric: score samples and variants in separate calls."
        )
