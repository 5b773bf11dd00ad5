"""A report's content by hand: eight models on an invented hospital, with every column of a real run.

Contents are frozen, and tests replace fields of a copy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from control_tables import knows, never_saw, table

from medunlearn.reports.content import Example, ModelResult, ReportContent, Role
from medunlearn.results.forgetting_check import ForgettingCheck
from medunlearn.results.forgetting_numbers import check_forgetting

# label, role, method, utility on retain and forgetting on forget (train fold, all kinds).
MODELS: tuple[tuple[str, Role, str | None, float, float], ...] = (
    ("target", "target", None, 0.83, 0.21),
    ("retrained", "retrained", None, 0.80, 0.62),
    ("GA", "unlearned", "ga", 0.22, 0.88),
    ("GradDiff", "unlearned", "graddiff", 0.58, 0.81),
    ("KL-Min", "unlearned", "kl_min", 0.55, 0.83),
    ("NPO", "unlearned", "npo", 0.71, 0.66),
    ("SimNPO", "unlearned", "simnpo", 0.74, 0.55),
    ("RMU", "unlearned", "rmu", 0.79, 0.57),
)
SECRET = "Quillon Vantreese"
HOSTILE = "<script>window.hacked = 1</script> **bold** ![x](https://example.org/x.png)"
_FOLDS = {"train": 0.0, "holdout": 0.07}
_KINDS = {"factual": 0.02, "reasoning": -0.03, "all": 0.0}
_METRICS = ("rouge_l", "em", "te", "token_f1")


def _row(side: str, fold: str, kind: str, metric: str, value: float | None, parts: str = "") -> dict[str, Any]:
    n = 240 if kind == "all" else 120
    wide = 0.05 if kind != "all" else 0.035
    edges = (None, None) if value is None else (max(0.0, value - wide), min(1.0, value + 0.8 * wide))
    place = {"side": side, "fold": fold, "kind": kind, "measure": metric, "parts": parts}
    counts = {"n_scored": 0 if value is None else n - 3, "n_unscored": n if value is None else 3, "n_subjects": 24}
    return place | {"value": value, "low": edges[0], "high": edges[1], "replicates_dropped": 0} | counts


def _summary(utility: float, forgetting: float, collapsed: float) -> pd.DataFrame:
    rows = []
    for fold, fold_shift in _FOLDS.items():
        for kind, kind_shift in _KINDS.items():
            knows, forgot = utility - fold_shift + kind_shift, min(0.97, forgetting + fold_shift - kind_shift)
            for place, metric in enumerate(_METRICS):
                rows.append(_row("forget", fold, kind, metric, max(0.0, 1 - forgot - 0.02 * place)))
                rows.append(_row("retain", fold, kind, metric, max(0.0, knows - 0.02 * place)))
            rows.append(_row("retain", fold, kind, "H(rouge_l, em, te)", knows, "rouge_l,em,te"))
            rows.append(_row("forget", fold, kind, "H(1-rouge_l, 1-em)", forgot, "rouge_l,em"))
            rows.append(_row("forget", fold, kind, "DS", collapsed, "te"))
            rows.append(_row("forget", fold, kind, "es", None))
    frame = pd.DataFrame(rows)
    return frame.astype({"value": "Float64", "low": "Float64", "high": "Float64"})


def _history(role: Role, method: str | None) -> pd.DataFrame:
    noise = np.random.default_rng(len(method or role)).normal(0, 0.04, 60)
    rows = []
    for step in range(60):
        decay = 2.4 * math.exp(-step / 14) + 0.15 + noise[step]
        terms = {"nll": decay}
        if method is not None:
            terms = {"forget": -0.4 * decay - step / 30, "retain": 0.2 + abs(noise[step])}
            terms = {"forget": terms["forget"]} if method == "ga" else terms
        named = {f"loss/{name}": value for name, value in terms.items()}
        head = {"step": step + 1, "epoch": step / 20, "lr": 1e-4, "loss": sum(terms.values())}
        rows.append(head | named | {"gradient_norm": 1.0, "tokens": 900, "seconds": 0.2})
    return pd.DataFrame(rows)


def _info(label: str, method: str | None) -> dict[str, Any]:
    config = {"benchmark": "hospital", "split": "disease-10", "lr": 1e-4, "epochs": 3, "context": "closed_book"}
    return {
        "config": config | ({"method": method, "retain_weight": 1.0} if method else {"exclude_forget": label}),
        "seconds": {"train": 12.0 + len(label), "score": 4.5},
        "peak_memory_bytes": 812_646_400,
        "code": {"commit": "c0ffee1234", "dirty": False},
        "results": {"first_response": SECRET},
    }


def _comparisons() -> pd.DataFrame:
    """Each method against the retrained model (0.80 and 0.62), and GA against the target."""
    rows = []
    for label, _, _, utility, forgetting in MODELS[2:]:
        both = (
            ("retain", "H(rouge_l, em, te)", utility - 0.80),
            ("forget", "H(1-rouge_l, 1-em)", forgetting - 0.62),
        )
        for side, metric, gap in both:
            place = {"side": side, "fold": "train", "kind": "all", "measure": metric}
            numbers = {"difference": gap, "low": gap - 0.03, "high": gap + 0.03, "p": 0.2, "n_pairs": 237}
            rows.append({"model": label, "against": "retrained", **place, **numbers, "n_subjects": 24})
    rows.append(rows[0] | {"against": "target", "difference": -0.61, "low": -0.65, "high": -0.57, "p": 0.001})
    return pd.DataFrame(rows)


def _examples() -> tuple[Example, ...]:
    labels = [model[0] for model in MODELS]
    forgot = dict.fromkeys(labels, f"{SECRET} was given ceftriaxone.") | {"GA": "", "NPO": HOSTILE}
    responses = dict.fromkeys(labels, "A beta blocker lowers the heart rate.")
    return (
        Example("q-retain", "retain", "train", "reasoning", "Why metoprolol?", "It slows the heart.", responses),
        Example("q-forget", "forget", "train", "factual", f"What was {SECRET} given?", "Ceftriaxone.", forgot),
    )


def _forgetting() -> dict[str, ForgettingCheck]:
    """Checks of the methods: all forgot, with nothing else lost."""
    own = check_forgetting(*(table(level, seed=n) for n, level in enumerate((never_saw, knows, never_saw))))
    assert own.passed
    unlearned = [(label, forgetting) for label, role, _, _, forgetting in MODELS if role == "unlearned"]
    return {label: replace(own, gap_beyond_damage=forgetting - 0.62) for label, forgetting in unlearned}


@pytest.fixture(scope="session")
def content() -> ReportContent:
    models = tuple(
        ModelResult(
            label,
            role,
            method,
            _summary(utility, forgetting, 0.62 if label == "GA" else 0.01),
            _history(role, method),
            _info(label, method),
        )
        for label, role, method, utility, forgetting in MODELS
    )
    return ReportContent(
        title="Forgetting 24 patients of an invented hospital",
        benchmark={"name": "hospital", "builder": "amnesia", "data_use": "open", "counts": {"records": 240}},
        split={"name": "random-10", "level": "patient", "forget": 24, "retain": 216},
        context="closed_book",
        models=models,
        comparisons=_comparisons(),
        examples=_examples(),
        metrics={
            "rouge_l": ("ROUGE-L", "0-1, higher = remembers more"),
            "em": ("Exact memorization", "0-1, higher = remembers more"),
            "te": ("Token entropy", "0-1, higher = more varied; 0 = one token repeated, or no text"),
            "token_f1": ("Token F1", "0-1, higher = the response shares more words with the reference"),
            "es": ("Entailment", "0-1, higher = remembers more"),
        },
        caveats=("Numbers from an invented hospital and a tiny model: they show that the pipeline works.",),
        show_text=True,
        forgetting=_forgetting(),
    )
