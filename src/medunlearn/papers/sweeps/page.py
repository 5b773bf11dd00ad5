"""The page of a sweep: first screen and details with a switch between its splits, then the paper's own part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.models import SweepModels, shown_splits
from medunlearn.papers.sweeps.results import SweepReport, SweepRequest, SweepResults
from medunlearn.papers.sweeps.tables import search_table
from medunlearn.reports.blocks import (
    Block,
    Notice,
    Parts,
    Prose,
    Report,
    Section,
    Table,
    Text,
    blocks,
    details,
    section,
)
from medunlearn.reports.claims import FAILS, HOLDS, OPEN, Case, Finding, findings_data, without_broken
from medunlearn.reports.finding_blocks import findings_blocks
from medunlearn.reports.formatting import context_text
from medunlearn.reports.json import plain
from medunlearn.reports.provenance import provenance_data, provenance_section, undecided, without_drawn
from medunlearn.reports.rank_tables import nothing_to_forget
from medunlearn.reports.unlearning import by_column, judged_section, merged, part_blocks, part_data
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.report.gather import caveats_of, made_for_this


def finding(paper: str, name: str, cases: Sequence[Case], context: str = "") -> Finding:
    """A paper's finding; its claim and rule are in the paper's ``report.yaml``."""
    words = paper_yaml(paper, "report")["findings"][name]
    of_collapse = bool(words.get("of_collapse"))
    return Finding(name, words["claim"], words["rule"], tuple(cases), context, of_collapse=of_collapse)


def reopened(paper: str, findings: Sequence[Finding], results: SweepResults) -> tuple[Finding, ...]:
    """Findings with decided cases set to open that cannot be read: a model is broken, a retrained model failed its
    reference check, or forgetting is said of a model whose forgetting is not shown.

    The paper's ``report.yaml`` lists what a finding needs: ``against_retrained``, and ``says_forgotten``, the
    verdict that says of a model that it forgot.
    """
    words = paper_yaml(paper, "report")["findings"]

    def unreadable(case: Case, finding: Finding) -> str:
        own, at = words[finding.name], (case.labels, finding.context)
        says_forgotten = case.verdict == own.get("says_forgotten")
        refused = results.refused_in(*at) if own.get("against_retrained") or says_forgotten else ""
        return refused or (results.unproven_in(*at) if says_forgotten else "")

    def case_of(case: Case, finding: Finding) -> Case:
        reason = unreadable(case, finding) if case.verdict in (HOLDS, FAILS) else ""
        return replace(case, verdict=OPEN, says=f"cannot be read: {reason}") if reason else case

    checked = (replace(own, cases=tuple(case_of(case, own) for case in own.cases)) for own in findings)
    healthy = without_broken(checked, lambda case, context: results.broken_in(case.labels, context))
    return without_drawn(healthy, undecided(results.benchmark))


def sweep_page(
    paper: str,
    results: SweepResults,
    findings: tuple[Finding, ...],
    sections: Parts,
    data: Mapping[str, Any],
    *,
    how_to_read: Sequence[str],
    published: Parts,
    splits: Table | None,
    split_names: str,
    mode: str,
    drawn_for: str = "",
    splits_open: bool = False,
) -> SweepReport:
    """A page with a paper's part: findings, its sections, the paper's numbers, splits.

    Args:
        data: the paper's own part of ``report.json``.
        published: blocks with the paper's published results.
        split_names, mode, drawn_for: for the first screen: the splits, the label of the context modes, and the unit
            of resampling.
        splits_open: expand the table of splits, else that of learning rates.
    """
    text, request = paper_yaml(paper, "report"), results.request
    findings = reopened(paper, findings, results)
    setting = str(paper_yaml(paper, "published")["setting"])
    to_compare = f"{setting}: to compare with, not a target: another model, other patients, other questions."
    own = blocks(
        section("The paper's findings", *findings_blocks(findings, text["findings_about"]), name="findings"),
        section("How to read the paper's part", Prose(tuple(how_to_read)), name="how-to-read-paper"),
        sections,
        section(
            "What the paper published",
            *(Text(to_compare), published),
            note=setting,
            name="published",
            raised=True,
        ),
    )
    first = (
        ("Splits", split_names),
        (mode, "; ".join(map(context_text, results.contexts))),
        ("Intervals", f"95%, {request.replicates:,} bootstrap draws of patients{drawn_for}"),
    )
    more = {
        "contrasts": results.contrasts,
        "replicates": request.replicates,
        "splits": [asdict(split) for split in results.splits],
        "search": request.search,
        **data,
    }
    appendix = details("Splits", splits, opened=splits_open)
    return _assembled(results, findings, own, more, first, appendix, search_opened=not splits_open)


def neutral_report(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepReport:
    """The report of a sweep whose paper has no page of sweeps, with what it adds to reports of runs; evaluations
    on another split than a model's own are ignored.
    """
    own = [model for model in models if made_for_this(model)]
    swept = SweepModels(own, benchmark)
    facts = SweepResults.facts(swept, caveats_of(benchmark.facts(), own), request)
    results = SweepResults(splits=swept.splits, numbers=pd.DataFrame(), contrasts=pd.DataFrame(), **facts)
    parts = request.parts
    findings = tuple(
        replace(finding, context=part.title) for part in parts for finding in part.content.paper.findings
    )
    of_paper = merged(
        [part.title for part in parts], [list(_sections(part.content.paper.blocks)) for part in parts]
    )
    first = (("Splits", ", ".join(shown_splits(swept.splits).values())),)
    return _assembled(results, findings, blocks(of_paper), {"contexts": results.contexts}, first)


def _sections(parts: Sequence[Block]) -> Iterator[Section]:
    for block in parts:
        yield block if isinstance(block, Section) else Section("The paper's part", (block,))


def _assembled(
    results: SweepResults,
    findings: tuple[Finding, ...],
    own: Sequence[Block],
    more: Mapping[str, Any],
    facts: Sequence[tuple[str, str]],
    appendix: Block | None = None,
    *,
    search_opened: bool = False,
) -> SweepReport:
    """The page of every sweep.

    Args:
        own: the paper's part.
        more: its data.
        facts: its lines of the first screen.
    """
    request = results.request
    forgettable = (
        f"{part.title}: {sentence}" for part in request.parts for sentence in nothing_to_forget(part.content.ranks)
    )
    missing = tuple(f"{name}: {reason}" for name, reason in request.missing)
    notices = (("Read this first", (*results.caveats, *forgettable)), ("Not in this report", missing))
    rates = details("Learning rates tried", search_table(request.search), opened=search_opened)
    page = blocks(
        (Notice(title, lines) for title, lines in notices if lines),
        part_blocks(request.parts) if request.parts else None,
        own,
        judged_section(request.judged),
        provenance_section(results.provenance, results.extractor),
        section("Appendix", appendix, rates),
    )
    first = (
        ("Methods", ", ".join(results.methods) or "none"),
        *facts,
        ("Seeds", ", ".join(map(str, results.seeds))),
        ("Benchmark", f"{results.benchmark['name']}, data use: {results.benchmark['data_use']}"),
    )
    data = {
        **{name: getattr(results, name) for name in ("benchmark", "methods", "seeds", "caveats")},
        "missing": [{"name": name, "reason": reason} for name, reason in request.missing],
        "findings": findings_data(findings),
        "provenance": provenance_data(results.provenance),
        "parts": {part.title: part_data(part.content) for part in request.parts},
        **{name: by_column(value) for name, value in more.items()},
    }
    drawn = undecided(results.benchmark)
    report = Report(request.title, page, "Sweep report", first, plain(data), drawn=drawn)
    return SweepReport(report, findings, results)
