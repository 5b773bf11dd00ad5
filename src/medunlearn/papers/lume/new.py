"""``build lume --new`` into a folder: by the grammar or a language model, without what reviewers refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medunlearn.config import LumeNewSettings, check
from medunlearn.judging import document
from medunlearn.judging.cases import document_cases
from medunlearn.judging.labels import read_people, rows_of
from medunlearn.judging.sheet import CSV, PAGE, write_sheet
from medunlearn.judging.writing import Reject
from medunlearn.llm import CostEstimate
from medunlearn.papers.llm_build import (
    BuildResult,
    Say,
    build_facts,
    build_key,
    record_rejects,
    recorded,
    refuse_another,
    summary_lines,
)
from medunlearn.papers.lume.build_new import assemble
from medunlearn.papers.lume.documents import Exclusions, LumeDocument, invented
from medunlearn.papers.lume.writing import cost, verifiers, write_documents, writer_of
from medunlearn.pipeline.benchmarks import refuse_foreign, save_new

REVIEW = "review"


def build_new(
    values: Mapping[str, Any], out: Path, *, review: bool = False, quiet: bool = True, say: Say = print
) -> BuildResult:
    """Build LUME anew into a folder; resumes where it stopped.

    Args:
        values: of :class:`~medunlearn.config.LumeNewSettings`.
        review: write a sheet on which people label each document, unless it is there already.

    Raises:
        ConfigError, SourceError: wrong settings, articles or labels that cannot be read.
        InputError: the folder holds something else, or documents are too few.
        MedunlearnError: server, network or budget kept something from being written; the rest is kept.
    """
    settings = check(LumeNewSettings, values)
    refuse_foreign(out)
    files = [settings.articles, *settings.reviewed, settings.verifiers]
    key = build_key(settings, files, besides=("articles", "reviewed", "verifiers"))
    refuse_another(out, key, again=settings.again)
    refused = _refused(settings)
    facts = build_facts(key, settings)
    with recorded(out, facts):
        notes: dict[str, Any] = {}
        if settings.llm:
            documents, exclusions, rejects, notes = _written(settings, out, refused, facts, quiet)
        else:
            documents, exclusions = invented(settings, refused)
            rejects = ()
        benchmark = save_new(assemble(documents, settings, exclusions, notes), out)
        rejects = (*_excluded(exclusions), *rejects)
        record_rejects(out, rejects, facts)
    if review and not (out / REVIEW / CSV).exists() and not (out / REVIEW / PAGE).exists():
        write_sheet(out / REVIEW, document.TASK, document_cases(benchmark))
    if not quiet:
        for line in summary_lines(out, rejects, facts):
            say(line)
        if review:
            say(f"{out / REVIEW / PAGE}: label each document, then build again with --reviewed LABELS.csv")
    return BuildResult(benchmark, rejects, facts)


def plan_new(values: Mapping[str, Any], out: Path) -> dict[str, CostEstimate]:
    """Cost of :func:`build_new` by task, empty without a server; nothing is sent and nothing is written."""
    settings = check(LumeNewSettings, values)
    return cost(settings, writer_of(settings, out)) if settings.llm else {}


def _written(
    settings: LumeNewSettings, out: Path, refused: frozenset[str], facts: dict[str, Any], quiet: bool
) -> tuple[list[LumeDocument], Exclusions, tuple[Reject, ...], dict[str, Any]]:
    writer = writer_of(settings, out)
    facts["verifiers"] = [judge.name for judge in verifiers(settings)]
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    with writer.session(facts, quiet=quiet) as session:
        documents, exclusions = write_documents(settings, session, refused)
    left_out = record_rejects(out, session.rejects, facts)
    session.refuse_unfinished()
    notes = {"prompts": facts["prompts"], "left out": left_out}
    return documents, exclusions, tuple(session.rejects), notes


def _refused(settings: LumeNewSettings) -> frozenset[str]:
    """Names of documents that somebody labelled No."""
    if not settings.reviewed:
        return frozenset()
    # A sheet is labelled before the benchmark that heeds it is there, so its own ids are all that can be known.
    names = [row["case_id"].strip().removeprefix("'") for path in settings.reviewed for _, row in rows_of(path)]
    people = read_people(settings.reviewed, document.TASK, names)
    return frozenset(
        name for labels in people.values() for name, verdict in labels.items() if verdict == document.UNFIT
    )


def _excluded(exclusions: Exclusions) -> Iterable[Reject]:
    for one in exclusions.duplicates:
        yield Reject("near-duplicates", one.name, "excluded", f"too much like {one.like} ({one.overlap:.2f})")
    for name in exclusions.reviewed:
        yield Reject("review", name, "excluded", "a reviewer labelled it No")
