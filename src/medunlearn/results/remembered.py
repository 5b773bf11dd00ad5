"""Subjects of the forget set that a model still answers as its target does, each told from chance by itself.

A mean over subjects hides the one who was not forgotten. The retrained model never saw any of them, so its own
spread over subjects is what chance gives: a subject of another model is compared with it by Student's prediction
interval (:func:`~medunlearn.statistics.others.compare_with_others`), where every item is right or wrong also by
Hoeffding's bound (:func:`~medunlearn.statistics.others.chance_of_share`; the larger p counts), with Holm's
correction over all subjects and numbers. A subject is told if that rules out chance, and her number lies nearer to
the target's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from medunlearn.statistics.intervals import holm
from medunlearn.statistics.others import chance_of_share, compare_with_others

ALPHA = 0.05
LEAST_TELLABLE = 0.5
"""Share of the subjects that must be told of the target itself; with fewer, a known one could go unseen."""

ROLES = ("unlearned", "target", "retrained")


@dataclass(frozen=True, slots=True)
class Remembered:
    """Subjects that are told, without their names.

    Attributes:
        told: number of subjects that the model answers as the target, beyond chance.
        tellable: the same of the target itself.
        subjects: number of subjects with a number of all three models.
    """

    told: int
    tellable: int
    subjects: int

    @property
    def blind(self) -> bool:
        """True if a subject that is still known could go unseen."""
        return self.tellable < LEAST_TELLABLE * self.subjects


def remembered_subjects(
    scores: pd.DataFrame, numbers: Sequence[Sequence[str]], alpha: float = ALPHA
) -> Remembered | None:
    """Count the subjects that are still told; None with too few subjects to have a spread.

    Args:
        scores: score tables of the roles ``unlearned``, ``target`` and ``retrained`` on the forget set.
        numbers: measures whose mean is one number of a subject; higher = knows more.
    """
    tables = [_SubjectMeans.of(scores, measures) for measures in numbers]
    told, tellable = (_told(tables, role, alpha) for role in ("unlearned", "target"))
    if told is None or tellable is None:
        return None
    return Remembered(len(told), len(tellable), len(set().union(*(table.means for table in tables))))


@dataclass(frozen=True, slots=True)
class _SubjectMeans:
    """One number of each subject with scores of all roles.

    Attributes:
        means: subject -> role -> mean over items, and number of items.
        yes_or_no: every item is 0 or 1, so that a lucky one is rare and far from the mean.
    """

    means: Mapping[str, Mapping[str, tuple[float, int]]]
    yes_or_no: bool

    @staticmethod
    def of(scores: pd.DataFrame, measures: Sequence[str]) -> _SubjectMeans:
        rows = scores[scores["measure"].isin(list(measures)) & scores["value"].notna()]
        items = rows.groupby(["subject", "role", "item"])["value"].mean().astype("float64")
        means: defaultdict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
        for (subject, role), values in items.groupby(["subject", "role"]):
            means[str(subject)][str(role)] = float(values.mean()), len(values)
        whole = {subject: of_roles for subject, of_roles in means.items() if len(of_roles) == len(ROLES)}
        return _SubjectMeans(whole, bool(items.isin([0.0, 1.0]).all()))

    def chances(self, role: str) -> Iterator[tuple[str, float, bool]]:
        """Subject, chance of her mean if the model never saw her, and whether it is nearer to the target's."""
        others = [of_roles["retrained"] for of_roles in self.means.values()]
        for subject, of_roles in self.means.items():
            (value, items), known, unseen = of_roles[role], of_roles["target"][0], of_roles["retrained"][0]
            values, sizes = [mean for mean, _ in others], [size for _, size in others]
            if gap := compare_with_others([value], values, sizes=([items], sizes)):
                lucky = chance_of_share(value, items, others) if self.yes_or_no else 0.0
                yield subject, max(gap.p, lucky), known > unseen and value > (known + unseen) / 2


def _told(tables: Sequence[_SubjectMeans], role: str, alpha: float) -> set[str] | None:
    """Subjects that a role is told of by one of the numbers; None if none has a spread."""
    tests = [test for table in tables for test in table.chances(role)]
    corrected = holm([p for _, p, _ in tests])
    told = {subject for (subject, _, nearer), p in zip(tests, corrected, strict=True) if p <= alpha and nearer}
    return told if tests else None
