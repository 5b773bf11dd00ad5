"""From scores at each context level to means, changes and comparisons of models, all by subject."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from medunlearn.attacks.reconstruction.contexts import NONE, ContextLevel
from medunlearn.data.splits import Split
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.results.scores import measured
from medunlearn.results.summary import EVALUATION, compare, summarize

ATTACK = "cumulative"
METRICS: tuple[str, ...] = ("rouge_l_f", "rouge_l", "exact_match", "option_accuracy")
_JUDGED = ("gen_score", "factuality")
OWN = {
    "generation": (*_JUDGED, "rouge_l_f"),
    "cloze": (*_JUDGED, "exact_match"),
    "classification": ("option_accuracy",),
}
OTHERS = (*_JUDGED, "rouge_l", "exact_match")
_GROUP = [*EVALUATION, "measure"]
_MEAN = ["value", "low", "high", "n_scored", "n_unscored", "n_subjects"]
_CHANGE = {"difference": "change", "low": "change_low", "high": "change_high", "p": "change_p"}


def context_scores(scores: pd.DataFrame, labels: pd.DataFrame, context: ContextLevel) -> pd.DataFrame:
    """The score table of one context level: ``given`` is the coarsest level named, ``identifiers`` all of them.

    Args:
        scores: question_id, metric, value, reason.
        labels: one row a question (:func:`medunlearn.results.scores.question_labels`).
    """
    table = measured(scores, labels)
    return table.assign(given=context.name, identifiers=context.identifiers, attack=ATTACK)


def summarize_contexts(scores: pd.DataFrame, split: Split, *, replicates: int, seed: int) -> pd.DataFrame:
    """Rows of ``reconstruction_summary.parquet`` (see the package's docstring) from the score table."""
    how = {"rollup": "kind", "replicates": replicates, "seed": seed}
    plain = _at(scores, NONE)
    parts = []
    for context in scores["given"].unique():
        own = _at(scores, context)
        means = summarize(own, EVALUATION, **how)[[*_GROUP, *_MEAN]]  # type: ignore[arg-type]
        changes = compare(own, plain, EVALUATION, **how)[[*_GROUP, *_CHANGE]]  # type: ignore[arg-type]
        changes = changes.rename(columns=_CHANGE)
        if context == NONE:
            changes[list(_CHANGE.values())] = pd.NA
        part = means.merge(changes, on=_GROUP, how="left", validate="one_to_one")
        parts.append(_in_context(part, context, own))
    table = pd.concat(parts, ignore_index=True)
    table.insert(0, "split", split.name)
    table.insert(1, "forgotten_level", split.level)
    return table.astype(dict.fromkeys([*_MEAN[:3], *_CHANGE.values()], "Float64"))


def compare_models(ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Our leakage minus theirs at each context level, paired on questions and resampled by subject.

    Args:
        ours, theirs: score tables of two models.

    Returns:
        side, fold, kind, context, identifiers, metric, difference, low, high, p, n_pairs, n_subjects; above 0 =
        ours leaks more.
    """
    columns, parts = [*_GROUP, "difference", "low", "high", "p", "n_pairs", "n_subjects"], []
    shared = set(ours["item"]) & set(theirs["item"])
    for context in ours["given"].unique():
        if (theirs["given"] == context).any():
            mine, other = (_at(table[table["item"].isin(shared)], context) for table in (ours, theirs))
            gaps = compare(mine, other, EVALUATION, rollup="kind", replicates=replicates, seed=seed)
            gaps = gaps[gaps["measure"].isin(ours["measure"].unique())]
            parts.append(_in_context(gaps[columns], context, ours))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def metrics_for(options: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What is measured of questions with these options: choosing only where there is something to choose from."""
    return METRICS if any(options) else tuple(name for name in METRICS if name != "option_accuracy")


def reported(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that say something: each kind of question by the paper's own metric, other kinds by two.

    ROUGE-L for generation, exact match for cloze, the most probable option for classification; Gen Score and
    factuality where a judge was asked.
    """
    if table.empty:
        return table
    wanted = [metric in OWN.get(kind, OTHERS) for kind, metric in zip(table["kind"], table["metric"], strict=True)]
    return table[pd.Series(wanted, index=table.index) & (table["kind"] != ALL_KINDS)].reset_index(drop=True)


def _at(scores: pd.DataFrame, context: str) -> pd.DataFrame:
    return scores[scores["given"] == context]


def _in_context(rows: pd.DataFrame, context: str, scores: pd.DataFrame) -> pd.DataFrame:
    """The rows with their context level, the measure called ``metric``."""
    identifiers = str(_at(scores, context)["identifiers"].iloc[0])
    table = rows.rename(columns={"measure": "metric"})
    table.insert(len(_GROUP) - 1, "context", context)
    table.insert(len(_GROUP), "identifiers", identifiers)
    return table
