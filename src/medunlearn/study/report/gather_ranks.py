"""Ranks of facts of evaluated runs for a report: by model and context, with their calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.data.fact_ranks import IN_RECORD
from medunlearn.reports.content import RankReading, Ranks
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.fact_table import (
    ALPHA,
    calibration,
    calibration_by_kind,
    exact_facts,
    least_p,
    subject_table,
)
from medunlearn.results.known_before import known_before

NOTES = "notes"
"""Context of whole notes among versions of themselves."""
CONTEXTS = ("closed_book", "note", IN_RECORD, NOTES)


def gather_ranks(models: Sequence[Evaluated]) -> Ranks:
    """Numbers of forget-set subjects that each model's ranks still identify, and the distribution of p-values for
    unseen subjects.
    """
    facts = {model.run.label: _in_contexts(model) for model in models}
    forget = {label: own[own["side"] == "forget"] for label, own in facts.items()}
    tables, readings = [], []
    for context in CONTEXTS:
        asked = {label: own[own["context"] == context] for label, own in forget.items()}
        asked = {label: own for label, own in asked.items() if len(own)}
        if any(own["p"].notna().any() for own in asked.values()):
            unseen = {label: own[(own["context"] == context) & own["unseen"]] for label, own in facts.items()}
            table, reading = _in_context(context, asked, unseen, models)
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
    context: str, facts: Mapping[str, pd.DataFrame], never: Mapping[str, pd.DataFrame], models: Sequence[Evaluated]
) -> tuple[pd.DataFrame, RankReading]:
    """One row per model, and an explanation of the rows.

    Args:
        facts: of the forget set, by model.
        never: of subjects on whom no model was trained, by model.
    """
    works = [model.run for model in models if model.run.label in facts and not model.record.info.problems]
    ranked = {label: own[own["p"].notna()] for label, own in facts.items()}
    retrained = [run.label for run in works if run.role == "retrained" and len(ranked[run.label])]
    reference = retrained[0] if len(retrained) == 1 else None
    unseen = _unseen(reference, ranked, {run.label: never[run.label] for run in works})
    checked = None if unseen is None else calibration(unseen)
    exact = any(len(exact_facts(own)) for own in ranked.values())
    beside = unseen is not None and (not exact or (checked is not None and not checked.uniform))
    subjects = {
        # Among themselves, unseen subjects have every place.
        label: subject_table(own, unseen if beside and label != reference else None)
        for label, own in ranked.items()
    }
    least = _least_p(unseen if beside else None, subjects.values())
    rows = []
    for label, own in ranked.items():
        table = subjects[label].dropna(subset=["p_unseen" if beside else "p"])
        p = table["p_unseen" if beside else "p"]
        can = len(table) if beside and least <= ALPHA else int((table["least_p"] <= ALPHA).sum()) * (not beside)
        tells = can and label in {run.label for run in works}
        counted = exact_facts(own)
        rows.append(
            {
                "model": label,
                "context": context,
                "facts": len(own),
                "first": float((own["rank"] == 1).mean()) if len(own) else None,
                "exact": len(counted),
                "exact_first": float((counted["rank"] == 1).mean()) if len(counted) else None,
                "due": float(least_p(counted).mean()) if len(counted) else None,
                "subjects": len(subjects[label]),
                "tellable": can,
                "told": int((p <= ALPHA).sum()) if tells else None,
                "median_p": float(p.median()) if len(p) else None,
            }
        )
    targets = [run.label for run in works if run.role == "target"]
    # In note context the facts stand in the prompt: whoever reads them ranks them high.
    before = (
        known_before(ranked[targets[0]], None if reference is None else ranked[reference], never[targets[0]])
        if targets and context != "note"
        else None
    )
    asked = next(iter(facts.values()))
    reading = RankReading(
        context,
        checked.facts_for_report() if checked else None,
        calibration_by_kind(unseen) if unseen is not None else pd.DataFrame(),
        max(int(own["of"].max()) for own in ranked.values() if len(own)),
        least,
        beside,
        all((table["exact"].fillna(0) <= 1).all() for table in subjects.values()),
        before.facts_for_report() if before else None,
        _counts(asked[asked["rank"].isna()]["reason"]),
        _counts(asked[asked["rank"].notna()]["reason"]),
        _counts(asked[asked["p"].notna()]["inexact"]),
        reference is not None,
    )
    types = dict.fromkeys(("median_p", "first", "exact_first", "due"), "Float64")
    return pd.DataFrame(rows).astype({"told": "Int64", **types}), reading


def _unseen(
    reference: str | None, ranked: Mapping[str, pd.DataFrame], never: Mapping[str, pd.DataFrame]
) -> pd.DataFrame | None:
    """Facts that a model never saw: the forget set's of the retrained model, else those of unseen subjects."""
    if reference is not None:
        return ranked[reference]
    others = (own[own["p"].notna()] for own in never.values())
    return next((own for own in others if len(own)), None)


def _least_p(unseen: pd.DataFrame | None, subjects: Any) -> float:
    """The smallest possible p of a subject: by rank among unseen ones, or if all exact facts rank first."""
    if unseen is not None:
        return 1 / (1 + unseen["subject"].nunique())
    return min((float(table["least_p"].min()) for table in subjects if table["least_p"].notna().any()), default=1.0)


def _counts(reasons: pd.Series[Any]) -> dict[str, int]:
    """Number of facts by reason, without the numbers of a reason."""
    counts = reasons.dropna().map(lambda reason: reason.partition(":")[0]).value_counts()
    return {str(reason): int(count) for reason, count in counts.items()}


def _in_contexts(model: Evaluated) -> pd.DataFrame:
    """All facts of a model, whole notes as a context of their own."""
    facts: Any = model.facts
    if not len(facts):
        return pd.DataFrame(columns=["side", "context", "p", "unseen"]).astype({"unseen": bool})
    return facts.assign(context=facts["context"].mask(facts["fact"] == "note", NOTES))  # type: ignore[no-any-return]
