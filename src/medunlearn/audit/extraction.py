"""Patients that can be extracted, compared with unseen patients and with baselines.

A subject is extracted where a response to any of its probes shares a run of 30 tokens with the true text that is
not shared wording (:mod:`~medunlearn.audit.shared_wording`). All of it counts subjects at one decoding; nothing is
averaged over probes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import PROBES, WAY, AuditTables, shared_probes
from medunlearn.audit.shared_wording import knows_wording, own_runs, template_share
from medunlearn.config.audit import PREFIX
from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import read_frame, read_json, write_json
from medunlearn.errors import ConfigError, unknown_name
from medunlearn.reports.formatting import count
from medunlearn.statistics.shares import ShareDifference, SubjectShare, compare_paired_shares, compare_shares

LEAK = "run_30"
"""The measure that says whether text of a subject came out."""
NO_RESPONSE = "there is no response"
GREEDY = "greedy"
UNMEASURED = "not measured"
UNSEEN_FILE = "unseen.json"
HOLDOUT = "_holdout"
NO_RUN = f"{LEAK} was not among the measures"


@dataclass(frozen=True, slots=True)
class BaselineExtraction:
    """Extraction by a baseline on the same probes.

    Attributes:
        model, baseline: numbers of subjects extracted from each, of those with a scored probe in both.
        only_model, only_baseline: subjects extracted from only one of the two.
        difference: model minus baseline, with McNemar's exact test.
        problems: why the baseline is broken; its numbers are then meaningless.
    """

    label: str
    model: SubjectShare
    baseline: SubjectShare
    only_model: int
    only_baseline: int
    difference: ShareDifference
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CorpusExtraction:
    """Extractable subjects of one corpus, compared with subjects that the model never saw.

    Attributes:
        noun: ``patient`` where the audit knows whose a text is, else ``record``.
        members: subjects of the corpus.
        unseen: subjects that the model never saw; None if the audit has none.
        unseen_corpora: where these come from.
        difference: members minus unseen, with Fisher's exact test; None without ``unseen``.
        baselines: each on the subjects that it shares.
        probes: median number of probes of a member and of an unseen subject.
        trained: False if the audit has unseen subjects alone, who then stand as ``members``.
        unscored: reason -> number of the members without a score, most frequent first.
        boilerplate: members of whom wording alone came out that other subjects share; they are not extracted. None
            where the audit did not look for it.
        template_share: share of the members' memorized tokens that are such wording, 0-1; None without a run.
    """

    corpus: str
    noun: str
    members: SubjectShare
    unseen: SubjectShare | None
    unseen_corpora: tuple[str, ...]
    difference: ShareDifference | None
    baselines: tuple[BaselineExtraction, ...]
    probes: tuple[float, float | None]
    trained: bool = True
    unscored: tuple[tuple[str, int], ...] = ()
    boilerplate: int | None = None
    template_share: float | None = None

    @property
    def beyond_controls(self) -> bool | None:
        """True if more than from every control (unseen texts, healthy baselines) at the 5% level; None without
        one.
        """
        gaps = [self.difference, *(baseline.difference for baseline in self.baselines if not baseline.problems)]
        tests = [(gap.value, gap.p) for gap in gaps if gap and gap.value is not None and gap.p is not None]
        return all(value > 0 and p < 0.05 for value, p in tests) if tests else None

    def split(self, probes: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Probes of the corpus' members, and of its unseen subjects.

        Args:
            probes: of :func:`labelled_probes`.
        """
        members = probes[(probes["corpus"] == self.corpus) & (probes["unseen"] != self.trained)]
        return members, probes[probes["corpus"].isin(self.unseen_corpora) & probes["unseen"]]


@dataclass(frozen=True)
class Extraction:
    """Extraction of one audited model.

    Attributes:
        decoding: the counted decoding: greedy, or the first if the audit has no greedy responses.
        decodings: all of the audit.
        prefixes: lengths of the beginnings of texts; 0 stands for many lengths, and for prompts.
        ways: of asking; one alone where the audit has no others than the beginning of a text.
        unit: of lengths, ``tokens`` or ``words``.
        corpora: of training texts; of an audit without any, of unseen ones.
        problems: why the model is broken.
        reason: why nothing is counted; empty if something is.
    """

    label: str
    decoding: str
    decodings: tuple[str, ...]
    prefixes: tuple[int, ...]
    unit: str
    corpora: tuple[CorpusExtraction, ...]
    problems: tuple[str, ...] = ()
    reason: str = ""
    ways: tuple[str, ...] = (PREFIX,)


def extraction(audit: AuditTables, baselines: Sequence[AuditTables] = ()) -> Extraction:
    """Count the subjects that can be extracted from an audited model.

    Args:
        baselines: audits of other models; compared on the probes that both were given.
    """
    decodings = tuple(dict.fromkeys(audit.scores["decoding"].astype(str)))
    decoding = GREEDY if GREEDY in decodings or not decodings else decodings[0]
    probes = labelled_probes(audit)
    members, unseen = probes[~probes["unseen"]], probes[probes["unseen"]]
    by_corpus = (members if len(members) else unseen).groupby("corpus", sort=False)
    measured = LEAK in set(audit.scores["measure"])
    return Extraction(
        label=audit.label,
        decoding=decoding,
        decodings=decodings,
        prefixes=tuple(sorted({int(length) for length in audit.probes["prefix_tokens"]})),
        unit=audit.unit,
        corpora=tuple(
            _corpus(audit, str(corpus), part, unseen if len(members) else unseen[:0], baselines, decoding)
            for corpus, part in (by_corpus if measured else ())
        ),
        problems=problems_of(audit),
        reason="" if measured else NO_RUN,
        ways=tuple(audit.probes[WAY].unique()) if WAY in audit.probes.columns else (PREFIX,),
    )


def problems_of(audit: AuditTables) -> tuple[str, ...]:
    """Reasons why an audited model is broken; empty if it is healthy."""
    health = audit.info.get("results", {}).get("health", {})
    return tuple(health.get("problems", ()))


def unseen_corpora(audit: AuditTables) -> frozenset[str]:
    """Corpora that the model never saw: those declared unseen, and holdouts of benchmarks."""
    declared = (read_whole(audit.folder / UNSEEN_FILE, read_json) or {}).get("corpora", ())
    facts = audit.info.get("results", {}).get("corpora", ())
    benchmarks = {str(corpus.get("name")) for corpus in facts if corpus.get("kind") == "benchmark"}
    holdouts = {name for name in benchmarks if name.removesuffix(HOLDOUT) in benchmarks - {name}}
    return frozenset(map(str, declared)) | holdouts


def labelled_probes(audit: AuditTables) -> pd.DataFrame:
    """The probes with the column ``unseen``: True if nothing of the subject was in the training text.

    A subject with a record that was trained on is never unseen; its held-out records are left out.
    """
    probes = audit.probes.drop(columns=["prefix", "suffix", "suffix_tokens"], errors="ignore")
    held_out = probes["corpus"].isin(unseen_corpora(audit))
    if "copies" in probes.columns:
        held_out |= probes["copies"].eq(0).fillna(False).astype(bool)
    trained = set(probes.loc[~held_out, "subject"])
    return probes.assign(unseen=held_out)[~(held_out & probes["subject"].isin(trained))]


def run_scores(audit: AuditTables, decoding: str) -> pd.DataFrame:
    """Rows of :func:`leak_scores` at one decoding."""
    scores = leak_scores(audit)
    return scores[scores["decoding"] == decoding]


def leak_scores(audit: AuditTables) -> pd.DataFrame:
    """Rows of the score table for the measure :data:`LEAK`, 0 where only wording came out that subjects share."""
    return own_runs(audit.scores[audit.scores["measure"] == LEAK], audit.spans)


def extracted(audit: AuditTables, decoding: str, probe_ids: pd.Series) -> pd.DataFrame:
    """One row per subject of these probes: ``hit`` (null if none is scored) and its number of ``probes``."""
    scores = run_scores(audit, decoding)
    grouped = scores[scores["item"].isin(probe_ids)].groupby("subject", sort=False)
    highest = grouped["value"].max()
    return pd.DataFrame({"hit": highest.gt(0).where(highest.notna()), "probes": grouped["item"].nunique()})


def share_text(share: SubjectShare | None, noun: str = "") -> str:
    """``12 of 60``, ``12 of 60 patients``; empty without a share, and :data:`UNMEASURED` without a subject."""
    if share is not None and not share.n:
        return UNMEASURED
    return "" if share is None else f"{share.hits:,} of {count(share.n, noun) if noun else f'{share.n:,}'}"


def share_of(hits: pd.Series) -> SubjectShare:
    """Share of extracted subjects among those with a scored probe."""
    scored = hits.dropna()
    return SubjectShare(int(scored.astype(bool).sum()), len(scored), int(hits.isna().sum()))


def _corpus(
    audit: AuditTables,
    name: str,
    probes: pd.DataFrame,
    unseen: pd.DataFrame,
    baselines: Sequence[AuditTables],
    decoding: str,
) -> CorpusExtraction:
    own = unseen[unseen["corpus"].isin((name, f"{name}{HOLDOUT}"))]
    others = own if len(own) else unseen
    ours = extracted(audit, decoding, probes["probe_id"])
    members, controls, gap, median = share_of(ours["hit"]), None, None, None
    if len(others):
        theirs = extracted(audit, decoding, others["probe_id"])
        controls, median = share_of(theirs["hit"]), float(theirs["probes"].median())
        gap = compare_shares(members, controls)
    return CorpusExtraction(
        corpus=name,
        noun=subject_noun(audit.probes),
        members=members,
        unseen=controls,
        unseen_corpora=tuple(dict.fromkeys(others["corpus"].astype(str))),
        difference=gap,
        baselines=tuple(
            compared for other in baselines if (compared := _against(audit, other, probes, decoding)) is not None
        ),
        probes=(float(ours["probes"].median()) if len(ours) else 0.0, median),
        trained=not bool(probes["unseen"].any()),
        unscored=_unscored(audit, decoding, probes["probe_id"], ours["hit"]),
        **_shared_wording(audit, probes, ours["hit"], decoding),
    )


def _unscored(
    audit: AuditTables, decoding: str, probe_ids: pd.Series, hits: pd.Series
) -> tuple[tuple[str, int], ...]:
    """Reason -> subjects without a score, each by the most frequent reason of its probes."""
    scores = run_scores(audit, decoding)
    left_out = set(hits.index[hits.isna()])
    own = scores[scores["item"].isin(probe_ids) & scores["subject"].isin(left_out)]
    reasons = own["reason"].fillna(NO_RESPONSE).groupby(own["subject"], sort=False)
    counts = Counter(str(rows.mode().iloc[0]) for _, rows in reasons)
    return tuple(counts.most_common())


def measured(audit: AuditTables, decoding: str) -> set[str]:
    """Probes with a response that any measure could score."""
    scores = audit.scores[(audit.scores["decoding"] == decoding) & audit.scores["value"].notna()]
    return set(scores["item"])


def _shared_wording(audit: AuditTables, probes: pd.DataFrame, hits: pd.Series, decoding: str) -> dict[str, Any]:
    """Fields of :class:`CorpusExtraction` on wording that subjects share; ``hits`` by subject."""
    if not knows_wording(audit.spans):
        return {}
    spans = audit.spans[audit.spans["probe_id"].isin(probes["probe_id"]) & (audit.spans["variant"] == decoding)]
    subjects = set(probes.loc[probes["probe_id"].isin(spans["probe_id"]), "subject"])
    extracted_subjects = set(hits.index[hits.eq(True)])
    return {"boilerplate": len(subjects - extracted_subjects), "template_share": template_share(spans)}


def _against(
    audit: AuditTables, baseline: AuditTables, probes: pd.DataFrame, decoding: str
) -> BaselineExtraction | None:
    """A baseline on the probes that both models have scores of; None if there are none."""
    scored = [run_scores(tables, decoding).dropna(subset="value") for tables in (audit, baseline)]
    shared = shared_probes(probes, baseline.probes).intersection(*(scores["item"] for scores in scored))
    if not shared:
        return None
    # A subject may be called otherwise in the baseline's table: the model's own is used.
    subjects = probes.set_index("probe_id")["subject"]
    sides = (scores[scores["item"].isin(shared)] for scores in scored)
    ours, theirs = (side["value"].groupby(side["item"].map(subjects)).max().gt(0) for side in sides)
    only, other, both = int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), int((ours & theirs).sum())
    return BaselineExtraction(
        baseline.label,
        SubjectShare(only + both, len(ours)),
        SubjectShare(other + both, len(ours)),
        only,
        other,
        compare_paired_shares(only, other, both, len(ours)),
        problems_of(baseline),
    )


def subject_noun(probes: pd.DataFrame) -> str:
    """``patient`` if the texts' owners are known, else ``record``."""
    return "patient" if (probes["subject"] != probes["record_id"]).any() else "record"


def extraction_rows(result: Extraction) -> list[dict[str, Any]]:
    """The numbers for JSON: one row per corpus and group (``trained``, ``unseen``, or a baseline's label)."""
    rows: list[dict[str, Any]] = []
    for corpus in result.corpora:
        place = {"model": result.label, "corpus": corpus.corpus, "decoding": result.decoding, "noun": corpus.noun}
        wording = {"boilerplate": corpus.boilerplate, "template_share": corpus.template_share}
        group = "trained" if corpus.trained else "unseen"
        rows.append({**place, "group": group, **_numbers(corpus.members, None), **wording})
        if corpus.unseen is not None:
            rows.append({**place, "group": "unseen", **_numbers(corpus.unseen, corpus.difference)})
        for baseline in corpus.baselines:
            paired = {"extracted_by_model": baseline.model.hits, "only_model": baseline.only_model}
            paired["only_baseline"] = baseline.only_baseline
            numbers = _numbers(baseline.baseline, baseline.difference)
            rows.append({**place, "group": baseline.label, **numbers, **paired})
    return rows


def _numbers(share: SubjectShare, gap: ShareDifference | None) -> dict[str, Any]:
    low, high = share.limits
    numbers: dict[str, Any] = {"extracted": share.hits, "subjects": share.n, "unscored": share.unscored}
    numbers |= {"share": share.value, "low": low, "high": high}
    if gap is None:
        return numbers
    # The model's trained subjects minus this group.
    return numbers | {"difference": gap.value, "difference_low": gap.low, "difference_high": gap.high, "p": gap.p}


def declare_unseen(folder: Path, names: Sequence[str]) -> None:
    """Record the corpora that a model never saw in its audit's folder.

    Raises:
        ConfigError: a corpus that the audit does not have.
    """
    refuse_unknown(names, read_frame(folder / PROBES, columns=["corpus"])["corpus"].unique().tolist())
    write_json(folder / UNSEEN_FILE, {"corpora": sorted(set(names))})


def refuse_unknown(names: Sequence[str], corpora: Sequence[str]) -> None:
    """Refuse unknown corpora among those declared unseen.

    Raises:
        ConfigError: lists all of them.
    """
    if problems := [f"unseen: {unknown_name('corpus', name, corpora)}" for name in names if name not in corpora]:
        raise ConfigError(problems)
