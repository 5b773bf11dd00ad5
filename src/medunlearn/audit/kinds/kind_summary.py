"""Sorted spans of an audit's folder: settings, counts by kind, and agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import AuditTables, read_tables
from medunlearn.audit.judge import AuditJudge, audit_judge
from medunlearn.audit.kinds.kind_rules import GROUPS, kinds
from medunlearn.audit.kinds.sorting import WAYS, agreement_of_ways, judge_of, judge_spans, settings_of, sort_spans
from medunlearn.config import check
from medunlearn.config.audit import KindSettings
from medunlearn.data.data_use import recorded_use
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.sources.corpus import read_corpora


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

        Spans without a kind are a row of each way, in the group ``none``.
        """
        assert self.audit.kinds is not None
        catalogue = [(kind.group, name, kind.title) for name, kind in kinds().items()]
        rows = []
        for way in WAYS:
            way_kinds = self.audit.kinds[self.audit.kinds["by"] == way]
            spans = way_kinds["kind"].fillna("").value_counts()
            for row in (*sorted(catalogue, key=lambda row: GROUPS.index(row[0])), ("none", "", "Without a kind")):
                if row[1] in spans:
                    rows.append((way, *row, int(spans[row[1]]), int(spans[row[1]]) / len(way_kinds)))
        return pd.DataFrame(rows, columns=["by", "group", "kind", "title", "spans", "share"])

    def agreement(self, **draws: Any) -> pd.DataFrame:
        """Agreement of each pair of sorters, on kinds and on groups; empty with one sorter."""
        return agreement_of_ways(self.audit, **draws)


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
    texts = {
        corpus.name: {document.record_id: document.text for document in corpus.documents}
        for corpus in read_corpora(corpora)
    }
    sort_spans(read_tables(folder), settings, texts or None)
    if judge is not None:
        with judge.client() as client:
            _, missing = judge_spans(read_tables(folder), settings, client, quiet=quiet)
        judge.refuse_missing(missing, "spans")
    return KindSummary.open(folder)
