"""Run measures on items; every score stays with its item, and unscored ones have a reason."""

from __future__ import annotations

import pickle
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path

import pandas as pd

from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics.measure import Item, Measure, Score, Tools
from medunlearn.metrics.needs import needs_model, reasons_unscored, refuse_unknown_needs
from medunlearn.metrics.score_store import ScoreStore
from medunlearn.metrics.unscored import RAISED
from medunlearn.metrics.workers import in_processes, usable_cores

# Items that are scored here first; the second half of them tells how long the others will take.
_TRIAL = 1024
# A process starts in half a second, or in two if it stems words; it is to have more than that to do.
_SECONDS_TO_SHARE = 4.0
# Items that a process is given at a time, which bounds its memory.
_PIECE = 4096
# Items that are scored by a model between two writes; a text of several items is encoded once in each chunk.
_CHUNK = 2048


def score(
    items: Sequence[Item],
    metrics: Sequence[Measure],
    tools: Tools | None = None,
    *,
    processes: int | None = None,
    store: ScoreStore | None = None,
    unscored: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Every measure on every item, as a table.

    Args:
        items: one per question. Samples or variants of a question are scored in separate calls.
        metrics: see :func:`medunlearn.metrics.get_metric`.
        tools, processes, store, unscored: as for :func:`scores_by_measure`.

    Returns:
        One row per measure and question, measure by measure, in the order of ``items``: ``question_id`` (str),
        ``metric`` (str), ``value`` (Float64, null = unscored), ``reason`` (object: why it is unscored,
        None if it is scored).

    Raises:
        InputError: a duplicate question, and errors of :func:`scores_by_measure`.
    """
    _refuse_twice("question", (item.question_id for item in items))
    columns = scores_by_measure(items, metrics, tools, processes=processes, store=store, unscored=unscored)
    scores = [item_score for column in columns.values() for item_score in column]
    return pd.DataFrame(
        {
            "question_id": pd.Series([item.question_id for _ in columns for item in items], dtype="str"),
            "metric": pd.Series([name for name in columns for _ in items], dtype="str"),
            "value": pd.array([item_score.value for item_score in scores], dtype="Float64"),
            "reason": pd.Series([item_score.reason for item_score in scores], dtype="object"),
        }
    )


def scores_by_measure(
    items: Sequence[Item],
    measures: Sequence[Measure],
    tools: Tools | None = None,
    *,
    processes: int | None = None,
    store: ScoreStore | None = None,
    unscored: Mapping[str, str] | None = None,
) -> dict[str, list[Score]]:
    """Every measure on every item: name of the measure -> one score per item, in order.

    An item that lacks an input, whose score is not a finite number, or for which the measure raises an error is
    unscored with the reason.

    Args:
        tools: models that some measures need; None for none.
        processes: number of worker processes for measures that are ``item_by_item`` and need no tool. None chooses
            as many as save time: one if scoring takes seconds, estimated from the first items. The scores do not
            depend on it.
        store: where chunks of measures that need a model are kept, so that the work can go on after it was cut off;
            None keeps none.
        unscored: name of a measure -> the reason why it scores no item here; it is not called.

    Raises:
        InputError: a duplicate measure, a measure with an unknown need, or fewer than one process.
        MedunlearnError: a measure gave a wrong number of scores, or something else than scores.
    """
    _refuse_twice("measure", (measure.name for measure in measures))
    if processes is not None and processes < 1:
        raise InputError(f"processes={processes}: use at least 1, or None to choose automatically.")
    for measure in measures:
        refuse_unknown_needs(measure)
    tools = tools or Tools()
    columns = {name: [Score.unscored(reason)] * len(items) for name, reason in (unscored or {}).items()}
    called = [measure for measure in measures if measure.name not in columns]
    if processes != 1:
        columns |= _share_out(list(filter(_may_be_shared_out, called)), items, processes)
    for measure in called:
        if measure.name not in columns:
            columns[measure.name] = _run_in_chunks(measure, items, tools, store)
    return {measure.name: columns[measure.name] for measure in measures}


def _run_in_chunks(measure: Measure, items: Sequence[Item], tools: Tools, store: ScoreStore | None) -> list[Score]:
    """The scores of one measure; those of a model a chunk at a time, and finished chunks are not scored again."""
    if store is None or not measure.item_by_item or not needs_model(measure):
        return _run(measure, items, tools)
    scores = list[Score]()
    for start in range(0, len(items), _CHUNK):
        chunk = items[start : start + _CHUNK]
        part = store.read(measure, chunk)
        if part is None:
            part = _run(measure, chunk, tools)
            store.write(measure, chunk, part)
        scores += part
    return scores


def _may_be_shared_out(measure: Measure) -> bool:
    if not measure.item_by_item or needs_model(measure):
        return False
    try:
        # Another process cannot import what is defined in the script that was started, or in a function.
        return b"__main__" not in pickle.dumps(measure.score)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _share_out(
    measures: Sequence[Measure], items: Sequence[Item], processes: int | None
) -> Mapping[str, list[Score]]:
    """The scores of each measure, with items distributed over the requested or most efficient number of
    processes.
    """
    if not measures or len(items) <= _TRIAL:
        return {}
    run, untimed, rest = partial(_run_all, measures), _TRIAL // 2, items[_TRIAL:]
    # The first items pay for imports, such as nltk's, which takes longer than scoring them.
    parts = [run(items[:untimed])]
    started = time.perf_counter()
    parts.append(run(items[untimed:_TRIAL]))
    if processes is None:
        ahead = (time.perf_counter() - started) * len(rest) / (_TRIAL - untimed)
        processes = max(1, min(usable_cores(), int(ahead / _SECONDS_TO_SHARE)))
    size = min(_PIECE, -(-len(rest) // processes))
    parts += in_processes(run, [rest[start : start + size] for start in range(0, len(rest), size)], processes)
    return {
        measure.name: [item_score for part in parts for item_score in part[place]]
        for place, measure in enumerate(measures)
    }


def _run_all(measures: Sequence[Measure], items: Sequence[Item]) -> list[list[Score]]:
    return [_run(measure, items, Tools()) for measure in measures]


def _run(measure: Measure, items: Sequence[Item], tools: Tools) -> list[Score]:
    """Run one measure: items that lack an input are unscored without reaching it, and keep their places."""
    lacking = [reasons_unscored(measure, item, tools) for item in items]
    ready = [item for item, reasons in zip(items, lacking, strict=True) if not reasons]
    scores = iter(_scores_of(measure, ready, tools))
    columns = [Score.unscored("; ".join(reasons)) if reasons else next(scores) for reasons in lacking]
    return [_unless_cut(measure, item, own) for item, own in zip(items, columns, strict=True)]


def _unless_cut(measure: Measure, item: Item, item_score: Score) -> Score:
    """A score, unless a limit ended the response before what the measure reads."""
    reason = measure.why_cut(item) if item.cut and item_score.value is not None else None
    return item_score if reason is None else Score.unscored(reason)


def _scores_of(measure: Measure, items: Sequence[Item], tools: Tools) -> list[Score]:
    """One score per item. If the measure raises an error, items that raise it alone are left out, with the reason.

    Errors of ours are not about one item, and neither is memory that ran out: they end the work.
    """
    if not items:
        return []
    try:
        return _checked(measure, items, tools)
    except (MedunlearnError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":
            raise
        failed = {0: error} if len(items) == 1 else _failed_alone(measure, items, tools)
        if not failed:
            failed = dict.fromkeys(range(len(items)), error)
    scores = iter(_scores_of(measure, [item for place, item in enumerate(items) if place not in failed], tools))
    return [
        Score.unscored(_why_failed(failed[place])) if place in failed else next(scores)
        for place in range(len(items))
    ]


def _failed_alone(measure: Measure, items: Sequence[Item], tools: Tools) -> dict[int, Exception]:
    """Places of items for which the measure raises an error even if it is given no other item."""
    failed: dict[int, Exception] = {}
    for place, item in enumerate(items):
        try:
            _checked(measure, [item], tools)
        except Exception as error:
            failed[place] = error
    return failed


def _why_failed(error: Exception) -> str:
    """The error's type and place; not its text, which may hold that of the item."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{RAISED} {type(error).__name__}{place}"


def _checked(measure: Measure, items: Sequence[Item], tools: Tools) -> list[Score]:
    scores = measure.score(items, tools)
    if len(scores) != len(items):
        raise MedunlearnError(
            f"measure {measure.name!r} gave {len(scores)} scores for {len(items)} items. It must return one Score "
            "per item, in order; use Score.unscored(reason) for an item that it cannot score."
        )
    wrong = next((item_score for item_score in scores if not isinstance(item_score, Score)), None)
    if wrong is not None:
        raise MedunlearnError(f"measure {measure.name!r} gave a {type(wrong).__name__} instead of a Score.")
    return list(map(_check_score, scores))


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
            "question and measure: score samples and variants in separate calls."
        )
