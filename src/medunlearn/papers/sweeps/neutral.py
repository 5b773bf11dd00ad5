"""The page of a sweep whose paper has none of its own: the page of runs for each split, seed and context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.sweeps.models import SweepModels, shown_splits
from medunlearn.papers.sweeps.results import SweepReport, SweepRequest, SweepResults
from medunlearn.papers.sweeps.tables import search_table
from medunlearn.reports.blocks import Notice, Prose, Report, Section, Text, blocks, details, section
from medunlearn.reports.claims import findings_data, statements
from medunlearn.reports.content import ReportContent
from medunlearn.reports.formatting import context_text
from medunlearn.reports.headline import lead, ranking_section
from medunlearn.reports.json import plain
from medunlearn.reports.provenance import provenance_data, provenance_section, undecided
from medunlearn.reports.readings import Results, main_plane, standings
from medunlearn.reports.table_blocks import metric_table
from medunlearn.reports.unlearning import COVERED, HOW_TO_READ, INSIDE, judged_section, unlearning_report
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.report.gather import caveats_of, gather, made_for_this


@dataclass(frozen=True)
class SweepPart:
    """The models of one split, training seed and context, as a report of runs."""

    title: str
    content: ReportContent


def neutral_report(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepReport:
    """The report of a sweep's evaluated models; evaluations on another split than a model's own are ignored."""
    own = [model for model in models if made_for_this(model)]
    swept = SweepModels(own, benchmark)
    facts = SweepResults.facts(swept, caveats_of(benchmark.facts(), own), request)
    results = SweepResults(splits=swept.splits, numbers=pd.DataFrame(), contrasts=pd.DataFrame(), **facts)
    parts = list(_parts(swept, benchmark, request))
    findings = tuple(
        replace(finding, context=part.title) for part in parts for finding in part.content.paper.findings
    )
    missing = tuple(f"{name}: {reason}" for name, reason in request.missing)
    notices = (("Read this first", results.caveats), ("Not in this report", missing))
    page = blocks(
        (Notice(title, lines) for title, lines in notices if lines),
        section("Findings", statements(findings)) if findings else None,
        [_section(part) for part in parts],
        section("How to read this", Prose((*HOW_TO_READ, COVERED))),
        judged_section(request.judged),
        provenance_section(results.provenance, results.extractor),
        section("Appendix", details("Learning rates tried", search_table(request.search))),
    )
    data = {
        **{name: getattr(results, name) for name in ("benchmark", "methods", "seeds", "contexts", "caveats")},
        "missing": [{"name": name, "reason": reason} for name, reason in request.missing],
        "findings": findings_data(findings),
        "provenance": provenance_data(results.provenance),
        "parts": {part.title: unlearning_report(part.content).data for part in parts},
    }
    first = (
        ("Methods", ", ".join(results.methods) or "none"),
        ("Splits", ", ".join(shown_splits(swept.splits).values())),
        ("Seeds", ", ".join(map(str, results.seeds))),
        ("Benchmark", f"{results.benchmark['name']}, data use: {results.benchmark['data_use']}"),
    )
    drawn = undecided(results.benchmark)
    return SweepReport(
        Report(request.title, page, "Sweep report", first, plain(data), drawn=drawn), findings, results
    )


def _parts(swept: SweepModels, benchmark: Benchmark, request: SweepRequest) -> Iterator[SweepPart]:
    labels = shown_splits(swept.splits)
    for context in swept.contexts:
        for split in swept.splits:
            by_seed: dict[int, list[Evaluated]] = defaultdict(list)
            for seeds in swept.of(context, split).values():
                for seed, model in seeds.items():
                    by_seed[seed].append(model)
            for seed, models in sorted(by_seed.items()):
                title = ", ".join(
                    [
                        labels[split],
                        *([f"seed {seed}"] if len(swept.seeds) > 1 else []),
                        *([context_text(context)] if len(swept.contexts) > 1 else []),
                    ]
                )
                how = {name: getattr(request, name) for name in ("show_text", "replicates", "seed")}
                yield SweepPart(title, gather(title, models, benchmark, **how))


def _section(part: SweepPart) -> Section | None:
    content = part.content
    results = Results(content)
    where = main_plane(results)
    ranked = standings(results, where)
    table = metric_table(results, where)
    return section(
        part.title,
        lead(results, where, ranked, INSIDE),
        ranking_section(ranked, where),
        content.paper.blocks,
        details("Every metric", table or Text("No scores were given to this report.", "empty")),
    )
