"""How much of what is there a detector finds, and how much of what it finds is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.detectors.protocol import Detector, Span
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.labelled import Labelled
from medunlearn.statistics.bootstrap import REPLICATES, bootstrap_mean

ALL = "all"
COLUMNS = (
    *("kind", "labelled", "found", "recall", "recall_low", "recall_high"),
    *("detected", "right", "precision", "precision_low", "precision_high", "subjects", "reason"),
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """One label or one span: its kind, whose text it is in, and whether the other side agrees."""

    kind: str
    subject: str
    agreed: bool


def detector_recall(
    detector: Detector, labelled: Sequence[Labelled], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Recall and precision of a detector on labelled text, by kind and of all.

    A label is found where spans of its group (dates and ages, names, ...) cover at least half of its characters; a
    span is right where labels of its group cover at least half of its. Groups rather than kinds, since a name is
    found whether it is taken for a clinician's or not.

    Returns:
        One row a kind, and ``all`` at the end: labelled, found, recall with its interval; detected, right,
        precision with its interval; subjects. 0-1, higher = better. Intervals are bootstraps over subjects. A
        number without a value has a ``reason``. Precision leaves out spans of kinds that no text has a label of:
        nobody said whether they are right.

    Source: modelled on the token measures of the i2b2 shared task (Stubbs, Kotfila & Uzuner 2015); half of the
        characters is our rule.
    """
    spans = detector.find([one.text for one in labelled])
    known = {label.kind for one in labelled for label in one.spans}
    labels, detected = [], []
    for one, found in zip(labelled, spans, strict=True):
        labels += [_Mark(label.kind, one.subject, _covered(label, found)) for label in one.spans]
        detected += [_Mark(span.kind, one.subject, _covered(span, one.spans)) for span in found]
    judged = [mark for mark in detected if mark.kind in known]
    names = [name for name in kinds() if any(mark.kind == name for mark in (*labels, *detected))]
    rows = [
        _row(name, _of(labels, name), _of(judged, name), len(_of(detected, name)), replicates, seed)
        for name in names
    ]
    rows.append(_row(ALL, labels, judged, len(detected), replicates, seed))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    kind: str, labels: Sequence[_Mark], judged: Sequence[_Mark], detected: int, replicates: int, seed: int
) -> dict[str, Any]:
    reasons = [] if labels else ["no text has a label of this kind"]
    if labels and detected > len(judged):
        reasons.append(f"{detected - len(judged)} of {detected} spans are of kinds without a label")
    subjects = {mark.subject for mark in (*labels, *judged)}
    return {
        "kind": kind,
        "labelled": len(labels),
        "found": sum(mark.agreed for mark in labels),
        **_share("recall", labels, replicates, seed),
        "detected": detected,
        "right": sum(mark.agreed for mark in judged),
        **_share("precision", judged, replicates, seed),
        "subjects": len(subjects),
        "reason": "; ".join(reasons) or None,
    }


def _share(name: str, marks: Sequence[_Mark], replicates: int, seed: int) -> dict[str, float | None]:
    values, subjects = [float(mark.agreed) for mark in marks], [mark.subject for mark in marks]
    found = bootstrap_mean(values, subjects, replicates=replicates, seed=seed)
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _of(marks: Iterable[_Mark], kind: str) -> list[_Mark]:
    return [mark for mark in marks if mark.kind == kind]


def _covered(span: Span, others: Iterable[Span]) -> bool:
    """Whether spans of the same group cover at least half of one."""
    group = kinds()[span.kind].group
    places = {place for other in others if kinds()[other.kind].group == group for place in _shared(span, other)}
    return 2 * len(places) >= span.end - span.start


def _shared(one: Span, other: Span) -> Iterator[int]:
    return iter(range(max(one.start, other.start), min(one.end, other.end)))
