"""Registry of memorization measures, and their scores. Listing them loads no model and no torch.

A measure of your own: a module with one :class:`ContinuationMeasure`, named in :data:`MEASURES`, or given as
``module:attribute``, or declared as an entry point in the group ``medunlearn.measures``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from medunlearn.audit.continuation_measure import Continuation, ContinuationMeasure
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics.measure import Score
from medunlearn.metrics.workers import in_processes, usable_cores
from medunlearn.registry import resolve

MEASURES: dict[str, str] = {
    "run_30": "medunlearn.audit.overlap:RUN_30",
    "run_50": "medunlearn.audit.overlap:RUN_50",
    "longest_run": "medunlearn.audit.overlap:LONGEST_RUN",
    "partial_match_50": "medunlearn.audit.overlap:PARTIAL_MATCH_50",
    "extraction_strength": "medunlearn.audit.overlap:EXTRACTION_STRENGTH",
    "rouge_l": "medunlearn.audit.overlap:ROUGE_L",
    "bleu": "medunlearn.audit.overlap:BLEU",
    "run_30.short_is_zero": "medunlearn.audit.overlap:RUN_30_SHORT_IS_ZERO",
    "run_50.short_is_zero": "medunlearn.audit.overlap:RUN_50_SHORT_IS_ZERO",
    "rouge_l.unstemmed_f": "medunlearn.audit.overlap:ROUGE_L_UNSTEMMED_F",
    "bleu.unsmoothed_words": "medunlearn.audit.overlap:BLEU_UNSMOOTHED_WORDS",
    "bert_score": "medunlearn.audit.semantic:BERT_SCORE",
    "bart_score": "medunlearn.audit.semantic:BART_SCORE",
    "bert_score.released_code": "medunlearn.audit.semantic:BERT_SCORE_RELEASED_CODE",
    "bart_score.released_code": "medunlearn.audit.semantic:BART_SCORE_RELEASED_CODE",
}

# Starting a process takes about half a second, the time of scoring this many responses of 500 tokens.
_PER_PROCESS = 2000


def get_measure(name: str) -> ContinuationMeasure:
    """The measure behind a name: a key of :data:`MEASURES`, an entry point, or ``module:attribute``.

    Raises:
        UnknownNameError: no such measure; names the closest one.
        InputError: the name leads to something else.
    """
    measure = resolve("measures", name, MEASURES)
    if not isinstance(measure, ContinuationMeasure):
        raise InputError(f"measure {name!r} leads to a {type(measure).__name__}, not to a ContinuationMeasure.")
    return measure


def default_measures() -> tuple[str, ...]:
    """Our own measures that need no further model; variants are named in ``measures``."""
    measures = [(name, get_measure(name)) for name in MEASURES]
    return tuple(name for name, measure in measures if measure.score is not None and not measure.variant)


def short_measures(names: Sequence[str], max_new_tokens: int) -> list[str]:
    """Names and least lengths of the measures that responses of so many tokens are too short for."""
    measures = [get_measure(name) for name in names]
    return [f"{m.name} ({m.least_tokens})" for m in measures if m.least_tokens > max_new_tokens]


def score_continuations(
    names: Sequence[str], continuations: Sequence[Continuation], processes: int | None = None
) -> dict[str, list[Score]]:
    """Scores by measure, one per continuation, in order.

    Args:
        processes: worker processes; None chooses as many as save time. The scores do not depend on it.

    Raises:
        InputError: a measure that an optional stage computes.
    """
    if staged := [name for name in names if get_measure(name).score is None]:
        raise InputError(f"{', '.join(staged)} needs a further model, and is not part of this step.")
    if processes is None:
        processes = max(1, min(usable_cores(), len(continuations) // _PER_PROCESS))
    size = max(1, -(-len(continuations) // processes))
    shares = [continuations[start : start + size] for start in range(0, len(continuations), size)]
    tables = in_processes(partial(_score, tuple(names)), shares) if shares else []
    return {name: [score for table in tables for score in table[name]] for name in names}


def _score(names: Sequence[str], share: Sequence[Continuation]) -> dict[str, list[Score]]:
    """Scores by measure; continuations without a response are unscored and not passed to a measure."""
    answered_continuations = [continuation for continuation in share if continuation.no_response is None]
    table = {}
    for name in names:
        measure = get_measure(name)
        function = measure.score
        scores = function(answered_continuations) if answered_continuations and function else []
        if len(scores) != len(answered_continuations):
            raise MedunlearnError(
                f"measure {name!r} gave {len(scores)} scores for {len(answered_continuations)} responses."
            )
        rest = iter(scores)
        table[name] = [
            _unless_cut(measure, continuation, next(rest))
            if continuation.no_response is None
            else Score.unscored(continuation.no_response)
            for continuation in share
        ]
    return table


def _unless_cut(measure: ContinuationMeasure, pair: Continuation, score: Score) -> Score:
    """A score, unless a limit ended the response before what the measure reads."""
    reason = measure.why_unscored(pair) if score.value is not None else None
    return score if reason is None else Score.unscored(reason)
