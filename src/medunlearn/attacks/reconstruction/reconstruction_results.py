"""Means, changes and model comparisons of scores at each context level, all by subject."""

from __future__ import annotations

import pandas as pd

from medunlearn.attacks.reconstruction.contexts import NONE, ContextLevel
from medunlearn.data.origins import drawn_name
from medunlearn.data.splits import Split
from medunlearn.results.matrix import ALL_KINDS
from medunlearn.results.scores import measured
from medunlearn.results.summary import CHANGE, EVALUATION, compare, summarize_changes

ATTACK = "cumulative"
NAME = "reconstruction"
"""Of the family."""
SUMMARY = "reconstruction_summary.parquet"
_RATED = ("gen_score", "factuality")
_JUDGED = (*_RATED, *map(drawn_name, _RATED))
OWN = {
    "generation": (*_JUDGED, "rouge_l_f"),
    "cloze": (*_JUDGED, "exact_match"),
    "classification": ("option_accuracy",),
}
OTHERS = (*_JUDGED, "rouge_l", "exact_match")
_BY = ("given", *EVALUATION)
_FRONT = [*EVALUATION, "context", "identifiers", "measure"]
_MEAN = ["value", "low", "high", "n_scored", "n_unscored", "n_subjects"]
_MOVED = {
    "difference": "change_difference",
    "low": "change_low",
    "high": "change_high",
    "p": "change_p",
}
"""Column of a comparison of changes -> its name beside the comparison of values."""
_GAP = ["difference", "low", "high", "p", "n_pairs", "n_subjects"]


def context_scores(scores: pd.DataFrame, labels: pd.DataFrame, context: ContextLevel) -> pd.DataFrame:
    """The score table of one context level, with ``given``, ``identifiers`` and ``attack``."""
    table = measured(scores, labels)
    return table.assign(given=context.name, identifiers=context.identifiers, attack=ATTACK)


def summarize_contexts(scores: pd.DataFrame, split: Split, *, replicates: int, seed: int) -> pd.DataFrame:
    """Rows of ``reconstruction_summary.parquet`` (see the package's docstring) from the score table."""
    plain = scores[scores["given"] == NONE]
    repeated = pd.concat([plain.assign(given=name) for name in scores["given"].unique()])
    table = summarize_changes(scores, repeated, _BY, ("given", NONE), replicates=replicates, seed=seed)
    table = _with_context(table, scores)[[*_FRONT, *_MEAN, *CHANGE.values()]]
    table.insert(0, "split", split.name)
    table.insert(1, "forgotten_level", split.level)
    return table


def compare_models(ours: pd.DataFrame, theirs: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Our leakage minus theirs at each context level of both, paired on questions and resampled by subject.

    A longer prompt moves any model, the target as well. So our change from the question with nothing in front is
    read against theirs: ``change_difference`` = our change minus theirs, on questions that both have scores for in
    both forms.

    Returns:
        side, fold, kind, context, identifiers, measure, difference, low, high, p, n_pairs, n_subjects; above 0 =
        ours leaks more; change_difference, change_low, change_high, change_p: above 0 = names bring back more of
        ours, or take away less; null with nothing in front.
    """
    measures = ours["measure"].unique()
    mine, others = (
        table[table["item"].isin(other["item"]) & table["given"].isin(other["given"])]
        for table, other in ((ours, theirs), (theirs, ours))
    )
    gaps = compare(mine, others, _BY, rollup="kind", replicates=replicates, seed=seed)
    our_changes, their_changes = _changes(mine), _changes(others)
    if len(our_changes) and len(their_changes):
        moved = compare(our_changes, their_changes, _BY, rollup="kind", replicates=replicates, seed=seed)
        keys = [*_BY, "measure"]
        gaps = gaps.merge(moved.rename(columns=_MOVED)[[*keys, *_MOVED.values()]], on=keys, how="left")
    gaps = gaps[gaps["measure"].isin(measures)].reindex(
        columns=[*gaps.columns.union([*_MOVED.values()], sort=False)]
    )
    return _with_context(gaps, ours)[[*_FRONT, *_GAP, *_MOVED.values()]].reset_index(drop=True)


def _changes(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores of the questions with something in front minus those with nothing, by question."""
    plain = scores[scores["given"] == NONE].set_index(["item", "measure"])["value"]
    own = scores[scores["given"] != NONE]
    before = plain.reindex(pd.MultiIndex.from_frame(own[["item", "measure"]])).array
    changes = own.assign(value=own["value"].astype("Float64") - before)
    return changes.assign(reason=changes["reason"].mask(changes["value"].isna(), "no score in one of the forms"))


def reported(table: pd.DataFrame) -> pd.DataFrame:
    """Rows to report: the paper's measure for its own kinds of question, two measures for other kinds.

    ROUGE-L for generation, exact match for cloze, the most probable option for classification; Gen Score and
    factuality where a judge was asked.
    """
    if table.empty:
        return table
    pairs = zip(table["kind"], table["measure"], strict=True)
    own = [kind != ALL_KINDS and measure in OWN.get(kind, OTHERS) for kind, measure in pairs]
    return table[own].reset_index(drop=True)


def _with_context(rows: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``context`` and ``identifiers``."""
    identifiers = scores.drop_duplicates("given").set_index("given")["identifiers"]
    renamed_rows = rows.rename(columns={"given": "context"})
    return renamed_rows.assign(identifiers=renamed_rows["context"].map(identifiers))
