"""Trends of memorization with prefix length, duplication, position and epochs; and evidence beyond baselines.

Models repeat set phrases without having seen a corpus. Where these are frequent they dominate trends and shares
over all runs, so claims about memorized text use only runs that none of the baselines repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.audit_tables import KEY, AuditTables
from medunlearn.audit.position import LIMIT, SEGMENT, matched_by_segment
from medunlearn.papers.memorization.compare import places
from medunlearn.papers.memorization.compare.ratios import Resampling, greedy_runs
from medunlearn.papers.memorization.report.content import COLUMNS, GREEDY, MATCHED, PRIMARY, stacked
from medunlearn.statistics import Estimate
from medunlearn.statistics.trend import paired_trend, trend_between

LASTING_RUN = 50
"""Tokens of a run that count in Table 7."""
SAME_MODEL = "both audits are of one model, so nothing happened between them"
_PLACE = ["corpus", "prefix_tokens"]
_NO_TREND = Estimate(None, None, None)
Rows = Iterator[dict[str, Any]]


def prefix_trends(label: str, runs: pd.DataFrame, draws: Resampling) -> Rows:
    """Slope of a record's score over the rank of the prefix length, paired over records.

    Only records with a probe of every length count, since long prefixes exclude short records.

    Args:
        runs: scores of :func:`.ratios.greedy_runs`.
    """
    if runs["prefix_tokens"].nunique() < 2:
        return
    for (corpus, measure), group in runs.groupby(["corpus", "measure"], sort=True):
        over = _over(group, "record_id", "prefix_tokens", draws)
        yield _row("prefix length", label, (corpus, None), measure, "one prefix length more", *over)


def duplication_trends(label: str, runs: pd.DataFrame, draws: Resampling) -> Rows:
    """Slope over records on log2 of each one's number of copies in the training text (``copies`` of
    ``probes.parquet``).

    Not paired: a record has one number of copies. None if the audit has no copies.

    Args:
        runs: scores of :func:`.ratios.greedy_runs`.
    """
    copied = runs[runs["copies"] > 0] if "copies" in runs else runs.iloc[:0]
    for (*place, measure), group in copied.groupby([*_PLACE, "measure"], sort=True):
        trend = trend_between(group["value"], np.log2(group["copies"]), list(group["subject"]), **draws)
        levels = _list_text(sorted(group["copies"].unique()))
        about = (levels, len(group), trend, "all records have as many copies")
        yield _row("duplication", label, place, measure, "twice as many copies", *about)


def position_trends(audit: AuditTables, draws: Resampling) -> Rows:
    """Slope over segments of 100 tokens of the share of a segment inside a run of 30; paired over records.

    Only probes whose text reaches the end of the last segment count, since nothing can be repeated after a text's
    end. The number of segments is the largest that half of a corpus' probes reach.
    """
    responses = audit.responses[audit.responses["variant"] == GREEDY]
    if responses.empty or "suffix_tokens" not in audit.probes:
        return
    probes = audit.probes.set_index("probe_id")[["subject", *_PLACE, "suffix_tokens"]]
    limit = int(audit.info.get("config", {}).get("max_new_tokens", LIMIT))
    for place, group in responses[KEY].join(probes, on="probe_id", how="inner").groupby(_PLACE, sort=True):
        lengths = group["suffix_tokens"].map(len)
        count = int(min(limit, lengths.median())) // SEGMENT
        levels = ", ".join(f"{start * SEGMENT + 1}-{(start + 1) * SEGMENT}" for start in range(count))
        trend, without = _NO_TREND, f"fewer than {2 * SEGMENT} tokens follow in half of the probes"
        if count > 1:
            long = group[lengths >= count * SEGMENT]
            shares = matched_by_segment(audit.spans.merge(long[KEY], on=KEY), long, count=count)
            trend, without = paired_trend(shares, list(long["subject"]), **draws), "no response"
        about = ("position", audit.label, place, MATCHED, f"{SEGMENT} tokens further on", levels)
        yield _row(*about, len(group), trend, without)


def epoch_trends(name: str, audits: Mapping[int, AuditTables], draws: Resampling) -> Rows:
    """Slope of a probe's score over the epochs of one training run; paired over probes.

    Args:
        name: name of the training run.
        audits: epoch -> audit after that epoch.
    """
    if len(audits) < 2:
        return
    runs = pd.concat([greedy_runs(audit).assign(epoch=epoch) for epoch, audit in sorted(audits.items())])
    measured = runs.groupby("measure")["epoch"].nunique()
    runs = runs[runs["measure"].map(measured) == len(audits)]
    for (measure, *place), group in runs.groupby(["measure", *_PLACE], sort=True):
        yield _row("epochs", name, place, measure, "one epoch", *_over(group, "item", "epoch", draws, spaced=True))


def _over(
    group: pd.DataFrame, unit: str, level: str, draws: Resampling, *, spaced: bool = False
) -> tuple[str, int, Estimate, str]:
    """Levels, number of units, trend over each unit's levels, and a reason if there is none.

    Args:
        spaced: levels are spaced by their values, not by rank.
    """
    table = group.pivot(index=unit, columns=level, values="value")
    if table.shape[1] < 2:
        return _list_text(table.columns), len(table), _NO_TREND, "there is one level only"
    subjects = group.drop_duplicates(unit).set_index(unit)["subject"]
    places = [float(level_value) for level_value in table.columns] if spaced else None
    trend = paired_trend(table.to_numpy(np.float64), list(subjects.loc[table.index]), places, **draws)
    return _list_text(table.columns), len(table), trend, "no record has every level"


def _row(
    factor: str,
    model: str,
    place: Any,
    measure: object,
    step: str,
    levels: str,
    units: int,
    trend: Estimate,
    without: str,
) -> dict[str, Any]:
    corpus, prefix = place
    return {
        "factor": factor,
        "model": model,
        "corpus": str(corpus),
        "prefix_tokens": None if prefix is None else int(prefix),
        "measure": str(measure),
        "levels": levels,
        "step": step,
        "slope": trend.value,
        **{name: getattr(trend, name) for name in ("low", "high", "p", "n")},
        "n_left_out": units - trend.n,
        "n_subjects": trend.n_clusters,
        "reason": without if trend.value is None else None,
    }


def _list_text(levels: Any) -> str:
    return ", ".join(f"{float(level):g}" for level in levels)


def beyond_baselines(
    audits: Mapping[str, AuditTables],
    baselines: Mapping[str, Sequence[str]],
    tuned: Sequence[tuple[str, str]],
    draws: Resampling,
) -> pd.DataFrame:
    """One row per factor, model, corpus and prefix length: value, low, high, n_subjects, or a reason.

    Factors: ``prefix length`` and ``duplication`` (slopes of the paired difference from each baseline),
    ``position`` (slope over segments), ``first tokens`` (share of matched tokens in the first 100) and
    ``persistence`` (share of the probes memorized before that are memorized after), the last three on probes that
    no baseline repeats.

    Args:
        audits: by label.
        baselines: model -> its baselines; a model without any has no row.
        tuned: pairs of a model before and after further fine-tuning.
    """
    rows: list[dict[str, Any]] = []
    for label, others in baselines.items():
        for other in others:
            gaps = paired_gaps(audits[label], audits[other])
            slopes = (*prefix_trends(label, gaps, draws), *duplication_trends(label, gaps, draws))
            rows += ({**row, "value": row["slope"], "against": other} for row in slopes)
        restricted = unrepeated(audits[label], [audits[other] for other in others])
        falls = ({**row, "value": row["slope"]} for row in position_trends(restricted, draws))
        rows += ({**row, "against": ", ".join(others)} for row in (*falls, *_first_tokens(restricted, draws)))
    for before, after in tuned:
        if others := baselines.get(before, ()):
            restricted = unrepeated(audits[before], [audits[other] for other in others])
            persistent = _persistence(restricted, audits[after], draws)
            rows += ({**row, "against": ", ".join(others)} for row in persistent)
    return stacked("beyond", [pd.DataFrame(rows, columns=list(COLUMNS["beyond"]))])


def paired_gaps(audit: AuditTables, baseline: AuditTables) -> pd.DataFrame:
    """Runs of 30 (:func:`.ratios.greedy_runs`) minus a baseline's on the probes that both scored, -1 to 1."""
    ours, theirs = (greedy_runs(side, [PRIMARY]) for side in (audit, baseline))
    # Without plain beginnings both are empty, and an empty column of texts is no number.
    gaps = ours["value"] - ours["item"].map(theirs.set_index("item")["value"]).astype("float64")
    return ours.assign(value=gaps).dropna(subset="value")


def unrepeated(audit: AuditTables, baselines: Sequence[AuditTables]) -> AuditTables:
    """The audit without probes for which a baseline repeats a run of 30, or that a baseline was not given."""
    probes = set(audit.probes["probe_id"])
    for baseline in baselines:
        runs = greedy_runs(baseline, [PRIMARY])
        probes &= set(runs["item"][runs["value"] == 0])
    of_probes, of_scores = audit.probes["probe_id"].isin(probes), audit.scores["item"].isin(probes)
    return replace(audit, probes=audit.probes[of_probes], scores=audit.scores[of_scores])


def _first_tokens(audit: AuditTables, draws: Resampling) -> Rows:
    """Share of the matched tokens in the first 100; no value if the design forces it above a half."""
    table = places.position_table(audit, draws, (30,))
    table = table[(table["measure"] == "tokens") & (table["segment"] == 0)]
    limit = int(audit.info.get("config", {}).get("max_new_tokens", LIMIT))
    for row in table.to_dict("records"):
        probes = audit.probes[
            (audit.probes["corpus"] == row["corpus"]) & (audit.probes["prefix_tokens"] == row["prefix_tokens"])
        ]
        numbers = {name: row[name] for name in ("model", "corpus", "prefix_tokens", "n_subjects")}
        reason = _forced_reason(probes, limit)
        edges = {name: None if reason else row[name] for name in ("value", "low", "high")}
        yield {"factor": "first tokens", **numbers, **edges, "reason": reason or row["reason"]}


def _forced_reason(probes: pd.DataFrame, limit: int) -> str | None:
    """Reason why the first 100 tokens have most matches by design; None if they need not."""
    if "suffix_tokens" not in probes:
        return "how far the texts go on is not known"
    reach = probes["suffix_tokens"].map(len).clip(upper=limit)
    first = float(reach.clip(upper=SEGMENT).sum() / max(1, reach.sum()))
    if first < 0.5:
        return None
    return (
        f"{limit:,} tokens are generated at most, and {reach.median():,.0f} follow in the median text: "
        f"{100 * first:.0f}% of what could be repeated stands in the first {SEGMENT} tokens"
    )


def _persistence(before: AuditTables, after: AuditTables, draws: Resampling) -> Rows:
    models = [audit.info.get("inputs", {}).get("model") for audit in (before, after)]
    same = models[0] is not None and models[0] == models[1]
    table = places.persistence_table(before, after, draws, at_least=LASTING_RUN)
    for row in table[table["measure"] == "retained"].to_dict("records"):
        numbers = {name: row[name] for name in ("corpus", "prefix_tokens", "n_subjects")}
        edges = {name: None if same else row[name] for name in ("value", "low", "high")}
        labels = {"factor": "persistence", "model": before.label, "after": after.label}
        yield {**labels, **numbers, **edges, "reason": SAME_MODEL if same else row["reason"]}
