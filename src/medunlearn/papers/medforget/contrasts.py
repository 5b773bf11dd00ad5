"""The differences used by MedForget's findings, declared as data.

Each is a weighted sum of the numbers shown in the report, under draws of patients that its terms share: a patient
in two forget sets is drawn once for both. m is the unlearned, t the target, r the retrained model, f the model of
the same method unlearned on the flat split of as many sections; all are shares of 1.

Names before a question make a longer prompt, which changes every model's answers. So the recovery by names is an
unlearned model's change compared with the target's under the same prompts, in points (a - a' with a = m(names) -
m(none), a' = t(names) - t(none)) and in proportion (m(names) - m(none) t(names) / t(none)): a model with half of
the target's knowledge falls half as far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.papers.medforget.measures import COMMON, IDENTIFIERS, MEASURES, REPHRASED, SHARED, LevelMeasure
from medunlearn.papers.medforget.sweep import FLAT, LevelResults, LevelSweep, flat, ladder
from medunlearn.papers.sweeps.contrasts import contrast_row, parts
from medunlearn.papers.sweeps.models import RETRAINED_MODEL, TARGET_MODEL, unlearned
from medunlearn.results.contrasts import Contrast

ALL = "given institution"
"""The forget set under the attack with all names in front of the question."""
_NAMED = tuple(f"given {name}" for name in IDENTIFIERS[1:])
_FORGET = ("forget", *REPHRASED)
_KEEP = ("retain", "general")
PROPORTION = "brought back in proportion"

Specs = Sequence[tuple[str, Sequence[str], str]]
"""Name, sets of questions, and the expression on each ({0})."""

KNOWN: Specs = [("known", _FORGET, "t.{0} - r.{0}")]
ON_SPLIT: Specs = [
    ("forgotten", _FORGET, "t.{0} - m.{0}"),
    ("lost", _KEEP, "t.{0} - m.{0}"),
    # On the forget set, above 0: more is left than a model knows that never saw it.
    ("over retrained", (*_FORGET, *_KEEP), "m.{0} - r.{0}"),
    ("works", ("retain",), "m.{0} - 0.5 t.{0}"),
    ("leaks", (ALL,), "m.{0} - r.{0}"),
    ("change", _NAMED, "m.{0} - m.given[none]"),
    ("target's change", _NAMED, "t.{0} - t.given[none]"),
    ("brought back", _NAMED, "m.{0} - m.given[none] - t.{0} + t.given[none]"),
]
BESIDE_FLAT: Specs = [("flat over hierarchical", (SHARED,), "f.{0} - m.{0}")]
OF_LEVELS: Specs = [
    ("forgotten more", ("forget",), "t.{0} - m.{0} - t.{0}@fine + m.{0}@fine"),
    ("left less", ("forget",), "m.{0}@fine - r.{0}@fine - m.{0} + r.{0}"),
    ("lost more", _KEEP, "t.{0} - m.{0} - t.{0}@fine + m.{0}@fine"),
    ("lost more than retrained", _KEEP, "r.{0} - m.{0} - r.{0}@fine + m.{0}@fine"),
]
"""The coarsest level minus the finest; of the forget set, on the sections that every level forgets if any."""
OVER_COARSEST: Specs = [("leaks more", (ALL,), "m.{0} - r.{0} - m.{0}@coarse + r.{0}@coarse")]
COLUMNS = (
    *LevelResults.contrast_labels,
    *("value", "low", "high", "p", "n_subjects", "by_seed", "reason"),
)


def contrasts(sweep: LevelSweep) -> pd.DataFrame:
    """Every contrast of every method and measure (:data:`COLUMNS`); one without a value has a reason."""
    rows: list[dict[str, Any]] = []
    varied = set(REPHRASED[1:]) <= set(sweep.models.table["fold"])

    def add(
        specs: Specs, measure: LevelMeasure, split: str, method: str = "", ends: Mapping[str, str] | None = None
    ) -> None:
        for name, groups, template in specs:
            for group in groups:
                if varied or group not in REPHRASED[1:]:
                    compared = COMMON.get(group, group) if ends and sweep.models.common else group
                    expression = template.format(_set_name(compared))
                    row = contrast_row(_contrast(sweep, expression, measure, split, method, ends or {}))
                    labels = (name, sweep.scopes[split].split, method, compared, measure.name)
                    rows.append(row | dict(zip(LevelResults.contrast_labels, labels, strict=True)))

    for measure in MEASURES:
        for split, scope in sweep.scopes.items():
            add(KNOWN, measure, split)
            for method in sweep.models.methods:
                if sweep.has(split, method):
                    add(ON_SPLIT, measure, split, method)
                    if scope.level != FLAT:
                        add(BESIDE_FLAT, measure, split, method)
                    if expression := _in_proportion(sweep, measure, split, method):
                        add([(PROPORTION, (ALL,), expression)], measure, split, method)
        for method in sweep.models.methods:
            levels = [name for name in ladder(sweep.scopes) if sweep.has(name, method)]
            if len(levels) >= 2:
                ends = {"coarse": levels[0], "fine": levels[-1]}
                add(OF_LEVELS, measure, levels[0], method, ends)
                for split in levels[1:]:
                    add(OVER_COARSEST, measure, split, method, ends)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _set_name(group: str) -> str:
    """A set's name in an expression: ``given[institution]``."""
    name, _, where = group.partition(" ")
    return f"{name}[{where}]" if where else name


def _in_proportion(sweep: LevelSweep, measure: LevelMeasure, split: str, method: str) -> str:
    """m(names) - m(none) t(names) / t(none) as a weighted sum, linearised at the numbers (delta method), so that
    draws carry the uncertainty of all four. Empty if the target answers nothing without names.
    """
    (ours, ours_named), (bare, named) = (
        [sweep.contrast([sweep.level_term(1, group, measure, who, split)]).value for group in ("given none", ALL)]
        for who in (unlearned(method), TARGET_MODEL)
    )
    if ours is None or ours_named is None or not bare or named is None:
        return ""
    share, rest = ours / bare, named / bare
    return f"m.{{0}} - {share:.9f} t.{{0}} - {rest:.9f} m.given[none] + {share * rest:.9f} t.given[none]"


def _contrast(
    sweep: LevelSweep, expression: str, measure: LevelMeasure, split: str, method: str, ends: Mapping[str, str]
) -> Contrast:
    models = {"m": unlearned(method), "t": TARGET_MODEL, "r": RETRAINED_MODEL, "f": flat(method)}
    at = [(part, ends[part.split] if part.split else split) for part in parts(expression)]
    joint = tuple(sorted({on for _, on in at}))
    terms = []
    for part, on in at:
        group = f"{part.name} {part.where}".strip()
        terms.append(sweep.level_term(part.weight, group, measure, models[part.model], on, joint))
    return sweep.contrast(terms)
