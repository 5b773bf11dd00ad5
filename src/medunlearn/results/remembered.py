"""Subjects of the forget set that a model still answers as its target does, each told from chance by itself.

A mean over subjects hides the one who was not forgotten. The retrained model never saw any of them, so its own
spread over subjects is what chance gives: a subject of another model is compared with it by Student's prediction
interval (:func:`~medunlearn.statistics.others.compare_with_others`), with Holm's correction over all subjects and
numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from medunlearn.statistics.intervals import holm
from medunlearn.statistics.others import compare_with_others

ALPHA = 0.05
LEAST_TELLABLE = 0.5
"""Where the target itself can be told of fewer of the subjects, one who is still known could go unseen."""

ROLES = ("unlearned", "target", "retrained")
SubjectMeans = Mapping[str, Mapping[str, tuple[float, int]]]
"""Subject -> role -> mean and number of scores."""


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
    tables = [means for measures in numbers if (means := _subject_means(scores, measures))]
    told, tellable = (_told(tables, role, alpha) for role in ("unlearned", "target"))
    if told is None or tellable is None:
        return None
    return Remembered(len(told), len(tellable), len(set().union(*tables)))


def _subject_means(scores: pd.DataFrame, measures: Sequence[str]) -> SubjectMeans:
    """Mean and number of scores by subject and role, for subjects with scores of all roles."""
    rows = scores[scores["measure"].isin(list(measures)) & scores["value"].notna()]
    means: defaultdict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
    for (subject, role), values in rows.groupby(["subject", "role"])["value"]:
        means[str(subject)][str(role)] = float(values.mean()), len(values)
    return {subject: of_roles for subject, of_roles in means.items() if len(of_roles) == len(ROLES)}


def _told(tables: Sequence[SubjectMeans], role: str, alpha: float) -> set[str] | None:
    """Subjects that a role is told of by one of the numbers; None if none has a spread."""
    subjects, chances, nearer = list[str](), list[float](), list[bool]()
    for means in tables:
        others, sizes = zip(*(of_roles["retrained"] for of_roles in means.values()), strict=True)
        for subject, of_roles in means.items():
            (value, items), known, unseen = of_roles[role], of_roles["target"][0], of_roles["retrained"][0]
            if gap := compare_with_others([value], others, sizes=([items], sizes)):
                subjects.append(subject)
                chances.append(gap.p)
                nearer.append(known > unseen and value > (known + unseen) / 2)
    if not subjects:
        return None
    told = zip(subjects, holm(chances), nearer, strict=True)
    return {subject for subject, p, near in told if p <= alpha and near}
