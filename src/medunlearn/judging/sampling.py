"""Drawing cases to judge, the same for the same seed, spread over groups or over subjects."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.data.splits import shuffled
from medunlearn.errors import InputError
from medunlearn.judging.task import JudgingCase


def per_group(cases: Sequence[JudgingCase], number: int, seed: int) -> list[JudgingCase]:
    """So many cases of each group, or all where it has fewer (AMNESIA, F: 300 titles of each of three diseases)."""
    kept = {
        case_id
        for group in sorted({case.group for case in cases})
        for case_id in shuffled([c.case_id for c in cases if c.group == group], "judge", group, seed)[:number]
    }
    return [case for case in cases if case.case_id in kept]


def per_subject(cases: Sequence[JudgingCase], subjects: int, seed: int) -> list[JudgingCase]:
    """One case of each group from each of so many subjects (AMNESIA, G: a factual and a reasoning one of 500).

    Subjects that lack a group come last, so that every one drawn has all groups as long as there are enough.
    """
    groups = sorted({case.group for case in cases})
    of: dict[str, dict[str, list[str]]] = {}
    for case in cases:
        of.setdefault(case.subject, {}).setdefault(case.group, []).append(case.case_id)
    drawn = sorted(shuffled(list(of), "judge subjects", seed), key=lambda name: len(of[name]) < len(groups))
    kept = {
        shuffled(ids, "judge one", subject, group, seed)[0]
        for subject in drawn[:subjects]
        for group, ids in of[subject].items()
    }
    return [case for case in cases if case.case_id in kept]


def spread(cases: Sequence[JudgingCase], number: int, seed: int) -> list[JudgingCase]:
    """So many cases, as evenly over the groups as their sizes allow, in a drawn order that mixes the groups.

    Raises:
        InputError: there are fewer.
    """
    if not 1 <= number <= len(cases):
        raise InputError(f"{number} cases cannot be drawn of {len(cases)}.")
    waiting = {
        group: shuffled([c.case_id for c in cases if c.group == group], "annotate", group, seed)
        for group in sorted({case.group for case in cases})
    }
    taken: list[str] = []
    while len(taken) < number:
        for ids in waiting.values():
            if ids and len(taken) < number:
                taken.append(ids.pop(0))
    by_id = {case.case_id: case for case in cases}
    return [by_id[case_id] for case_id in shuffled(taken, "annotate order", seed)]
