"""Score tables of control models that no training made: each is a rule for what a model says of every subject.

A world has forget and retain subjects with trained and unseen questions. The target knows all that it was trained
on and half of the unseen; the retrained model does not know the forget set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.results.evaluated import COMPOSITES, summarize_evaluation
from medunlearn.results.forgetting_numbers import check_forgetting
from medunlearn.results.reference_check import check_reference
from medunlearn.results.summary import EVALUATION, compare
from medunlearn.seeds import generator

SUBJECTS, QUESTIONS, FACTS = 20, 6, 4
SIDES, FOLDS = ("forget", "retain"), ("train", "holdout")
KNOWN, UNSEEN, GUESSED = 0.97, 0.5, 0.2
Level = Callable[[str, str, int], float]
"""(Side, fold, subject) -> share of the questions that the model still knows."""


def knows(side: str, fold: str, subject: int) -> float:
    return 1.0


def never_saw(side: str, fold: str, subject: int) -> float:
    return 0.0 if side == "forget" else 1.0


def all_but_one(side: str, fold: str, subject: int) -> float:
    return 1.0 if side == "forget" and subject == 0 else never_saw(side, fold, subject)


def damaged(share: float) -> Level:
    return lambda side, fold, subject: 1.0 - share


def damaged_but_trained(side: str, fold: str, subject: int) -> float:
    """A loss on the trained retain questions that hides the damage of all else."""
    return 1.0 if (side, fold) == ("retain", "train") else 0.0


def table(level: Level, *, seed: int = 0, ranks: Level | None = None, subjects: int = SUBJECTS) -> pd.DataFrame:
    """The scores of a model: ROUGE-L, EM and ranks of facts.

    Args:
        ranks: what it still knows by rank; None: the same.
    """
    draw = generator("control tables", seed)
    rows = [
        row
        for side in SIDES
        for fold in FOLDS
        for subject in range(subjects)
        for row in _rows(side, fold, subject, level, ranks or level, draw)
    ]
    return pd.DataFrame(rows)


def _rows(
    side: str, fold: str, subject: int, level: Level, ranks: Level, draw: np.random.Generator
) -> list[Mapping[str, object]]:
    best = KNOWN if fold == "train" else UNSEEN
    about = {"subject": f"{side}-{subject}", "side": side, "fold": fold, "kind": "factual", "reason": None}
    rows: list[Mapping[str, object]] = []
    for number in range(QUESTIONS if fold == "train" else QUESTIONS // 2):
        item = {"item": f"{side}-{fold}-{subject}-{number}"} | about
        known = draw.random() < level(side, fold, subject)
        for measure in ("rouge_l", "em"):
            value = (best if known else GUESSED * best) + draw.normal(0.0, 0.02)
            rows.append(item | {"measure": measure, "value": float(np.clip(value, 0.0, 1.0))})
        if fold == "train" and number < FACTS:
            first = draw.random() < (0.95 if draw.random() < ranks(side, fold, subject) else 0.05)
            rows.append(item | {"measure": "ranked_first", "value": float(first)})
    return rows


def report_content(
    models: Mapping[str, pd.DataFrame], problems: Mapping[str, tuple[str, ...]] | None = None, without: str = ""
) -> ReportContent:
    """The content of a report of the target, the retrained model, and unlearned models with these scores.

    Args:
        problems: label of a broken model -> why.
        without: rows that no model has, as a query.
    """
    tables = {"target": table(knows, seed=1), "retrained": table(never_saw, seed=2), **models}
    if without:
        tables = {label: own.drop(own.query(without).index) for label, own in tables.items()}
    how: dict[str, Any] = {"replicates": 200, "seed": 0}
    references = tables["target"], tables["retrained"]
    against = [
        compare(own, tables["retrained"], EVALUATION, composites=COMPOSITES, rollup="kind", **how).assign(
            model=label, against="retrained"
        )
        for label, own in tables.items()
        if label != "retrained"
    ]
    return ReportContent(
        title="Control models",
        benchmark={"name": "controls", "builder": "other", "data_use": "open", "counts": {}},
        split={"name": "half", "level": "patient", "forget": SUBJECTS, "retain": SUBJECTS},
        context="closed_book",
        models=tuple(
            ModelResult(
                label,
                label if label in ("target", "retrained") else "unlearned",  # type: ignore[arg-type]
                None,
                summarize_evaluation(own, **how),
                pd.DataFrame(),
                {},
                (problems or {}).get(label, ()),
            )
            for label, own in tables.items()
        ),
        comparisons=pd.concat(against, ignore_index=True),
        examples=(),
        metrics={},
        caveats=(),
        show_text=False,
        reference=check_reference(*references, **how),
        forgetting={
            label: check_forgetting(own, *references, **how) for label, own in tables.items() if label in models
        },
    )
