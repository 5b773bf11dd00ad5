"""TOFU's two numbers from evaluated models: model utility, and forget quality against the retrained model."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.results.composites import harmonic_mean
from medunlearn.results.evaluated import Evaluated, Evaluation
from medunlearn.statistics.two_sample import kolmogorov_smirnov

UTILITY_PARTS: Mapping[str, tuple[str, ...]] = {
    "fictitious": ("answer_probability", "rouge_l", "truth_ratio_utility"),
    "real_authors": ("choice_probability", "rouge_l", "truth_ratio_utility"),
    "world_facts": ("choice_probability", "rouge_l", "truth_ratio_utility"),
}
"""Set -> the three metrics whose means enter model utility; of the fictitious authors the retained ones."""

COLUMNS = ("model", "measure", "value", "n", "note")


def tofu_measures(evaluation: Evaluation, benchmark: Benchmark) -> pd.DataFrame:
    """One row a model and measure: the parts of model utility, model utility, forget quality.

    Model utility is the harmonic mean of nine means: probability, ROUGE-L recall and truth ratio, on retained
    authors, real authors and world facts; 0-1, higher = knows more. With a part missing it is called by the number
    of its parts. Forget quality is the p-value of a Kolmogorov-Smirnov test of the truth ratios on forget against
    the retrained model's; 0-1, higher = cannot be told from it; it has no value without a retrained model.

    Source: TOFU (Maini et al. 2024, arXiv 2401.06121), Section 2.2.
    """
    retrained = next((one for one in evaluation.models if _is_reference(one)), None)
    rows = [
        row
        for model in evaluation.models
        for row in (*_utility(model, benchmark), _forget_quality(model, retrained))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _is_reference(model: Evaluated) -> bool:
    """A model retrained without another split's authors is no reference for this one's."""
    config = model.run.info["config"]
    return model.run.role == "retrained" and config["without"] == model.record.info["config"]["split"]


def _utility(model: Evaluated, benchmark: Benchmark) -> list[dict[str, Any]]:
    values = _values(model)
    asked = model.questions[
        model.questions["fold"].isin(("train", "utility")) & (model.questions["side"] == "retain")
    ]
    sets = asked["subject"].map(lambda subject: benchmark.record[subject].groups["set"])
    rows, means = [], []
    for of, metrics in UTILITY_PARTS.items():
        # All three are of the same questions: those that have alternatives.
        inside = [name for name in asked["question_id"][sets == of] if (name, "truth_ratio_utility") in values]
        for metric in metrics:
            scored = [values[name, metric] for name in inside if (name, metric) in values]
            mean = sum(scored) / len(scored) if scored else None
            means += [] if mean is None else [mean]
            note = "" if scored else "no question of this set was scored: --folds train,utility asks all"
            rows.append(_row(model, f"{of}: {metric}", mean, len(scored), note))
    whole = sum(map(len, UTILITY_PARTS.values()))
    name, note = "model utility", ""
    if len(means) < whole:
        name = f"harmonic mean of {len(means)} of {whole} parts"
        note = "parts are missing, so this is not TOFU's model utility"
    return [*rows, _row(model, name, harmonic_mean(means) if means else None, len(means), note)]


def _forget_quality(model: Evaluated, retrained: Evaluated | None) -> dict[str, Any]:
    measure = "forget quality"
    if retrained is None:
        return _row(model, measure, None, 0, "no retrained model of this split: name one with --against")
    if model is retrained:
        return _row(model, measure, None, 0, "the reference")
    (own, lost), (reference, lost_there) = _ratios(model), _ratios(retrained)
    if not own or not reference:
        return _row(model, measure, None, 0, "no question of the forget set has a truth ratio")
    note = f"without truth ratio, left out: {lost} here, {lost_there} of the retrained model's"
    p = kolmogorov_smirnov(own, reference).p
    return _row(model, measure, p, len(own), note if lost + lost_there else "")


def _ratios(model: Evaluated) -> tuple[list[float], int]:
    """Truth ratios on forget, and how many questions have none."""
    values = _values(model)
    asked = model.questions[(model.questions["side"] == "forget") & (model.questions["fold"] == "train")]
    ratios = [values[name, "truth_ratio"] for name in asked["question_id"] if (name, "truth_ratio") in values]
    return ratios, len(asked) - len(ratios)


def _values(model: Evaluated) -> dict[tuple[str, str], float]:
    """(question, metric) -> its score; what is unscored is not there."""
    scored = model.scores[model.scores["value"].notna()]
    rows = zip(scored["question_id"], scored["metric"], scored["value"], strict=True)
    return {(name, metric): float(value) for name, metric, value in rows if isfinite(float(value))}


def _row(model: Evaluated, measure: str, value: float | None, n: int, note: str) -> dict[str, Any]:
    return dict(zip(COLUMNS, (model.run.label, measure, value, n, note), strict=True))
