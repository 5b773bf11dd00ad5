"""From scores at each context level to means, changes and comparisons of models, all by subject."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from medunlearn.attacks.reconstruction.contexts import NONE, ContextLevel
from medunlearn.data.splits import Split
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.results.summary import compare, summarize

METRICS: tuple[str, ...] = ("rouge_l_f", "rouge_l", "exact_match", "option_accuracy")
_JUDGED = ("gen_score", "factuality")
OWN = {
    "generation": (*_JUDGED, "rouge_l_f"),
    "cloze": (*_JUDGED, "exact_match"),
    "classification": ("option_accuracy",),
}
OTHERS = (*_JUDGED, "rouge_l", "exact_match")
ABOUT = ["question_id", "subject", "side", "fold", "kind"]
_GROUP = ["side", "fold", "kind", "metric"]
_MEAN = ["value", "low", "high", "n_scored", "n_unscored", "n_subjects"]
_CHANGE = {"difference": "change", "low": "change_low", "high": "change_high", "p": "change_p"}


def scores_table(scores: pd.DataFrame, about: pd.DataFrame, context: ContextLevel) -> pd.DataFrame:
    """Rows of ``reconstruction_scores.parquet`` for one context level.

    Args:
        scores: question_id, metric, value, reason.
        about: one row a question: question_id, subject, side, fold, kind.
    """
    table = about.merge(scores, on="question_id", how="right", validate="one_to_many")
    table.insert(len(ABOUT), "context", context.name)
    table.insert(len(ABOUT) + 1, "identifiers", context.identifiers)
    return table


def summarize_contexts(scores: pd.DataFrame, split: Split, *, replicates: int, seed: int) -> pd.DataFrame:
    """Rows of ``reconstruction_summary.parquet`` from those of the scores (see the package's docstring)."""
    about, parts = _about(scores), []
    metrics = list(dict.fromkeys(scores["metric"]))
    for context in dict.fromkeys(scores["context"]):
        own = _of(scores, context)
        means = summarize(own, about, replicates=replicates, seed=seed)
        means = means[means["metric"].isin(metrics)][[*_GROUP, *_MEAN]]
        changes = compare(own, _of(scores, NONE), about, replicates=replicates, seed=seed)
        changes = changes[[*_GROUP, *_CHANGE]].rename(columns=_CHANGE)
        if context == NONE:
            changes[list(_CHANGE.values())] = pd.NA
        part = means.merge(changes, on=_GROUP, how="left", validate="one_to_one")
        part.insert(len(_GROUP) - 1, "context", context)
        part.insert(len(_GROUP), "identifiers", _identifiers(scores, context))
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table.insert(0, "split", split.name)
    table.insert(1, "forgotten_level", split.level)
    numbers = [*_MEAN[:3], *_CHANGE.values()]
    return table.astype(dict.fromkeys(numbers, "Float64"))


def compare_models(ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Our leakage minus theirs at each context level, paired on questions and resampled by subject.

    Args:
        ours, theirs: scores of two models on the same questions.

    Returns:
        side, fold, kind, context, identifiers, metric, difference, low, high, p, n_pairs, n_subjects; above 0 =
        ours leaks more.
    """
    about, parts = _about(ours), []
    for context in dict.fromkeys(ours["context"]):
        if context not in set(theirs["context"]):
            continue
        both = set(theirs["question_id"]) & set(ours["question_id"])
        inside = about[about["question_id"].isin(both)]
        mine, other = (_of(one[one["question_id"].isin(both)], context) for one in (ours, theirs))
        found = compare(mine, other, inside, replicates=replicates, seed=seed)
        found = found[found["metric"].isin(set(ours["metric"]))]
        part = found[[*_GROUP, "difference", "low", "high", "p", "n_pairs", "n_subjects"]].copy()
        part.insert(len(_GROUP) - 1, "context", context)
        part.insert(len(_GROUP), "identifiers", _identifiers(ours, context))
        parts.append(part)
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


def _about(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[ABOUT].drop_duplicates("question_id").reset_index(drop=True)


def _of(scores: pd.DataFrame, context: str) -> pd.DataFrame:
    return scores[scores["context"] == context][["question_id", "metric", "value"]]


def _identifiers(scores: pd.DataFrame, context: str) -> str:
    return str(scores.loc[scores["context"] == context, "identifiers"].iloc[0])
