"""TOFU's numbers from evaluated models: model utility, forget truth ratio, and forget quality versus the retrained
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics.likelihood import TOFU_CODE
from medunlearn.results.composites import harmonic_mean
from medunlearn.results.evaluated import Evaluated, Evaluation, one_vocabulary
from medunlearn.statistics.two_sample import kolmogorov_smirnov

UTILITY_PARTS: Mapping[str, tuple[str, ...]] = {
    "fictitious": ("answer_probability", "rouge_l", "truth_ratio_utility"),
    "real_authors": ("choice_probability", "rouge_l", "truth_ratio_utility"),
    "world_facts": ("choice_probability", "rouge_l", "truth_ratio_utility"),
}
"""Set -> the three metrics whose means enter model utility; of the fictitious authors the retained ones."""

VARIANTS: Mapping[str, str] = {"": "", ".geometric": TOFU_CODE}
"""End of a truth ratio's name -> variant in the name of a measure made of it; "" is the paper's equation."""

COLUMNS = ("model", "measure", "value", "n", "note")
_NO_RATIO = "no question of the forget set has a truth ratio"
FORGET_QUALITY, FORGET_RATIO, MODEL_UTILITY = "forget quality", "forget truth ratio", "model utility"


def tofu_measures(evaluation: Evaluation, benchmark: Benchmark) -> pd.DataFrame:
    """One row per model and measure: the parts of model utility, model utility, forget truth ratio, forget quality.

    Model utility is the harmonic mean of nine means: probability, ROUGE-L recall and truth ratio, on retained
    authors, real authors and world facts; 0-1, higher = knows more. With missing parts its name gives their number.
    Forget truth ratio is the mean of min(t, 1 / t) over questions to forget; 0-1, higher = right and wrong answers
    are closer to equally likely. Forget quality is the p-value of a Kolmogorov-Smirnov test of the truth ratios on
    forget against the retrained model's; 0-1, higher = indistinguishable from it, with its logarithm, which is
    finite even if p underflows; without a retrained model it has no value. Each uses the paper's truth ratio and,
    if scored, also that of TOFU's released code (``forget quality, TOFU's released code``), which alone is
    comparable with published numbers.

    Source: TOFU (Maini et al. 2024, arXiv 2401.06121), Section 2.2; locuslab/tofu, ``aggregate_eval_stat.py``.
    """
    retrained = next((model for model in evaluation.models if _is_reference(model)), None)
    rows = [row for model in evaluation.models for row in _rows(model, retrained, benchmark)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(model: Evaluated, retrained: Evaluated | None, benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    values = _values(model)
    scored = {metric for _, metric in values}
    measures = set[str]()
    for suffix in VARIANTS:
        if suffix and not {f"truth_ratio{suffix}", f"truth_ratio_utility{suffix}"} & scored:
            continue
        for row in _utility(model, values, benchmark, suffix):
            # Probability and ROUGE-L are the same in every variant.
            if row["measure"] not in measures:
                yield row
            measures.add(row["measure"])
        yield _forget_ratio(model, suffix)
        yield from _forget_quality(model, retrained, suffix)


def _measure_name(measure: str, suffix: str) -> str:
    return f"{measure}, {VARIANTS[suffix]}" if suffix else measure


def _is_reference(model: Evaluated) -> bool:
    """True if a model is a valid reference: not retrained without another split's authors."""
    config = model.run.info["config"]
    return model.run.role == "retrained" and config["without"] == model.record.info["config"]["split"]


def _utility(
    model: Evaluated, values: Mapping[tuple[str, str], float], benchmark: Benchmark, suffix: str
) -> list[dict[str, Any]]:
    questions = model.questions[
        model.questions["fold"].isin(("train", "utility")) & (model.questions["side"] == "retain")
    ]
    sets = questions["subject"].map(lambda subject: benchmark.record[subject].groups["set"])
    rows, means = [], []
    for of, metrics in UTILITY_PARTS.items():
        # All three are of the same questions: those that have alternatives.
        ids = questions["question_id"][sets == of]
        inside = [name for name in ids if (name, f"truth_ratio_utility{suffix}") in values]
        for part in metrics:
            metric = f"{part}{suffix}" if part == "truth_ratio_utility" else part
            scored = [values[name, metric] for name in inside if (name, metric) in values]
            mean = sum(scored) / len(scored) if scored else None
            means += [] if mean is None else [mean]
            note = "" if scored else "no question of this set was scored: --folds train,utility asks all"
            rows.append(_row(model, f"{of}: {metric}", mean, len(scored), note))
    whole = sum(map(len, UTILITY_PARTS.values()))
    name, note = MODEL_UTILITY, ""
    if len(means) < whole:
        name = f"harmonic mean of {len(means)} of {whole} parts"
        note = "parts are missing, so this is not TOFU's model utility"
    mean = harmonic_mean(means) if means else None
    return [*rows, _row(model, _measure_name(name, suffix), mean, len(means), note)]


def _forget_ratio(model: Evaluated, suffix: str) -> dict[str, Any]:
    ratios, unscored = _ratios(model, suffix)
    mean = sum(min(ratio, 1 / ratio) if ratio else 0.0 for ratio in ratios) / len(ratios) if ratios else None
    note = f"without truth ratio, left out: {unscored}" if ratios and unscored else "" if ratios else _NO_RATIO
    return _row(model, _measure_name(FORGET_RATIO, suffix), mean, len(ratios), note)


def _forget_quality(model: Evaluated, retrained: Evaluated | None, suffix: str) -> list[dict[str, Any]]:
    measure, logarithm = (_measure_name(name, suffix) for name in (FORGET_QUALITY, f"log10 of {FORGET_QUALITY}"))
    if retrained is None:
        return [_row(model, measure, None, 0, "no retrained model of this split: name one with --against")]
    if model is retrained:
        return [_row(model, measure, None, 0, "the reference")]
    if not one_vocabulary([model, retrained]):
        return [
            _row(model, measure, None, 0, "the retrained model has another tokenizer: their ratios differ by it")
        ]
    (ratios, unscored), (reference, unscored_there) = _ratios(model, suffix), _ratios(retrained, suffix)
    if not ratios or not reference:
        return [_row(model, measure, None, 0, _NO_RATIO)]
    note = f"without truth ratio, left out: {unscored} here, {unscored_there} of the retrained model's"
    note = note if unscored + unscored_there else ""
    test = kolmogorov_smirnov(ratios, reference)
    return [
        _row(model, measure, test.p, len(ratios), note),
        _row(model, logarithm, test.log10_p, len(ratios), note),
    ]


def _ratios(model: Evaluated, suffix: str) -> tuple[list[float], int]:
    """Truth ratios on forget, and the number of questions without one."""
    values, metric = _values(model), f"truth_ratio{suffix}"
    questions = model.questions[(model.questions["side"] == "forget") & (model.questions["fold"] == "train")]
    ratios = [values[name, metric] for name in questions["question_id"] if (name, metric) in values]
    return ratios, len(questions) - len(ratios)


def _values(model: Evaluated) -> dict[tuple[str, str], float]:
    """(question, measure) -> its score; unscored ones are missing."""
    scored = model.scores[model.scores["value"].notna()]
    rows = zip(scored["question_id"], scored["measure"], scored["value"], strict=True)
    return {(name, measure): float(value) for name, measure, value in rows if isfinite(float(value))}


def _row(model: Evaluated, measure: str, value: float | None, n: int, note: str) -> dict[str, Any]:
    return dict(zip(COLUMNS, (model.run.label, measure, value, n, note), strict=True))
