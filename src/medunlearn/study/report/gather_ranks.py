"""Ranks of facts of evaluated runs for a report: by model and context, with their calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import e
from typing import Any

import pandas as pd

from medunlearn.data.fact_ranks import IN_RECORD
from medunlearn.reports.content import RankReading, Ranks
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.fact_table import (
    ALPHA,
    Calibration,
    calibration,
    calibration_by_kind,
    known_before,
    subject_table,
)

NOTES = "notes"
"""Context of whole notes among versions of themselves."""
CONTEXTS = ("closed_book", "note", IN_RECORD, NOTES)


def gather_ranks(models: Sequence[Evaluated]) -> Ranks:
    """Numbers of forget-set subjects that each model's ranks still identify, and the distribution of p-values for
    unseen subjects.
    """
    forget = {model.run.label: _forgotten_facts(model) for model in models}
    tables, readings = [], []
    for context in CONTEXTS:
        facts = {label: own[own["context"] == context] for label, own in forget.items() if len(own)}
        facts = {label: own for label, own in facts.items() if len(own)}
        if any(own["p"].notna().any() for own in facts.values()):
            table, reading = _in_context(context, facts, models)
            tables.append(table)
            readings.append(reading)
    if not tables:
        return Ranks()
    results = [model.record.info.results for model in models if len(forget[model.run.label])]
    return Ranks(
        pd.concat(tables, ignore_index=True),
        tuple(readings),
        ALPHA,
        tuple(dict.fromkeys(str(result["template"]) for result in results if "template" in result)),
        any(result.get("chat_template") == "not used" for result in results),
    )


def _in_context(
    context: str, facts: Mapping[str, pd.DataFrame], models: Sequence[Evaluated]
) -> tuple[pd.DataFrame, RankReading]:
    """One row per model, and an explanation of the rows."""
    works = [model.run for model in models if model.run.label in facts and not model.record.info.problems]
    ranked = {label: own[own["p"].notna()] for label, own in facts.items()}
    retrained = [run.label for run in works if run.role == "retrained" and len(ranked[run.label])]
    reference = retrained[0] if len(retrained) == 1 else None
    unseen = None if reference is None else ranked[reference]
    checked = None if unseen is None else calibration(unseen)
    beside = checked is not None and not checked.uniform
    of = max(int(own["of"].max()) for own in ranked.values() if len(own))
    single = all(not own["subject"].duplicated().any() for own in ranked.values())
    least = _least_p(checked if beside else None, of, single)
    rows = []
    for label, own in ranked.items():
        # Among themselves, unseen subjects have every place.
        table = subject_table(own, unseen if beside and label != reference else None)
        p = table["p_unseen" if beside else "p"].dropna()
        can_tell = len(p) and least <= ALPHA and label in {run.label for run in works}
        rows.append(
            {
                "model": label,
                "context": context,
                "facts": len(own),
                "first": float((own["rank"] == 1).mean()) if len(own) else None,
                "subjects": len(table),
                "told": int((p <= ALPHA).sum()) if can_tell else None,
                "median_p": float(p.median()) if len(p) else None,
            }
        )
    targets = [run.label for run in works if run.role == "target"]
    # In note context the facts stand in the prompt: whoever reads them ranks them high.
    before = known_before(ranked[targets[0]], unseen) if targets and context != "note" else None
    reasons = next(iter(facts.values()))["reason"].dropna().map(_general).value_counts()
    reading = RankReading(
        context,
        checked.facts_for_report() if checked else None,
        calibration_by_kind(unseen) if unseen is not None else pd.DataFrame(),
        of,
        least,
        beside,
        single,
        before.facts_for_report() if before else None,
        {str(reason): int(count) for reason, count in reasons.items()},
    )
    return pd.DataFrame(rows).astype({"told": "Int64", "median_p": "Float64", "first": "Float64"}), reading


def _least_p(beside: Calibration | None, of: int, single: bool) -> float:
    """The smallest possible p of a subject: by rank among unseen ones, or if all facts rank first."""
    if beside is not None:
        return 1 / (1 + beside.subjects)
    return (1 if single else e) / of


def _general(reason: str) -> str:
    """A reason without its numbers, so that facts can be counted by it."""
    return reason.partition(":")[0]


def _forgotten_facts(model: Evaluated) -> pd.DataFrame:
    facts: Any = model.facts
    if not len(facts):
        return pd.DataFrame(columns=["context"])
    facts = facts[facts["side"] == "forget"]
    return facts.assign(context=facts["context"].mask(facts["fact"] == "note", NOTES))  # type: ignore[no-any-return]
