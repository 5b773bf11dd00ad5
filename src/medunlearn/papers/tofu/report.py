"""TOFU's measures in the report of runs on it."""

from __future__ import annotations

from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics.likelihood import TOFU_CODE
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.tofu.measures import FORGET_QUALITY, FORGET_RATIO, MODEL_UTILITY, VARIANTS, tofu_measures
from medunlearn.reports.blocks import blocks, section
from medunlearn.reports.content import PaperPart
from medunlearn.reports.json import plain
from medunlearn.reports.view import ResultView, records_table
from medunlearn.results.evaluated import Evaluation
from medunlearn.study.report.papers import (
    GatheredRuns,
    MeasureRow,
    measures_part,
    published_numbers,
    summary_rows,
)

ABOUT = (
    "Forget quality: p-value of a Kolmogorov-Smirnov test of truth ratios on forget against the retrained model's; "
    "0-1, higher = cannot be told from it; its logarithm beside it. Model utility: harmonic mean of the nine means "
    "below it; 0-1, higher = knows more. Forget truth ratio: mean of min(t, 1/t) on forget; 0-1, higher = right "
    "and wrong answers are closer to equally likely.",
    "Truth ratio t: length-normalised probability of wrong answers over that of the paraphrased right one; below 1 "
    "= knows, around 1 = cannot tell. The paper's equation takes the arithmetic mean over wrong answers. "
    f"{TOFU_CODE} takes the geometric one; published numbers are comparable with that variant alone.",
)
_NEEDS_BENCHMARK = (
    "Forget quality and model utility need the benchmark: `medunlearn report ... --benchmark FOLDER`."
)


def paper_part(runs: GatheredRuns) -> PaperPart:
    """Forget quality and model utility with its parts, then the truth ratio itself.

    The direction of truth ratios differs from their use in model utility.
    """
    about = ABOUT if runs.benchmark is not None else (*ABOUT, _NEEDS_BENCHMARK)
    rows: list[MeasureRow] = []
    if runs.benchmark is not None:
        rows += tofu_measures(Evaluation(runs.models, 2, 0), runs.benchmark).to_dict("records")
        rows.sort(key=lambda row: _rank(row["measure"]))
    for model in runs.models:
        table = model.summary
        for suffix, variant in VARIANTS.items():
            same = (
                (table["measure"] == f"truth_ratio{suffix}") & (table["fold"] == "train") & (table["kind"] == "all")
            )
            for side in ("forget", "retain"):
                name = f"truth ratio on {side}, {variant}" if variant else f"truth ratio on {side}"
                rows += summary_rows(model, name, table[same & (table["side"] == side)])
    part = measures_part("TOFU", about, rows, [model.run.label for model in runs.models])
    published = published_numbers(paper_yaml("tofu", "published"), str(runs.content.split.get("name")))
    return PaperPart(blocks(part.blocks, section("Published numbers of TOFU", published)), data=part.data)


def evaluation_view(evaluation: Evaluation, benchmark: Benchmark) -> ResultView:
    """TOFU's measures of evaluated models, for the terminal."""
    rows = plain(tofu_measures(evaluation, benchmark).to_dict("records"))
    return ResultView({"tofu": rows}, [records_table(rows, title="tofu")] if rows else ())


def _rank(measure: str) -> int:
    """Sort key by importance: the test, the means, then their parts."""
    order = (FORGET_QUALITY, f"log10 of {FORGET_QUALITY}", FORGET_RATIO, MODEL_UTILITY, "harmonic mean")
    return next((place for place, name in enumerate(order) if measure.startswith(name)), len(order))
