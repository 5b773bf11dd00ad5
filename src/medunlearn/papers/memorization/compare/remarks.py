"""Caveats of an audit report, and parts that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from medunlearn.audit.audit_tables import AuditTables, leaves_chat_template
from medunlearn.audit.extraction import labelled_probes
from medunlearn.config.audit_report import AuditRelations
from medunlearn.models.health import banner
from medunlearn.papers.memorization.declared import declared
from medunlearn.papers.memorization.report.content import GREEDY
from medunlearn.reports.rank_tables import UNUSED_CHAT
from medunlearn.results.runs import RunRecord

FEW = 30
"""Below so many subjects an interval is wide: of 29 of whom none leaks, 11.9% may."""


def caveats(audits: Sequence[AuditTables], relations: AuditRelations, ratios: pd.DataFrame) -> Iterator[str]:
    """Sentences that a reader must know before the numbers."""
    yield from banner({audit.label: RunRecord.of(audit.info).problems for audit in audits})
    if any("tiny" in audit.info.get("lineage", []) for audit in audits):
        yield "A model is tiny and was trained here: its numbers show how the measurements work, and no more."
    if any(audit.info.get("results", {}).get("invented") for audit in audits):
        yield "The records are invented. The numbers say nothing about real patients or clinical models."
    related = {label for model, others in relations.baselines.items() for label in (model, *others)}
    related |= {after for _, after in relations.persistence}
    alone = [audit for audit in audits if audit.label not in related]
    if uncontrolled := [audit.label for audit in alone if not labelled_probes(audit)["unseen"].any()]:
        yield (
            f"{', '.join(uncontrolled)}: no baseline was named, so what training added cannot be told from what "
            "any model repeats."
        )
    if in_words := [audit.label for audit in audits if audit.unit != "tokens"]:
        names = ", ".join(in_words)
        yield f"{names}: runs are counted in words, not tokens; 30 words are more text than 30 tokens."
    in_tokens = [audit for audit in audits if audit.unit == "tokens"]
    if len({audit.info.get("inputs", {}).get("unit") for audit in in_tokens} - {None}) > 1:
        names = ", ".join(audit.label for audit in in_tokens)
        yield f"{names}: their tokenizers differ, so that 30 tokens of one are not the same text as 30 of another."
    if any(leaves_chat_template(audit.info.get("results", {})) for audit in audits):
        yield UNUSED_CHAT
    if n := int(((ratios["n_subjects"] < FEW) & ratios["value"].notna()).sum()):
        yield (f"{n:,} of {len(ratios):,} numbers rest on fewer than {FEW} subjects: their intervals are wide.")


def missing(audits: Sequence[AuditTables], relations: AuditRelations) -> Iterator[tuple[str, str]]:
    """Parts that could be in the report and are not, and how each gets there."""
    if not relations.baselines:
        yield "Comparison with baselines", "audit a baseline on the same corpora (--baseline)"
    records = {audit.label: set(audit.probes["probe_id"] + "\n" + audit.probes["corpus"]) for audit in audits}
    for model, others in relations.baselines.items():
        for other in others:
            if not records[model] & records[other]:
                yield f"{model} − {other}", "they share no probe: audit the same records under the same corpus name"
    there = {
        "persistence": bool(relations.persistence),
        "epoch_table": relations.epoch_table is not None,
        "decodings": any(set(audit.scores["decoding"]) - {GREEDY} for audit in audits),
        **{
            name: any(getattr(audit, name) is not None for audit in audits)
            for name in ("kinds", "findings", "options")
        },
    }
    yield from ((part["name"], part["how"]) for part in declared("report")["missing"] if not there[part["needs"]])
