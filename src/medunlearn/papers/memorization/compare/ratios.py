"""Means of each audit and paired differences of two, with intervals over subjects: tables for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from medunlearn.audit.summary import probe_scores
from medunlearn.audit.tables import CELL, AuditTables
from medunlearn.results.summary import compare, summarize
from medunlearn.statistics.bootstrap import REPLICATES

_NUMBERS = ("value", "low", "high", "n_scored", "n_unscored", "n_subjects")
_GAPS = ("difference", "low", "high", "p", "n_pairs", "n_subjects")
RATIOS = ("model", *CELL, "measure", *_NUMBERS, "reason")
DIFFERENCES = ("relation", "model", "against", *CELL, "measure", *_GAPS)
DUPLICATION = ("model", "corpus", "prefix_tokens", "copies", "measure", *_NUMBERS)
OPTIONS = ("model", "prompt", "match", "value", "low", "high", "n_scored", "n_unscored", "n_questions", "reason")
OPTION_DIFFERENCES = (
    *("model", "against", "prompt", "match"),
    *("difference", "low", "high", "p", "n_pairs", "n_questions"),
)
GREEDY = "greedy"
MATCHES = ["exact", "relaxed"]


@dataclass(frozen=True, slots=True)
class Draws:
    """Bootstrap draws behind an interval."""

    replicates: int = REPLICATES
    seed: int = 0


def ratios(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Mean of every measure by corpus, prefix length and decoding: for ``run_30`` the memorization ratio.

    Samples of one probe are averaged first: a probe counts once. A number that nothing was scored for is null, with
    the most frequent reason.
    """
    table = summarize(_probe_scores(audit), CELL, **asdict(draws))
    reasons = _reasons(audit.scores, [*CELL, "measure"])
    return _tidy(_with_reason(table.assign(model=audit.label), reasons, [*CELL, "measure"], "no score"), RATIOS)


def ratios_by_copies(audit: AuditTables, measures: Sequence[str], draws: Draws) -> pd.DataFrame:
    """Mean of measures by how often the records stood in the training text; greedy, records with a number alone.

    Empty where the audit does not know it.
    """
    if "copies" not in audit.probes or audit.probes["copies"].isna().all():
        return pd.DataFrame(columns=list(DUPLICATION))
    scores = _probe_scores(audit)
    scores = scores[(scores["decoding"] == GREEDY) & scores["measure"].isin(measures)]
    copies = audit.probes.set_index("probe_id")["copies"]
    scores = scores.assign(copies=scores["item"].map(copies)).dropna(subset=["copies"]).astype({"copies": "int64"})
    by = ["corpus", "prefix_tokens", "copies"]
    table = summarize(scores.sort_values(by, kind="stable"), by, **asdict(draws))
    return _tidy(table.assign(model=audit.label), DUPLICATION)


def differences(first: AuditTables, second: AuditTables, relation: str, draws: Draws) -> pd.DataFrame:
    """Every measure of one model minus that of another, paired on the probes that both scored.

    A probe is a record at a prefix length. Models with different tokenizers cut a record at different places; the
    pairs are still of the same record.
    """
    names = {"relation": relation, "model": first.label, "against": second.label}
    return _tidy(_compared(_probe_scores(first), _probe_scores(second), CELL, draws).assign(**names), DIFFERENCES)


def decoding_differences(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Every decoding minus greedy, paired on probes."""
    scores = _probe_scores(audit)
    greedy = scores[scores["decoding"] == GREEDY]
    names = {"relation": "decoding", "model": audit.label, "against": GREEDY}
    parts = [
        _compared(scores[scores["decoding"] == decoding], greedy.assign(decoding=decoding), CELL, draws)
        for decoding in audit.wide["variant"].drop_duplicates()
        if decoding != GREEDY and len(greedy)
    ]
    return _tidy(table_of(parts, [*CELL, "measure", *_GAPS]).assign(**names), DIFFERENCES)


def option_table(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Share of removed options that the model gave back, by prompt; intervals over questions."""
    if audit.options is None:
        return pd.DataFrame(columns=list(OPTIONS))
    scores = _option_scores(audit.options)
    table = summarize(scores, ["prompt"], **asdict(draws)).assign(model=audit.label)
    reasons = _reasons(scores, ["prompt", "measure"])
    table = _with_reason(table, reasons, ["prompt", "measure"], "no answer")
    return _tidy(table.rename(columns={"measure": "match", "n_subjects": "n_questions"}), OPTIONS)


def option_differences(first: AuditTables, second: AuditTables, draws: Draws) -> pd.DataFrame:
    """One model minus another, paired on question, prompt and removed option; intervals over questions."""
    if first.options is None or second.options is None:
        return pd.DataFrame(columns=list(OPTION_DIFFERENCES))
    table = _compared(_option_scores(first.options), _option_scores(second.options), ["prompt"], draws)
    table = table.assign(model=first.label, against=second.label)
    return _tidy(table.rename(columns={"measure": "match", "n_subjects": "n_questions"}), OPTION_DIFFERENCES)


def table_of(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Tables one below the other; empty ones add nothing, and none at all is an empty table."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=list(columns))


def _probe_scores(audit: AuditTables) -> pd.DataFrame:
    """Scores of probes, cells and probes in their order: the draws of an interval follow it."""
    return probe_scores(audit.scores).sort_values([*CELL, "item"], kind="stable", ignore_index=True)


def _option_scores(options: pd.DataFrame) -> pd.DataFrame:
    """A score table of regenerated options: 1 where the model gave one back."""
    table = options.assign(item=options["question_id"] + "\n" + options["removed"], subject=options["question_id"])
    keys = ["item", "subject", "prompt", "reason"]
    scores = table.melt(keys, MATCHES, var_name="measure")
    scores["value"] = pd.to_numeric(scores["value"].astype(object), errors="coerce")
    return scores.sort_values("prompt", kind="stable", ignore_index=True)


def _compared(ours: pd.DataFrame, theirs: pd.DataFrame, by: Sequence[str], draws: Draws) -> pd.DataFrame:
    """Paired differences on the items and measures of both."""
    keys = [*by, "item"]
    ours, theirs = (
        one[
            pd.MultiIndex.from_frame(one[keys]).isin(pd.MultiIndex.from_frame(other[keys]))
            & one["measure"].isin(other["measure"])
        ]
        for one, other in ((ours, theirs), (theirs, ours))
    )
    return compare(ours, theirs, by, **asdict(draws))


def _reasons(scores: pd.DataFrame, by: list[str]) -> pd.Series[str]:
    """The most frequent reason of each group for being unscored."""
    known = scores.dropna(subset=["reason"])
    return known.groupby(by)["reason"].agg(lambda reasons: str(reasons.value_counts().index[0]))


def _with_reason(table: pd.DataFrame, reasons: pd.Series[str], by: list[str], otherwise: str) -> pd.DataFrame:
    """The table with a reason where a value is null."""
    found = pd.MultiIndex.from_frame(table[by]).map(reasons.to_dict())
    reason = pd.Series(found, index=table.index, dtype=object).fillna(otherwise)
    return table.assign(reason=reason.where(table["value"].isna(), None))


def _tidy(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Columns in their order, numbers as plain floats."""
    floats = [name for name in ("value", "difference", "low", "high", "p") if name in columns]
    return table[list(columns)].astype(dict.fromkeys(floats, "float64"))
