"""The measures of the audit by name. Listing them loads no model and no torch.

A measure of your own: a module with one :class:`~medunlearn.audit.protocol.Measure`, named here, or given as
``module:attribute``, or declared as an entry point in the group ``medunlearn.measures``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from medunlearn.audit.protocol import Case, Measure
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics.base import Score
from medunlearn.metrics.workers import in_processes, usable_cores
from medunlearn.registry import resolve

MEASURES: dict[str, str] = {
    "run_30": "medunlearn.audit.exact:RUN_30",
    "run_50": "medunlearn.audit.exact:RUN_50",
    "longest_run": "medunlearn.audit.exact:LONGEST_RUN",
    "partial_match_50": "medunlearn.audit.exact:PARTIAL_MATCH_50",
    "extraction_strength": "medunlearn.audit.exact:EXTRACTION_STRENGTH",
    "rouge_l": "medunlearn.audit.approximate:ROUGE_L",
    "bleu": "medunlearn.audit.approximate:BLEU",
    "bert_score": "medunlearn.audit.semantic:BERT_SCORE",
    "bart_score": "medunlearn.audit.semantic:BART_SCORE",
}

# A process starts in about half a second, which so many responses of 500 tokens outweigh.
_WORTH_A_PROCESS = 2000


def get_measure(name: str) -> Measure:
    """The measure behind a name: a key of :data:`MEASURES`, an entry point, or ``module:attribute``.

    Raises:
        UnknownNameError: no such measure; the message says the nearest right one.
        InputError: the name leads to something that is no measure.
    """
    found = resolve("measures", name, MEASURES)
    if not isinstance(found, Measure):
        raise InputError(f"measure {name!r} leads to a {type(found).__name__}, not to a Measure.")
    return found


def default_measures() -> tuple[str, ...]:
    """Those that need no further model."""
    return tuple(name for name in MEASURES if get_measure(name).score is not None)


def score_cases(
    names: Sequence[str], cases: Sequence[Case], processes: int | None = None
) -> dict[str, list[Score]]:
    """Scores of each measure, one a case, in the order of the cases.

    Args:
        names: of measures that are computed here (:attr:`Measure.score`).
        processes: how many score at a time; None for as many as pay for their start. It changes no number.

    Raises:
        InputError: a measure that a step of its own computes.
    """
    apart = [name for name in names if get_measure(name).score is None]
    if apart:
        raise InputError(f"{', '.join(apart)} needs a further model, and is no part of this step.")
    if processes is None:
        processes = max(1, min(usable_cores(), len(cases) // _WORTH_A_PROCESS))
    size = max(1, -(-len(cases) // processes))
    parts = [cases[start : start + size] for start in range(0, len(cases), size)]
    tables = in_processes(partial(_score_all, tuple(names)), parts) if parts else []
    return {name: [score for table in tables for score in table[name]] for name in names}


def _score_all(names: Sequence[str], cases: Sequence[Case]) -> dict[str, list[Score]]:
    return {name: _score(get_measure(name), cases) for name in names}


def _score(measure: Measure, cases: Sequence[Case]) -> list[Score]:
    """Cases without a response never reach the measure, and come back in their own places."""
    there = [case for case in cases if case.no_response is None]
    assert measure.score is not None
    scores = iter(found := measure.score(there) if there else [])
    if len(found) != len(there):
        raise MedunlearnError(f"measure {measure.name!r} gave {len(found)} scores for {len(there)} cases.")
    return [next(scores) if case.no_response is None else Score.unscored(case.no_response) for case in cases]
