"""What TOFU's and MUSE's papers read of evaluated and attacked models, for a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.attacks.membership.results import AUC
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.metrics.privacy_leak import privacy_leak
from medunlearn.papers.tofu.measures import tofu_measures
from medunlearn.reports.content import Membership, PublishedMeasures
from medunlearn.results.evaluated import Evaluated, Evaluation

COLUMNS = ("model", "measure", "value", "low", "high", "n", "note")
MUSE_PARTS = (("forget", "VerbMem"), ("forget", "KnowMem"), ("retain", "KnowMem"))
PRIVACY_LEAK = "PrivLeak"

TOFU_ABOUT = (
    "Forget quality: p-value of a Kolmogorov-Smirnov test of truth ratios on forget against the retrained model's; "
    "0-1, higher = cannot be told from it. Model utility: harmonic mean of the nine means below it; 0-1, higher = "
    "knows more.",
    "Truth ratio: length-normalised probability of wrong answers over that of the paraphrased right one; below 1 = "
    "knows, around 1 = cannot tell.",
)
MUSE_ABOUT = (
    "VerbMem and KnowMem are ROUGE-L F1, 0-1, higher = remembers more; on retain that is utility.",
    "PrivLeak: AUC of Min-K% minus the retrained model's, over the latter; 0 = leaks as little, above 0 = still "
    "gives members away, below 0 = over-unlearned. The paper's tables have the other sign, times 100.",
)


def published_measures(
    models: Sequence[Evaluated], benchmark: Benchmark | None, membership: Membership
) -> PublishedMeasures | None:
    """The measures of the benchmark's own paper; None for benchmarks that are neither TOFU nor MUSE.

    Args:
        models: of a report, with distinct labels.
        benchmark: TOFU's measures need it, to know whose question each is.
        membership: what attacks found; MUSE's PrivLeak comes from it.
    """
    builder = models[0].record.info["results"]["benchmark"]["builder"]
    return _BUILDERS[builder](models, benchmark, membership) if builder in _BUILDERS else None


def _tofu(models: Sequence[Evaluated], benchmark: Benchmark | None, _: Membership) -> PublishedMeasures:
    if benchmark is None:
        lacking = "Forget quality and model utility need the benchmark: `medunlearn report ... --benchmark FOLDER`."
        return PublishedMeasures("TOFU", (*TOFU_ABOUT, lacking), _table(_ratio_rows(models)))
    found = tofu_measures(Evaluation(tuple(models), 2, 0), benchmark)
    # Most important first: the test, the mean, then what it is made of.
    order = {"forget quality": 0, "model utility": 1}
    rows = sorted(found.to_dict("records"), key=lambda row: order.get(row["measure"], _place(row["measure"])))
    return PublishedMeasures("TOFU", TOFU_ABOUT, _table([*rows, *_ratio_rows(models)]))


def _place(measure: str) -> int:
    return 1 if measure.startswith("harmonic mean") else 2


def _ratio_rows(models: Sequence[Evaluated]) -> list[dict[str, Any]]:
    """The truth ratio itself, where lower and higher differ in meaning from its use in model utility."""
    rows = []
    for model in models:
        table = model.summary
        for side in ("forget", "retain"):
            found = table[
                (table["metric"] == "truth_ratio")
                & (table["side"] == side)
                & (table["fold"] == "train")
                & (table["kind"] == "all")
            ]
            rows += [_of_summary(model, f"truth ratio on {side}", row) for row in found.to_dict("records")]
    return rows


def _muse(models: Sequence[Evaluated], _: Benchmark | None, membership: Membership) -> PublishedMeasures:
    rows = []
    for side, measure in MUSE_PARTS:
        for model in models:
            table = model.groups
            found = table[(table["measure"] == measure) & (table["side"] == side)]
            rows += [_of_summary(model, f"{measure} on {side}", row) for row in found.to_dict("records")]
    return PublishedMeasures("MUSE", MUSE_ABOUT, _table([*rows, *_leak_rows(models, membership)]))


def _leak_rows(models: Sequence[Evaluated], membership: Membership) -> list[dict[str, Any]]:
    areas = _areas(membership)
    retrained = next((model.run.label for model in models if model.run.role == "retrained"), None)
    rows = []
    for model in models:
        value, note = _leak(areas.get(model.run.label), areas.get(retrained or ""), retrained)
        if model.run.label == retrained:
            value, note = None, "the reference"
        rows.append({"model": model.run.label, "measure": PRIVACY_LEAK, "value": value, "note": note})
    return rows


def _leak(own: float | None, reference: float | None, retrained: str | None) -> tuple[float | None, str]:
    if retrained is None:
        return None, "no retrained model"
    if own is None or reference is None:
        return None, "not attacked: `medunlearn attack RUN BENCH --split forget --attack min_k`"
    try:
        return privacy_leak(own, reference), ""
    except InputError as error:
        return None, str(error)


def _areas(membership: Membership) -> dict[str, float]:
    """Model -> AUC of Min-K%."""
    table = membership.table
    if not len(table):
        return {}
    found = table[(table["attack"] == "min_k") & (table["measure"] == AUC) & table["value"].notna()]
    return {str(row["model"]): float(row["value"]) for row in found.to_dict("records")}


def _of_summary(model: Evaluated, measure: str, row: Mapping[Any, Any]) -> dict[str, Any]:
    unscored = int(row["n_unscored"])
    found = {name: None if pd.isna(row[name]) else float(row[name]) for name in ("value", "low", "high")}
    note = "no question has one" if found["value"] is None else f"{unscored:,} unscored" if unscored else ""
    return {"model": model.run.label, "measure": measure, **found, "n": int(row["n_scored"]), "note": note}


def _table(rows: Sequence[Mapping[Any, Any]]) -> pd.DataFrame:
    """Rows with all columns; numbers that a row lacks are null."""
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(
        {"value": "Float64", "low": "Float64", "high": "Float64"}
    )


_Build = Callable[[Sequence[Evaluated], Benchmark | None, Membership], PublishedMeasures]
_BUILDERS: Mapping[str, _Build] = {"tofu": _tofu, "muse": _muse}
