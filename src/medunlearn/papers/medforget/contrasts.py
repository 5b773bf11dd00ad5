"""The differences used by MedForget's findings, declared as data.

Each is a weighted sum of the numbers shown in the report, under draws of patients that its terms share: a patient
in two forget sets is drawn once for both. m is the unlearned, t the target, r the retrained model, f the model of
the same method unlearned on the flat split of as many sections; all are shares of 1, on one question set.
``m[none]`` is on the forget set under the attack without names, ``m@fine`` on the split of the finest level,
``m@coarse`` on that of the coarsest.

Names before a question make a longer prompt, which changes every model's answers. So the recovery by names is an
unlearned model's change compared with the target's under the same prompts, in points (a - a' with a = m(names) -
m(none), a' = t(names) - t(none)) and in proportion (m(names) - m(none) t(names) / t(none)): a model with half of
the target's knowledge falls half as far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from medunlearn.papers.medforget.measures import MEASURES, LevelMeasure
from medunlearn.papers.medforget.models import flat
from medunlearn.papers.medforget.partitions import VIEW, WORDS
from medunlearn.papers.medforget.question_sets import IDENTIFIERS, ON_COMMON, REPHRASED, given
from medunlearn.papers.medforget.scopes import FLAT, ladder
from medunlearn.papers.medforget.sweep import LevelResults, LevelSweep
from medunlearn.papers.sweeps.contrasts import contrast_row, parts
from medunlearn.papers.sweeps.models import RETRAINED_MODEL, TARGET_MODEL, unlearned
from medunlearn.results.contrasts import Contrast

ALL = given(IDENTIFIERS[-1])
"""The forget set under the attack with all names in front of the question."""
_NAMED = tuple(map(given, IDENTIFIERS[1:]))
_FORGET = ("forget", *REPHRASED)
_KEEP = ("retain", "general")
PROPORTION = "brought back in proportion"

Specs = Sequence[tuple[str, Sequence[str], str]]
"""Name, question sets, and the expression on each."""

KNOWN: Specs = [("known", _FORGET, "t - r")]
ON_SPLIT: Specs = [
    ("forgotten", _FORGET, "t - m"),
    ("lost", _KEEP, "t - m"),
    # On the forget set, above 0: more is left than a model knows that never saw it.
    ("over retrained", (*_FORGET, *_KEEP), "m - r"),
    ("works", ("retain",), "m - 0.5 t"),
    ("leaks", (ALL,), "m - r"),
    ("change", _NAMED, "m - m[none]"),
    ("target's change", _NAMED, "t - t[none]"),
    ("brought back", _NAMED, "m - m[none] - t + t[none]"),
]
BESIDE_FLAT: Specs = [("flat over hierarchical", ("shared",), "f - m")]
OF_LEVELS: Specs = [
    ("forgotten more", ("forget",), "t - m - t@fine + m@fine"),
    ("left less", ("forget",), "m@fine - r@fine - m + r"),
    ("lost more", _KEEP, "t - m - t@fine + m@fine"),
    ("lost more than retrained", _KEEP, "r - m - r@fine + m@fine"),
]
"""The coarsest level minus the finest; of the forget set, on the sections that every level forgets if any."""
OVER_COARSEST: Specs = [("leaks more", (ALL,), "m - r - m@coarse + r@coarse")]
COLUMNS = (
    *LevelResults.contrast_labels,
    *("value", "low", "high", "p", "n_subjects", "by_seed", "reason"),
)


def contrasts(sweep: LevelSweep) -> pd.DataFrame:
    """Every contrast of every method and measure (:data:`COLUMNS`); one without a value has a reason."""
    rows: list[dict[str, Any]] = []
    for measure in MEASURES:
        for split in sweep.scopes:
            rows += _SplitContrasts(sweep, measure, split).rows(KNOWN)
            for method in sweep.models.methods:
                if sweep.has(split, method):
                    rows += _SplitContrasts(sweep, measure, split, method).of_method()
        for method in sweep.models.methods:
            rows += _across_levels(sweep, measure, method)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _across_levels(sweep: LevelSweep, measure: LevelMeasure, method: str) -> Iterator[dict[str, Any]]:
    """Contrasts of the levels that one method was run on; none if it was run on one."""
    levels = [split for split in ladder(sweep.scopes) if sweep.has(split, method)]
    if len(levels) >= 2:
        ends = {"coarse": levels[0], "fine": levels[-1]}
        yield from _SplitContrasts(sweep, measure, levels[0], method, ends).rows(OF_LEVELS)
        for split in levels[1:]:
            yield from _SplitContrasts(sweep, measure, split, method, ends).rows(OVER_COARSEST)


@dataclass(frozen=True)
class _SplitContrasts:
    """Contrasts of one method and measure on one split.

    Attributes:
        ends: name in an expression -> another split. With it, contrasts are on what every level forgets.
    """

    sweep: LevelSweep
    measure: LevelMeasure
    split: str
    method: str = ""
    ends: Mapping[str, str] = field(default_factory=dict)

    def of_method(self) -> Iterator[dict[str, Any]]:
        """All contrasts without another level."""
        yield from self.rows(ON_SPLIT)
        if self.sweep.scopes[self.split].level != FLAT:
            yield from self.rows(BESIDE_FLAT)
        if expression := self._in_proportion():
            yield from self.rows([(PROPORTION, (ALL,), expression)])

    def rows(self, specs: Specs) -> Iterator[dict[str, Any]]:
        """A row for each contrast and question set; none for words and view apart where they were not asked."""
        for name, groups, expression in specs:
            for group in groups:
                if group not in REPHRASED[1:] or {WORDS, VIEW} <= self.sweep.variants:
                    if self.ends and self.sweep.common:
                        group = ON_COMMON.get(group, group)
                    labels = (name, self.sweep.scopes[self.split].split, self.method, group, self.measure.name)
                    row = contrast_row(self._contrast(expression, group))
                    yield row | dict(zip(LevelResults.contrast_labels, labels, strict=True))

    def _contrast(self, expression: str, group: str) -> Contrast:
        models = {"m": unlearned(self.method), "t": TARGET_MODEL, "r": RETRAINED_MODEL, "f": flat(self.method)}
        places = [(part, self.ends[part.split] if part.split else self.split) for part in parts(expression)]
        joint = tuple(sorted({split for _, split in places}))
        terms = []
        for part, split in places:
            questions = given(part.where) if part.where else group
            terms.append(
                self.sweep.level_term(part.weight, questions, self.measure, models[part.model], split, joint)
            )
        return self.sweep.contrast(terms)

    def _in_proportion(self) -> str:
        """m(names) - m(none) t(names) / t(none) as a weighted sum, linearised at the numbers (delta method), so
        that draws carry the uncertainty of all four. Empty if the target answers nothing without names.
        """
        ours, ours_named, bare, named = (
            self._contrast(expression, ALL).value for expression in ("m[none]", "m", "t[none]", "t")
        )
        if ours is None or ours_named is None or not bare or named is None:
            return ""
        share, rest = ours / bare, named / bare
        return f"m - {share:.9f} t - {rest:.9f} m[none] + {share * rest:.9f} t[none]"
