"""The items of a complete audit, read from its folder: what was asked, answered and compared. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from medunlearn.audit.audit_tables import KEY, PROBES, SCORE_KEY, STARTS, stored_responses
from medunlearn.audit.probe_scoring import probe_item, score_rows
from medunlearn.data.storage import read_frame
from medunlearn.metrics.measure import Item, Score
from medunlearn.results.scores import read_scores


@dataclass(frozen=True)
class StoredItems:
    """Items of an audit with the labels of its score table, one row each, in its order."""

    labels: pd.DataFrame
    items: list[Item]

    @staticmethod
    def read(folder: Path) -> StoredItems:
        """The items of a complete audit.

        Raises:
            InputError: a table is missing or broken.
        """
        scores = read_scores(folder)
        columns = [name for name in scores.columns if name not in ("measure", "value", "reason")]
        rows = scores.drop_duplicates(columns, ignore_index=True)
        probes = read_frame(folder / PROBES, ("probe_id", "prefix", "suffix", "suffix_tokens"))
        by_id = {row["probe_id"]: row for row in probes.to_dict("records")}
        table = read_frame(folder / STARTS, (*KEY, "response", "suffix"))
        starts = {
            (row[0], row[1], row[2]): (row[3], row[4]) for row in table[[*KEY, "response", "suffix"]].to_numpy()
        }
        responses, items = stored_responses(folder), []
        for *key, reason in rows[[*SCORE_KEY, "reason"]].itertuples(index=False, name=None):
            probe, name = by_id[key[0]], (str(key[0]), str(key[1]), int(key[2]))
            texts = probe["prefix"], probe["suffix"], [int(token) for token in probe["suffix_tokens"]]
            response = responses.get(name)
            compared = starts.get(name) or ("" if response is None else response.response, texts[1])
            # What counts as no response has no first tokens there; another reason is one measure's own.
            unanswered = None if name in starts or pd.isna(reason) else str(reason)
            items.append(probe_item(name[0], *texts, response, compared, unanswered))
        return StoredItems(rows[columns], items)

    def rows(self, scores: Mapping[str, Sequence[Score]]) -> pd.DataFrame:
        """The score table of some measures on these items."""
        return score_rows(self.labels, scores)
