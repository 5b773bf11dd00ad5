"""Attackers by what they know of a patient: extraction, and inference of a sensitive attribute.

A way of asking belongs to the tier of the most that its prompt tells: nothing, demographics, metadata of the
encounter, the beginning of the note, a name or another identifier. The columns in a prompt's braces say which.

Inference reads responses alone: an attribute (a diagnosis) is inferred where responses to a patient's probes name
the value that is hers more often than they name it for patients without it. The score of a patient and a value is
the share of her responses that name it, as a rank among all patients: a model that says ``diabetes`` of everybody
has an area of 0.5. What the prompt held is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from medunlearn.audit.asking import is_prompt
from medunlearn.audit.audit_tables import KEY, WAY, AuditTables
from medunlearn.audit.extraction import (
    CorpusExtraction,
    Extraction,
    extracted,
    labelled_probes,
    share_of,
    share_text,
)
from medunlearn.config.audit import PREFIX
from medunlearn.metrics.leakage.phrases import words_of
from medunlearn.sources.column_prompts import columns_of
from medunlearn.statistics.intervals import MIN_SUBJECTS, Estimate
from medunlearn.statistics.roc import RocSample
from medunlearn.statistics.shares import ShareDifference, SubjectShare, compare_shares

TIERS: Mapping[str, str] = {
    "nothing": "nothing",
    "demographics": "demographics",
    "encounter": "metadata of the encounter",
    "beginning": "the beginning of the note",
    "identifier": "a name or another identifier",
}
"""Tier -> what its attacker knows, the least first."""
DEMOGRAPHICS = frozenset(
    (
        *("age", "sex", "gender", "race", "ethnicity", "birth_year", "birth_date", "date_of_birth", "dob", "town"),
        *("city", "state", "country", "zip", "zip_code", "postcode", "language", "religion", "marital_status"),
        *("insurance", "occupation", "profession", "nationality"),
    )
)
"""Columns that describe a person and do not name one."""
NONE_NAMED = "no response names a value"
ALL_TOLD = "every prompt holds its patient's value"
TOO_FEW = f"no value is that of {MIN_SUBJECTS} patients and not of {MIN_SUBJECTS} others"


@dataclass(frozen=True, slots=True)
class Inference:
    """Inference of one attribute by the attackers of one tier.

    Attributes:
        column: the attribute.
        auc: area under the curve over patients and values, 0-1, 0.5 = guessing, with its interval over patients.
        values: number of values that enough patients have and have not.
        reason: why there is no area; empty if there is one.
    """

    column: str
    auc: Estimate | None
    values: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AttackerTier:
    """Extraction and inference by the attackers of one tier, of one corpus.

    Attributes:
        tier: key of :data:`TIERS`. ways: their number of ways of asking.
        members: extracted trained patients, of those asked about so.
        unseen: patients that the model never saw; None if the audit has none.
        difference: members minus unseen, with Fisher's exact test.
        baselines: label of each healthy baseline -> the same patients extracted from it.
        inference: of each attribute, of the trained patients; ``inference_unseen`` of those never seen, and
            ``inference_baselines`` of the trained patients by each healthy baseline.
    """

    corpus: str
    tier: str
    ways: int
    members: SubjectShare
    unseen: SubjectShare | None
    difference: ShareDifference | None
    baselines: Mapping[str, SubjectShare]
    inference: tuple[Inference, ...] = ()
    inference_unseen: tuple[Inference, ...] = ()
    inference_baselines: Mapping[str, tuple[Inference, ...]] | None = None


def tier_of(way: str, prompts: Sequence[str]) -> str:
    """Tier of a way of asking, by what its prompt tells.

    Args:
        prompts: the audit's, in order; ``prompt_2`` is the second.
    """
    if not is_prompt(way):
        return "beginning"
    number = int(way.rpartition("_")[2])
    columns = columns_of(prompts[number - 1 : number])
    tiers = [_tier_of_column(column) for column in columns]
    return max(tiers, key=list(TIERS).index, default="nothing")


def _tier_of_column(column: str) -> str:
    from medunlearn.audit.identifiers.kinds import UNKNOWN, kind_of

    plain = column.strip().lower().replace(" ", "_")
    kind = kind_of(plain)
    if plain in DEMOGRAPHICS:
        return "demographics"
    names_one = kind.name not in (UNKNOWN, "clinician") and kind.group in (
        "names",
        "numbers",
        "contacts",
        "locations",
    )
    return "identifier" if names_one and kind.name != "hospital" else "encounter"


def attacker_tiers(
    audit: AuditTables, result: Extraction, baselines: Sequence[AuditTables] = ()
) -> tuple[AttackerTier, ...]:
    """One entry per corpus and tier, the attacker who knows least first; empty without prompts or attributes."""
    only_beginnings = not any(map(is_prompt, result.ways))
    if result.reason or result.problems or (only_beginnings and audit.attributes is None):
        return ()
    prompts = tuple(audit.info.get("config", {}).get("prompt") or ())
    probes = labelled_probes(audit)
    ways = probes[WAY] if WAY in probes.columns else pd.Series(PREFIX, probes.index)
    probes = probes.assign(tier=[tier_of(str(way), prompts) for way in ways], **{WAY: ways})
    return tuple(
        entry for corpus in result.corpora for entry in _of_corpus(audit, result, corpus, probes, baselines)
    )


def _of_corpus(
    audit: AuditTables,
    result: Extraction,
    corpus: CorpusExtraction,
    probes: pd.DataFrame,
    baselines: Sequence[AuditTables],
) -> Iterator[AttackerTier]:
    members, unseen = corpus.split(probes)
    healthy = {baseline.label for baseline in corpus.baselines if not baseline.problems}
    controls = [baseline for baseline in baselines if baseline.label in healthy]
    for tier in (tier for tier in TIERS if (members["tier"] == tier).any()):
        ours, theirs = (group[group["tier"] == tier] for group in (members, unseen))
        share = _share(audit, result.decoding, ours)
        never = None if corpus.unseen is None else _share(audit, result.decoding, theirs)
        yield AttackerTier(
            corpus=corpus.corpus,
            tier=tier,
            ways=int(ours[WAY].nunique()),
            members=share,
            unseen=never,
            difference=None if never is None else compare_shares(share, never),
            baselines={control.label: _share(control, result.decoding, ours) for control in controls},
            inference=_inferences(audit, audit, ours),
            inference_unseen=() if never is None else _inferences(audit, audit, theirs),
            inference_baselines={control.label: _inferences(audit, control, ours) for control in controls},
        )


def _share(tables: AuditTables, decoding: str, probes: pd.DataFrame) -> SubjectShare:
    return share_of(extracted(tables, decoding, probes["probe_id"])["hit"])


def _inferences(audit: AuditTables, answered: AuditTables, probes: pd.DataFrame) -> tuple[Inference, ...]:
    """Inference of each attribute from one model's responses to these probes.

    Args:
        audit: whose probes and attributes these are; ``answered``: whose responses.
    """
    if audit.attributes is None:
        return ()
    prefixes = audit.probes.set_index("probe_id")["prefix"]
    responses = answered.responses.merge(probes[["probe_id", "record_id", "subject"]], on=KEY[0])
    texts = pd.DataFrame(
        {
            "subject": responses["subject"],
            "response": [_plain(text) for text in responses["response"]],
            "prompt": [_plain(text) for text in responses["probe_id"].map(prefixes)],
        }
    )
    owners = audit.probes.drop_duplicates("record_id").set_index("record_id")["subject"]
    attributes = audit.attributes.assign(subject=audit.attributes["record_id"].map(owners)).dropna()
    attributes = attributes[attributes["subject"].isin(texts["subject"])]
    columns = dict.fromkeys(audit.attributes["column"])
    return tuple(_inference(column, attributes[attributes["column"] == column], texts) for column in columns)


def _inference(column: str, attributes: pd.DataFrame, texts: pd.DataFrame) -> Inference:
    subjects = attributes["subject"].unique()
    has = {
        str(value): pd.Index(subjects).isin(own["subject"])
        for value, own in attributes.assign(value=attributes["value"].map(_plain)).groupby("value", sort=True)
    }
    has = {
        value: flags
        for value, flags in has.items()
        if value.strip() and min(flags.sum(), (~flags).sum()) >= MIN_SUBJECTS
    }
    if not has:
        return Inference(column, None, 0, TOO_FEW)
    ranks, named, is_asked = [], False, False
    for value in has:
        free = ~texts["prompt"].str.contains(value, regex=False)
        names = texts["response"].str.contains(value, regex=False).where(free)
        shares = names.astype("float64").groupby(texts["subject"]).mean().reindex(subjects).to_numpy()
        named |= bool(np.nansum(shares) > 0)
        scored = ~np.isnan(shares)
        is_asked |= bool(scored[has[value]].any())
        rank = np.full(len(shares), np.nan)
        rank[scored] = rankdata(shares[scored]) / scored.sum()
        ranks.append(rank)
    if not is_asked:
        return Inference(column, None, len(has), ALL_TOLD)
    if not named:
        return Inference(column, None, len(has), NONE_NAMED)
    members = np.concatenate(list(has.values())).tolist()
    sample = RocSample(members, np.tile(subjects, len(has)).tolist())
    return Inference(column, sample.auc(np.concatenate(ranks)), len(has))


def _plain(text: object) -> str:
    """Words with a space before, between and after, so that words are found whole."""
    return f" {' '.join(words_of(str(text)))} "


def auc_text(entries: Sequence[Inference] | None, column: str) -> str:
    """``0.71 [0.60, 0.82]``, or why there is no area."""
    entry = next((entry for entry in entries or () if entry.column == column), None)
    if entry is None:
        return ""
    if entry.auc is None or entry.auc.value is None:
        return entry.reason or "not enough patients"
    limits = "" if entry.auc.low is None else f" [{entry.auc.low:.2f}, {entry.auc.high:.2f}]"
    return f"{entry.auc.value:.2f}{limits}"


def tiers_data(tiers: Sequence[AttackerTier]) -> list[dict[str, Any]]:
    """Rows for JSON."""

    def shares(share: SubjectShare | None) -> dict[str, Any] | None:
        if share is None:
            return None
        low, high = share.limits
        return {"extracted": share.hits, "subjects": share.n, "low": low, "high": high}

    def inferred(entries: Sequence[Inference] | None) -> list[dict[str, Any]]:
        return [
            {
                "column": entry.column,
                "values": entry.values,
                "auc": entry.auc and entry.auc.value,
                "low": entry.auc and entry.auc.low,
                "high": entry.auc and entry.auc.high,
                "reason": entry.reason or None,
            }
            for entry in entries or ()
        ]

    return [
        {
            "corpus": tier.corpus,
            "tier": tier.tier,
            "knows": TIERS[tier.tier],
            "ways": tier.ways,
            "members": shares(tier.members),
            "unseen": shares(tier.unseen),
            "p": tier.difference and tier.difference.p,
            "baselines": {label: shares(share) for label, share in tier.baselines.items()},
            "inference": inferred(tier.inference),
            "inference_unseen": inferred(tier.inference_unseen),
            "inference_baselines": {
                label: inferred(entries) for label, entries in (tier.inference_baselines or {}).items()
            },
        }
        for tier in tiers
    ]


def tier_rows(tiers: Sequence[AttackerTier], bound: Callable[[SubjectShare], str]) -> list[dict[str, str]]:
    """Table rows by column; with the corpus if there are several.

    Args:
        bound: share -> its bound in words.
    """
    several = len({tier.corpus for tier in tiers}) > 1
    unseen = any(tier.unseen is not None for tier in tiers)
    labels = dict.fromkeys(label for tier in tiers for label in tier.baselines)
    columns = dict.fromkeys(entry.column for tier in tiers for entry in tier.inference)
    rows = []
    for tier in tiers:
        row = {"corpus": tier.corpus} if several else {}
        row |= {"knows": TIERS[tier.tier], "extracted": f"{share_text(tier.members)} ({bound(tier.members)})"}
        row |= {"never seen": share_text(tier.unseen)} if unseen else {}
        row |= {label: share_text(tier.baselines.get(label)) for label in labels}
        for column in columns:
            row[f"{column}, AUROC"] = auc_text(tier.inference, column)
            row |= {f"{column}, never seen": auc_text(tier.inference_unseen, column)} if unseen else {}
            beside = tier.inference_baselines or {}
            row |= {f"{column}, {label}": auc_text(beside.get(label), column) for label in labels}
        rows.append(row)
    return rows
