"""Leaked identifiers: number of distinct ones, of patients and of kinds, compared with baselines.

An identifier counts once per patient, however many responses contain it. It must be in the patient's record and not
in the prompt of the response that leaks it. Needs the results of the stage ``identifiers``, but not its code or a
model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    """Identifiers leaked by a baseline on the same probes.

    Attributes:
        searched: its responses were searched too; if not, the other numbers are 0 and meaningless.
        model, identifiers: distinct identifiers leaked on these probes by the audited model and by this baseline.
        only_model: identifiers that only the audited model leaks.
        subjects: patients with an identifier that the baseline leaks.
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
    """Number of distinct leaked identifiers of one kind, and of their patients."""

    title: str
    identifiers: int
    subjects: int


@dataclass(frozen=True, slots=True)
class KindRecall:
    """Share of the labelled identifiers of a kind that the detectors find.

    Attributes:
        kind: title of the kind, or :data:`ALL_KINDS`.
        recall: 0-1; ``low`` and ``high`` its 95% interval over notes, None with fewer than five.
        found, labelled: numbers of identifiers.
        notes: origin of the labelled notes, :data:`OURS` or :data:`YOURS`.
    """

    kind: str
    recall: float
    low: float | None
    high: float | None
    found: int
    labelled: int
    notes: str


@dataclass(frozen=True)
class Giveaway:
    """Identifiers leaked by one model at one decoding.

    Attributes:
        identifiers: number of distinct identifiers of patients in the training text.
        declared: those that the records declare; the others were found only by a detector.
        subjects: patients with a leaked identifier, of those probed.
        kinds: most frequent first.
        unseen: of patients that the model never saw: identifiers, and patients; None if there are none.
        detectors: names of the detectors that found undeclared identifiers.
        recall: recall of the detectors on labelled notes, by kind, most labels first, ``all`` of the user's notes
            last; empty without a detector or a measurement.
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
    audit: AuditTables, extraction: Extraction, titles: Mapping[str, str], baselines: Sequence[AuditTables] = ()
) -> Giveaway | None:
    """Count distinct leaked identifiers; None if no search was made.

    Args:
        extraction: says the decoding, and the corpora that were trained on.
        titles: kind of identifier -> its name.
    """
    if audit.findings is None:
        return None
    leaks, probes = given_away(audit, extraction.decoding), labelled_probes(audit)
    in_corpora = probes["corpus"].isin({corpus.corpus for corpus in extraction.corpora})
    members, unseen = probes[in_corpora], probes[probes["unseen"] & ~in_corpora]
    ours, theirs = (leaks[leaks["probe_id"].isin(part["probe_id"])] for part in (members, unseen))
    distinct, detected = ours.drop_duplicates(IDENTITY), ours["match"] == "detected"
    detectors = ours.loc[detected, "detector"] if "detector" in ours else ()
    return Giveaway(
        extraction.decoding,
        subject_noun(audit.probes),
        len(distinct),
        len(ours[~detected].drop_duplicates(IDENTITY)),
        _share(ours, members),
        _kinds(distinct, titles),
        (len(theirs.drop_duplicates(IDENTITY)), _share(theirs, unseen)) if len(unseen) else None,
        tuple(_against(audit, other, members, extraction.decoding) for other in baselines),
        tuple(sorted(set(map(str, detectors)))),
        _recall(audit, titles),
    )


def _recall(audit: AuditTables, titles: Mapping[str, str]) -> tuple[KindRecall, ...]:
    table = read_whole(audit.folder / RECALL, read_frame)
    if table is None:
        return ()
    notes = YOURS if "notes" in table.columns and table["notes"].eq(YOURS).all() else OURS
    whole = table["kind"].eq(ALL_KINDS)
    visible = whole & (notes == YOURS) | ~whole & (table["labelled"] >= MIN_SUBJECTS)
    table = table[table["recall"].notna() & visible].assign(whole=whole)
    table = table.sort_values(["whole", "labelled"], ascending=[True, False], kind="stable")
    return tuple(
        KindRecall(
            titles.get(row["kind"], row["kind"]),
            row["recall"],
            _number(row["recall_low"]),
            _number(row["recall_high"]),
            row["found"],
            row["labelled"],
            notes,
        )
        for row in table.to_dict("records")
    )


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def given_away(audit: AuditTables, decoding: str | None = None) -> pd.DataFrame:
    """Leaked identifiers with their subject; of one decoding, or of all."""
    assert audit.findings is not None
    leaks = with_keys(audit.findings)
    leaks = leaks if decoding is None else leaks[leaks["variant"] == decoding]
    return leaks.assign(subject=leaks["probe_id"].map(audit.probes.set_index("probe_id")["subject"]))


def with_keys(findings: pd.DataFrame) -> pd.DataFrame:
    """Findings of the record that were not in the prompt, each with a ``key`` that equal values share."""
    leaks = findings[findings["in_record"].astype(bool) & ~findings["in_prefix"].astype(bool)]
    # Older and hand-made tables lack the normalized value.
    values = leaks["value"].astype(str).str.casefold()
    return leaks.assign(key=leaks["key"].fillna(values) if "key" in leaks.columns else values)


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
    """Both models on those members' probes that the baseline was given too."""
    if baseline.findings is None:
        return BaselineGiveaway(baseline.label, searched=False)
    baseline_items = set(baseline.scores.loc[baseline.scores["decoding"] == decoding, "item"])
    shared = members[members["probe_id"].isin(baseline_items & shared_probes(members, baseline.probes))]
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
    """The counts for JSON; no identifier values."""
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
        "recall": [asdict(kind) for kind in result.recall],
        "kinds": [{"kind": k.title, "identifiers": k.identifiers, "subjects": k.subjects} for k in result.kinds],
        "unseen": unseen,
        "baselines": [
            {
                **{
                    name: getattr(other, name)
                    for name in ("label", "searched", "model", "identifiers", "only_model")
                },
                "subjects": other.subjects.hits,
                "of": other.subjects.n,
                "difference": other.difference and other.difference.value,
                "p": other.difference and other.difference.p,
            }
            for other in result.baselines
        ],
    }
