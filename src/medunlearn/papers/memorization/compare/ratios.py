"""Means of each audit and paired differences of two, with intervals over subjects: tables for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import CELL, AuditTables
from medunlearn.audit.options.option_prompts import MATCHES
from medunlearn.audit.options.option_summary import summarize_options
from medunlearn.audit.probe_summary import align_probes, probe_scores
from medunlearn.papers.memorization.report.content import EXACT, GREEDY, PRIMARY
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.results.summary import compare, summarize

NEARLY: Mapping[str, float] = paper_yaml("memorization", "report")["nearly"]
"""Measure -> least value of a text that is nearly repeated."""
Resampling = Mapping[str, Any]
"""``replicates`` and ``seed`` of the bootstrap draws behind an interval."""


def greedy_runs(audit: AuditTables, measures: Sequence[str] = EXACT) -> pd.DataFrame:
    """Greedy scores of the run measures, one row per probe and measure, with the probe's columns but no text."""
    scores = audit.scores[(audit.scores["decoding"] == GREEDY) & audit.scores["measure"].isin(measures)]
    means = scores.groupby(["item", "measure"])["value"].mean().reset_index()
    probes = audit.probes.drop(columns=["prefix", "suffix", "suffix_tokens"], errors="ignore")
    return means.merge(probes.rename(columns={"probe_id": "item"}), on="item", validate="many_to_one")


def ratios(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    """Mean of every measure by corpus, prefix length and decoding; for ``run_30`` it is the memorization ratio.

    Samples of one probe are averaged first: a probe counts once. A number without scores is null, with the most
    frequent reason.
    """
    table = summarize(_probe_scores(audit), CELL, **draws).assign(model=audit.label)
    return _with_reason(table, audit.scores, [*CELL, "measure"], "no score")


def ratios_by_copies(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    """Mean of run measures by the records' number of copies in the training text; greedy, only records with a known
    number.

    Empty if the audit has no copies.
    """
    if "copies" not in audit.probes or audit.probes["copies"].isna().all():
        return pd.DataFrame()
    runs = greedy_runs(audit).dropna(subset=["copies"]).astype({"copies": "int64"})
    by = ["corpus", "prefix_tokens", "copies"]
    return summarize(runs.sort_values(by, kind="stable"), by, **draws).assign(model=audit.label)


def differences(first: AuditTables, second: AuditTables, relation: str, draws: Resampling) -> pd.DataFrame:
    """Every measure of one model minus that of another, paired on the probes that both scored.

    A probe is a record at a prefix length. Models with different tokenizers cut a record at different positions,
    but pairs are of the same record. Stored responses may label a shared probe's length as mixed.
    """
    ours, theirs = _probe_scores(first), _probe_scores(second)
    table = _paired_differences(ours, align_probes(ours, theirs), CELL, draws)
    return table.assign(relation=relation, model=first.label, against=second.label)


def decoding_differences(audit: AuditTables, draws: Resampling) -> list[pd.DataFrame]:
    """Every decoding minus greedy, paired on probes."""
    scores = _probe_scores(audit)
    greedy = scores[scores["decoding"] == GREEDY]
    names = {"relation": "decoding", "model": audit.label, "against": GREEDY}
    return [
        _paired_differences(
            scores[scores["decoding"] == decoding], greedy.assign(decoding=decoding), CELL, draws
        ).assign(**names)
        for decoding in scores["decoding"].unique()
        if decoding != GREEDY and len(greedy)
    ]


def option_table(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    """Share of removed options that the model restored, by prompt, with intervals over questions."""
    if audit.options is None:
        return pd.DataFrame()
    scores = _option_scores(audit.options)
    table = summarize(scores, ["prompt"], **draws).assign(model=audit.label)
    table = _with_reason(table, scores, ["prompt", "measure"], "no answer")
    return table.rename(columns={"measure": "match", "n_subjects": "n_questions"})


def option_differences(first: AuditTables, second: AuditTables, draws: Resampling) -> pd.DataFrame:
    """One model minus another, paired on question, prompt and removed option; intervals over questions."""
    if first.options is None or second.options is None:
        return pd.DataFrame()
    table = _paired_differences(_option_scores(first.options), _option_scores(second.options), ["prompt"], draws)
    table = table.rename(columns={"measure": "match", "n_subjects": "n_questions"})
    return table.assign(model=first.label, against=second.label)


def answer_table(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    """Rates of restored options and of right choices, of all questions, members and non-members (Tables 5 and 6).

    Empty for an audit that rated no choices; without groups of questions only ``all``.
    """
    if audit.options is None or audit.choices is None:
        return pd.DataFrame()
    groups = audit.options.dropna(subset="group") if "group" in audit.options else audit.options.head(0)
    of_questions = dict(zip(groups["question_id"].astype(str), groups.get("group", ()), strict=True))
    return summarize_options(audit.label, (audit.options, audit.choices), None, of_questions, **draws)


def near_table(audit: AuditTables, draws: Resampling) -> pd.DataFrame:
    """Greedy responses nearly the same as the true text, without a run of 30 (Table 4): counts by measure.

    ``n_near`` responses have the measure at ``least`` or above and no run of 30; ``n_run`` have such a run.
    """
    rows = []
    for measure, least in NEARLY.items():
        for (corpus, prefix), part in near_texts(audit, measure, least).groupby(["corpus", "prefix_tokens"]):
            rows.append(
                {
                    "model": audit.label,
                    "corpus": corpus,
                    "prefix_tokens": prefix,
                    "measure": measure,
                    "least": least,
                    "n_near": int(part["near"].sum()),
                    "n_run": int(part["run"].sum()),
                    "n": len(part),
                    "n_subjects": part["subject"].nunique(),
                }
            )
    return pd.DataFrame(rows)


def near_texts(audit: AuditTables, measure: str, least: float) -> pd.DataFrame:
    """Probes with scores of the measure and of runs: item, corpus, prefix_tokens, subject, value, run, near."""
    scores = greedy_runs(audit, [PRIMARY, measure]).dropna(subset="value")
    wide = scores.pivot_table(
        index=["item", "corpus", "prefix_tokens", "subject"], columns="measure", values="value"
    ).reset_index()
    if measure not in wide or PRIMARY not in wide:
        empty = pd.DataFrame(columns=["item", "corpus", "prefix_tokens", "subject", "value", "run", "near"])
        return empty.astype({"value": float, "run": bool, "near": bool})
    wide = wide.dropna(subset=[measure, PRIMARY]).rename(columns={measure: "value"})
    run = wide[PRIMARY] > 0
    return wide.assign(run=run, near=(wide["value"] >= least) & ~run)


def _probe_scores(audit: AuditTables) -> pd.DataFrame:
    return probe_scores(audit.scores).sort_values([*CELL, "item"], kind="stable", ignore_index=True)


def _option_scores(options: pd.DataFrame) -> pd.DataFrame:
    """A score table of regenerated options: 1 if the model restored one.

    Lettered matches with restarted letters follow the paper's released code, and are named accordingly.
    """
    table = options.assign(item=options["question_id"] + "\n" + options["removed"], subject=options["question_id"])
    if "letters" in table and table["letters"].eq("restarted").all():
        table = table.rename(columns={f"{name}.lettered": f"{name}.released_code" for name in ("exact", "relaxed")})
    matches = [name for name in (*MATCHES, "exact.released_code", "relaxed.released_code") if name in table]
    scores = table.melt(["item", "subject", "prompt", "reason"], matches, var_name="measure")
    scores["value"] = pd.to_numeric(scores["value"].astype(object), errors="coerce")
    return scores.sort_values("prompt", kind="stable", ignore_index=True)


def _paired_differences(
    ours: pd.DataFrame, theirs: pd.DataFrame, by: Sequence[str], draws: Resampling
) -> pd.DataFrame:
    """Paired differences on the items and measures of both."""
    keys = [*by, "item"]
    ours, theirs = (
        table[
            pd.MultiIndex.from_frame(table[keys]).isin(pd.MultiIndex.from_frame(other[keys]))
            & table["measure"].isin(other["measure"])
        ]
        for table, other in ((ours, theirs), (theirs, ours))
    )
    return compare(ours, theirs, by, **draws)


def _with_reason(table: pd.DataFrame, scores: pd.DataFrame, by: list[str], otherwise: str) -> pd.DataFrame:
    """The table with the scores' most frequent reason wherever a value is null."""
    reasons = (
        scores.dropna(subset=["reason"])
        .groupby(by)["reason"]
        .agg(lambda column: str(column.value_counts().index[0]))
    )
    row_reasons = pd.MultiIndex.from_frame(table[by]).map(reasons.to_dict())
    reason = pd.Series(row_reasons, index=table.index, dtype=object).fillna(otherwise)
    return table.assign(reason=reason.where(table["value"].isna(), None))
