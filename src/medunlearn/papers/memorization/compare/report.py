"""The report of one or several audits, from their folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.audit.audit_tables import AuditTables, read_tables
from medunlearn.config import check, read_yaml
from medunlearn.config.audit import AuditRelations
from medunlearn.papers.memorization.compare.gather import gather_audits
from medunlearn.papers.memorization.report import AuditContent, audit_report
from medunlearn.reports.write import write_report
from medunlearn.statistics.bootstrap import REPLICATES

TITLE = "Memorization audit"


def audit_content(
    audits: Sequence[Path],
    relations: Path | Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> AuditContent:
    """Gather everything that the report of some audits shows.

    Args:
        audits: folders of ``medunlearn audit``.
        relations: relations between models, as a YAML file or a mapping
            (:class:`~medunlearn.config.audit.AuditRelations`).
        show_text: put memorized spans into the report. They are text of records.
        replicates, seed: of the bootstrap over subjects.

    Raises:
        InputError: a folder without a complete audit, or two audits with one label.
        ConfigError: relations that are invalid or name unknown models; all at once.
    """
    tables, related = with_baselines([read_tables(Path(folder)) for folder in audits], read_relations(relations))
    draws = {"replicates": replicates, "seed": seed}
    return gather_audits(tables, related, draws, title=title or TITLE, show_text=show_text)


def write_audit_report(
    audits: Sequence[Path], out: Path, relations: Path | Mapping[str, Any] | None = None, **options: Any
) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` of audits into ``out``; returns the first path.

    Args:
        options: as in :func:`audit_content`.
    """
    return write_report(audit_report(audit_content(audits, relations, **options)), Path(out))


def read_relations(relations: Path | Mapping[str, Any] | None) -> AuditRelations:
    """Relations from a YAML file, whose paths are relative to it, or from a mapping."""
    if relations is None or isinstance(relations, Mapping):
        return check(AuditRelations, dict(relations or {}))
    checked = check(AuditRelations, read_yaml(Path(relations)))
    named = {key: path for key in ("epoch_table", "diagnosis") if (path := getattr(checked, key)) is not None}
    return checked.model_copy(update={key: Path(relations).parent / path for key, path in named.items()})


def with_baselines(
    audits: Sequence[AuditTables], relations: AuditRelations
) -> tuple[list[AuditTables], AuditRelations]:
    """The audits with their baselines, and relations extended accordingly.

    A baseline that is itself a label of another audit (one folder, audited twice) is included once.
    """
    by_label = {audit.label: audit for audit in audits}
    if len(by_label) < len(audits):
        return list(audits), relations
    baselines = dict(relations.baselines)
    for audit in audits:
        for folder in audit.baselines:
            baseline = read_tables(folder)
            if baseline.label == audit.label:
                baseline = replace(baseline, label=f"{baseline.label} (baseline)")
            by_label.setdefault(baseline.label, baseline)
            others = baselines.get(audit.label, ())
            baselines[audit.label] = tuple(dict.fromkeys((*others, baseline.label)))
    return list(by_label.values()), relations.model_copy(update={"baselines": baselines})
