"""Controls beyond the paper's tables: private questions only, and whether answers need their image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget import tables
from medunlearn.papers.medforget.contrasts import contrasts
from medunlearn.papers.medforget.models import LevelModels
from medunlearn.papers.medforget.sweep import LevelResults, LevelSweep
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.figures import name_of
from medunlearn.papers.sweeps.models import REFERENCES, Who, shown_splits, unlearned
from medunlearn.papers.sweeps.results import SweepNumber, SweepRequest
from medunlearn.papers.sweeps.tables import cell_table
from medunlearn.reports.blocks import Cell, Section, Table, Text, details, section
from medunlearn.reports.formatting import ABSENT
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.image_control import summarize_control

CONTROLLED = {
    "generation": "rouge_l_f",
    "classification": "option_accuracy",
    "cloze": "exact_match",
    "identity": "exact_match",
}
"""Kind of question -> the measure that is read under other images."""
CAPTIONS = paper_yaml("medforget", "report")["captions"]


class PrivateModels(LevelModels):
    """All models with scores of private questions only (:mod:`medunlearn.data.recurring_answers`)."""

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        table = super().scores(model, split)
        private = model.table.loc[model.table["private"].astype("boolean").fillna(False), "item"]
        return table[table["item"].isin(set(private))]


def private_results(
    models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest
) -> LevelResults | None:
    """Numbers and contrasts of private questions; None if no question is marked, or none is private."""
    context = models[0].context if models else ""
    marked = [model for model in models if model.context == context and "private" in model.table.columns]
    if not marked or not any(model.table["private"].astype("boolean").fillna(False).any() for model in marked):
        return None
    swept = PrivateModels(marked, benchmark)
    sweep = LevelSweep(swept, context, request)
    return LevelResults(
        splits=tuple(sweep.scopes.values()),
        numbers=sweep.numbers(),
        contrasts=contrasts(sweep),
        methods=swept.methods,
        contexts=swept.contexts,
    )


def image_controls(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> pd.DataFrame:
    """Loss of each model on the forget set with other images, by split, role and method.

    Columns of :func:`~medunlearn.results.image_control.summarize_control`; several seeds are pooled.
    """
    context = models[0].context if models else ""
    controlled = [model for model in models if model.context == context and len(model.image_scores)]
    if not controlled:
        return pd.DataFrame()
    swept = LevelModels(controlled, benchmark)
    labels, rows = shown_splits(swept.splits), []
    for _, split, (role, method), seeds in swept:
        scores = pd.concat(
            [m.image_scores.assign(item=m.image_scores["item"] + f" #{seed}") for seed, m in seeds.items()]
        )
        is_controlled = scores["measure"] == scores["kind"].map(CONTROLLED)
        scores = scores[is_controlled & (scores["side"] == "forget") & (scores["fold"] == "train")]
        if len(scores):
            losses = summarize_control(scores, replicates=request.replicates, seed=request.seed)
            rows.append(losses.assign(split=labels[split], role=role, method=method))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def image_table(controls: pd.DataFrame, results: LevelResults) -> Table | None:
    """One row per model and split: for each kind of question, the number with the true image and the loss with
    others.
    """
    if controls.empty:
        return None
    kinds = [kind for kind in CONTROLLED if kind in set(controls["kind"])]
    cells: dict[tuple[Any, ...], Any] = {
        (row["role"], row["method"], row["split"], row["kind"], row["image"]): row
        for row in controls.to_dict("records")
    }
    everyone: list[Who] = [*REFERENCES, *map(unlearned, results.methods)]
    rows = [
        (name_of(who), scope.split, *(cell for kind in kinds for cell in _cells(cells, (*who, scope.split, kind))))
        for who in everyone
        for scope in results.splits
        if any((*who, scope.split, kind, "swapped") in cells for kind in kinds)
    ]
    what = ("true image", "minus swapped", "minus blank")
    return cell_table(("Model", "Split", *(Cell(kind.capitalize(), w) for kind in kinds for w in what)), rows)


def _cells(rows: dict[tuple[Any, ...], Any], place: tuple[Any, ...]) -> Iterator[Cell]:
    swapped, blank = (rows.get((*place, image)) for image in ("swapped", "blank"))
    either = swapped or blank
    yield Cell(ABSENT) if either is None or pd.isna(either["true"]) else Cell(f"{100 * either['true']:.1f}")
    for row in (swapped, blank):
        if row is None or pd.isna(row["difference"]):
            yield Cell(ABSENT)
        else:
            low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("low", "high"))
            pairs, people = int(row["n_pairs"]), int(row["n_subjects"])
            yield tables.difference_cell(SweepNumber(float(row["difference"]), low, high, pairs, 0, people))


def control_sections(
    results: LevelResults, private: LevelResults | None, controls: pd.DataFrame
) -> Iterator[Section | None]:
    """Sections of both, for a report."""
    if not controls.empty:
        caption = Text(CAPTIONS["image_control"], "aside")
        yield section("Is the image needed?", caption, image_table(controls, results), name="image")
    if private is not None:
        yield section(
            "On private questions alone",
            Text(CAPTIONS["private"], "aside"),
            tables.table_3(private),
            details("Generation, its parts apart", tables.table_5(private)),
            details("Every method minus the retrained model, percent points", tables.retrained_table(private)),
            details("Reconstruction from identifiers", tables.attack_table(private)),
            details("Names and sections along the hierarchy and flat", tables.identity_table(private)),
            name="private",
        )
