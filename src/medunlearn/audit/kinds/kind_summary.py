"""Sorted spans of an audit's folder: settings, counts by kind, and agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import KEY, AuditTables, read_tables
from medunlearn.audit.judge import AuditJudge, audit_judge
from medunlearn.audit.kinds.kind_rules import GROUPS, kinds
from medunlearn.audit.kinds.memorized_spans import texts_of
from medunlearn.audit.kinds.sorting import SORTERS, judge_of, judge_spans, settings_of, sort_spans
from medunlearn.config import check
from medunlearn.config.audit import KindSettings
from medunlearn.data.data_use import recorded_use
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.judging.rater_agreement import pair_rows
from medunlearn.reports.view import ResultView, records_table, same_names
from medunlearn.sources.corpus import read_corpora
from medunlearn.statistics.agreement import Rating
from medunlearn.terminal import with_interval

AGREEMENT_COLUMNS = [
    "first",
    "second",
    "of",
    "measure",
    "value",
    "low",
    "high",
    "words",
    "n",
    "n_subjects",
    "reason",
]


@dataclass(frozen=True)
class KindSummary:
    """Tables of an audit with sorted spans, and the language model that sorted them, if any."""

    audit: AuditTables
    judge: str | None

    @staticmethod
    def open(folder: Path) -> KindSummary:
        """Open the sorted spans of an audit's folder.

        Raises:
        """
        audit = read_tables(folder)
        if audit.kinds is None:
            raise InputError(f"{folder} has no sorted spans. Run `medunlearn audit kinds find {folder}`.")
        return KindSummary(audit, judge_of(folder))

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Table 3 by sorter (rules, judge, person): by, group, kind, title, spans, share (of that sorter's spans,
        0-1).

        Spans without a kind are a row of each sorter, in the group ``none``.
        """
        assert self.audit.kinds is not None
        catalogue = [(kind.group, name, kind.title) for name, kind in kinds().items()]
        catalogue.sort(key=lambda row: GROUPS.index(row[0]))
        rows = []
        for sorter in SORTERS:
            own = self.audit.kinds[self.audit.kinds["by"] == sorter]
            spans = own["kind"].fillna("").value_counts()
            rows += [
                (sorter, group, kind, title, int(spans[kind]), int(spans[kind]) / len(own))
                for group, kind, title in (*catalogue, ("none", "", "Without a kind"))
                if kind in spans
            ]
        return pd.DataFrame(rows, columns=["by", "group", "kind", "title", "spans", "share"])

    def view(self) -> ResultView:
        """Counts by kind, and the sorters' agreement, for the terminal."""
        agreed = self.agreement()
        judge = "" if self.judge is None else f"; the judge is {self.judge}"
        columns: dict[str, Any] = {**same_names("by", "group"), "kind": "title", "spans": "spans"}
        columns["of all"] = lambda row: f"{100 * row['share']:.1f}%"
        counts = records_table(self.counts, columns, f"memorized spans by kind (Table 3){judge}")
        columns = {
            "ways": lambda row: f"{row['first']} and {row['second']}",
            "of": "of",
            "measure": lambda row: row["measure"].replace("_", " "),
            "value": with_interval,
            "": lambda row: row["words"] or row["reason"] or "",
            "spans": "n",
        }
        data = {"folder": str(self.audit.folder), "judge": self.judge, "counts": self.counts, "agreement": agreed}
        return ResultView(data, [counts, records_table(agreed, columns, "agreement") if len(agreed) else None])

    def agreement(self, **draws: Any) -> pd.DataFrame:
        """Agreement of each pair of sorters, on kinds and on groups; empty with one sorter."""
        return sorter_agreement(self.audit, **draws)


def sorter_agreement(audit: AuditTables, **draws: Any) -> pd.DataFrame:
    """Agreement of the sorters in ``kinds.parquet``; empty with fewer than two.

    Args:
        draws: settings of the bootstrap over subjects.
    """
    if audit.kinds is None or audit.kinds["by"].nunique() < 2:
        return pd.DataFrame()
    table = audit.kinds.set_index([*KEY, "span", "by"])["kind"].unstack("by").reset_index()
    subjects = table[["probe_id"]].merge(audit.probes[["probe_id", "subject"]], on="probe_id")["subject"]
    table = table.astype(object).where(table.notna(), None)
    ratings = {sorter: table[sorter].tolist() for sorter in SORTERS if sorter in table}
    return agreement(ratings, list(subjects), **draws)


def agreement(ratings: Mapping[str, Sequence[Rating]], subjects: Sequence[str], **draws: Any) -> pd.DataFrame:
    """Raw agreement and Cohen's kappa of each pair of sorters, on the spans to which both gave a kind.

    Args:
        ratings: ``rules``, ``judge``, ``person`` -> one kind per span, or None.

    Returns:
        One row per pair of sorters, ``of`` (``kind`` or ``group``) and measure: value, low, high, words, n,
        n_subjects, reason (for a missing value). Agreement with people is accuracy.
    """
    groups = {sorter: [kind and kinds()[kind].group for kind in own] for sorter, own in ratings.items()}
    scales = (("kind", ratings, tuple(kinds())), ("group", groups, GROUPS))
    rows = []
    for first, second in combinations(ratings, 2):
        for of, labels, categories in scales:
            pair = (labels[first], labels[second])
            for row in pair_rows(of, (first, second), pair, subjects, categories, **draws):
                reason = None
                if row["value"] is None:
                    reason = "both gave one kind throughout" if row["n_cases"] else "no span has a kind from both"
                rows.append({**row, "of": of, "n": row["n_cases"], "reason": reason})
    # As objects, so that what is missing stays None.
    return pd.DataFrame(rows, columns=AGREEMENT_COLUMNS, dtype=object)


def kind_settings(folder: Path, values: Mapping[str, Any]) -> KindSettings:
    """Settings of the last sorting, updated with ``values``.

    Raises:
        ConfigError: wrong settings, or a corpus that the audit does not have.
    """
    settings = check(KindSettings, {**settings_of(folder).model_dump(), **values})
    corpora = read_tables(folder).probes["corpus"].unique().tolist()
    corpus_names = (*settings.clinical, *settings.datasets)
    if problems := [unknown_name("corpus", name, corpora) for name in corpus_names if name not in corpora]:
        raise ConfigError(problems)
    return settings


def kinds_judge(folder: Path, url: str, model: str | None, **options: Any) -> AuditJudge:
    """A judge for an audit's spans, which are record text; ``options`` as for :func:`audit_judge`."""
    read_tables(folder)
    return audit_judge(url, model, folder, data_use=recorded_use(folder), **options)


def find_kinds(
    folder: Path,
    settings: KindSettings,
    *,
    corpora: Sequence[str] = (),
    judge: AuditJudge | None = None,
    quiet: bool = False,
) -> KindSummary:
    """Sort an audit's memorized spans by rules, and by a judge if there is one.

    Args:
        corpora: ``PATH`` or ``NAME=PATH``: whole corpora, in whose records set phrases are counted.

    Raises:
        MedunlearnError: responses of the judge are missing; the others are kept.
    """
    sort_spans(read_tables(folder), settings, texts_of(read_corpora(corpora)))
    if judge is not None:
        with judge.client() as client:
            _, missing = judge_spans(read_tables(folder), settings, client, quiet=quiet)
        judge.refuse_missing(missing, "spans", permanent=client.permanent)
    return KindSummary.open(folder)
