"""The report of a sweep over forget set sizes: AMNESIA's Figures 2 to 4, Table 2 and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics.leakage.leakage_score import extractor_words
from medunlearn.papers.amnesia import tables
from medunlearn.papers.amnesia.claims import findings
from medunlearn.papers.amnesia.contrasts import contrasts
from medunlearn.papers.amnesia.figures import bar_rows, disease_figure, tradeoff_panels
from medunlearn.papers.amnesia.sweep import SizeResults, SizeSweep, Step, size_numbers
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.figures import everyone, legend
from medunlearn.papers.sweeps.models import SweepModels
from medunlearn.papers.sweeps.page import sweep_page
from medunlearn.papers.sweeps.results import SweepReport, SweepRequest
from medunlearn.reports.blocks import (
    Bullets,
    Choice,
    Figure,
    Parts,
    Section,
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.formatting import context_text
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.report.gather import caveats_of, made_for_this, metric_meanings

WORDS = paper_yaml("amnesia", "report")
FEWEST_SEEDS = 5
"""With fewer training seeds an interval over seeds is too narrow, and the page says so."""
CAPTIONS = {name: Text(text, "aside") for name, text in WORDS["captions"].items()}


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepReport:
    """AMNESIA's report on a sweep's evaluated models."""
    return report_of(size_results(models, benchmark, request))


def size_results(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SizeResults:
    """Every number and contrast of a sweep; evaluations of a model on another split than its own are ignored."""
    own = [model for model in models if made_for_this(model)]
    swept = SweepModels(own, benchmark)
    sweep = SizeSweep(swept, request)
    caveats = caveats_of(benchmark.facts(), own)
    if 1 < len(swept.seeds) < FEWEST_SEEDS:
        caveats.append(WORDS["few_seeds"].format(seeds=len(swept.seeds), fewest=FEWEST_SEEDS))
    return SizeResults(
        splits=tuple(sweep.steps.values()),
        extractors=tuple(sorted({model.extractor for model in own} - {""})),
        numbers=size_numbers(sweep),
        contrasts=contrasts(sweep),
        **SizeResults.facts(swept, caveats, request),
    )


def report_of(results: SizeResults) -> SweepReport:
    """The report as blocks."""
    published = paper_yaml("amnesia", "published")
    data = {
        "contexts": results.contexts,
        "metrics": {
            name: {"title": title, "meaning": text}
            for name, (title, text) in metric_meanings([]).items()
            if name in set(results.numbers["measure"])
        },
        "extractors": results.extractors,
        "numbers": results.numbers,
        "published": {
            "setting": published["setting"],
            "table_2": tables.published_table_2().to_dict("records"),
            "figures": published["figures"],
        },
    }
    return sweep_page(
        "amnesia",
        results,
        findings(results),
        [part for context in results.contexts for part in _context(results, context)],
        data,
        how_to_read=WORDS["how_to_read"],
        published=_published_sections(),
        splits=tables.splits_table(results),
        split_names=", ".join(_spread(scope, steps) for scope, steps in results.scopes.items()),
        mode="Context modes",
        drawn_for=" for differences and groups",
    )


def _published_sections() -> Iterator[Section | None]:
    for number in (2, 3, 4):
        statements = Bullets(tuple(tables.published_statements(number)))
        yield section(f"Figure {number}, the numbers that Section 6 gives", statements)
    title = "Table 2: LS (keywords by scispaCy) and DS (%), factual / reasoning"
    yield section(title, tables.table_2(tables.published_results(), ""))


def _spread(scope: str, steps: Sequence[Step]) -> str:
    sizes = [step.percent for step in steps if step.percent is not None]
    if not sizes:
        return scope
    return f"{scope} {sizes[0]}%" if len(sizes) == 1 else f"{scope} {sizes[0]}-{sizes[-1]}%"


def _context(results: SizeResults, context: str) -> Iterator[Section | None]:
    """Figures and tables of one context mode."""
    models = [
        who
        for who in everyone(results.methods)
        if any(results.has(other, step.split, who) for other in results.contexts for step in results.splits)
    ]
    key, mode = legend(results.methods, models), context_text(context)
    yield section(
        "Utility and forgetting by forget set size", _figure_2(results, context, key), note=f"Figure 2; {mode}"
    )
    traces = [
        (scope, blocks(figures(panels, f"Utility against forgetting, {scope}", 2)))
        for scope, steps in results.scopes.items()
        # A split whose name has no size is a scope of its own, and has no trace.
        if all(step.percent is not None for step in steps) and (panels := tradeoff_panels(results, context, scope))
    ]
    if traces:
        yield section(
            "Trade-off over forget set sizes",
            *(CAPTIONS["figure_3"], key, Choice("Forget set", tuple(traces), min(1, len(traces) - 1))),
            note=f"Figure 3; {mode}",
        )
    diseases = [(scope, spec) for scope in results.scopes if (spec := disease_figure(results, context, scope))]
    if diseases:
        yield section(
            "Retained patients with the forgotten disease, and others",
            *(CAPTIONS["figure_4"], key, figures(diseases, "Utility of retained patients by disease", 2)),
            note=f"Figure 4; {mode}",
        )
    leaked, by = tables.leakage_table(results, context), extractor_words(results.extractors)
    yield section(
        "Leakage and degradation",
        CAPTIONS["table_2"],
        tables.table_2(results, context),
        details("Leakage beside degradation, every model, fold and kind, with intervals", leaked)
        or Text("The leakage score was not measured in this sweep.", "empty"),
        note="; ".join(filter(None, ("Table 2" if results.as_published else "in the form of Table 2", by, mode))),
    )
    yield section(
        "Differences",
        (
            details(title, Text(meaning, "aside"), table)
            for title, meaning, table in tables.difference_tables(results, context)
        ),
        details("Every utility, forgetting and degradation number", tables.numbers_table(results, context)),
        note=mode,
    )


def _figure_2(results: SizeResults, context: str, key: Parts) -> Parts:
    below = "The numbers are in the tables below."
    scopes = tuple(
        (scope, tuple(Figure(spec, f"Bars: {title}, {scope}. {below}", title, "wide") for title, spec in rows))
        for scope in results.scopes
        if (rows := bar_rows(results, context, scope))
    )
    if not scopes:
        return (Text("No method has a utility or forgetting number.", "empty"),)
    return blocks(CAPTIONS["figure_2"], key, Choice("Forget set", scopes))
