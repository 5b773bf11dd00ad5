"""Recall and precision of detectors on labelled text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.detectors import parts_of
from medunlearn.audit.identifiers.detectors.detected_spans import (
    JOIN,
    DetectedSpan,
    Detector,
    ages_as_numbers,
    covered,
)
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.labelled_notes import Half, LabelledText, labelled_styles, style_of
from medunlearn.audit.identifiers.leak_tables import shares
from medunlearn.reports.blocks import Table
from medunlearn.reports.view import ResultView, records_table, same_names
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.terminal import with_interval

ALL, NONE = "all", "none"
Spans = list[DetectedSpan]
Reading = tuple[str, Spans, Spans]
"""Subject of a text, its labels, and a detector's spans."""


def detector_recall(
    detector: Detector, labelled: Sequence[LabelledText], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Recall and precision of a detector, by kind and overall.

    A label is found if spans of its group (dates and ages, names, ...) cover at least half of its characters; a
    span is right if labels of its group cover at least half of it. Groups are compared, not kinds, so a patient's
    name detected as a clinician's counts as found. Ages are compared by number: ``50`` and ``50-year-old`` are
    equal.

    Returns:
        One row per kind, and ``all`` at the end: labelled, found, recall with its interval; detected, right,
        precision with its interval; subjects; reason for a missing number. 0-1, higher = better; the intervals are
        Clopper-Pearson's over subjects (:mod:`~medunlearn.statistics.intervals`). Precision leaves out spans of
        kinds that no text has a label of.

    Source: modelled on the token measures of the i2b2 shared task (Stubbs, Kotfila & Uzuner 2015); half of the
        characters is our rule.
    """
    return _recall_table(_readings(detector, labelled), replicates, seed)


def _readings(detector: Detector, labelled: Sequence[LabelledText]) -> list[Reading]:
    """Labelled and detected spans of each text, by subject; ages reduced to their number."""
    spans_by_text = detector.find([text.text for text in labelled])
    return [
        (text.subject, ages_as_numbers(text.spans, text.text), ages_as_numbers(spans, text.text))
        for text, spans in zip(labelled, spans_by_text, strict=True)
    ]


def _recall_table(readings: Sequence[Reading], replicates: int = REPLICATES, seed: int = 0) -> pd.DataFrame:
    labels = _agreements(readings)
    detected = _agreements((subject, spans, own) for subject, own, spans in readings)
    detected["judged"] = detected["kind"].isin(labels["kind"])
    rows = []
    for kind in (*kinds(), ALL):
        kind_labels, spans = (table[(table["kind"] == kind) | (kind == ALL)] for table in (labels, detected))
        if kind == ALL or len(kind_labels) or len(spans):
            rows.append({"kind": kind, **_row(kind_labels, spans, replicates=replicates, seed=seed)})
    return pd.DataFrame(rows)


def _agreements(readings: Iterable[Reading]) -> pd.DataFrame:
    """Kind, subject, and whether the other side covers it, for each span of the first side."""
    rows = [
        (span.kind, subject, covered(span.kind, span.start, span.end, others))
        for subject, spans, others in readings
        for span in spans
    ]
    return pd.DataFrame(rows, columns=["kind", "subject", "agreed"]).astype({"agreed": bool})


def _row(labels: pd.DataFrame, detected: pd.DataFrame, **draws: int) -> dict[str, Any]:
    judged = detected[detected["judged"]]
    reasons = [] if len(labels) else ["no text has a label of this kind"]
    if len(labels) and len(detected) > len(judged):
        reasons.append(f"{len(detected) - len(judged)} of {len(detected)} spans are of kinds without a label")
    return {
        "labelled": len(labels),
        "found": int(labels["agreed"].sum()),
        **shares("recall", labels["agreed"], labels["subject"], **draws),
        "detected": len(detected),
        "right": int(judged["agreed"].sum()),
        **shares("precision", judged["agreed"], judged["subject"], **draws),
        "subjects": len({*labels["subject"], *judged["subject"]}),
        "reason": "; ".join(reasons) or None,
    }


def detector_overlap(detector: Detector, labelled: Sequence[LabelledText]) -> pd.DataFrame:
    """Labelled identifiers by the detectors that find them.

    Returns:
        One row per combination that occurs, most labels first: found_by (``a+b`` for both; ``none``), labelled,
        names, dates_ages and other (of these, by group), share of all labels (0-1).
    """
    readings = {name: _readings(part, labelled) for name, part in parts_of(detector).items()}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for of_text in zip(*readings.values(), strict=True):
        for label in of_text[0][1]:
            by = [
                name
                for name, (_, _, spans) in zip(readings, of_text, strict=True)
                if covered(label.kind, label.start, label.end, spans)
            ]
            group = kinds()[label.kind].group
            counts[JOIN.join(by) or NONE][group if group in ("names", "dates_ages") else "other"] += 1
    whole = sum(count.total() for count in counts.values())
    rows = [
        {
            "found_by": by,
            "labelled": count.total(),
            **{group: count[group] for group in ("names", "dates_ages", "other")},
            "share": count.total() / whole,
        }
        for by, count in sorted(counts.items(), key=lambda item: -item[1].total())
    ]
    return pd.DataFrame(rows, columns=["found_by", "labelled", "names", "dates_ages", "other", "share"])


def recall_by_style(
    detector: Detector, half: Half = "fresh", groups: Sequence[str] = ("names", "dates_ages")
) -> pd.DataFrame:
    """Groups of kinds by style of note.

    Args:
        groups: of :data:`~medunlearn.audit.identifiers.kinds.GROUPS`; ``all`` for every kind together.

    Returns:
        The columns of :func:`detector_recall` with style (``all`` at the end) and group in place of kind.
    """
    readings = _readings(detector, labelled_styles(half))
    styles = dict.fromkeys(style_of(subject) for subject, _, _ in readings)
    rows = []
    for style in (*styles, ALL):
        of_style = [reading for reading in readings if style in (ALL, style_of(reading[0]))]
        for group in groups:
            of_group = [(subject, _of(group, own), _of(group, spans)) for subject, own, spans in of_style]
            rows.append({"style": style, "group": group, **_recall_table(of_group).iloc[-1].drop("kind").to_dict()})
    return pd.DataFrame(rows)


def share_table(title: str, table: pd.DataFrame, names: Iterable[str]) -> Table:
    """Named columns of a table, then recall and precision with their intervals, and reasons."""
    shares = {
        share: partial(with_interval, value=share, low=f"{share}_low", high=f"{share}_high")
        for share in ("recall", "precision")
    }
    return records_table(table, {**same_names(*names), **shares, "": "reason"}, title)


def recall_view(
    tables: Mapping[str, pd.DataFrame],
    versions: Mapping[str, str],
    overlap: pd.DataFrame,
    styles: pd.DataFrame | None,
    texts: int,
) -> ResultView:
    """Detectors on labelled texts, for the terminal.

    Args:
        tables: detector -> :func:`detector_recall`.
        versions: detector -> its version.
        overlap, styles: :func:`detector_overlap`, :func:`recall_by_style`.
        texts: number of texts.
    """
    names = ("labelled", "found", "detected", "right")
    blocks = [
        share_table(f"{name} ({versions[name]}) on {texts} texts", table, ("kind", *names))
        for name, table in tables.items()
    ]
    if styles is not None:
        blocks.append(share_table("by style of note", styles, ("style", "group", *names)))
    if len(tables) > 1:
        columns: dict[str, Any] = {"found by": "found_by", "labels": "labelled", "names": "names"}
        columns |= {"dates, ages": "dates_ages", "other": "other"}
        columns |= {"of all": lambda row: f"{100 * row['share']:.1f}%"}
        blocks.append(records_table(overlap, columns, "overlap of the detectors"))
    facts = {"detectors": dict(tables), "versions": versions, "overlap": overlap, "texts": texts}
    return ResultView({**facts, "styles": styles}, blocks)


def _of(group: str, spans: Spans) -> Spans:
    return [span for span in spans if group in (ALL, kinds()[span.kind].group)]
