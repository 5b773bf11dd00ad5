"""Counts of leaks: by kind, by row of Tables 9 and 10, by subject; values are masked by default.

One instance is one value of one kind in one response, however often it occurs there. Only leaks count: values of
the record that the model was not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import KEY, leaked
from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, Detector, ages_as_numbers, covered
from medunlearn.audit.identifiers.findings import crossed, kinds_in, overlaps, places_by_response
from medunlearn.audit.identifiers.kinds import GROUPS, kinds, masked
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.sensitive import term_lists
from medunlearn.statistics.bootstrap import REPLICATES, bootstrap_mean
from medunlearn.statistics.intervals import UNBOUNDED

Outputs = Sequence[RecordResponse]
Rows = Sequence[tuple[Mapping[str, Any], pd.DataFrame]]
"""First cells of each row of a table, and the leaks that it counts."""

EXAMPLES = 3
MISSED = "PHI entities (missed by the detector)"
COUNTED = ("frequency", "mentions", "responses", "subjects", "per_response", "low", "high", "examples")
"""Counts of every table: frequency (instances), mentions (places), responses and subjects with at least one,
instances per response with an interval over subjects, and examples."""


def count_leaks(
    rows: Rows, outputs: Outputs, *, show_text: bool = False, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Count leaks by variant and row.

    Args:
        outputs: every response that was searched, also those without a finding.
        show_text: examples are not masked.
        replicates, seed: of the bootstrap over subjects.

    Returns:
        variant, the first cells, and :data:`COUNTED`. Higher = leaks more.
    """
    table = []
    for variant in dict.fromkeys(output.variant for output in outputs):
        variant_outputs = [output for output in outputs if output.variant == variant]
        subjects = [output.subject for output in variant_outputs]
        for head, findings in rows:
            leaks = findings[findings["variant"] == variant]
            instances = leaks.drop_duplicates([*KEY, "kind", "key"])
            counts = instances.groupby(KEY).size().to_dict()
            values = [float(counts.get(output.key, 0)) for output in variant_outputs]
            mean = bootstrap_mean(values, subjects, bounds=UNBOUNDED, replicates=replicates, seed=seed)
            example_values = (value if show_text else masked(value) for value in instances["value"])
            examples = "; ".join(list(dict.fromkeys(example_values))[:EXAMPLES])
            numbers = (len(instances), len(leaks), len(counts), leaks["subject"].nunique())
            cells = (*numbers, mean.value, mean.low, mean.high, examples)
            table.append({"variant": variant, **head, **dict(zip(COUNTED, cells, strict=True))})
    return pd.DataFrame(table, columns=["variant", *rows[0][0], *COUNTED])


def by_kind(findings: pd.DataFrame, outputs: Outputs, *, cross: bool = False, **counting: Any) -> pd.DataFrame:
    """:func:`count_leaks` by kind (kind, title, hipaa), zero counts included; ``cross``: of other subjects only."""
    leaks = crossed(findings) if cross else leaked(findings)
    kinds_in_text = [(name, kind) for name, kind in kinds().items() if kind.form != "none"]
    heads = [{"kind": name, "title": kind.title, "hipaa": kind.hipaa} for name, kind in kinds_in_text]
    return count_leaks([(head, leaks[leaks["kind"] == head["kind"]]) for head in heads], outputs, **counting)


def table9(findings: pd.DataFrame, outputs: Outputs, **counting: Any) -> pd.DataFrame:
    """Table 9: :func:`count_leaks` by group of identifiers (group, title), the paper's rows first.

    Source: Memorization in Large Language Models in Medicine, Table 9.
    """
    rows = [
        ({"group": group, "title": GROUPS[group]}, leaks) for group, leaks in _by_group(leaked(findings)).items()
    ]
    return count_leaks(rows, outputs, **counting)


def table10(
    sensitive: pd.DataFrame,
    outputs: Outputs,
    findings: pd.DataFrame,
    *,
    missed: pd.DataFrame | None = None,
    **counting: Any,
) -> pd.DataFrame:
    """Table 10: :func:`count_leaks` of sensitive content beyond identifiers (category, name, title).

    Args:
        findings: source of facilities and clinicians.
        missed: of :func:`missed_by`; adds the paper's rows of identifiers that the detector missed.

    Source: Memorization in Large Language Models in Medicine, Table 10, where people counted in 200 responses; here
        term lists count in all.
    """
    leaks = pd.concat([leaked(sensitive), leaked(findings)], ignore_index=True)
    return count_leaks(_table10(leaks, {} if missed is None else _by_group(missed)), outputs, **counting)


def judged_table10(judged: pd.DataFrame, outputs: Outputs, findings: pd.DataFrame, **counting: Any) -> pd.DataFrame:
    """Table 10 by a language model: the rows of :func:`table10`.

    Args:
        judged: findings of a model (:mod:`~medunlearn.audit.identifiers.sensitive_judge`); kinds are rows of the
            table, or groups of identifiers.
        outputs: the responses that the model answered about, and no others.
        findings: identifiers found otherwise; the model's that overlap none of them were missed.
    """
    leaks, places = leaked(judged), places_by_response(findings)
    rows = leaks[[*KEY, "place", "end"]].itertuples(index=False, name=None)
    new = pd.Series([not overlaps(row[3], row[4], places.get(row[:3], ())) for row in rows], leaks.index, bool)
    missed = {group: leaks[new & (leaks["kind"] == group)] for group in GROUPS}
    return count_leaks(_table10(leaks, missed), outputs, **counting)


def _table10(leaks: pd.DataFrame, missed: Mapping[Any, pd.DataFrame]) -> Rows:
    rows = [
        ({"category": MISSED, "name": group, "title": GROUPS[group]}, group_leaks)
        for group, group_leaks in missed.items()
    ]
    for name, content in term_lists().items():
        head = {"category": content.category, "name": name, "title": content.title}
        rows.append((head, leaks[leaks["kind"].isin({name, *content.detects})]))
    return rows


def _by_group(leaks: pd.DataFrame) -> Mapping[Any, pd.DataFrame]:
    return {group: leaks[leaks["kind"].isin(kinds_in(group))] for group in GROUPS}


def missed_by(detector: Detector, findings: pd.DataFrame, outputs: Outputs) -> pd.DataFrame:
    """Leaks of known identifiers that a detector misses in the same responses.

    The paper's reviewers found these by hand (30 in 200 responses); here in all responses, of known identifiers.
    """
    leaks = leaked(findings)
    declared = leaks[leaks["match"] != "detected"]
    texts = {output.key: output.response for output in outputs}
    detected = zip(texts.items(), detector.find(list(texts.values())), strict=True)
    spans = {key: ages_as_numbers(response_spans, text) for (key, text), response_spans in detected}
    missed = []
    for row in declared[[*KEY, "place", "end", "kind"]].itertuples(index=False, name=None):
        (span,) = ages_as_numbers([DetectedSpan(*row[3:])], texts[row[:3]])
        missed.append(not covered(span.kind, span.start, span.end, spans[row[:3]]))
    return declared[pd.Series(missed, declared.index, bool)]


def shares(name: str, values: pd.Series, subjects: pd.Series, **draws: Any) -> dict[str, float | None]:
    """Mean of booleans and its interval over subjects, as the columns ``name``, ``name_low`` and ``name_high``."""
    mean = bootstrap_mean(values.astype(float), subjects.tolist(), **draws)
    return {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}
