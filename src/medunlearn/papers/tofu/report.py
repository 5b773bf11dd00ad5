"""TOFU's measures in the report of runs on it."""

from __future__ import annotations

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
    """Forget quality and model utility with its parts, then the truth ratio itself.

    Lower and higher truth ratios differ in meaning from their use in model utility.
    """
    about = ABOUT if runs.benchmark is not None else (*ABOUT, _NEEDS_BENCHMARK)
    rows: list[MeasureRow] = []
    if runs.benchmark is not None:
        rows += tofu_measures(Evaluation(runs.models, 2, 0), runs.benchmark).to_dict("records")
        rows.sort(key=lambda row: _rank(row["measure"]))
    for model in runs.models:
        table = model.summary
        asked = (table["metric"] == "truth_ratio") & (table["fold"] == "train") & (table["kind"] == "all")
        for side in ("forget", "retain"):
            rows += summary_rows(model, f"truth ratio on {side}", table[asked & (table["side"] == side)])
    return measures_part("TOFU", about, rows, [model.run.label for model in runs.models])


def _rank(measure: str) -> int:
    """Most important first: the test, the mean, then its parts."""
    if measure == "forget quality":
        return 0
    return 1 if measure.startswith(("model utility", "harmonic mean")) else 2
