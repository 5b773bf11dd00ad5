"""Contrasts as expressions over models, and their values with bootstrap draws shared by all models."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.papers.sweeps.models import UNLEARNED, SweepModels, Who
from medunlearn.results.contrasts import CellDraws, Contrast, Draws, Stratum, Term
from medunlearn.results.evaluated import COMPOSITES
from medunlearn.seeds import stable_seed
from medunlearn.statistics.intervals import p_value

EVERYONE = "all"
_PART = re.compile(r"([+-]?) ?([\d.]*) ?([mtrf])\b(?:\.(\w+))?(?:\[(\w+)\])?(?:@(\w+))?")


@dataclass(frozen=True, slots=True)
class Part:
    """One term of an expression: ``- 0.5 t.MU[holdout]@small``.

    Attributes:
        model: m (unlearned), t (target), r (retrained), f (unlearned on the flat split).
        name: name of a measure; "" for the contrast's own. where: questions or subjects; "" for the default.
        split: which of several splits; "" for the contrast's own.
    """

    weight: float
    model: str
    name: str
    where: str
    split: str


def parts(expression: str) -> list[Part]:
    """Parse the terms of a weighted sum of models' numbers.

    Raises:
        ValueError: it is not such a sum.
    """
    if _PART.sub("", expression).strip():
        raise ValueError(f"{expression!r} is not a weighted sum of models' numbers")
    return [
        Part((-1 if sign == "-" else 1) * float(weight or 1), model, name, where, split)
        for sign, weight, model, name, where, split in _PART.findall(expression)
    ]


class SweepDraws:
    """Numbers of a sweep, with each stratum's subjects drawn once for all models.

    Strata hold different subjects and are drawn independently: forget set, retain set, groups of the retained.

    Args:
        replicates, seed: bootstrap replicates and seed.
    """

    def __init__(self, models: SweepModels, replicates: int, seed: int) -> None:
        self.models, self.replicates, self.seed = models, replicates, seed
        self._draws = Draws(
            models.table, models.labels, rollup="kind", composites=COMPOSITES, replicates=replicates, seed=seed
        )

    def term(
        self,
        weight: float,
        measure: str,
        who: Who,
        questions: Mapping[str, str],
        context: str,
        split: str,
        *,
        joint: tuple[str, ...] = (),
        group: str = EVERYONE,
        subjects: Collection[str] | None = None,
    ) -> Term:
        """``weight`` times a model's number on some questions.

        Args:
            questions: their labels in the score table; the side, and those that tell their cell apart.
            joint: nested splits whose subjects are drawn together; none: only the term's own.
            group: name of the subjects, if these are not all.
        """
        side = questions["side"]
        seed = stable_seed("sweep", side, group, self.seed)
        stratum = Stratum.of(seed, subjects=subjects, context=context, split=joint or (split,), side=side)
        cell = {"split": split, "role": who[0], "method": who[1], **questions}
        return Term(weight, cell, measure, stratum)

    def seeds(self, term: Term) -> dict[object, CellDraws]:
        """Training seed -> means and draws of a term's cell."""
        return self._draws.cell(term.stratum, term.cell)

    def contrast(self, terms: Sequence[Term]) -> Contrast:
        """The weighted sum of the terms; without a value, the reason names the missing model."""
        for term in terms:
            if not self.seeds(term):
                role, method = term.cell["role"], term.cell["method"]
                model = method if role == UNLEARNED else f"no {role} model"
                was = "was not asked" if role == UNLEARNED else "was asked"
                return Contrast(None, reason=f"{model} {was} such questions on this split")
        return self._draws.contrast(terms) if terms else Contrast(None, reason="no such questions")


def contrast_row(contrast: Contrast, minus: float = 0.0) -> dict[str, Any]:
    """A contrast's columns, minus a constant; ``p`` tests equality with that constant."""
    edges = {name: getattr(contrast, name) for name in ("value", "low", "high")}
    return {
        **{name: None if edge is None else edge - minus for name, edge in edges.items()},
        "p": p_value(contrast.uncertainty, minus),
        **{name: getattr(contrast, name) for name in ("measure", "n_subjects", "reason")},
        "n_seeds": len(contrast.by_seed),
        "by_seed": tuple(value - minus for value in contrast.by_seed),
    }
