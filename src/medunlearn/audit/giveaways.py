"""Identifiers that a model gives away: distinct ones, of how many patients, of which kinds, beside its baselines.

An identifier counts once a patient, in however many responses it is; it stands in the patient's record and in no
prompt of the response that gives it away. Needs the stage ``identifiers``, and neither its code nor a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import AuditTables, shared_probes
from medunlearn.audit.extraction import Extraction, labelled_probes, problems_of, subject_noun
from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import read_frame
from medunlearn.statistics.intervals import MIN_SUBJECTS
from medunlearn.statistics.shares import ShareDifference, SubjectShare, compare_paired_shares

ALL_KINDS = "all"
NOBODY = SubjectShare(0, 0)
RECALL = "recall.parquet"
"""The detectors' recall by kind on labelled notes, beside the findings."""
OURS, YOURS = "ours", "yours"
"""Whose labelled notes the recall was measured on."""
IDENTITY = ["subject", "kind", "key"]
"""Columns that name an identifier of a patient."""


@dataclass(frozen=True, slots=True)
class BaselineGiveaway:
    """A baseline on the same probes.

    Attributes:
        searched: its responses were searched too; without, the other numbers are 0 and mean nothing.
        model, identifiers: distinct identifiers given away by the audited model and by this baseline there.
        only_model: identifiers that this baseline does not give away.
        subjects: patients of whom the baseline gives one away.
        difference: share of patients with one, model minus baseline, with McNemar's exact test.
    """

    label: str
    searched: bool
    model: int = 0
    identifiers: int = 0
    only_model: int = 0
    subjects: SubjectShare = NOBODY
    difference: ShareDifference | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KindCount:
    """Distinct identifiers of one kind, and of how many patients."""

    title: str
    identifiers: int
    subjects: int


@dataclass(frozen=True, slots=True)
class KindRecall:
    """Share of the labelled identifiers of a kind that the detectors find.

    Attributes:
        recall: 0-1; ``low`` and ``high`` its 95% interval over notes, None of fewer than five.
        found, labelled: identifiers.
        yours: measured on the user's labelled notes, not on ours.
    """

    title: str
    recall: float
    low: float | None
    high: float | None
    found: int
    labelled: int
    yours: bool


@dataclass(frozen=True)
class Giveaway:
    """Identifiers that one model gives away at one decoding.

    Attributes:
        identifiers: distinct ones of patients in the training text.
        declared: those of them that the records declare; the others were found by a detector alone.
        subjects: patients with one, of those asked about.
        kinds: most frequent first.
        unseen: of patients that the model never saw: identifiers, and patients; None where there are none.
        detectors: names of what found the identifiers that no record declares.
        recall: what the detectors find of labelled notes, by kind, most labels first, ``all`` of the user's notes
            at the end; empty where no detector searched, or nobody measured it.
    """

    decoding: str
    noun: str
    identifiers: int
    declared: int
    subjects: SubjectShare
    kinds: tuple[KindCount, ...]
    unseen: tuple[int, SubjectShare] | None
    baselines: tuple[BaselineGiveaway, ...]
    detectors: tuple[str, ...]
    recall: tuple[KindRecall, ...] = ()


def giveaway(
    audit: AuditTables, counted: Extraction, titles: Mapping[str, str], baselines: Sequence[AuditTables] = ()
) -> Giveaway | None:
    """Count distinct identifiers; None where no search was made.

    Args:
        counted: says the decoding, and the corpora that were trained on.
        titles: kind of identifier -> its name.
    """
    if audit.findings is None:
        return None
    leaks, probes = given_away(audit, counted.decoding), labelled_probes(audit)
    corpora = {corpus.corpus for corpus in counted.corpora}
    members = probes[probes["corpus"].isin(corpora)]
    unseen = probes[probes["unseen"] & ~probes["corpus"].isin(corpora)]
    ours = leaks[leaks["probe_id"].isin(members["probe_id"])]
    distinct = ours.drop_duplicates(IDENTITY)
    declared = ours[ours["match"] != "detected"].drop_duplicates(IDENTITY)
    detectors = ours.loc[ours["match"] == "detected", "detector"] if "detector" in ours else pd.Series(dtype=str)
    controls = None
    if len(unseen):
        theirs = leaks[leaks["probe_id"].isin(unseen["probe_id"])]
        controls = len(theirs.drop_duplicates(IDENTITY)), _share(theirs, unseen)
    return Giveaway(
        counted.decoding,
        subject_noun(audit.probes),
        len(distinct),
        len(declared),
        _share(ours, members),
        _kinds(distinct, titles),
        controls,
        tuple(_against(audit, other, members, counted.decoding) for other in baselines),
        tuple(sorted(set(map(str, detectors)))),
        _recall(audit, titles),
    )


def _recall(audit: AuditTables, titles: Mapping[str, str]) -> tuple[KindRecall, ...]:
    table = read_whole(audit.folder / RECALL, read_frame)
    if table is None:
        return ()
    yours = "notes" in table.columns and bool(table["notes"].eq(YOURS).all())
    whole = table["kind"] == ALL_KINDS
    table = table[table["recall"].notna() & ((~whole & (table["labelled"] >= MIN_SUBJECTS)) | (whole & yours))]
    rows = table.sort_values("labelled", ascending=False, kind="stable")
    rows = pd.concat([rows[rows["kind"] != ALL_KINDS], rows[rows["kind"] == ALL_KINDS]])
    return tuple(
        KindRecall(
            ALL_KINDS if row["kind"] == ALL_KINDS else titles.get(str(row["kind"]), str(row["kind"])),
            float(row["recall"]),
            _number(row["recall_low"]),
            _number(row["recall_high"]),
            int(row["found"]),
            int(row["labelled"]),
            yours,
        )
        for row in rows.to_dict("records")
    )


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def given_away(audit: AuditTables, decoding: str | None = None) -> pd.DataFrame:
    """Findings of the record that the model was not given; of one decoding, or of all."""
    findings = audit.findings
    assert findings is not None
    leaks = findings[findings["in_record"] & ~findings["in_prefix"]]
    leaks = leaks if decoding is None else leaks[leaks["variant"] == decoding]
    # Older and hand-made tables name neither the subject nor the normalized value.
    owners = audit.probes.set_index("probe_id")["subject"]
    key = leaks["key"] if "key" in leaks.columns else leaks["value"].astype(str).str.casefold()
    return leaks.assign(subject=leaks["probe_id"].map(owners), key=key)


def _share(leaks: pd.DataFrame, probes: pd.DataFrame) -> SubjectShare:
    return SubjectShare(int(leaks["subject"].nunique()), int(probes["subject"].nunique()))


def _kinds(distinct: pd.DataFrame, titles: Mapping[str, str]) -> tuple[KindCount, ...]:
    counts = distinct.groupby("kind", sort=False)["subject"].agg(["size", "nunique"])
    counts = counts.sort_values(["size"], ascending=False, kind="stable")
    return tuple(
        KindCount(titles.get(str(kind), str(kind)), int(row["size"]), int(row["nunique"]))
        for kind, row in counts.iterrows()
    )


def _against(audit: AuditTables, baseline: AuditTables, members: pd.DataFrame, decoding: str) -> BaselineGiveaway:
    """Both models on the members' probes that the baseline was given, too."""
    if baseline.findings is None:
        return BaselineGiveaway(baseline.label, searched=False)
    answered = set(baseline.scores.loc[baseline.scores["decoding"] == decoding, "item"])
    shared = members[members["probe_id"].isin(answered & shared_probes(members, baseline.probes))]
    owners = shared.set_index("probe_id")["subject"]
    sides = []
    for tables in (audit, baseline):
        leaks = given_away(tables, decoding)
        leaks = leaks[leaks["probe_id"].isin(shared["probe_id"])]
        sides.append(leaks.assign(subject=leaks["probe_id"].map(owners)))
    ours, theirs = ({tuple(row) for row in side[IDENTITY].to_numpy()} for side in sides)
    who, others = ({row[0] for row in side} for side in (ours, theirs))
    n = int(owners.nunique())
    gap = compare_paired_shares(len(who - others), len(others - who), len(who & others), n)
    return BaselineGiveaway(
        baseline.label,
        searched=True,
        model=len(ours),
        identifiers=len(theirs),
        only_model=len(ours - theirs),
        subjects=SubjectShare(len(others), n),
        difference=gap,
        problems=problems_of(baseline),
    )


def giveaway_data(result: Giveaway) -> dict[str, Any]:
    """The counts for JSON; no value of an identifier."""
    low, high = result.subjects.limits
    unseen = None
    if result.unseen is not None:
        unseen = {"identifiers": result.unseen[0], "subjects": result.unseen[1].hits, "of": result.unseen[1].n}
    return {
        "decoding": result.decoding,
        "identifiers": result.identifiers,
        "declared": result.declared,
        "subjects": result.subjects.hits,
        "of": result.subjects.n,
        "low": low,
        "high": high,
        "recall": [
            {
                "kind": one.title,
                "recall": one.recall,
                "low": one.low,
                "high": one.high,
                "labelled": one.labelled,
                "notes": YOURS if one.yours else OURS,
            }
            for one in result.recall
        ],
        "kinds": [{"kind": k.title, "identifiers": k.identifiers, "subjects": k.subjects} for k in result.kinds],
        "unseen": unseen,
        "baselines": [
            {
                "label": one.label,
                "searched": one.searched,
                "model": one.model,
                "identifiers": one.identifiers,
                "only_model": one.only_model,
                "subjects": one.subjects.hits,
                "of": one.subjects.n,
                "difference": None if one.difference is None else one.difference.value,
                "p": None if one.difference is None else one.difference.p,
            }
            for one in result.baselines
        ],
    }
