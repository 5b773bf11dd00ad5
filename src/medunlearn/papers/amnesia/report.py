"""The report of a sweep over forget set sizes: AMNESIA's Figures 2 to 4, Table 2 and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.claims import findings
from medunlearn.papers.amnesia.contrasts import TRAIN, contrasts, mean_of_kinds
from medunlearn.papers.amnesia.figures import bar_rows, disease_figure, tradeoff_panels
from medunlearn.papers.amnesia.sweep import (
    COLUMNS,
    MEAN_OF_KINDS,
    OTHER,
    SAME,
    SweepResults,
    SweepSplits,
    sweep_numbers,
)
from medunlearn.papers.amnesia.tables import (
    difference_tables,
    leakage_table,
    numbers_table,
    published,
    published_table_2,
    published_tables,
    splits_table,
    statements,
    table_2,
)
from medunlearn.papers.sweeps.figures import everyone, legend
from medunlearn.papers.sweeps.models import SweepDraws, SweepModels
from medunlearn.papers.sweeps.report import PUBLISHED, SweepFacts, SweepReport, SweepRequest
from medunlearn.pipeline.report.gather import caveats_of, made_for_this, metric_meanings
from medunlearn.reports.blocks import (
    Block,
    Bullets,
    Choice,
    Figure,
    Legend,
    Prose,
    Report,
    Section,
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.claims import statements as verdicts
from medunlearn.reports.words import context_text
from medunlearn.results.evaluated import Evaluated

FINDINGS = (
    "What AMNESIA found, as rules on the numbers of this sweep. A case is decided only where an interval leaves "
    "the threshold out."
)
HOW_TO_READ: tuple[str, ...] = (
    "Utility is measured on the patients who stay, forgetting on those who are to be forgotten. Both are harmonic "
    "means; one with a part missing carries the names of its parts and is not comparable with the paper's MU or "
    "AFE.",
    "The target model was trained on everything. The retrained model never saw the forget set: a forgetting number "
    "is good where it comes close to the retrained model's, not where it is largest.",
    "Intervals are 95%, by a bootstrap over patients. With several seeds each number is the mean over seeds, "
    "points are the single seeds, and the interval draws patients and seeds again; with two or three seeds it is "
    "too narrow.",
    "Differences draw the patients of both sides together: paired where the patients are the same, also where one "
    "forget set lies in the other. No interval is corrected for the number of comparisons.",
    "A larger forget set also means more unlearning steps where the number of epochs is fixed, as in the paper. "
    "Growth of forgetting with the set mixes the two. No text of a record, question or response is in this report.",
)
FIGURE_2 = (
    "Plain bars: questions that were trained on. Hatched bars: holdout questions about the same patients. Lines "
    "across a panel: target model (ink) and retrained model (blue) on train (longer dashes) and holdout (dots). "
    "Whiskers are intervals. A dash stands where nothing was measured."
)
FIGURE_3 = (
    "One trace a method over the forget set sizes, darker for larger sets; star: target, diamond: retrained. A "
    "good method lies on the diamond of its size."
)
FIGURE_4 = (
    "Retained patients with the forgotten disease (solid line, filled marks) and all others (dashed, open). The "
    "number is the plain mean of the utility of each kind of question, each over all questions of that kind."
)
TABLE_2 = (
    "Leakage score and, in brackets, degradation score on the forget set, in percent, factual / reasoning, train "
    "fold. Bold: lowest, underlined: highest across methods, for each measure and kind, by the printed value. A "
    "difference of printed values may be noise: intervals are on each number and in the table below. Low leakage "
    "beside high degradation is collapse, not forgetting."
)
BELOW = "The numbers are in the tables below."


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepReport:
    """AMNESIA's report of a sweep's evaluated models."""
    return report_of(sweep_results(models, benchmark, request))


def sweep_results(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepResults:
    """Every number and contrast of a sweep; what a model says of another split than its own is left out."""
    kept = [model for model in models if made_for_this(model)]
    swept = SweepModels(kept, benchmark)
    splits = SweepSplits(benchmark, swept.splits)
    draws = SweepDraws(swept, request.replicates, request.seed)
    rows = [*sweep_numbers(draws, splits), *_means_of_kinds(draws, splits)]
    caveats = iter(caveats_of(benchmark.facts(), kept))
    return SweepResults(
        SweepFacts.of(swept, caveats, request),
        tuple(splits.steps.values()),
        swept.contexts,
        pd.DataFrame(rows, columns=list(COLUMNS)),
        contrasts(draws, splits),
    )


def _means_of_kinds(draws: SweepDraws, splits: SweepSplits) -> Iterator[dict[str, object]]:
    """Figure 4's numbers: utility of retained subjects with and without the disease."""
    for context in draws.models.contexts:
        for split, step in splits.steps.items():
            for who in draws.models.of(context, split) if step.disease else ():
                for group in (SAME, OTHER):
                    mean = mean_of_kinds(draws, splits, context, split, who, group)
                    if mean.value is not None:
                        fields = ("measure", "value", "low", "high", "n_subjects", "by_seed")
                        labels = (context, step.split, *who, group, "retain", TRAIN, MEAN_OF_KINDS)
                        yield {
                            **dict(zip(COLUMNS, labels, strict=False)),
                            **{name: getattr(mean, name) for name in fields},
                            "parts": "kinds",
                            "n_scored": 0,
                            "n_unscored": 0,
                            "n_seeds": len(mean.by_seed),
                        }


def report_of(results: SweepResults) -> SweepReport:
    """The report as blocks."""
    facts, claims = results.facts, findings(results)
    scopes = ", ".join(_spread(results, scope) for scope in results.scopes)
    contexts = ("Context modes", "; ".join(map(context_text, results.contexts)))
    parts = blocks(
        facts.notices(),
        section("Findings", Text(FINDINGS), verdicts(claims)),
        section("How to read this", Prose(HOW_TO_READ)),
        [part for context in results.contexts for part in _context(results, context)],
        _published(),
        section("Appendix", details("Splits", splits_table(results)), facts.searched(opened=True)),
    )
    data = facts.data(
        claims,
        contexts=results.contexts,
        splits=[asdict(step) for step in results.steps],
        metrics={name: {"title": title, "meaning": text} for name, (title, text) in metric_meanings().items()},
        numbers=results.numbers,
        contrasts=results.contrasts,
        published=_published_data(),
    )
    first = facts.first_screen(scopes, contexts, " for differences and groups")
    return SweepReport(Report(facts.title, parts, "Sweep report", first, data), claims, results)


def _spread(results: SweepResults, scope: str) -> str:
    sizes = [step.percent for step in results.steps_of(scope) if step.percent is not None]
    if not sizes:
        return scope
    return f"{scope} {sizes[0]}%" if len(sizes) == 1 else f"{scope} {sizes[0]}-{sizes[-1]}%"


def _context(results: SweepResults, context: str) -> Iterator[Section | None]:
    """Figures and tables of one context mode."""
    shown = [
        who
        for who in everyone(results.methods)
        if any(results.has(context, step.split, who) for context in results.contexts for step in results.steps)
    ]
    key, mode = legend(results.methods, shown), context_text(context)
    yield section(
        "Utility and forgetting by forget set size", *_figure_2(results, context, key), note=f"Figure 2; {mode}"
    )
    traces = [
        (scope, blocks(figures(panels, f"Utility against forgetting, {scope}", 2)))
        for scope in results.scopes
        # A split whose name has no size is a scope of its own, and has no trace.
        if all(step.percent is not None for step in results.steps_of(scope))
        and (panels := tradeoff_panels(results, context, scope))
    ]
    if traces:
        chosen = min(1, len(traces) - 1)
        yield section(
            "Trade-off over forget set sizes",
            *(Text(FIGURE_3, "aside"), key, Choice("Forget set", tuple(traces), chosen)),
            note=f"Figure 3; {mode}",
        )
    diseases = [(scope, spec) for scope in results.scopes if (spec := disease_figure(results, context, scope))]
    if diseases:
        yield section(
            "Retained patients with the forgotten disease, and others",
            *(Text(FIGURE_4, "aside"), key, figures(diseases, "Utility of retained patients by disease", 2)),
            note=f"Figure 4; {mode}",
        )
    leaked = leakage_table(results, context)
    yield section(
        "Leakage and degradation",
        Text(TABLE_2, "aside"),
        table_2(results, context),
        details("Leakage beside degradation, every model, fold and kind, with intervals", leaked)
        or Text("The leakage score was not measured in this sweep.", "empty"),
        note=f"Table 2; {mode}",
    )
    yield section(
        "Differences",
        [
            details(title, Text(meaning, "aside"), table)
            for title, meaning, table in difference_tables(results, context)
        ],
        details("Every utility, forgetting and degradation number", numbers_table(results, context)),
        note=mode,
    )


def _figure_2(results: SweepResults, context: str, key: Legend) -> Iterator[Block]:
    scopes = []
    for scope in results.scopes:
        rows = bar_rows(results, context, scope)
        if rows:
            bars = (Figure(spec, f"Bars: {title}, {scope}. {BELOW}", title, "wide") for title, spec in rows)
            scopes.append((scope, tuple(bars)))
    if scopes:
        yield Text(FIGURE_2, "aside")
        yield key
        yield Choice("Forget set", tuple(scopes))
    else:
        yield Text("No method has a utility or forgetting number.", "empty")


def _published() -> Section | None:
    setting = str(published()["setting"])
    return section(
        "What the paper published",
        Text(f"{setting}: {PUBLISHED}"),
        [
            section(f"Figure {n}, the numbers that Section 6 gives", Bullets(tuple(statements(n))))
            for n in (2, 3, 4)
        ],
        section("Table 2: LS and DS (%), factual / reasoning", published_tables()),
        note=setting,
        name="published",
        raised=True,
    )


def _published_data() -> dict[str, object]:
    rows = [
        {"scope": scope, "method": method, "percent": percent, **asdict(scores)}
        for (scope, method, percent), scores in published_table_2().items()
    ]
    return {"setting": published()["setting"], "table_2": rows, "figures": published()["figures"]}
