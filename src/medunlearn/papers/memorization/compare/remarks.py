"""What a reader of an audit report must know first, and what is not in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from medunlearn.audit.tables import AuditTables
from medunlearn.config.audit_report import AuditRelations
from medunlearn.papers.memorization.compare.ratios import GREEDY

FEW = 30
"""A percentile interval is known to be too narrow below about so many subjects."""


def caveats(audits: Sequence[AuditTables], relations: AuditRelations, numbers: pd.DataFrame) -> Iterator[str]:
    """Sentences that a reader must know before the numbers."""
    if any("tiny" in audit.info.get("lineage", []) for audit in audits):
        yield "A model is tiny and was trained here: its numbers show how the measurements work, and no more."
    if any(audit.info.get("results", {}).get("invented") for audit in audits):
        yield "The records are invented. The numbers say nothing about real patients or clinical models."
    alone = [audit.label for audit in audits if audit.label not in _related(relations)]
    if alone:
        yield (
            f"{', '.join(alone)}: no baseline was named, so what training added cannot be told from what any model "
            "repeats."
        )
    units = {audit.label: audit.unit for audit in audits}
    if set(units.values()) != {"tokens"}:
        others = [label for label, unit in units.items() if unit != "tokens"]
        yield f"{', '.join(others)}: runs are counted in words, not tokens; 30 words are more text than 30 tokens."
    few = numbers[(numbers["n_subjects"] < FEW) & numbers["value"].notna()] if len(numbers) else numbers
    if len(few):
        yield (
            f"{len(few):,} of {len(numbers):,} numbers rest on fewer than {FEW} subjects: their intervals are "
            f"too narrow."
        )


def _related(relations: AuditRelations) -> set[str]:
    """Models with a baseline, and the baselines themselves."""
    found = set(relations.baselines) | {other for others in relations.baselines.values() for other in others}
    return found | {after for _, after in relations.persistence}


def missing(audits: Sequence[AuditTables], relations: AuditRelations) -> Iterator[tuple[str, str]]:
    """What could be in the report and is not, and how it gets there."""
    if not relations.baselines:
        yield "Comparison with baselines", "audit a baseline on the same corpora and name it (baselines:)"
    records = {audit.label: set(audit.probes["probe_id"] + "\n" + audit.probes["corpus"]) for audit in audits}
    for model, others in relations.baselines.items():
        for other in [name for name in others if not records[model] & records[name]]:
            yield f"{model} − {other}", "they share no probe: audit the same records under the same corpus name"
    if not relations.persistence:
        yield "Table 7, Figure 5", "audit a model before and after further fine-tuning and name both (persistence:)"
    if all(audit.kinds is None for audit in audits):
        yield "Table 3", "sort the memorized spans into kinds (medunlearn.papers.memorization.compare.sort_spans)"
    if all(audit.findings is None for audit in audits):
        yield "Tables 9 and 10", "search the responses for identifiers (medunlearn audit --identifiers)"
    if all(audit.options is None for audit in audits):
        yield "Table 5", "audit answer options (medunlearn audit --options)"
    if relations.epoch_table is None:
        yield "Figure 7", "name a table of epochs (epoch_table:)"
    if all(set(audit.scores["decoding"]) <= {GREEDY} for audit in audits):
        yield "Figure 2", "audit further decodings (decodings=greedy,temperature=0.7,top_k=10)"
