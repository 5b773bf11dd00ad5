"""TOFU's measures in the report of runs on it."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.papers.tofu.measures import tofu_measures
from medunlearn.pipeline.report.papers import GatheredRuns, MeasureRow, measures_part, summary_rows
from medunlearn.reports.content import PaperPart
from medunlearn.results.evaluated import Evaluation

ABOUT = (
    "Forget quality: p-value of a Kolmogorov-Smirnov test of truth ratios on forget against the retrained model's; "
    "0-1, higher = cannot be told from it. Model utility: harmonic mean of the nine means below it; 0-1, higher = "
    "knows more.",
    "Truth ratio: length-normalised probability of wrong answers over that of the paraphrased right one; below 1 = "
    "knows, around 1 = cannot tell.",
)
_NEEDS_BENCHMARK = (
    "Forget quality and model utility need the benchmark: `medunlearn report ... --benchmark FOLDER`."
)


def paper_part(runs: GatheredRuns) -> PaperPart:
    """Forget quality and model utility with its parts, then the truth ratio itself."""
    labels = [model.run.label for model in runs.models]
    if runs.benchmark is None:
        return measures_part("TOFU", (*ABOUT, _NEEDS_BENCHMARK), list(_ratio_rows(runs)), labels)
    rows = tofu_measures(Evaluation(runs.models, 2, 0), runs.benchmark).to_dict("records")
    # Most important first: the test, the mean, then its parts.
    order = {"forget quality": 0, "model utility": 1}
    rows.sort(key=lambda row: order.get(row["measure"], _place(row["measure"])))
    return measures_part("TOFU", ABOUT, [*rows, *_ratio_rows(runs)], labels)


def _place(measure: str) -> int:
    return 1 if measure.startswith("harmonic mean") else 2


def _ratio_rows(runs: GatheredRuns) -> Iterator[MeasureRow]:
    """The truth ratio itself, where lower and higher differ in meaning from its use in model utility."""
    for model in runs.models:
        table = model.summary
        asked = (table["metric"] == "truth_ratio") & (table["fold"] == "train") & (table["kind"] == "all")
        for side in ("forget", "retain"):
            yield from summary_rows(model, f"truth ratio on {side}", table[asked & (table["side"] == side)])
