"""The differences that MedForget's findings are read from, as data.

Each is a weighted sum of the numbers shown in the report, under draws of patients that its terms share: a patient
in two forget sets is drawn once for both. m is the unlearned, t the target, r the retrained model, f the model of
the same method unlearned on the flat split of as many sections; all are shares of 1.

Names in front of a question make a longer prompt, which changes every model's answers. So what names bring back is
an unlearned model's change beside the target's own under the same prompts, in points (a - a' with a = m(names) -
m(none), a' = t(names) - t(none)) and in proportion (m(names) - m(none) t(names) / t(none)): a model that knows half
of what the target knows falls half as far.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from medunlearn.papers.medforget.measures import (
    COMMON,
    GROUPS,
    IDENTIFIERS,
    MEASURES,
    REPHRASED,
    SHARED,
    LevelMeasure,
)
from medunlearn.papers.medforget.sweep import FLAT, LevelSweep, flat, ladder
from medunlearn.papers.sweeps.contrasts import edges, parts
from medunlearn.papers.sweeps.models import RETRAINED_MODEL, TARGET_MODEL, unlearned

ALL = "given institution"
"""The forget set under the attack with all names in front of the question."""
ON_SPLIT = [
    *(
        contrast
        for name, lower in ((group.name, group.lower) for group in GROUPS)
        for contrast in (
            ("forgotten" if lower else "lost", name, f"t.{name} - m.{name}"),
            # On the forget set, above 0: more is left than a model knows that never saw it.
            ("over retrained", name, f"m.{name} - r.{name}"),
        )
    ),
    ("works", "retain", "m.retain - 0.5 t.retain"),
    ("flat over hierarchical", SHARED, f"f.{SHARED} - m.{SHARED}"),
    ("leaks", ALL, "m.given[institution] - r.given[institution]"),
    *(
        contrast
        for name in IDENTIFIERS[1:]
        for contrast in (
            ("change", f"given {name}", f"m.given[{name}] - m.given[none]"),
            ("target's change", f"given {name}", f"t.given[{name}] - t.given[none]"),
            (
                "brought back",
                f"given {name}",
                f"m.given[{name}] - m.given[none] - t.given[{name}] + t.given[none]",
            ),
        )
    ),
]
"""Name, set of questions, expression."""
VARIED = [
    contrast
    for name in ("words", "view")
    for contrast in (
        ("forgotten", f"rephrase {name}", f"t.rephrase[{name}] - m.rephrase[{name}]"),
        ("over retrained", f"rephrase {name}", f"m.rephrase[{name}] - r.rephrase[{name}]"),
    )
]
"""The same where the rephrased set was asked in parts."""
PROPORTION = "brought back in proportion"
OF_COMMON = [
    ("forgotten more", "forget", "t.{0} - m.{0} - t.{0}@fine + m.{0}@fine"),
    ("left less", "forget", "m.{0}@fine - r.{0}@fine - m.{0} + r.{0}"),
]
"""The coarsest level minus the finest, on the sections that every level forgets where there are some ({0})."""
OF_LEVELS = [
    *(
        contrast
        for name in ("retain", "general")
        for contrast in (
            ("lost more", name, f"t.{name} - m.{name} - t.{name}@fine + m.{name}@fine"),
            ("lost more than retrained", name, f"r.{name} - m.{name} - r.{name}@fine + m.{name}@fine"),
        )
    ),
]
"""The coarsest level minus the finest."""
LEAKS_MORE = (
    "m.given[institution] - r.given[institution] - m.given[institution]@coarse + r.given[institution]@coarse"
)
COLUMNS = (
    *("contrast", "split", "method", "group", "measure", "value", "low", "high", "p"),
    *("n_subjects", "by_seed", "reason"),
)


def contrasts(sweep: LevelSweep) -> pd.DataFrame:
    """Every contrast of every method and measure (:data:`COLUMNS`); one without a value says why."""
    rows: list[dict[str, Any]] = []

    def add(name: str, group: str, expression: str, measure: LevelMeasure, split: str, method: str = "") -> None:
        row = _contrast(sweep, expression, measure, split, method, ends)
        rows.append({"contrast": name, "method": method, "group": group, "measure": measure.name} | row)

    varied = set(REPHRASED[1:]) <= set(sweep.models.table["fold"])
    compared = {group: COMMON[group] if sweep.models.common else group for group in COMMON}

    for measure in MEASURES:
        ends: dict[str, str] = {}
        for split, scope in sweep.scopes.items():
            for group in ("forget", *(REPHRASED if varied else REPHRASED[:1])):
                name, _, where = group.partition(" ")
                at = f"{name}[{where}]" if where else name
                add("known", group, f"t.{at} - r.{at}", measure, split)
            for method in sweep.models.methods:
                if sweep.has(split, method):
                    for name, group, expression in (*ON_SPLIT, *(VARIED if varied else ())):
                        if scope.level != FLAT or name != "flat over hierarchical":
                            add(name, group, expression, measure, split, method)
                    if expression := _in_proportion(sweep, measure, split, method):
                        add(PROPORTION, ALL, expression, measure, split, method)
        for method in sweep.models.methods:
            levels = [name for name in ladder(sweep.scopes) if sweep.has(name, method)]
            if len(levels) >= 2:
                ends = {"coarse": levels[0], "fine": levels[-1]}
                for name, group, expression in OF_LEVELS:
                    add(name, group, expression, measure, levels[0], method)
                for name, group, expression in OF_COMMON:
                    add(name, compared[group], expression.format(compared[group]), measure, levels[0], method)
                for split in levels[1:]:
                    add("leaks more", ALL, LEAKS_MORE, measure, split, method)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _in_proportion(sweep: LevelSweep, measure: LevelMeasure, split: str, method: str) -> str:
    """m(names) - m(none) t(names) / t(none) as a weighted sum: its linear part at the numbers themselves (delta
    method), so that draws carry the uncertainty of all four. Empty where the target answers nothing without names.
    """
    values = {}
    for name, who in (("m", unlearned(method)), ("t", TARGET_MODEL)):
        for given in (IDENTIFIERS[0], IDENTIFIERS[-1]):
            number = sweep.contrast([sweep.level_term(1, f"given {given}", measure, who, split)])
            values[name, given] = number.value
    bare, named = (values["t", given] for given in (IDENTIFIERS[0], IDENTIFIERS[-1]))
    ours = values["m", IDENTIFIERS[0]]
    if ours is None or not bare or named is None or values["m", IDENTIFIERS[-1]] is None:
        return ""
    share, kept = ours / bare, named / bare
    return (
        f"m.given[{IDENTIFIERS[-1]}] - {share:.9f} t.given[{IDENTIFIERS[-1]}] - {kept:.9f} m.given[none] "
        f"+ {share * kept:.9f} t.given[none]"
    )


def _contrast(
    sweep: LevelSweep, expression: str, measure: LevelMeasure, split: str, method: str, ends: dict[str, str]
) -> dict[str, Any]:
    """One contrast; its split is named as a report may name it."""
    who = {"m": unlearned(method), "t": TARGET_MODEL, "r": RETRAINED_MODEL, "f": flat(method)}
    at = [(part, ends[part.split] if part.split else split) for part in parts(expression)]
    drawn = tuple(sorted({on for _, on in at}))
    contrast = sweep.contrast(
        [
            sweep.level_term(part.weight, f"{part.name} {part.where}".strip(), measure, who[part.model], on, drawn)
            for part, on in at
        ]
    )
    counts = {name: getattr(contrast, name) for name in ("n_subjects", "by_seed", "reason")}
    return {"split": sweep.scopes[split].split, **edges(contrast), **counts}
