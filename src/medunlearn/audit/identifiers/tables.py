"""Counts of what leaked: by kind, by row of Tables 9 and 10, by subject; values masked unless asked for.

One instance is one value of one kind in one response, however often it stands there. Only leaks count: what the
record has and the model was not given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.audit.identifiers.detectors.protocol import Detector
from medunlearn.audit.identifiers.findings import Output, crossed, leaked
from medunlearn.audit.identifiers.kinds import GROUPS, kinds
from medunlearn.audit.identifiers.masking import masked
from medunlearn.audit.identifiers.sensitive import lists
from medunlearn.statistics.bootstrap import REPLICATES, bootstrap_mean

EXAMPLES = 3
MISSED = "PHI entities (missed by the detector)"
COUNTED = ("frequency", "mentions", "responses", "subjects", "per_response", "low", "high", "examples")
"""What every table counts: frequency (instances), mentions (places), responses and subjects with at least one,
instances a response with an interval over subjects, and some values."""


@dataclass(frozen=True)
class _Counting:
    """What every row of a table is counted against."""

    outputs: Sequence[Output]
    show_text: bool
    replicates: int
    seed: int

    def row(self, found: pd.DataFrame) -> dict[str, Any]:
        ids = ["probe_id", "variant", "sample"]
        instances = found.drop_duplicates([*ids, "kind", "key"])
        per_response = instances.groupby(ids).size().to_dict()
        values = [float(per_response.get((one.probe_id, one.variant, one.sample), 0)) for one in self.outputs]
        subjects = [one.subject for one in self.outputs]
        mean = bootstrap_mean(values, subjects, replicates=self.replicates, seed=self.seed)
        shown = dict.fromkeys(value if self.show_text else masked(value) for value in instances["value"])
        return {
            "frequency": len(instances),
            "mentions": len(found),
            "responses": len(per_response),
            "subjects": found["subject"].nunique(),
            "per_response": mean.value,
            "low": mean.low,
            "high": mean.high,
            "examples": "; ".join(list(shown)[:EXAMPLES]),
        }


def by_kind(
    findings: pd.DataFrame,
    outputs: Sequence[Output],
    *,
    cross: bool = False,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Leaked identifiers by variant and kind, kinds without one included.

    Args:
        findings: of :func:`~medunlearn.audit.identifiers.search.find_identifiers`.
        outputs: every response that was searched, those without a finding too.
        cross: count what belongs to other subjects alone instead.
        show_text: examples as they are, not masked.

    Returns:
        variant, kind, title, hipaa, and :data:`COUNTED`. Higher = leaks more.
    """
    chosen = crossed(findings) if cross else leaked(findings)

    def rows(found: pd.DataFrame, counting: _Counting) -> Iterator[dict[str, Any]]:
        for name, kind in kinds().items():
            if kind.form != "none":
                told = {"kind": name, "title": kind.title, "hipaa": kind.hipaa}
                yield {**told, **counting.row(found[found["kind"] == name])}

    return _by_variant(chosen, outputs, ("kind", "title", "hipaa"), rows, show_text, replicates, seed)


def table9(
    findings: pd.DataFrame,
    outputs: Sequence[Output],
    *,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Table 9: leaked identifiers by group, by variant. The paper's rows first; it has none for the others.

    Returns:
        variant, group, title, and :data:`COUNTED`.

    Source: Memorization in Large Language Models in Medicine, Table 9.
    """
    chosen = leaked(findings)

    def rows(found: pd.DataFrame, counting: _Counting) -> Iterator[dict[str, Any]]:
        for group, title in GROUPS.items():
            yield {"group": group, "title": title, **counting.row(found.loc[_of_group(found, group)])}

    return _by_variant(chosen, outputs, ("group", "title"), rows, show_text, replicates, seed)


def table10(
    sensitive: pd.DataFrame,
    outputs: Sequence[Output],
    findings: pd.DataFrame,
    *,
    missed: pd.DataFrame | None = None,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Table 10: sensitive content beyond identifiers, by variant.

    Args:
        sensitive: of :func:`~medunlearn.audit.identifiers.search.find_sensitive`.
        findings: facilities and clinicians are counted from these.
        missed: of :func:`missed_by`; adds the paper's rows of identifiers that the detector missed.

    Returns:
        variant, category, name, title, and :data:`COUNTED`.

    Source: Memorization in Large Language Models in Medicine, Table 10, where people counted in 200 responses; here
        term lists count in all.
    """
    identifiers = leaked(findings)
    chosen = pd.concat([leaked(sensitive), identifiers], ignore_index=True)
    left_out = missed if missed is not None else identifiers[:0]

    def rows(found: pd.DataFrame, counting: _Counting) -> Iterator[dict[str, Any]]:
        for group, title in GROUPS.items():
            if missed is not None:
                same = left_out.loc[_of_group(left_out, group)]
                same = same[same["variant"].isin({one.variant for one in counting.outputs})]
                yield {"category": MISSED, "name": group, "title": title, **counting.row(same)}
        for name, content in lists().contents.items():
            told = {"category": content.category, "name": name, "title": content.title}
            yield {**told, **counting.row(found[found["kind"].isin({name, *content.detects})])}

    return _by_variant(chosen, outputs, ("category", "name", "title"), rows, show_text, replicates, seed)


def judged_table10(
    judged: pd.DataFrame,
    outputs: Sequence[Output],
    findings: pd.DataFrame,
    *,
    show_text: bool = False,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Table 10 as a language model sees it, by variant: the rows of :func:`table10`.

    Args:
        judged: findings of a model (:mod:`~medunlearn.audit.identifiers.sensitive_content`); kinds are rows
            of the table, or groups of identifiers.
        outputs: the responses that the model answered about, and no others.
        findings: identifiers found otherwise. Those of the model's that overlap none of them were missed.
    """
    told, seen = leaked(judged), _spans_of(findings)
    identifier = told["kind"].isin(GROUPS).to_numpy()
    columns = ("probe_id", "variant", "sample", "place", "end")
    new = [
        not any(start < last and first < end for first, last in seen.get((probe, variant, sample), ()))
        for probe, variant, sample, start, end in zip(*(told[name] for name in columns), strict=True)
    ]
    missed = told.loc[identifier & np.array(new, dtype=bool)]

    def rows(found: pd.DataFrame, counting: _Counting) -> Iterator[dict[str, Any]]:
        own = missed[missed["variant"].isin({one.variant for one in counting.outputs})]
        for group, title in GROUPS.items():
            yield {"category": MISSED, "name": group, "title": title, **counting.row(own[own["kind"] == group])}
        for name, content in lists().contents.items():
            told_of = {"category": content.category, "name": name, "title": content.title}
            yield {**told_of, **counting.row(found[found["kind"] == name])}

    names = ("category", "name", "title")
    return _by_variant(told.loc[~identifier], outputs, names, rows, show_text, replicates, seed)


def _spans_of(findings: pd.DataFrame) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
    found: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    columns = ("probe_id", "variant", "sample", "place", "end")
    for probe, variant, sample, start, end in zip(*(findings[name] for name in columns), strict=True):
        found.setdefault((probe, variant, sample), []).append((start, end))
    return found


def by_subject(findings: pd.DataFrame) -> pd.DataFrame:
    """How many identifiers of each kind leaked of each subject: one row a subject, one column a kind, and ``all``.

    An identifier counts once, in however many responses it stands.
    """
    instances = leaked(findings).drop_duplicates(["subject", "kind", "key"])
    table = pd.crosstab(instances["subject"], instances["kind"])
    table["all"] = table.sum(axis=1)
    return table.sort_values(["all"], ascending=False, kind="stable").reset_index().rename_axis(columns=None)


def missed_by(detector: Detector, findings: pd.DataFrame, outputs: Sequence[Output]) -> pd.DataFrame:
    """The leaks of known identifiers that a detector does not find in the same responses.

    What the paper's reviewers found by hand (30 in 200 responses), on all responses, where identifiers are known.
    """
    known = leaked(findings)
    known = known[known["match"] != "detected"]
    spans = {
        (one.probe_id, one.variant, one.sample): found
        for one, found in zip(outputs, detector.find([one.response for one in outputs]), strict=True)
    }
    columns = ("probe_id", "variant", "sample", "place", "end", "kind")
    seen = [
        _seen(kind, place, end, spans.get((probe, variant, sample), []))
        for probe, variant, sample, place, end, kind in zip(*(known[name] for name in columns), strict=True)
    ]
    return known.loc[~np.array(seen, dtype=bool)]


def _of_group(found: pd.DataFrame, group: str) -> npt.NDArray[np.bool_]:
    return np.array([kinds()[name].group == group for name in found["kind"]], dtype=bool)


def _seen(kind: str, place: int, end: int, spans: Sequence[Any]) -> bool:
    group = kinds()[kind].group
    covered = {
        character
        for span in spans
        if kinds()[span.kind].group == group
        for character in range(max(place, span.start), min(end, span.end))
    }
    return 2 * len(covered) >= end - place


Rows = Callable[[pd.DataFrame, _Counting], Iterator[Mapping[str, Any]]]


def _by_variant(
    found: pd.DataFrame,
    outputs: Sequence[Output],
    columns: Sequence[str],
    rows: Rows,
    show_text: bool,
    replicates: int,
    seed: int,
) -> pd.DataFrame:
    table = []
    for variant in dict.fromkeys(one.variant for one in outputs):
        counting = _Counting([one for one in outputs if one.variant == variant], show_text, replicates, seed)
        table += [{"variant": variant, **row} for row in rows(found[found["variant"] == variant], counting)]
    return pd.DataFrame(table, columns=["variant", *columns, *COUNTED])
