"""The kinds of an audit's memorized spans as a verb has them: sort, hand out a sheet, take it back, count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.kinds import GROUPS, kinds
from medunlearn.audit.kinds.asking import sources_of
from medunlearn.audit.kinds.judge import OneJudge, one_judge
from medunlearn.audit.kinds.memorized_kind import MemorizedKind
from medunlearn.config import check
from medunlearn.config.audit_report import KindSettings
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.llm import CostEstimate
from medunlearn.papers.memorization.compare.frames import AuditFrames, frames
from medunlearn.papers.memorization.compare.sorting import (
    WAYS,
    agreement_of_ways,
    judge_of,
    judge_spans,
    material,
    read_spans,
    settings_of,
    sort_spans,
    span_sheet,
)
from medunlearn.sources.corpus import read_corpora

COUNTS = ("by", "group", "kind", "title", "spans", "share")


@dataclass(frozen=True)
class Kinds:
    """An audit whose spans are sorted.

    Attributes:
        audit: its tables, the kinds among them.
        judge: the model that sorted, where one did.
    """

    audit: AuditFrames
    judge: str | None

    @staticmethod
    def open(folder: Path) -> Kinds:
        """Raises:
        InputError: no audit, or one whose spans nobody has sorted.
        """
        audit = frames(folder)
        if audit.kinds is None:
            raise InputError(f"Nobody has sorted the spans of {folder}. `medunlearn kinds find {folder}` does.")
        return Kinds(audit, judge_of(folder))

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Table 3 by way of sorting: by, group, kind, title, spans, share (of that way's spans, 0-1).

        Spans without a kind are a row of each way, with the group ``none``: nobody guesses for them.
        """
        assert self.audit.kinds is not None
        rows = []
        for way in [one for one in WAYS if (self.audit.kinds["by"] == one).any()]:
            own = self.audit.kinds[self.audit.kinds["by"] == way]
            number = own["kind"].fillna("").value_counts()
            for name, group, title in _order():
                if n := int(number.get(name, 0)):
                    rows.append((way, group, name, title, n, n / len(own)))
        return pd.DataFrame(rows, columns=list(COUNTS))

    def agreement(self, **how: Any) -> pd.DataFrame:
        """Of every two ways, on kinds and on groups; empty where there is one way only."""
        return agreement_of_ways(self.audit, **how)


def _order() -> list[tuple[str, str, str]]:
    """Kinds by group, and what has none at the end."""
    known = [(name, kind.group, kind.title) for name, kind in kinds().items()]
    return [*sorted(known, key=lambda one: GROUPS.index(one[1])), ("", "none", "Without a kind")]


def kind_settings(folder: Path, values: Mapping[str, Any]) -> KindSettings:
    """The settings of the last sorting with what is given now; its corpora must be the audit's.

    Raises:
        ConfigError: wrong settings, or a corpus that the audit does not have.
    """
    settings = check(KindSettings, {**settings_of(folder).model_dump(), **values})
    known = frames(folder).probes["corpus"].unique().tolist()
    named = (*settings.clinical, *settings.datasets)
    if problems := [unknown_name("corpus", name, known) for name in named if name not in known]:
        raise ConfigError(problems)
    return settings


def kinds_judge(folder: Path, url: str, model: str | None, **how: Any) -> OneJudge:
    """A judge of an audit's spans; ``how`` as :func:`one_judge` takes it.

    Spans are records' text, and nobody knows what identifiers are in them.
    """
    use = frames(folder).info.get("results", {}).get("data_use", "credentialed")
    return one_judge(url, model, folder, data_use=use, **how)


def find_kinds(
    folder: Path,
    settings: KindSettings,
    *,
    corpora: Sequence[str] = (),
    judge: OneJudge | None = None,
    quiet: bool = False,
) -> Kinds:
    """Sort an audit's memorized spans by rules, and by a judge where there is one.

    Args:
        corpora: ``PATH`` or ``NAME=PATH``: whole corpora, so that set phrases are counted in all of their records.

    Raises:
        MedunlearnError: the judge's server left some without an answer; what came is kept.
    """
    texts = {corpus.name: {one.record_id: one.text for one in corpus.documents} for corpus in read_corpora(corpora)}
    sort_spans(frames(folder), settings, texts or None)
    if judge is not None:
        with judge.client() as client:
            _, missing = judge_spans(frames(folder), settings, client, quiet=quiet)
        judge.refuse_missing(missing, "spans")
    return Kinds.open(folder)


def plan_kinds(folder: Path, settings: KindSettings, judge: OneJudge) -> CostEstimate:
    """What a judge would be sent; nothing is, and nothing is written."""
    return judge.estimate(MemorizedKind(), sources_of(material(frames(folder), settings)))


def review_kinds(folder: Path, sheet: Path, *, number: int | None = None, seed: int = 0) -> int:
    """Write a sheet for a person, of a seeded sample of spans; returns how many. It holds text of records.

    Raises:
        InputError: no span is long enough to be sorted, or the sheet is there already.
    """
    written = span_sheet(frames(folder), settings_of(folder), sheet, sample=number, seed=seed)
    if not written:
        sheet.unlink()
        least = settings_of(folder).at_least
        raise InputError(f"{folder} has no memorized span of {least} tokens. Sort shorter ones: at_least=30.")
    return written


def correct_kinds(folder: Path, sheets: Sequence[Path]) -> Kinds:
    """Keep what people filled in beside what rules and judge said."""
    read_spans(frames(folder), settings_of(folder), *sheets)
    return Kinds.open(folder)
