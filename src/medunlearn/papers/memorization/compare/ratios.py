"""Numbers of each audit and paired differences of two, with intervals over subjects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.audit.tables import AuditTables
from medunlearn.statistics.bootstrap import REPLICATES, resample_means
from medunlearn.statistics.paired import Difference, resample_pairs

PLACE = ("corpus", "prefix_tokens", "decoding")
RATIOS = ("model", *PLACE, "measure", "value", "low", "high", "n_scored", "n_unscored", "n_subjects", "reason")
DIFFERENCES = (
    *("relation", "model", "against", *PLACE, "measure"),
    *("difference", "low", "high", "p", "n_pairs", "n_subjects"),
)
DUPLICATION = (
    *("model", "corpus", "prefix_tokens", "copies", "measure"),
    *("value", "low", "high", "n_scored", "n_unscored", "n_subjects"),
)
GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class Draws:
    """How intervals are drawn."""

    replicates: int = REPLICATES
    seed: int = 0


def ratios(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Mean of every measure by corpus, prefix length and decoding: for ``run_30`` the memorization ratio.

    Samples of one probe are averaged first: a probe counts once. A number that nothing was scored for is null, with
    the most frequent reason.
    """
    rows = []
    for place, group in _places(audit.wide):
        measures = [name for name in audit.measures if name in group]
        table = group[measures].to_numpy(dtype=np.float64)
        resampled = resample_means(table, list(group["subject"]), replicates=draws.replicates, seed=draws.seed)
        for column, measure in enumerate(measures):
            found = resampled.estimate([column])
            counts = {"n_scored": found.n, "n_unscored": len(group) - found.n, "n_subjects": found.n_clusters}
            value = {"measure": measure, "value": found.value, "low": found.low, "high": found.high}
            why = _why(audit, set(group["probe_id"]), measure) if found.value is None else None
            rows.append({"model": audit.label} | place | value | counts | {"reason": why})
    return pd.DataFrame(rows, columns=list(RATIOS))


def ratios_by_copies(audit: AuditTables, measures: Sequence[str], draws: Draws) -> pd.DataFrame:
    """Mean of measures by how often the records stood in the training text; greedy, records with a number alone.

    Empty where the audit does not know it.
    """
    greedy = audit.wide[audit.wide["variant"] == GREEDY]
    if "copies" not in greedy:
        return pd.DataFrame(columns=list(DUPLICATION))
    rows = []
    key: Any
    for key, group in greedy.groupby(["corpus", "prefix_tokens", "copies"], sort=True):
        named = [name for name in measures if name in group]
        resampled = resample_means(
            group[named].to_numpy(np.float64), list(group["subject"]), replicates=draws.replicates, seed=draws.seed
        )
        place = {"corpus": str(key[0]), "prefix_tokens": int(key[1]), "copies": int(key[2])}
        for column, measure in enumerate(named):
            found = resampled.estimate([column])
            counts = {"n_scored": found.n, "n_unscored": len(group) - found.n, "n_subjects": found.n_clusters}
            value = {"measure": measure, "value": found.value, "low": found.low, "high": found.high}
            rows.append({"model": audit.label} | place | value | counts)
    return pd.DataFrame(rows, columns=list(DUPLICATION))


def differences(first: AuditTables, second: AuditTables, relation: str, draws: Draws) -> pd.DataFrame:
    """Every measure of one model minus that of another, paired on the probes that both scored.

    A probe is a record at a prefix length. Models with different tokenizers cut a record at different places; the
    pairs are still of the same record.
    """
    shared = [name for name in first.measures if name in second.measures]
    both = first.wide.merge(second.wide, on=["probe_id", "variant", "corpus", "prefix_tokens"], suffixes=("", "_2"))
    rows = []
    for place, group in _places(both):
        one, other = (group[[f"{name}{end}" for name in shared]].to_numpy(np.float64) for end in ("", "_2"))
        pairs = resample_pairs(one, other, list(group["subject"]), replicates=draws.replicates, seed=draws.seed)
        who = {"relation": relation, "model": first.label, "against": second.label}
        rows += [
            who | place | {"measure": name} | _numbers(pairs.difference([column]))
            for column, name in enumerate(shared)
        ]
    return pd.DataFrame(rows, columns=list(DIFFERENCES))


def decoding_differences(audit: AuditTables, draws: Draws) -> pd.DataFrame:
    """Every decoding minus greedy, paired on probes."""
    wide = audit.wide
    greedy = wide[wide["variant"] == GREEDY]
    rows = []
    for decoding in wide["variant"].drop_duplicates():
        if decoding == GREEDY or greedy.empty:
            continue
        keys = ["probe_id", "corpus", "prefix_tokens"]
        both = wide[wide["variant"] == decoding].merge(greedy, on=keys, suffixes=("", "_2"))
        for place, group in _places(both):
            one, other = (
                group[[f"{name}{end}" for name in audit.measures]].to_numpy(np.float64) for end in ("", "_2")
            )
            pairs = resample_pairs(one, other, list(group["subject"]), replicates=draws.replicates, seed=draws.seed)
            who = {"relation": "decoding", "model": audit.label, "against": GREEDY}
            rows += [
                who | place | {"measure": name} | _numbers(pairs.difference([column]))
                for column, name in enumerate(audit.measures)
            ]
    return pd.DataFrame(rows, columns=list(DIFFERENCES))


def _places(table: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each corpus, prefix length and decoding with its rows."""
    key: Any
    for key, group in table.groupby(["corpus", "prefix_tokens", "variant"], sort=True):
        yield dict(zip(PLACE, (str(key[0]), int(key[1]), str(key[2])), strict=True)), group


def _numbers(found: Difference) -> dict[str, Any]:
    numbers = {"difference": found.difference, "low": found.low, "high": found.high, "p": found.p}
    return numbers | {"n_pairs": found.n_pairs, "n_subjects": found.n_clusters}


def _why(audit: AuditTables, probes: set[str], measure: str) -> str:
    rows = audit.scores[(audit.scores["measure"] == measure) & audit.scores["item"].isin(probes)]
    reasons = rows["reason"].dropna().value_counts()
    return str(reasons.index[0]) if len(reasons) else "no score"


def table_of(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Tables one below the other; empty ones add nothing, and none at all is an empty table."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=list(columns))
