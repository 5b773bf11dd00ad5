"""The differences used by AMNESIA's findings and analyses, declared as data.

Each is a weighted sum of the numbers shown in the report, under draws of subjects that its terms share. MU is
utility on retain, AFE forgetting on forget (or their measured parts), ``ls`` the leakage score, DS the degradation
score; m is the unlearned model, t the target, r the retrained model. Numbers are of the train fold and all kinds
unless brackets say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.data.records import SIDES
from medunlearn.papers.amnesia.sweep import (
    FACTUAL,
    HOLDOUT,
    MEAN_OF_KINDS,
    REASONING,
    SIDE,
    TRAIN,
    SizeResults,
    SizeSweep,
)
from medunlearn.papers.sweeps.contrasts import contrast_row, parts
from medunlearn.results.contrasts import Contrast
from medunlearn.results.matrix import ALL_KINDS

EACH_FOLD = {
    "reasoning - factual (utility)": "m.MU[reasoning] - m.MU[factual]",
    "utility - retrained": "m.MU - r.MU",
    "reasoning - factual (forgetting)": "m.AFE[reasoning] - m.AFE[factual]",
    "forgetting - retrained": "m.AFE - r.AFE",
    "forgetting gained": "m.AFE - t.AFE",
    # Above 0: the target knows something that the retrained model does not.
    "forgetting to gain": "r.AFE - t.AFE",
    # Above 0: closer to the retrained model than to the target.
    "forgetting past half-way": "m.AFE - 0.5 t.AFE - 0.5 r.AFE",
}
ACROSS_FOLDS = {
    "holdout - train (utility)": "m.MU[holdout] - m.MU",
    "holdout - train (forgetting)": "m.AFE[holdout] - m.AFE",
}
ON_TRAIN = {
    "utility gained": "m.MU - t.MU",
    "utility above 0.8 of target": "m.MU - 0.8 t.MU",
    "leakage below a tenth of target": "0.1 t.ls - m.ls",
    # Not DS: a response of one token has no variety by its length.
    "degradation above half": "m.degenerate",
}
THRESHOLD = {"degradation above half": 0.5}
"""Constants that are subtracted from a contrast."""
BY_DISEASE = {
    "same - other disease (utility)": "m.MU[same] - m.MU[other]",
    "lost by same disease": "m.MU[same] - t.MU[same]",
    "lost by same disease beyond retrained": "m.MU[same] - r.MU[same]",
    "lost by same more than by other": "m.MU[same] - t.MU[same] - m.MU[other] + t.MU[other]",
    "utility of others above 0.8 of target": "m.MU[other] - 0.8 t.MU[other]",
}
"""Utility of retained subjects with and without the split's disease: the plain mean over the kinds."""
GROWTH = {
    "growth of forgetting": "m.AFE[small] - m.AFE[small]@small",
    "growth beyond retrained": "m.AFE[small] - m.AFE[small]@small - r.AFE[small] + r.AFE[small]@small",
}
"""Forgetting by the model of a scope's largest set minus that by the model of its smallest, both on the subjects of
the smallest, who lie in every set: the same questions, so that neither target nor choice of subjects counts."""
COLUMNS = (
    *SizeResults.contrast_labels,
    *("measure", "value", "low", "high", "p", "n_subjects", "n_seeds", "by_seed", "reason"),
)


def contrasts(sweep: SizeSweep) -> pd.DataFrame:
    """Every contrast of every method on every split (:data:`COLUMNS`); one without a value has a reason."""
    rows: list[dict[str, Any]] = []

    def add(context: str, split: str, method: str, named: Iterator[tuple[str, str, str, Contrast]]) -> None:
        labels = {"context": context, "split": sweep.steps[split].split, "method": method}
        for name, fold, kind, contrast in named:
            place = {"contrast": name, "fold": fold, "kind": kind}
            rows.append(labels | place | contrast_row(contrast, THRESHOLD.get(name, 0.0)))

    for context in sweep.models.contexts:
        run = {split: [who[1] for who in sweep.models.of(context, split) if who[1]] for split in sweep.steps}
        for split, methods in run.items():
            for method in methods:
                add(context, split, method, _on_split(sweep, context, split, method))
        for scope in dict.fromkeys(step.scope for step in sweep.steps.values()):
            sized = [name for name, step in sweep.steps.items() if step.scope == scope and step.percent is not None]
            for method in sweep.models.methods:
                sizes = [split for split in sized if method in run[split]]
                if len(sizes) >= 2:
                    add(context, sizes[-1], method, _growth(sweep, context, sizes[0], sizes[-1], method))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _on_split(sweep: SizeSweep, context: str, split: str, method: str) -> Iterator[tuple[str, str, str, Contrast]]:
    """Name, fold, kind and contrast of one method on one split."""
    at = (context, split, method)
    question_kinds = sweep.question_kinds(context, split)
    folds = list(dict.fromkeys(fold for side in SIDES for of, fold in question_kinds if of == side))

    def contrast(expression: str, fold: str = TRAIN) -> Contrast:
        return sweep.contrast([sweep.part_term(part, *at, fold=fold) for part in parts(expression)])

    for fold in folds:
        for name, expression in EACH_FOLD.items():
            first = parts(expression)[0]
            if not first.where:
                yield name, fold, ALL_KINDS, contrast(expression, fold)
            elif {FACTUAL, REASONING} <= set(question_kinds.get((SIDE[first.name], fold), [])):
                yield name, fold, "", contrast(expression, fold)
    if {TRAIN, HOLDOUT} <= set(folds):
        for name, expression in ACROSS_FOLDS.items():
            yield name, "", ALL_KINDS, contrast(expression)
    for name, expression in ON_TRAIN.items():
        yield name, TRAIN, ALL_KINDS, contrast(expression)
    if sweep.steps[split].disease is not None:
        for name, expression in BY_DISEASE.items():
            yield name, TRAIN, MEAN_OF_KINDS, sweep.mean_of_kinds(parts(expression), *at)


def _growth(
    sweep: SizeSweep, context: str, small: str, large: str, method: str
) -> Iterator[tuple[str, str, str, Contrast]]:
    for name, expression in GROWTH.items():
        terms = [
            sweep.part_term(part, context, small if part.split else large, method, joint=(small, large))
            for part in parts(expression)
        ]
        yield name, TRAIN, ALL_KINDS, sweep.contrast(terms)
